"""Varints of many records at once."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Bytes: TypeAlias = npt.NDArray[np.uint8]
Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

MAX_SHIFT: Final = 56  # nine bytes: more might not fit


class Unsure(Exception):
    """Something is not as it nearly always is.  Whether it is wrong, has to be found out one by one."""


def raw_varints(data: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """The numbers at these positions, still zigzag, and the positions behind them.

    Positions beyond the end are taken for the last one: what was read there does not add up to a record.
    """
    byte = data.take(at, mode="clip")
    behind = at + 1
    more = byte > 0x7F
    if not more.any():
        return byte.astype(np.int64), behind
    second = data.take(behind, mode="clip")
    two = second.astype(np.int16)  # two bytes come to no more than 16 bits hold
    two -= 1  # the bit of the first one that says that another byte follows
    two <<= 7
    two *= more
    two += byte
    raw = two.astype(np.int64)
    behind += more
    left = np.flatnonzero(more & (second > 0x7F))
    shift = 14
    while left.size:
        if shift > MAX_SHIFT:
            raise Unsure
        byte = data.take(behind[left], mode="clip")
        raw[left] += (byte.astype(np.int64) - 1) << shift
        behind[left] += 1
        left = left[byte > 0x7F]
        shift += 7
    return raw, behind


def signed(raw: Ints) -> Ints:
    """Zigzag numbers, decoded."""
    return (raw >> 1) ^ -(raw & 1)
