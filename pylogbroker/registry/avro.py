"""Avro: parsing, canonical text, and whether a reader's schema resolves a writer's.

The rules are those of "Schema Resolution" in Avro's specification; problems have the names of Avro's Java library.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
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
_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_RESOLVED: Final = "resolved"
_NAMED: Final = ("record", "error", "enum", "fixed")
_PRIMITIVE: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


@attrs.frozen(eq=False, repr=False)
class AvroSchema:
    """A parsed schema: names are full ones; `named` has the types by them."""

    text: str
    parsed: Any
    named: Mapping[str, Any]
    _references: Mapping[str, Any]
    """Named types of references, as they were written there, by their full names."""

    @classmethod
    def parse(
        cls, text: str, references: Mapping[str, str], normalize: bool = False, is_new: bool = True
    ) -> AvroSchema:
        """Parse a schema that may use others by their texts; raise RegistryError.

        One that is not new may have what was accepted once, such as a name with a hyphen.
        """
        named: dict[str, Any] = {}
        try:
            for reference in references.values():
                fastavro.schema.parse_schema(json.loads(reference), named)
            tokens, schema = tokens_of(text), json.loads(text)
            parsed = fastavro.schema.parse_schema(schema, named)
            if is_new:
                _check(schema)
        except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, ValueError) as error:
            raise RegistryError.invalid_schema(f"{type(error).__name__}: {error}") from error
        except (KeyError, TypeError, AttributeError, RecursionError) as error:  # fastavro's, for a missing attribute
            raise RegistryError.invalid_schema(f"this is no Avro schema: {type(error).__name__} {error}") from error
        return cls(written(_simple(tokens), normalize), parsed, named, _declared(references.values()))

    def problems(self, writer: AvroSchema) -> list[str]:
        """Return why this reader cannot read data of a writer."""
        try:
            return list(_Resolution(self, writer).problems(self.parsed, writer.parsed, "/"))
        except RecursionError as error:
            raise RegistryError.invalid_schema("it is nested too deeply to be compared") from error

    def is_same(self, other: AvroSchema) -> bool:
        """Return whether the schemas are the same with all references in their places."""
        return self.text == other.text or self.formatted(_RESOLVED) == other.formatted(_RESOLVED)

    def formatted(self, form: str) -> str:
        if form == _RESOLVED:
            return written(_resolved(json.loads(self.text), "", self._references))
        if form:
            raise RegistryError(400, f"the format {form!r} of Avro schemas is not supported; expected {_RESOLVED}")
        return self.text


def _check(schema: Any) -> None:
    """Raise ValueError for what Avro's specification forbids, and the parser does not see."""
    for _, part in _parts_of(schema, ""):
        if isinstance(part, list):
            kinds = [_kind_of(branch) for branch in part]
            if "union" in kinds:
                raise ValueError("a union is directly within another one")
            if twice := [kind for kind in kinds if kinds.count(kind) > 1]:
                raise ValueError(f"a union has {twice[0]} twice")
        elif isinstance(part, dict):
            _check_names(part)


def _check_names(schema: Mapping[str, Any]) -> None:
    if schema.get("type") in _NAMED:
        for text in (schema["name"], schema.get("namespace") or ""):
            if text and not all(map(_NAME.fullmatch, text.split("."))):
                raise ValueError(f"{text!r} is no name: expected letters, digits and underscores, not a digit first")
    if schema.get("type") == "fixed" and schema["size"] < 0:
        raise ValueError(f"the size of {schema['name']} is negative")
    names = [field["name"] for field in schema.get("fields", ())]
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(f"the field name {name!r} is no name")
        if names.count(name) > 1:
            raise ValueError(f"the field {name} is there twice")


def _kind_of(branch: Any) -> str:
    """Return what distinguishes a branch of a union: its name, or its type."""
    if isinstance(branch, list):
        return "union"
    if isinstance(branch, dict):
        return str(branch.get("name", "")) if branch.get("type") in _NAMED else _kind_of(branch["type"])
    return str(branch)


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


def _declared(texts: Iterable[str]) -> dict[str, Any]:
    """Return the named types that schemas declare, by their full names."""
    types: dict[str, Any] = {}
    for text in texts:
        for space, schema in _parts_of(json.loads(text), ""):
            if isinstance(schema, dict) and schema.get("type") in _NAMED and "name" in schema:
                name = _full_name(schema["name"], schema.get("namespace", space))
                types[name] = {**schema, "name": name}
    return types


def _parts_of(schema: Any, space: str) -> Iterator[tuple[str, Any]]:
    """Yield a schema and all within it, each with the namespace around it."""
    yield space, schema
    if isinstance(schema, list):
        for branch in schema:
            yield from _parts_of(branch, space)
    elif isinstance(schema, dict):
        inner = _namespace(schema, space)
        for part in ("type", "items", "values"):
            if isinstance(schema.get(part), dict | list):
                yield from _parts_of(schema[part], inner)
        for field in schema.get("fields", ()):
            yield from _parts_of(field["type"], inner)


def _resolved(schema: Any, space: str, types: Mapping[str, Any], defined: set[str] | None = None) -> Any:
    """Return a schema with the types of references in place of their first names."""
    defined = set() if defined is None else defined
    if isinstance(schema, str):
        name = _full_name(schema, space)
        if schema in _PRIMITIVE or name in defined or name not in types:
            return schema
        return _resolved(types[name], "", types, defined)
    if isinstance(schema, list):
        return [_resolved(branch, space, types, defined) for branch in schema]
    inner = _namespace(schema, space)
    if schema.get("type") in _NAMED:
        defined.add(_full_name(schema["name"], schema.get("namespace", space)))
    parts = {
        part: _resolved(schema[part], inner, types, defined)
        for part in ("type", "items", "values")
        if part in schema and not (part == "type" and schema["type"] in (*_NAMED, "array", "map"))
    }
    if "fields" in schema:
        parts["fields"] = [
            {**field, "type": _resolved(field["type"], inner, types, defined)} for field in schema["fields"]
        ]
    return {**schema, **parts}


def _namespace(schema: Mapping[str, Any], space: str) -> str:
    if "name" not in schema or schema.get("type") not in _NAMED:
        return space
    return _full_name(schema["name"], schema.get("namespace", space)).rpartition(".")[0]


def _full_name(name: str, space: str | None) -> str:
    return name if "." in name or not space else f"{space}.{name}"


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
