"""Checksums: CRC-32 (v0, v1) and CRC-32C (v2).

CRC-32C is from the `crc32c` package, which uses processor instructions, or else from `crcmod`.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Protocol

from pylogbroker.features import on_first_use
from pylogbroker.records.model import Buffer

if TYPE_CHECKING:
    from crcmod import predefined as crcmod
else:
    crcmod = on_first_use("crcmod.predefined")


class Checksum(Protocol):
    """Checksum of `data`; `before` is of the bytes in front."""

    def __call__(self, data: Buffer, before: int = 0, /) -> int: ...


def portable_crc32c() -> Checksum:
    """About fifty times slower than `crc32c`."""
    function: Checksum = crcmod.mkCrcFun("crc-32c")
    return function


crc32: Checksum = zlib.crc32
crc32c: Checksum

try:
    from crc32c import crc32c as _native_crc32c
except ImportError:  # no wheel for this platform
    crc32c = portable_crc32c()
else:
    crc32c = _native_crc32c
