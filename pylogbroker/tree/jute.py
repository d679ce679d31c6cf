"""Jute, the encoding of ZooKeeper's protocol and files: big-endian numbers, lengths of four bytes, -1 for null."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, TypeVar

import attrs

T = TypeVar("T")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_NULL: Final = -1


class Malformed(ValueError):
    """The bytes are no value of the expected type."""


@attrs.define
class Reader:
    """Reads consecutive values from `position` on; raises Malformed at an invalid one."""

    data: bytes
    position: int = 0

    @property
    def is_at_end(self) -> bool:
        return self.position >= len(self.data)

    def take(self, size: int) -> bytes:
        start, end = self.position, self.position + size
        if size < 0:
            raise Malformed(f"invalid length {size} before byte {start}")
        if end > len(self.data):
            raise Malformed(f"{size} bytes are expected at byte {start}, but only {len(self.data) - start} follow")
        self.position = end
        return self.data[start:end]

    def integer(self) -> int:
        number: int = _INT32.unpack(self.take(4))[0]
        return number

    def long(self) -> int:
        number: int = _INT64.unpack(self.take(8))[0]
        return number

    def boolean(self) -> bool:
        return self.take(1) != b"\0"

    def buffer(self) -> bytes | None:
        size = self.integer()
        return None if size == _NULL else self.take(size)

    def string(self) -> str:
        """Return a string; null is read as empty."""
        try:
            return (self.buffer() or b"").decode()
        except UnicodeDecodeError as error:
            raise Malformed(f"invalid UTF-8 before byte {self.position}: {error.reason}") from error

    def vector(self, item: Callable[[], T]) -> list[T]:
        """Return a list of items; null is read as empty."""
        return [item() for _ in range(self.integer())]


def boolean(value: bool) -> bytes:
    return b"\1" if value else b"\0"


def integer(value: int) -> bytes:
    return _INT32.pack(value)


def long(value: int) -> bytes:
    return _INT64.pack(value)


def buffer(value: bytes | None) -> bytes:
    return _INT32.pack(_NULL) if value is None else _INT32.pack(len(value)) + value


def string(value: str) -> bytes:
    return buffer(value.encode())


def vector(values: list[bytes]) -> bytes:
    return _INT32.pack(len(values)) + b"".join(values)
