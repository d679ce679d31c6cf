"""Cuts a byte stream into frames: `length:4` (big-endian, counting what follows) and that many bytes.

Small frames are views of the bytes as they were received; a frame that is larger than what has come gets a buffer of
its own size, which the rest is received into.  So no byte is copied twice, and most are not copied at all.

The buffer of a very large frame is memory that the system hands out page by page as bytes arrive: a length that is
claimed and never sent costs nothing.
"""

from __future__ import annotations

import mmap
import struct

from pylogbroker.wire.errors import WireError
from pylogbroker.wire.recognition import describe_length

_LENGTH = struct.Struct(">i")
_LAZY_SIZE = 2 * 1024 * 1024  # above it, page by page; below it, a plain buffer is quicker


class FrameSplitter:
    """Bytes in, whole frames out.  `max_size` bounds the length of one frame, in bytes.

    `violation` is set when a length cannot be: the frames before it are given out, and then nothing is to be read.
    """

    __slots__ = ("_buffer", "_filled", "_head", "_max_size", "violation")

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._head = b""
        self._buffer: memoryview | None = None
        self._filled = 0
        self.violation: WireError | None = None

    @property
    def held(self) -> int:
        """Bytes of memory held by a frame that is not whole yet."""
        if self._buffer is None:
            return len(self._head)
        size = len(self._buffer)
        return size if size <= _LAZY_SIZE else self._filled

    def split(self, data: bytes) -> list[memoryview]:
        """The frames that `data` completes, without their length; the rest is kept.

        What belongs into `rest()` is copied there: who receives into it does without.
        """
        if self._buffer is not None:
            count = min(len(data), len(self._buffer) - self._filled)
            self._buffer[self._filled : self._filled + count] = data[:count]
            frame = self.filled(count)
            return [] if frame is None else [frame, *self.split(data[count:])]
        if self._head:
            data = self._head + data
            self._head = b""
        frames: list[memoryview] = []
        view = memoryview(data)
        position, end = 0, len(data)
        while end - position >= 4:
            (length,) = _LENGTH.unpack_from(data, position)
            if not 0 <= length <= self._max_size:
                self.violation = self._bad_length(length)
                return frames
            position += 4
            if end - position < length:
                self._begin(length, view[position:])
                return frames
            frames.append(view[position : position + length])
            position += length
        self._head = data[position:]
        return frames

    def rest(self) -> memoryview | None:
        """Where the rest of a frame that has begun belongs, or None."""
        return None if self._buffer is None else self._buffer[self._filled :]

    def filled(self, count: int) -> memoryview | None:
        """`count` bytes were put at the start of `rest()`; the frame, if it is whole now."""
        buffer = self._buffer
        if buffer is None:
            return None
        self._filled += count
        if self._filled < len(buffer):
            return None
        self._buffer = None
        return buffer

    def forget(self) -> None:
        """Let go of what came of a frame that will never be whole."""
        self._buffer = None
        self._head = b""

    def _begin(self, length: int, start: memoryview) -> None:
        self._buffer = memoryview(bytearray(length) if length <= _LAZY_SIZE else mmap.mmap(-1, length))
        self._filled = len(start)
        self._buffer[: self._filled] = start

    def _bad_length(self, length: int) -> WireError:
        other_protocol = describe_length(length)
        if other_protocol is not None:
            return WireError(other_protocol)
        if length < 0:
            return WireError(f"a frame's length is {length}, which is negative")
        return WireError(f"a frame of {length} bytes is larger than socket.request.max.bytes={self._max_size}")
