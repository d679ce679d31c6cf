"""Frame splitter: cuts a byte stream into frames, each `size int32 (big-endian, bytes after it) | bytes`.

A frame inside the received bytes is a view of them. A larger one gets a buffer, which receives the rest. So most bytes
are not copied, and none twice.

A very large buffer takes memory as data comes. A claimed size costs at most `_PLAIN_SIZE`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from pylogbroker.system import growing_memory
from pylogbroker.system.memory import GrowingMemory
from pylogbroker.wire.errors import WireError
from pylogbroker.wire.recognition import other_protocol

_LENGTH = struct.Struct(">i")
_PLAIN_SIZE = 2 * 1024 * 1024  # larger buffers grow
_FREED_INLINE_MAX = 256 * 1024  # to free a larger buffer takes longer than to call a thread


class FrameSplitter:
    """Splits received bytes into frames of at most `max_size` bytes.

    An invalid size sets `violation`. Frames before it are returned; after it, nothing is read.
    """

    # Stages without types: one object for all frames: each read passes here

    __slots__ = ("_buffer", "_filled", "_growing", "_head", "_max_size", "_setting", "_size", "violation")

    def __init__(self, max_size: int) -> None:
        self.limit(max_size, "socket.request.max.bytes")
        self._head = b""
        self._buffer: memoryview | None = None
        self._growing: GrowingMemory | None = None  # memory of `_buffer`, if that may be shorter than the frame
        self._size = 0
        self._filled = 0
        self.violation: WireError | None = None

    def limit(self, max_size: int, setting: str) -> None:
        """Limit the frames that begin from now on; `setting` names the limit in errors."""
        self._max_size, self._setting = max_size, setting

    @property
    def held(self) -> int:
        if self._buffer is None:
            return len(self._head)
        return self._size if self._growing is None else self._filled

    def split(self, data: bytes) -> list[memoryview]:
        """Return the frames that `data` completes, without sizes; keep the rest.

        Receivers that fill `rest()` save a copy.
        """
        while self._buffer is not None:
            if not data:
                return []
            frame, count = self._put(data)
            data = data[count:]
            if frame is not None:
                return [frame, *self.split(data)]
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
            stop = position + length
            if stop > end:
                self._begin(length, view[position:])
                return frames
            frames.append(view[position:stop])
            if stop == end:
                return frames
            position = stop
        self._head = data[position:]
        return frames

    def rest(self) -> memoryview | None:
        """Return the buffer for the rest of an incomplete frame, or its next part; None without one.

        Do not use buffers from earlier calls.
        """
        if self._buffer is not None and self._filled == len(self._buffer) and self._growing is not None:
            self._buffer.release()
            self._growing.resize(min(2 * self._filled, self._size))
            self._buffer = self._growing.view()
        return None if self._buffer is None else self._buffer[self._filled :]

    def filled(self, count: int) -> memoryview | None:
        """Record `count` bytes written to `rest()`; return the frame if it is complete."""
        buffer = self._buffer
        if buffer is None:
            return None
        self._filled += count
        if self._filled < self._size:
            return None
        self._buffer = self._growing = None
        return buffer

    def forget(self) -> Callable[[], None] | None:
        """Drop an incomplete frame. Call the result in any thread: freeing a large buffer takes milliseconds."""
        growing, self._growing, buffer, self._buffer, self._head = self._growing, None, self._buffer, None, b""
        if growing is not None:
            return growing.free
        return None if buffer is None or len(buffer) <= _FREED_INLINE_MAX else buffer.release

    def _put(self, data: bytes) -> tuple[memoryview | None, int]:
        with self.rest() or memoryview(b"") as rest:
            count = min(len(data), len(rest))
            rest[:count] = data[:count]
        return self.filled(count), count

    def _begin(self, length: int, start: memoryview) -> None:
        self._size, self._filled = length, len(start)
        if length <= _PLAIN_SIZE:
            self._buffer = memoryview(bytearray(length))
        else:
            self._growing = growing_memory(max(_PLAIN_SIZE, len(start)), length)
            self._buffer = self._growing.view()
        self._buffer[: self._filled] = start

    def _bad_length(self, length: int) -> WireError:
        other = other_protocol(length)
        if other is not None:
            return other
        if length < 0:
            return WireError(f"a frame's length is {length}, which is negative")
        return WireError(f"a frame of {length} bytes is larger than {self._setting}={self._max_size}")
