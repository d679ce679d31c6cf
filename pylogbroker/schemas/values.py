"""Schemas, their references, and versions of subjects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"
TYPES: Final = (JSON, PROTOBUF, AVRO)


@attrs.frozen
class Reference:
    """A schema that another one uses: by this name, in this version of a subject."""

    name: str
    subject: str
    version: int


@attrs.frozen
class Schema:
    """A schema as registered: equal ones have one id."""

    text: str
    kind: str = AVRO
    references: tuple[Reference, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return Confluent's fields; type and references only where they are not the default."""
        fields: dict[str, Any] = {"schema": self.text}
        if self.kind != AVRO:
            fields["schemaType"] = self.kind
        if self.references:
            fields["references"] = [attrs.asdict(reference) for reference in self.references]
        return fields

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Schema:
        """Return the schema of such fields; raise KeyError, TypeError or ValueError."""
        text = fields["schema"]
        if not isinstance(text, str):
            raise TypeError("the field schema is no text")
        kind = fields.get("schemaType") or AVRO
        references = (
            Reference(str(reference["name"]), str(reference["subject"]), int(reference["version"]))
            for reference in fields.get("references") or ()
        )
        return cls(text, kind, tuple(references))


@attrs.frozen
class Version:
    """A version of a subject; a soft-deleted one is still found by its id."""

    subject: str
    version: int
    id: int
    schema: Schema
    is_deleted: bool = False

    def as_json(self) -> dict[str, Any]:
        return {"subject": self.subject, "version": self.version, "id": self.id, **self.schema.as_json()}
