"""Avro by one schema, in both directions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from functools import cached_property

import attrs

from pylogbroker.json_text import named_once
from pylogbroker.schemas.avro_reader import AvroInput, Read, reader_of
from pylogbroker.schemas.avro_schema import AvroTypes
from pylogbroker.schemas.avro_writer import Write, writer_of
from pylogbroker.schemas.errors import Undecodable, Unencodable
from pylogbroker.schemas.framing import FramedContent
from pylogbroker.schemas.limits import JsonBudget


@attrs.frozen(slots=False)
class AvroCodec:
    types: AvroTypes

    @classmethod
    def of(cls, text: str, references: Mapping[str, str]) -> AvroCodec:
        return cls(AvroTypes.parse(text, references))

    @property
    def record_name(self) -> str:
        root = self.types.resolved(self.types.root)
        return str(root.get("name", "")) if isinstance(root, dict) else ""

    @cached_property
    def _read(self) -> Read:
        return reader_of(self.types)

    @cached_property
    def _write(self) -> Write:
        return writer_of(self.types)

    def decode(self, frame: FramedContent, budget: JsonBudget) -> str:
        source = AvroInput(frame.payload, budget)
        try:
            text = self._read(source)
        except RecursionError:
            raise Undecodable("it is nested too deeply") from None
        except ValueError as error:  # a text that is not UTF-8, or a decimal with too many digits
            raise Undecodable(f"{error}") from error
        if source.at < len(frame.payload):
            raise Undecodable(f"{len(frame.payload) - source.at} bytes are left: it was written by another schema")
        return text

    def encode(self, text: str) -> bytes:
        try:
            value = json.loads(text, parse_float=Decimal, parse_constant=_reject, object_pairs_hook=named_once)
            return self._write(value, "")
        except RecursionError:
            raise Unencodable("", "it is nested too deeply") from None
        except ValueError as error:
            raise Unencodable("", f"this is no JSON: {error}") from error


def _reject(constant: str) -> None:
    raise ValueError(f'{constant} is a text in JSON: "{constant}"')
