"""Columns of contents that name a schema of a registry: Avro, Protobuf and JSON Schema.

Content becomes JSON by its own schema, and JSON becomes values of the column's type. That type has all members of the
schemas that the sample names. Types of JSON Schema are inferred from the sample's values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import attrs
import pyarrow as pa

from pylogbroker.errors import ConfigError
from pylogbroker.features import on_first_use
from pylogbroker.schemas import endpoint
from pylogbroker.schemas.avro_schema import AvroTypes
from pylogbroker.schemas.blocking import blocking_client
from pylogbroker.schemas.codecs import TITLES, SchemaCodec, codec_of
from pylogbroker.schemas.errors import InvalidSchema, Undecodable, UnknownSchema
from pylogbroker.schemas.framing import Field, FramedContent, frame_of
from pylogbroker.schemas.registry_client import RegistryClient, ResolvedSchema
from pylogbroker.schemas.schema_cache import SchemaCache
from pylogbroker.schemas.values import AVRO, JSON, PROTOBUF, Schema
from pylogbroker.table.contents import BinaryForm, Failures, TextForm, checked_array
from pylogbroker.table.json_columns import inferred_type
from pylogbroker.table.json_types import completed, unified
from pylogbroker.table.json_values import Convert, converter, has_decimals, parsed

if TYPE_CHECKING:
    from pylogbroker.table import avro_types, protobuf_types
else:
    avro_types = on_first_use("pylogbroker.table.avro_types")
    protobuf_types = on_first_use("pylogbroker.table.protobuf_types")

_KINDS: Final[Mapping[str, str | None]] = {"avro": AVRO, "protobuf": PROTOBUF, "json-schema": JSON, "auto": None}
_OF_CONTENT: Final = (Undecodable, UnknownSchema, InvalidSchema)


@attrs.frozen(eq=False, repr=False)
class _Reader:
    """Codec of a schema, and the type of its contents; None if only values show it."""

    schema: Schema
    codec: SchemaCodec
    references: Mapping[str, str]

    def type_name(self, frame: FramedContent) -> str | None:
        """Return a name of the content's type within the schema."""
        if self.schema.kind == AVRO:
            return ""
        return self._message_of(frame).full_name if self.schema.kind == PROTOBUF else None

    def type_of(self, frame: FramedContent) -> pa.DataType:
        if self.schema.kind == AVRO:
            return avro_types.arrow_type_of_avro(AvroTypes.parse(self.schema.text, self.references))
        return protobuf_types.arrow_type_of_message(self._message_of(frame))

    def _message_of(self, frame: FramedContent) -> Any:
        of_type: Any = self.codec.of_type
        return of_type.message_of(frame)


@attrs.define(eq=False, repr=False)
class RegistryForm:
    """Contents of one kind of schema, or of any with `auto`."""

    _client: RegistryClient
    _field: Field
    _kind: str | None
    is_sampled = True
    needs_headers = True
    _readers: SchemaCache[_Reader] = attrs.field(
        init=False, default=attrs.Factory(lambda self: SchemaCache(self._client, self._new_reader), takes_self=True)
    )
    _seen: set[tuple[int | UUID, str]] = attrs.field(factory=set, init=False)
    _inferred: pa.DataType = attrs.field(factory=pa.null, init=False)
    _has_bytes: bool = attrs.field(default=False, init=False)
    _has_frames: bool = attrs.field(default=False, init=False)

    @property
    def type(self) -> pa.DataType:
        return completed(self.learned)

    @property
    def learned(self) -> pa.DataType:
        return pa.binary() if not self._has_frames and self._has_bytes else self._inferred

    def learn(self, contents: pa.Array, headers: pa.Array | None) -> None:
        texts: list[bytes] = []
        for content, frame in self._frames(contents, headers):
            if frame is None:
                self._learn_unframed(content)
                continue
            self._has_frames = True
            try:
                if (text := self._learn_framed(frame)) is not None:
                    texts.append(text)
            except _OF_CONTENT:
                continue  # the record is named when it is decoded
        if texts:
            self._inferred = unified(self._inferred, inferred_type(pa.array(texts, pa.binary())))

    def _learn_framed(self, frame: FramedContent) -> bytes | None:
        """Learn the type of a content's schema, or return its JSON where only values show the type."""
        reader = self._readers.get(frame.schema)
        name = reader.type_name(frame)
        if name is None:
            return reader.codec.decode(frame).encode()
        if (frame.schema, name) not in self._seen:
            self._inferred = unified(self._inferred, reader.type_of(frame))
            self._seen.add((frame.schema, name))
        return None

    def _learn_unframed(self, content: bytes) -> None:
        if self._kind is not None:
            return
        try:
            content.decode()
        except UnicodeDecodeError:
            self._has_bytes = True
        else:
            self._inferred = unified(self._inferred, pa.string())

    def decoded(self, contents: pa.Array, headers: pa.Array | None, failures: Failures) -> pa.Array:
        return self._decoded(self.type, contents, headers, failures, cuts_times=False)

    def decoded_as(
        self, kind: pa.DataType, contents: pa.Array, headers: pa.Array | None, failures: Failures
    ) -> pa.Array:
        return self._decoded(kind, contents, headers, failures, cuts_times=True)

    def _decoded(
        self,
        kind: pa.DataType,
        contents: pa.Array,
        headers: pa.Array | None,
        failures: Failures,
        *,
        cuts_times: bool,
    ) -> pa.Array:
        if self._kind is None and not self._has_frames and kind in (pa.binary(), pa.string()):
            plain = BinaryForm() if kind == pa.binary() else TextForm()
            return plain.decoded(contents, headers, failures)
        convert, exact = converter(kind, cuts_times=cuts_times), has_decimals(kind)
        rows = iter(self._frames(contents, headers))
        values: list[Any] = []
        for index, is_there in enumerate(contents.is_valid().to_pylist()):
            value = None
            if is_there:
                content, frame = next(rows)
                try:
                    value = self._value(content, frame, convert, exact)
                except _OF_CONTENT as error:
                    failures.note(index, error, error)
                except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
                    failures.note(index, f"it does not fit the column's type: {error}", error)
            values.append(value)
        return checked_array(values, kind, failures)

    def _value(self, content: bytes, frame: FramedContent | None, convert: Convert, exact: bool) -> Any:
        if frame is None:
            if self._kind is None:
                return content.decode()
            raise Undecodable("it has no schema: no serializer of a schema registry wrote it")
        try:
            text = self._readers.get(frame.schema).codec.decode(frame)
        except Undecodable as error:
            raise Undecodable(f"it does not fit schema {frame.schema}: {error}") from error
        return convert(parsed(text, exact=exact))

    def _frames(self, contents: pa.Array, headers: pa.Array | None) -> Iterator[tuple[bytes, FramedContent | None]]:
        """Yield contents that are not null with their frames."""
        has_headers = headers is not None and headers.null_count < len(headers)
        of_rows = headers.to_pylist() if headers is not None and has_headers else [None] * len(contents)
        for content, row in zip(contents.to_pylist(), of_rows, strict=True):
            if content is not None:
                pairs = [(header["key"], header["value"]) for header in row or ()]
                yield content, frame_of(content, pairs, self._field)

    def _new_reader(self, key: int | UUID, resolved: ResolvedSchema) -> _Reader:
        kind = resolved.schema.kind
        if self._kind is not None and kind != self._kind:
            raise Undecodable(f"schema {key} is of {TITLES.get(kind, kind)}, not {TITLES[self._kind]}")
        return _Reader(resolved.schema, codec_of(resolved.schema, resolved.references), resolved.references)


def form_by_registry(field: str, name: str, schema_registry: str | Mapping[str, str] | None) -> RegistryForm:
    """Return the form of a field; raise ConfigError without a registry."""
    settings = {endpoint.URL: schema_registry} if isinstance(schema_registry, str) else dict(schema_registry or {})
    where = endpoint.RegistryEndpoint.of(settings)
    if where is None:
        raise ConfigError(f'{field}="{name}" needs a schema registry: name it by schema_registry="http://HOST:8081"')
    of_field: Field = "key" if field == "key" else "value"
    return RegistryForm(blocking_client(where), of_field, _KINDS[name])
