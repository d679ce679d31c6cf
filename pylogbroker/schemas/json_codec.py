"""JSON Schema: content is the JSON itself, checked when it is written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import attrs
from jsonschema import Draft7Validator
from jsonschema.exceptions import SchemaError, best_match
from jsonschema.validators import validator_for
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT7

from pylogbroker.json_text import tokens_of
from pylogbroker.schemas.errors import InvalidSchema, Undecodable, Unencodable
from pylogbroker.schemas.framing import FramedContent
from pylogbroker.schemas.limits import JsonBudget

_ROOT: Final = ""
_MESSAGE_MAX: Final = 200


@attrs.frozen(eq=False, repr=False)
class JsonCodec:
    """A schema without `$schema` is one of draft 7."""

    record_name: str
    _validator: Any

    @classmethod
    def of(cls, text: str, references: Mapping[str, str]) -> JsonCodec:
        try:
            schema = json.loads(text)
            documents = {name: json.loads(document) for name, document in references.items()} | {_ROOT: schema}
            kind = validator_for(schema, default=Draft7Validator)
            kind.check_schema(schema)
            resources = [
                (name, Resource.from_contents(document, default_specification=DRAFT7))
                for name, document in documents.items()
            ]
        except SchemaError as error:
            raise InvalidSchema(f"this is no JSON Schema: {error.json_path}: {error.message}") from error
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidSchema(f"this is no JSON Schema: {error}") from error
        title = schema.get("title") if isinstance(schema, dict) else None
        validator = kind(schema, registry=Registry().with_resources(resources))
        return cls(title if isinstance(title, str) else "", validator)

    def decode(self, frame: FramedContent, budget: JsonBudget) -> str:
        try:
            text = frame.payload.decode()
            budget.spend(len(text))
            tokens_of(text)
        except (ValueError, RecursionError) as error:
            raise Undecodable(f"it is no JSON: {error}") from error
        return text.strip().replace("\n", " ").replace("\r", " ")  # between tokens only: texts have them as escapes

    def encode(self, text: str) -> bytes:
        try:
            tokens_of(text)
            problem = best_match(self._validator.iter_errors(json.loads(text)))
        except Unresolvable as error:
            raise InvalidSchema(f"$ref {error.ref} names no schema") from error
        except (ValueError, RecursionError) as error:
            raise Unencodable("", f"this is no JSON: {error}") from error
        if problem is not None:
            message = problem.message
            short = message if len(message) <= _MESSAGE_MAX else f"{message[:_MESSAGE_MAX]}…"
            raise Unencodable(problem.json_path.removeprefix("$").removeprefix("."), short)
        return text.strip().encode()
