"""Codecs: the compiled decoder and encoder of one message in one version.

A frame on the wire::

    size int32 | header (see `pylogbroker.wire.headers`) | message        size: bytes after this field

Encoded frames are lists of chunks, the first of them bytes. Regions and large records are own chunks, not copied.
"""

import struct
from functools import cached_property
from typing import Any, Final, Generic, TypeVar

from pylogbroker.wire.decoder_compiler import DecodeInSteps, decoder, stepwise_decoder
from pylogbroker.wire.encoder_compiler import (
    Encode,
    EncodeInSteps,
    FrameIfShort,
    bounded_frame_encoder,
    encoder,
    stepwise_encoder,
)
from pylogbroker.wire.errors import UnsupportedVersion, WireError
from pylogbroker.wire.headers import RequestHeader, encode_request_header, response_header_format
from pylogbroker.wire.schema import Buffer, Chunk, Request, Response, WireMessage

M = TypeVar("M", bound=WireMessage)
Q = TypeVar("Q", bound=Request)
R = TypeVar("R", bound=Response)

_pack_size = struct.Struct(">i").pack


class MessageCodec(Generic[M]):
    """Compiles the decoder at once, to find wrong declarations; the rest on its first use."""

    def __init__(self, message: type[M], version: int) -> None:
        if version not in message.versions:
            raise UnsupportedVersion(f"{message.__name__} has no version {version}")
        self.message: Final = message
        self.version: Final = version
        self.decode_at: Final = decoder(message, version, message.versions.is_flexible(version))
        """Decode the message at a position; return it and the end position."""

    @cached_property
    def decode_at_in_steps(self) -> DecodeInSteps:
        """Like `decode_at`, but gives way from time to time."""
        return stepwise_decoder(self.message, self.version, self.message.versions.is_flexible(self.version))

    @cached_property
    def chunks(self) -> Encode:
        return encoder(self.message, self.version, self.message.versions.is_flexible(self.version))

    @cached_property
    def chunks_in_steps(self) -> EncodeInSteps:
        """Like `chunks`, but gives way from time to time."""
        return stepwise_encoder(self.message, self.version, self.message.versions.is_flexible(self.version))

    def decode(self, buffer: Buffer, position: int = 0) -> M:
        """Decode the message that fills `buffer` from `position` on."""
        message, end = self.decode_at(memoryview(buffer), position)
        if end != len(buffer):
            raise WireError(f"{self} ends at {end}, but its frame at {len(buffer)}")
        return message  # type: ignore[no-any-return]

    def decode_first(self, buffer: Buffer, position: int = 0) -> M:
        """Decode the message at `position`; ignore the bytes after it.

        Kafka does so, too: librdkafka appends a few bytes to flexible Metadata requests.
        """
        return self.decode_at(memoryview(buffer), position)[0]  # type: ignore[no-any-return]

    def encode(self, message: M) -> bytes:
        """Encode a message without regions."""
        chunks: list[Any] = self.chunks(message)
        return b"".join(chunks)

    def __str__(self) -> str:
        return f"{self.message.__name__} v{self.version}"


class RequestCodec(MessageCodec[Q]):
    def frame(self, correlation_id: int, client_id: str | None, message: Q) -> list[Chunk]:
        header = RequestHeader(self.message.api_key, self.version, correlation_id, client_id)
        start = encode_request_header(header)
        chunks: list[Any] = self.chunks(message)
        chunks[0] = _pack_size(len(start) + sum(map(len, chunks))) + start + chunks[0]
        return chunks


class ResponseCodec(MessageCodec[R]):
    def __init__(self, message: type[R], version: int) -> None:
        super().__init__(message, version)
        self._header: Final = struct.Struct(">i" + response_header_format(message.api_key, version))
        self._header_size: Final = self._header.size - 4

    @cached_property
    def frame_if_short(self) -> FrameIfShort:
        """Like `frame`, but return None for a message with more structs in its arrays than a third argument.

        It is one function without calls of others, since each request pays for it.
        """
        flexible = self.message.versions.is_flexible(self.version)
        return bounded_frame_encoder(self.message, self.version, flexible, self._header)

    def frame(self, correlation_id: int, message: R) -> list[Chunk]:
        return self._framed(correlation_id, self.chunks(message))

    async def frame_in_steps(self, correlation_id: int, message: R) -> list[Chunk]:
        return self._framed(correlation_id, await self.chunks_in_steps(message))

    def _framed(self, correlation_id: int, chunks: list[Any]) -> list[Chunk]:
        chunks[0] = self._header.pack(self._header_size + sum(map(len, chunks)), correlation_id) + chunks[0]
        return chunks
