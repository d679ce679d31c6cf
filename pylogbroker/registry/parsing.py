"""Schemas of the three types, parsed. All of it blocks: parsing takes milliseconds, and Protobuf's compiler longer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, Self

import attrs

from pylogbroker.registry.avro import AvroSchema
from pylogbroker.registry.errors import RegistryError
from pylogbroker.registry.json_schema import JsonSchema
from pylogbroker.registry.protobuf import ProtobufSchema
from pylogbroker.schemas.values import AVRO, JSON, PROTOBUF, Schema


class ParsedSchema(Protocol):
    @property
    def text(self) -> str:
        """Canonical text, by which schemas are the same."""

    def problems(self, writer: Self) -> list[str]:
        """Return why this schema cannot read data of another one."""

    def is_same(self, other: Self) -> bool:
        """Return whether schemas with different texts mean the same."""

    def formatted(self, form: str) -> str:
        """Return the text in a form of Confluent's registry; raise RegistryError for an unknown one."""


@attrs.frozen
class ParseJob:
    """A schema with the texts of its references by name, each after those that it needs itself."""

    schema: Schema
    references: Mapping[str, str] = attrs.field(eq=lambda texts: tuple(texts.items()))
    is_normalized: bool = False
    is_new: bool = False
    """Whether the schema is to be registered: then it is checked strictly."""

    def __hash__(self) -> int:
        return hash(self.schema)

    @property
    def characters(self) -> int:
        return len(self.schema.text) + sum(map(len, self.references.values()))

    def parsed(self) -> ParsedSchema:
        """Parse; raise RegistryError. Blocks."""
        text = self.schema.text
        if self.schema.kind == AVRO:
            return AvroSchema.parse(text, self.references, self.is_normalized, self.is_new)
        if self.schema.kind == JSON:
            return JsonSchema.parse(text, self.references, self.is_normalized)
        if self.schema.kind == PROTOBUF:
            return ProtobufSchema.parse(text, self.references)
        raise RegistryError.invalid_schema(f"Invalid schema type {self.schema.kind}")
