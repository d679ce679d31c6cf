"""ZooKeeper's encoding: big-endian integers; texts, buffers and lists after an int32 length, where -1 means null."""

from __future__ import annotations

import struct
from typing import Final

from pylogbroker.errors import PylogbrokerError

_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")


class BadFile(PylogbrokerError):
    """Damaged file, or not of the kind that its name says."""


class JuteReader:
    """Read consecutive values from `position` on; raise BadFile at an invalid one."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    def int32(self) -> int:
        return int(self._number(_INT32))

    def int64(self) -> int:
        return int(self._number(_INT64))

    def buffer(self) -> bytes | None:
        length = self.int32()
        if length == -1:
            return None
        if not 0 <= length <= len(self.data) - self.position:
            raise BadFile(f"invalid length {length} at byte {self.position - _INT32.size}")
        self.position += length
        return self.data[self.position - length : self.position]

    def text(self) -> str:
        """Return "" for null."""
        try:
            return (self.buffer() or b"").decode()
        except UnicodeDecodeError:
            raise BadFile(f"invalid UTF-8 before byte {self.position}") from None

    def count(self) -> int:
        return max(self.int32(), 0)

    def skip(self, length: int) -> None:
        if length > len(self.data) - self.position:
            raise BadFile(f"it ends after {len(self.data)} bytes")
        self.position += length

    def skip_access_rules(self) -> None:
        for _ in range(self.count()):
            self.int32()
            self.buffer()
            self.buffer()

    def _number(self, kind: struct.Struct) -> int:
        self.skip(kind.size)
        return int(kind.unpack_from(self.data, self.position - kind.size)[0])
