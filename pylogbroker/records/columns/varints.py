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
    raw = byte.astype(np.int64)
    behind = at + 1
    more = byte > 0x7F
    if not more.any():
        return raw, behind
    second = data.take(behind, mode="clip")
    raw += ((second.astype(np.int64) - 1) << 7) * more  # less by the bit that said that another byte follows
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
