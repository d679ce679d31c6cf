"""Frames in a stream of bytes: four bytes of a frame's size, then so many bytes of the frame.

A transport that reads into a buffer of its own asks `frame_size` what to make room for.  `FrameSplitter` is
for whoever gets bytes in pieces.
"""

import struct
from collections.abc import Iterator
from typing import Final

from pylogbroker.wire.errors import WireError
from pylogbroker.wire.schema import Buffer

SIZE_BYTES: Final = 4

_unpack_size = struct.Struct(">i").unpack_from


def frame_size(buffer: Buffer, limit: int, position: int = 0) -> int:
    """The size that the four bytes at a position say; `WireError` if it is negative or above the limit."""
    size: int = _unpack_size(buffer, position)[0]
    if not 0 <= size <= limit:
        raise WireError(f"a frame of {size} bytes, with {limit} allowed")
    return size


class FrameSplitter:
    """Takes a stream in pieces of any size and gives whole frames."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()

    @property
    def pending(self) -> int:
        """How many bytes wait for the rest of their frame."""
        return len(self._buffer)

    def feed(self, data: Buffer) -> Iterator[bytes]:
        """The frames that these bytes complete, their sizes taken off."""
        self._buffer += data
        start = 0
        try:
            while (end := self._end_of_frame(start)) is not None:
                yield bytes(self._buffer[start + SIZE_BYTES : end])
                start = end
        finally:
            del self._buffer[:start]

    def _end_of_frame(self, start: int) -> int | None:
        if len(self._buffer) < start + SIZE_BYTES:
            return None
        end = start + SIZE_BYTES + frame_size(self._buffer, self._limit, start)
        return end if end <= len(self._buffer) else None
