"""Decoding of many varints at once."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Bytes: TypeAlias = npt.NDArray[np.uint8]
Ints: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]
Flags: TypeAlias = npt.NDArray[np.bool_]

MAX_SHIFT: Final = 56  # nine bytes; a tenth might overflow


class NotUniform(Exception):
    """Records cannot be decoded together; the reason may be damage."""


def raw_varints(data: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """Return the numbers, still zigzag, and the positions after them.

    Positions beyond the end read the last byte; later checks fail then. Raise NotUniform beyond nine bytes.
    """
    byte = data.take(at, mode="clip")
    behind = at + 1
    more = byte > 0x7F
    if not more.any():
        return byte.astype(np.int64), behind
    second = data.take(behind, mode="clip")
    two = second.astype(np.int16)  # enough for two bytes
    two -= 1  # takes off bit 7 of the first byte
    two <<= 7
    two *= more
    two += byte
    raw = two.astype(np.int64)
    behind += more
    left = np.flatnonzero(more & (second > 0x7F))
    shift = 14
    while left.size:
        if shift > MAX_SHIFT:
            raise NotUniform
        byte = data.take(behind[left], mode="clip")
        raw[left] += (byte.astype(np.int64) - 1) << shift
        behind[left] += 1
        left = left[byte > 0x7F]
        shift += 7
    return raw, behind


def signed(raw: Ints) -> Ints:
    return (raw >> 1) ^ -(raw & 1)


def require(good: Flags) -> None:
    """Raise NotUniform unless all flags are set."""
    if not good.all():
        raise NotUniform
