"""JSON Schema: parsing, canonical text, references."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs
from jsonschema import Draft7Validator, FormatChecker
from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT7

from pylogbroker.java.pattern import Pattern
from pylogbroker.java.pattern_syntax import PatternError
from pylogbroker.json_text import tokens_of, written
from pylogbroker.registry.errors import RegistryError
from pylogbroker.registry.json_compatibility import JsonComparison, SchemaNode

_ROOT: Final = ""
_FORMATS: Final = FormatChecker(())
"""Formats that a schema itself must have: its patterns are Java's."""


def _is_pattern(text: Any) -> bool:
    """Return whether a text is a regular expression; raise re.error."""
    if not isinstance(text, str):
        return True
    try:
        Pattern.compile(text)
    except PatternError:  # Java has some that are not read here, such as look-behind
        re.compile(text)
    return True


_FORMATS.checks("regex", raises=re.error)(_is_pattern)


@attrs.frozen(eq=False, repr=False)
class JsonSchema:
    """A parsed schema; without `$schema` it is one of draft 7."""

    text: str
    root: SchemaNode

    @classmethod
    def parse(cls, text: str, references: Mapping[str, str], normalize: bool = False) -> JsonSchema:
        """Parse a schema that may use others by their names; raise RegistryError."""
        try:
            tokens, schema = tokens_of(text), json.loads(text)
            if not isinstance(schema, dict | bool):
                raise ValueError(f"{text} is no JSON Schema: it is an object, or a boolean")
            validator_for(schema, default=Draft7Validator).check_schema(schema, format_checker=_FORMATS)
            documents = {name: json.loads(document) for name, document in references.items()} | {_ROOT: schema}
            resources = [(name, _resource(document)) for name, document in documents.items()]
            resolver = Registry().with_resources(resources).resolver(_ROOT)
            for reference in _references(schema):
                resolver.lookup(reference)
        except SchemaError as error:
            raise RegistryError.invalid_schema(f"{error.json_path}: {error.message}") from error
        except Unresolvable as error:
            raise RegistryError.invalid_schema(f"$ref {error.ref} names no schema") from error
        except (TypeError, ValueError, RecursionError) as error:
            raise RegistryError.invalid_schema(error) from error
        return cls(written(tokens, normalize), SchemaNode(schema, resolver))

    def problems(self, writer: JsonSchema) -> list[str]:
        """Return why values that a writer's schema allows may not be allowed here."""
        try:
            return list(JsonComparison().problems(writer.root, self.root, "#/"))
        except RecursionError as error:
            raise RegistryError.invalid_schema("it is nested too deeply to be compared") from error

    def is_same(self, other: JsonSchema) -> bool:
        """Return whether both are the same but for the order of members."""
        return written(tokens_of(self.text), sort_keys=True) == written(tokens_of(other.text), sort_keys=True)

    def formatted(self, form: str) -> str:
        if form:
            raise RegistryError(400, f"the format {form!r} of JSON schemas is not supported")
        return self.text


def _resource(schema: Any) -> Resource[Any]:
    return Resource.from_contents(schema, default_specification=DRAFT7)


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for element in schema:
            yield from _references(element)
    elif isinstance(schema, dict):
        for name, value in schema.items():
            if name == "$ref" and isinstance(value, str):
                yield value
            else:
                yield from _references(value)
