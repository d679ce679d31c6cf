"""Jute, the encoding of ZooKeeper's protocol: big-endian numbers, lengths of four bytes, -1 for null."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, TypeVar

import attrs

T = TypeVar("T")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")


class Malformed(ValueError):
    """The bytes are no value of the expected type."""


@attrs.define
class Reader:
    _data: bytes
    _at: int = 0

    @property
    def is_at_end(self) -> bool:
        return self._at >= len(self._data)

    def _take(self, size: int) -> bytes:
        start, self._at = self._at, self._at + size
        if size < 0 or self._at > len(self._data):
            raise Malformed(f"{size} bytes at {start} of {len(self._data)}")
        return self._data[start : self._at]

    def integer(self) -> int:
        number: int = _INT32.unpack(self._take(4))[0]
        return number

    def long(self) -> int:
        number: int = _INT64.unpack(self._take(8))[0]
        return number

    def boolean(self) -> bool:
        return self._take(1) != b"\0"

    def buffer(self) -> bytes | None:
        size = self.integer()
        return None if size < 0 else self._take(size)

    def string(self) -> str:
        """Return a string; null is read as empty."""
        try:
            return (self.buffer() or b"").decode()
        except UnicodeDecodeError as error:
            raise Malformed(str(error)) from error

    def vector(self, item: Callable[[], T]) -> list[T]:
        return [item() for _ in range(self.integer())]


def boolean(value: bool) -> bytes:
    return b"\1" if value else b"\0"


def integer(value: int) -> bytes:
    return _INT32.pack(value)


def long(value: int) -> bytes:
    return _INT64.pack(value)


def buffer(value: bytes | None) -> bytes:
    return _INT32.pack(-1) if value is None else _INT32.pack(len(value)) + value


def string(value: str) -> bytes:
    return buffer(value.encode())


def vector(values: list[bytes]) -> bytes:
    return _INT32.pack(len(values)) + b"".join(values)
