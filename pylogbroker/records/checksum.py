"""The two checksums of the message formats: CRC-32 (v0, v1) and CRC-32C (v2).

CRC-32C comes from the `crc32c` package, which uses the processor's own instructions, or where no build of it exists
from `crcmod`.
"""

from __future__ import annotations

import zlib
from typing import Protocol

from pylogbroker.records.buffers import Buffer


class Checksum(Protocol):
    """A checksum of `data`; given that of what comes before it, a checksum of both."""

    def __call__(self, data: Buffer, before: int = 0, /) -> int: ...


def portable_crc32c() -> Checksum:
    """CRC-32C by crcmod: the same answers anywhere, some fifty times slower."""
    import crcmod.predefined

    function: Checksum = crcmod.predefined.mkCrcFun("crc-32c")
    return function


crc32: Checksum = zlib.crc32
crc32c: Checksum

try:
    from crc32c import crc32c as _native_crc32c
except ImportError:  # no wheel for this platform
    crc32c = portable_crc32c()
else:
    crc32c = _native_crc32c
