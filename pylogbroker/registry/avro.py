"""Avro: parsing, canonical text, and whether a reader's schema resolves a writer's.

The rules are those of "Schema Resolution" in Avro's specification; problems have the names of Avro's Java library.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs
import fastavro.schema

from pylogbroker.json_text import tokens_of, written
from pylogbroker.registry.errors import RegistryError

_PROMOTIONS: Final = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}
_NAMED: Final = ("record", "error", "enum", "fixed")
_PRIMITIVE: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


@attrs.frozen(eq=False, repr=False)
class AvroSchema:
    """A parsed schema: names are full ones; `named` has the types by them."""

    text: str
    parsed: Any
    named: Mapping[str, Any]

    @classmethod
    def parse(cls, text: str, references: Mapping[str, str], normalize: bool = False) -> AvroSchema:
        """Parse a schema that may use others by their texts; raise RegistryError."""
        named: dict[str, Any] = {}
        try:
            for reference in references.values():
                fastavro.schema.parse_schema(json.loads(reference), named)
            tokens = tokens_of(text)
            parsed = fastavro.schema.parse_schema(json.loads(text), named)
        except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, ValueError) as error:
            raise RegistryError.invalid_schema(f"{type(error).__name__}: {error}") from error
        except (KeyError, TypeError, AttributeError, RecursionError) as error:  # fastavro's, for a missing attribute
            raise RegistryError.invalid_schema(f"this is no Avro schema: {type(error).__name__} {error}") from error
        return cls(written(_simple(tokens), normalize), parsed, named)

    def problems(self, writer: AvroSchema) -> list[str]:
        """Return why this reader cannot read data of a writer."""
        return list(_Resolution(self, writer).problems(self.parsed, writer.parsed, "/"))


def _simple(schema: Any) -> Any:
    """Return a schema with `{"type": "string"}` as `"string"`, as Avro's libraries write it."""
    if isinstance(schema, list):
        return [_simple(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    if set(schema) == {"type"} and isinstance(schema["type"], str):
        return schema["type"]
    nested = {name: _simple(schema[name]) for name in ("type", "items", "values") if name in schema}
    if "fields" in schema:
        nested["fields"] = [{**field, "type": _simple(field["type"])} for field in schema["fields"]]
    return {**schema, **nested}


@attrs.define(eq=False, repr=False)
class _Resolution:
    """One comparison; types that contain themselves are compared once."""

    _reader: AvroSchema
    _writer: AvroSchema
    _compared: set[tuple[str, str]] = attrs.field(factory=set, init=False)

    def problems(self, reader: Any, writer: Any, path: str) -> Iterator[str]:
        reader, writer = _type(reader, self._reader), _type(writer, self._writer)
        if isinstance(writer, list):
            for alternative in writer:
                yield from self.problems(reader, alternative, path)
            return
        if isinstance(reader, list):
            if not any(self._resolves(branch, writer, path) for branch in reader):
                yield f"MISSING_UNION_BRANCH at {path}: no branch of the reader's union reads {_name(writer)}"
            return
        kind, written = reader["type"], writer["type"]
        if kind != written:
            if kind not in _PROMOTIONS.get(written, ()):
                yield f"TYPE_MISMATCH at {path}: {_name(writer)} cannot be read as {_name(reader)}"
        elif kind == "array":
            yield from self.problems(reader["items"], writer["items"], f"{path}items/")
        elif kind == "map":
            yield from self.problems(reader["values"], writer["values"], f"{path}values/")
        elif kind in _NAMED:
            yield from self._named(reader, writer, path)

    def _resolves(self, reader: Any, writer: Any, path: str) -> bool:
        before = set(self._compared)
        resolves = next(self.problems(reader, writer, path), None) is None
        if not resolves:
            self._compared = before  # what was assumed in a branch that fails has not been shown
        return resolves

    def _named(self, reader: Any, writer: Any, path: str) -> Iterator[str]:
        names = (reader["name"], writer["name"])
        if names in self._compared:
            return
        self._compared.add(names)
        if _short(names[0]) != _short(names[1]) and names[1] not in _aliases(reader):
            yield f"NAME_MISMATCH at {path}: {names[1]} was written, and {names[0]} is read"
        elif reader["type"] == "fixed":
            if reader["size"] != writer["size"]:
                yield f"FIXED_SIZE_MISMATCH at {path}: {writer['size']} bytes were written, not {reader['size']}"
        elif reader["type"] == "enum":
            missing = [symbol for symbol in writer["symbols"] if symbol not in reader["symbols"]]
            if missing and "default" not in reader:
                yield f"MISSING_ENUM_SYMBOLS at {path}: the reader's {names[0]} has no {', '.join(missing)}"
        else:
            yield from self._fields(reader, writer, path)

    def _fields(self, reader: Any, writer: Any, path: str) -> Iterator[str]:
        written = {field["name"]: field for field in writer["fields"]}
        for field in reader["fields"]:
            name = field["name"]
            match = next((written[alias] for alias in (name, *field.get("aliases", ())) if alias in written), None)
            if match is not None:
                yield from self.problems(field["type"], match["type"], f"{path}{name}/")
            elif "default" not in field:
                yield f"READER_FIELD_MISSING_DEFAULT_VALUE at {path}{name}: it is not written, and has no default"


def _type(schema: Any, within: AvroSchema) -> Any:
    """Return a union as a list, else a dict; named types are found by their names."""
    if isinstance(schema, str):
        return {"type": schema} if schema in _PRIMITIVE else within.named[schema]
    if isinstance(schema, dict) and isinstance(schema["type"], dict | list):
        return _type(schema["type"], within)
    return schema


def _aliases(schema: Any) -> set[str]:
    space = schema["name"].rpartition(".")[0]
    return {alias if "." in alias or not space else f"{space}.{alias}" for alias in schema.get("aliases", ())}


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _name(schema: Any) -> str:
    return str(schema.get("name", schema["type"]))
