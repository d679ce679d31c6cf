"""Avro by one schema, in both directions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property

import attrs

from pylogbroker.json_text import exact_integer, exact_number, named_once
from pylogbroker.schemas.avro_reader import AvroInput, Read, reader_of
from pylogbroker.schemas.avro_schema import AvroTypes
from pylogbroker.schemas.avro_writer import Steps, Write, writer_of
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

    def prepare(self) -> None:
        _ = self._write

    def decode(self, frame: FramedContent, budget: JsonBudget) -> str:
        source = AvroInput(frame.payload, budget)
        try:
            text = self._read(source)
        except UnicodeDecodeError as error:
            raise Undecodable(f"a text is not UTF-8: {error}") from error
        if source.at < len(frame.payload):
            raise Undecodable(f"{len(frame.payload) - source.at} bytes are left: it was written by another schema")
        return text

    def encode(self, text: str) -> bytes:
        try:
            value = json.loads(
                text,
                parse_float=exact_number,
                parse_int=exact_integer,
                parse_constant=_reject,
                object_pairs_hook=named_once,
            )
        except ValueError as error:
            raise Unencodable("", f"this is no JSON: {error}") from error
        return self._write(value, Steps(len(text)))


def _reject(constant: str) -> None:
    raise ValueError(f'{constant} is a text in JSON: "{constant}"')
