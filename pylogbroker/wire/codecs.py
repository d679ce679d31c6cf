"""Messages to bytes and back: the compiled decoder and encoder of one message in one version, held together.

`decode` gives a message or raises `WireError`, whatever the bytes.  A frame, as it stands on the wire, is

===  ==============================================
i4   the size of all that follows
...  the header: see `pylogbroker.wire.headers`
...  the message
===  ==============================================

and is made as a list of chunks to be sent one after the other: bytes first, then by turns the regions and the
large records that the message holds, as they are, and the bytes between them.
"""

import struct
from collections.abc import Generator
from functools import cached_property
from typing import Any, Final, Generic, TypeVar

from pylogbroker.wire.decoder_compiler import DecodeInSteps, decoder, stepwise_decoder
from pylogbroker.wire.encoder_compiler import Encode, EncodeInSteps, encoder, stepwise_encoder
from pylogbroker.wire.errors import EncodingError, UnsupportedVersion, WireError
from pylogbroker.wire.headers import RequestHeader, encode_request_header, response_header_format
from pylogbroker.wire.schema import Buffer, Chunk, Request, Response, WireMessage

M = TypeVar("M", bound=WireMessage)
Q = TypeVar("Q", bound=Request)
R = TypeVar("R", bound=Response)

_UNENCODABLE: Final = (struct.error, AttributeError, TypeError, UnicodeEncodeError)
_pack_size = struct.Struct(">i").pack


class MessageCodec(Generic[M]):
    """The encoding of one message in one version.

    What reads the message is compiled at once, so that a wrong declaration is refused here; what writes it,
    when it is first used.
    """

    def __init__(self, message: type[M], version: int) -> None:
        if version not in message.versions:
            raise UnsupportedVersion(f"{message.__name__} has no version {version}")
        self.message: Final = message
        self.version: Final = version
        self._decode: Final = decoder(message, version, message.versions.is_flexible(version))

    @cached_property
    def _encode(self) -> Encode:
        return encoder(self.message, self.version, self.message.versions.is_flexible(self.version))

    @cached_property
    def _encode_in_steps(self) -> EncodeInSteps:
        return stepwise_encoder(self.message, self.version, self.message.versions.is_flexible(self.version))

    @cached_property
    def _decode_in_steps(self) -> DecodeInSteps:
        return stepwise_decoder(self.message, self.version, self.message.versions.is_flexible(self.version))

    def decode(self, buffer: Buffer, position: int = 0) -> M:
        """The message that fills a buffer from a position to its end."""
        message, end = self._decoded(buffer, position)
        if end != len(buffer):
            raise WireError(f"{self} ends at {end}, but its frame at {len(buffer)}")
        return message

    def decode_first(self, buffer: Buffer, position: int = 0) -> M:
        """The message that begins at a position, whatever follows.

        So a broker reads requests, as Kafka does: librdkafka asks for the metadata of all topics with some bytes too
        many in flexible versions.
        """
        return self._decoded(buffer, position)[0]

    def decode_first_in_steps(self, buffer: memoryview, position: int = 0) -> Generator[None, None, M]:
        """Like `decode_first`, but yields now and then, if the message is long."""
        try:
            message, end = yield from self._decode_in_steps(buffer, position)
        except (struct.error, IndexError):
            raise WireError(f"{self} is cut off") from None
        if end > len(buffer):
            raise WireError(f"{self} is cut off")
        return message  # type: ignore[no-any-return]

    def _decoded(self, buffer: Buffer, position: int) -> tuple[M, int]:
        """The message at a position, and where it ends."""
        try:
            message, end = self._decode(buffer if type(buffer) is memoryview else memoryview(buffer), position)
        except (struct.error, IndexError):
            raise WireError(f"{self} is cut off") from None
        if end > len(buffer):
            raise WireError(f"{self} is cut off")
        return message, end

    def encode(self, message: M) -> bytes:
        """The message as bytes, copied into one; it must hold no regions."""
        chunks: list[Any] = self.chunks(message)
        return b"".join(chunks)

    def chunks(self, message: M) -> list[Chunk]:
        """The message as few chunks, of which the first one is bytes."""
        try:
            return self._encode(message)
        except _UNENCODABLE as error:
            raise EncodingError(f"{self} cannot be encoded: {error}") from error

    def chunks_in_steps(self, message: M) -> Generator[None, None, list[Chunk]]:
        """Like `chunks`, but yields now and then, if the message is long."""
        try:
            return (yield from self._encode_in_steps(message))
        except _UNENCODABLE as error:
            raise EncodingError(f"{self} cannot be encoded: {error}") from error

    def __str__(self) -> str:
        return f"{self.message.__name__} v{self.version}"


class RequestCodec(MessageCodec[Q]):
    """The encoding of a request in one version."""

    def frame(self, correlation_id: int, client_id: str | None, message: Q) -> list[Chunk]:
        """The request's whole frame."""
        header = RequestHeader(self.message.api_key, self.version, correlation_id, client_id)
        start = encode_request_header(header)
        chunks: list[Any] = self.chunks(message)
        chunks[0] = _pack_size(len(start) + sum(map(len, chunks))) + start + chunks[0]
        return chunks


class ResponseCodec(MessageCodec[R]):
    """The encoding of a response in one version."""

    def __init__(self, message: type[R], version: int) -> None:
        super().__init__(message, version)
        header = struct.Struct(">i" + response_header_format(message.api_key, version))
        self._pack: Final = header.pack
        self._header_size: Final = header.size - 4

    def frame(self, correlation_id: int, message: R) -> list[Chunk]:
        """The response's whole frame."""
        return self._framed(correlation_id, self.chunks(message))

    def frame_in_steps(self, correlation_id: int, message: R) -> Generator[None, None, list[Chunk]]:
        """Like `frame`, but yields now and then, if the message is long."""
        return self._framed(correlation_id, (yield from self.chunks_in_steps(message)))

    def _framed(self, correlation_id: int, chunks: list[Any]) -> list[Chunk]:
        chunks[0] = self._pack(self._header_size + sum(map(len, chunks)), correlation_id) + chunks[0]
        return chunks
