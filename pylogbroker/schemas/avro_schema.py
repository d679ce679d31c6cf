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


def name_of(schema: Any) -> str:
    """Return the name of a resolved type: that of a named one, else the kind."""
    return "union" if isinstance(schema, list) else str(schema.get("name", schema["type"]))
