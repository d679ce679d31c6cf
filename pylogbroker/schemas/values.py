"""Schemas, their references, and versions of subjects."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import attrs

AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"
TYPES: Final = (JSON, PROTOBUF, AVRO)
INT_MAX: Final = 2**31 - 1
"""Largest id and version: content has ids in four bytes."""
_NAME_MAX: Final = 10_000
_REFERENCES_MAX: Final = 10_000


def number_in(fields: Mapping[str, Any], name: str, least: int = 0) -> int:
    """Return an id or a version; raise KeyError, TypeError or ValueError."""
    number = fields[name]
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"the field {name} is no integer")
    if not least <= number <= INT_MAX:
        raise ValueError(f"the field {name} has more than 32 bits, or is negative")
    return number


def name_in(fields: Mapping[str, Any], name: str) -> str:
    """Return a text; raise KeyError, TypeError or ValueError."""
    text = fields[name]
    if not isinstance(text, str):
        raise TypeError(f"the field {name} is no text")
    if len(text) > _NAME_MAX or "\0" in text or not text.isprintable():
        raise ValueError(f"the field {name} is too long, or has a control character")
    return text


def _object_in(fields: Mapping[str, Any], name: str) -> str:
    """Return an object as JSON, empty for none; raise TypeError or ValueError."""
    value = fields.get(name)
    if not value:
        return ""
    if not isinstance(value, dict):
        raise TypeError(f"the field {name} is no object")
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


@attrs.frozen
class Reference:
    """A schema that another one uses: by this name, in this version of a subject."""

    name: str
    subject: str
    version: int


@attrs.frozen
class Schema:
    """A schema as registered: equal ones have one id. Metadata and rules are JSON, empty for none."""

    text: str
    kind: str = AVRO
    references: tuple[Reference, ...] = ()
    metadata: str = ""
    rule_set: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return Confluent's fields; those besides the text only where they are not the default."""
        fields: dict[str, Any] = {"schema": self.text}
        if self.kind != AVRO:
            fields["schemaType"] = self.kind
        if self.references:
            fields["references"] = [attrs.asdict(reference) for reference in self.references]
        if self.metadata:
            fields["metadata"] = json.loads(self.metadata)
        if self.rule_set:
            fields["ruleSet"] = json.loads(self.rule_set)
        return fields

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Schema:
        """Return the schema of such fields; raise KeyError, TypeError or ValueError."""
        text = fields["schema"]
        if not isinstance(text, str):
            raise TypeError("the field schema is no text")
        kind = AVRO if fields.get("schemaType") is None else name_in(fields, "schemaType")
        references = fields.get("references") or []
        if not isinstance(references, list) or len(references) > _REFERENCES_MAX:
            raise ValueError("the field references is no array, or too long")
        return cls(
            text,
            kind or AVRO,
            tuple(
                Reference(
                    name_in(reference, "name"), name_in(reference, "subject"), number_in(reference, "version", -1)
                )
                for reference in references
            ),
            _object_in(fields, "metadata"),
            _object_in(fields, "ruleSet"),
        )


@attrs.frozen
class Version:
    """A version of a subject; a soft-deleted one is still found by its id."""

    subject: str
    version: int
    id: int
    schema: Schema
    is_deleted: bool = False
    other_fields: str = ""
    """JSON of what else a record of another registry has, such as tags; empty for nothing."""

    def as_json(self) -> dict[str, Any]:
        return {"subject": self.subject, "version": self.version, "id": self.id, **self.schema.as_json()}
