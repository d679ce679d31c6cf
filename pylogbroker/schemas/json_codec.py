"""JSON Schema: content is the JSON itself, checked when it is written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

import attrs

from pylogbroker.json_text import exact_integer, tokens_of
from pylogbroker.schemas.errors import InvalidSchema, Undecodable, Unencodable
from pylogbroker.schemas.framing import FramedContent
from pylogbroker.schemas.json_validator import JsonValidator, number_of_schema
from pylogbroker.schemas.limits import JsonBudget

_WHITESPACE: Final = " \t\r\n"


@attrs.frozen(eq=False, repr=False, slots=False)
class JsonCodec:
    _schema: Any
    _documents: Mapping[str, Any]

    @classmethod
    def of(cls, text: str, references: Mapping[str, str]) -> JsonCodec:
        """Raise InvalidSchema. Whether the schema means something is seen when content is checked."""
        return cls(_parsed(text), {name: _parsed(document) for name, document in references.items()})

    @property
    def record_name(self) -> str:
        title = self._schema.get("title") if isinstance(self._schema, dict) else None
        return title if isinstance(title, str) else ""

    @cached_property
    def _validator(self) -> JsonValidator:
        return JsonValidator.of(self._schema, self._documents)

    def prepare(self) -> None:
        _ = self._validator

    def decode(self, frame: FramedContent, budget: JsonBudget) -> str:
        try:
            text = frame.payload.decode()
            budget.spend(len(text))
            tokens_of(text)
        except (ValueError, RecursionError) as error:
            raise Undecodable(f"it is no JSON: {error}") from error
        return text.strip(_WHITESPACE).replace("\n", " ").replace("\r", " ")  # between tokens only

    def encode(self, text: str) -> bytes:
        try:
            tokens_of(text)
        except (ValueError, RecursionError) as error:
            raise Unencodable("", f"this is no JSON: {error}") from error
        self._validator.check(text)
        return text.strip(_WHITESPACE).encode()


def _parsed(text: str) -> Any:
    """Return a schema with exact numbers."""
    try:
        return json.loads(text, parse_float=number_of_schema, parse_int=exact_integer)
    except (ValueError, RecursionError) as error:
        raise InvalidSchema(f"this is no JSON Schema: {error}") from error
