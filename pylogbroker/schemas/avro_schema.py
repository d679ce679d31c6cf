"""Avro's schemas, parsed by fastavro: names are full ones, and named types are found by them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import attrs
import fastavro.schema

from pylogbroker.schemas.errors import InvalidSchema

PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
RECORDS: Final = ("record", "error")


@attrs.frozen(eq=False, repr=False)
class AvroTypes:
    """A schema's root, and named types."""

    root: Any
    named: Mapping[str, Any]

    @classmethod
    def parse(cls, text: str, references: Mapping[str, str]) -> AvroTypes:
        """Parse a schema that may use others by their texts; raise InvalidSchema."""
        named: dict[str, Any] = {}
        try:
            for reference in references.values():
                fastavro.schema.parse_schema(json.loads(reference), named)
            root = fastavro.schema.parse_schema(json.loads(text), named)
        except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, ValueError) as error:
            raise InvalidSchema(f"this is no Avro schema: {error}") from error
        except (KeyError, TypeError, AttributeError, RecursionError) as error:  # fastavro's, for a missing attribute
            raise InvalidSchema(f"this is no Avro schema: {type(error).__name__} {error}") from error
        return cls(root, named)

    def resolved(self, schema: Any) -> Any:
        """Return a union as a list, else a dict with a type."""
        if isinstance(schema, str):
            return {"type": schema} if schema in PRIMITIVES else self.named[schema]
        if isinstance(schema, dict) and isinstance(schema["type"], dict | list):
            return self.resolved(schema["type"])
        return schema

    def may_be_empty(self, schema: Any, within: frozenset[str] = frozenset()) -> bool:
        """Return whether a value may take no bytes: any number of them would fit into any content."""
        schema = self.resolved(schema)
        if isinstance(schema, list):
            return False
        kind = schema["type"]
        if kind in RECORDS:
            if schema["name"] in within:
                return True
            inner = within | {schema["name"]}
            return all(self.may_be_empty(field["type"], inner) for field in schema["fields"])
        return bool(kind == "null" or (kind == "fixed" and schema["size"] == 0))


def name_of(schema: Any) -> str:
    """Return the name of a resolved type: that of a named one, else the kind."""
    return "union" if isinstance(schema, list) else str(schema.get("name", schema["type"]))
