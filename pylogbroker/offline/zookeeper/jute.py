"""ZooKeeper's encoding of values: big-endian numbers; texts, buffers and lists after an int32 length, -1 for none."""

from __future__ import annotations

import struct
from typing import Final

from pylogbroker.errors import PylogbrokerError

_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")


class BadFile(PylogbrokerError):
    """A file is not what its name says, or is damaged."""


class JuteReader:
    """Reads values one after the other from `position` on; BadFile where there is none."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    def int32(self) -> int:
        """Return a 32-bit number."""
        return int(self._number(_INT))

    def int64(self) -> int:
        """Return a 64-bit number."""
        return int(self._number(_LONG))

    def buffer(self) -> bytes | None:
        """Return bytes; None for none."""
        length = self.int32()
        if length == -1:
            return None
        if not 0 <= length <= len(self.data) - self.position:
            raise BadFile(f"a length of {length} at byte {self.position - _INT.size}")
        self.position += length
        return self.data[self.position - length : self.position]

    def text(self) -> str:
        """Return a text, empty for none."""
        try:
            return (self.buffer() or b"").decode()
        except UnicodeDecodeError:
            raise BadFile(f"no text before byte {self.position}") from None

    def count(self) -> int:
        """Return the length of a list that follows."""
        return max(self.int32(), 0)

    def skip(self, length: int) -> None:
        """Pass over bytes."""
        if length > len(self.data) - self.position:
            raise BadFile(f"it ends after {len(self.data)} bytes")
        self.position += length

    def skip_access_rules(self) -> None:
        """Pass over a list of ACLs."""
        for _ in range(self.count()):
            self.int32()
            self.buffer()
            self.buffer()

    def _number(self, kind: struct.Struct) -> int:
        self.skip(kind.size)
        return int(kind.unpack_from(self.data, self.position - kind.size)[0])
