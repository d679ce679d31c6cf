"""Codecs of the three types, imported on first use: they need the extra `registry`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

import attrs

from pylogbroker.extras import required_by
from pylogbroker.features import on_first_use
from pylogbroker.schemas.errors import InvalidSchema, SchemaError, Undecodable, Unencodable
from pylogbroker.schemas.framing import FramedContent
from pylogbroker.schemas.limits import JsonBudget
from pylogbroker.schemas.values import AVRO, JSON, PROTOBUF, Schema

if TYPE_CHECKING:
    from pylogbroker.schemas import avro_codec, json_codec, protobuf_codec
else:
    avro_codec = on_first_use("pylogbroker.schemas.avro_codec")
    json_codec = on_first_use("pylogbroker.schemas.json_codec")
    protobuf_codec = on_first_use("pylogbroker.schemas.protobuf_codec")

TITLES: Final = {AVRO: "Avro", JSON: "JSON Schema", PROTOBUF: "Protobuf"}
_REASON_MAX: Final = 300


class TypeCodec(Protocol):
    """Codec of one schema in the module of its type; what it raises because of content may be anything."""

    @property
    def record_name(self) -> str: ...

    def prepare(self) -> None: ...

    def decode(self, frame: FramedContent, budget: JsonBudget) -> str: ...

    def encode(self, text: str) -> bytes: ...


@attrs.frozen(eq=False, repr=False)
class SchemaCodec:
    """Reads and writes content of one schema. It may be used by several threads."""

    _codec: TypeCodec

    @property
    def record_name(self) -> str:
        """Name of the record, as subjects have it; empty if the schema has none."""
        return self._codec.record_name

    @property
    def of_type(self) -> TypeCodec:
        """The codec of the schema's type, for what only its module knows."""
        return self._codec

    def prepare_writing(self) -> None:
        """Check what only writing needs, as before a schema is registered; raise InvalidSchema."""
        try:
            self._codec.prepare()
        except SchemaError:
            raise
        except Exception as error:
            raise InvalidSchema(f"the schema cannot be used for writing: {_reason(error)}") from error

    def for_message(self, name: str) -> SchemaCodec:
        """Return the codec that writes a message of Protobuf, by its name; raise InvalidSchema."""
        if not hasattr(self._codec, "for_message"):
            raise InvalidSchema(f"there is a message {name} in schemas of Protobuf alone")
        return SchemaCodec(self._codec.for_message(name))

    def message_name(self, frame: FramedContent) -> str:
        """Return the full name of a content's message of Protobuf, empty for the first; raise Undecodable."""
        if not hasattr(self._codec, "message_of"):
            return ""
        name = str(self._codec.message_of(frame).full_name)
        return "" if name == self.record_name else name

    def decode(self, frame: FramedContent, budget: JsonBudget | None = None) -> str:
        """Return content as JSON on one line; raise Undecodable.

        The JSON spends from the budget. The default is more than content of its size usually needs.
        """
        try:
            return self._codec.decode(frame, JsonBudget.of(frame.payload) if budget is None else budget)
        except SchemaError:
            raise
        except Exception as error:  # of a library that did not foresee such content
            raise Undecodable(_reason(error)) from error

    def encode(self, text: str) -> bytes:
        """Return the bytes behind the prefix for some JSON; raise Unencodable or InvalidSchema."""
        self.prepare_writing()
        try:
            return self._codec.encode(text)
        except SchemaError:
            raise
        except Exception as error:
            raise Unencodable("", _reason(error)) from error


def codec_of(schema: Schema, references: Mapping[str, str], message: str = "") -> SchemaCodec:
    """Return the codec of a schema; `references` has texts by name, each after those that it needs itself.

    `message` names the message of Protobuf to encode, by default the first. May block for a moment. Raise InvalidSchema
    or MissingExtra.
    """
    title = TITLES.get(schema.kind)
    if title is None:
        raise InvalidSchema(f"schemas of type {schema.kind} are not supported: expected AVRO, JSON or PROTOBUF")
    with required_by(f"{title} by a schema registry"):
        try:
            return SchemaCodec(_type_codec(schema, references, message))
        except (SchemaError, ImportError):
            raise
        except Exception as error:
            raise InvalidSchema(f"this is no {title} schema that can be used: {_reason(error)}") from error


def _type_codec(schema: Schema, references: Mapping[str, str], message: str) -> TypeCodec:
    if schema.kind == AVRO:
        return avro_codec.AvroCodec.of(schema.text, references)
    if schema.kind == JSON:
        return json_codec.JsonCodec.of(schema.text, references)
    return protobuf_codec.ProtobufCodec.of(schema.text, references, message)


def _reason(error: Exception) -> str:
    """Return an error's text with its type, on one line and not too long."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    text = " ".join(str(error)[:_REASON_MAX].split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
