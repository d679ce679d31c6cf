"""Codecs of the three types, imported on first use: they need the extra `schema-registry`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from pylogbroker.extras import required_by
from pylogbroker.features import on_first_use
from pylogbroker.schemas.errors import InvalidSchema
from pylogbroker.schemas.framing import FramedContent
from pylogbroker.schemas.values import AVRO, JSON, PROTOBUF, Schema

if TYPE_CHECKING:
    from pylogbroker.schemas import avro_codec, json_codec, protobuf_codec
else:
    avro_codec = on_first_use("pylogbroker.schemas.avro_codec")
    json_codec = on_first_use("pylogbroker.schemas.json_codec")
    protobuf_codec = on_first_use("pylogbroker.schemas.protobuf_codec")

TITLES: Final = {AVRO: "Avro", JSON: "JSON Schema", PROTOBUF: "Protobuf"}


class SchemaCodec(Protocol):
    """Reads and writes content of one schema. It may be used by several threads."""

    @property
    def record_name(self) -> str:
        """Name of the record, as subjects have it; empty if the schema has none."""

    def decode(self, frame: FramedContent) -> str:
        """Return content as JSON on one line; raise Undecodable."""

    def encode(self, text: str) -> bytes:
        """Return the bytes behind the prefix for some JSON; raise Unencodable."""


def codec_of(schema: Schema, references: Mapping[str, str], message: str = "") -> SchemaCodec:
    """Return the codec of a schema; `references` has texts by name, each after those that it needs itself.

    `message` names the message of Protobuf to encode, by default the first. May block for a moment. Raise InvalidSchema
    or MissingExtra.
    """
    with required_by(f"{TITLES.get(schema.kind, schema.kind)} by a schema registry"):
        if schema.kind == AVRO:
            return avro_codec.AvroCodec.of(schema.text, references)
        if schema.kind == JSON:
            return json_codec.JsonCodec.of(schema.text, references)
        if schema.kind == PROTOBUF:
            return protobuf_codec.ProtobufCodec.of(schema.text, references, message)
    raise InvalidSchema(f"schemas of type {schema.kind} are not supported: expected AVRO, JSON or PROTOBUF")
