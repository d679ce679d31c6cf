"""Largest of many timestamp deltas that take equal numbers of bytes, without decoding each.

A column has one byte of each delta, the last column the highest bits:

               records 0 to 4
    column 0   80  94  a8  bc  d0
    column 1   01  01  01  01  01
               64  74  84  94  104 ms

Deltas are compared as zigzag numbers. Even ones are not negative, and rise with the delta. To confirm the largest one
that a header claims takes few passes in C over each column. Without a right claim, each delta takes a Python step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_BYTES: Final = bytes(range(256))
UP_TO: Final = tuple(_BYTES[: byte + 1] for byte in range(256))
_RANKS: Final = bytes(0 if zigzag & 1 else zigzag // 2 + 1 for zigzag in range(128)) * 2
"""By zigzag number of one byte: the delta plus one, or 0 if it is negative."""


def largest_in_column(deltas: bytes) -> int:
    """Return the largest zigzag number of deltas of 0 or more; negative if there is none."""
    return 2 * max(deltas.translate(_RANKS)) - 2


def largest_in_columns(columns: Sequence[bytes]) -> int:
    """Return the largest zigzag number of deltas of 0 or more; negative if there is none."""
    raws = (sum((byte & 0x7F) << 7 * place for place, byte in enumerate(row)) for row in zip(*columns, strict=True))
    return max((raw for raw in raws if not raw & 1), default=-1)


def largest_as_claimed(columns: Sequence[bytes], claimed: int) -> int | None:
    """Return `claimed` if it is the largest zigzag number, -1 if all are smaller, None if one may be larger."""
    place = len(columns) - 1
    byte, column, begin = claimed >> 7 * place, columns[place], 0
    if byte > 0x7F:
        return -1
    if byte <= 0 < place or byte < 0:  # the claim has fewer bytes than the deltas, or is negative
        return None
    while not column.translate(None, UP_TO[byte]):
        if byte not in column:
            return -1
        if not place:
            return claimed
        first = column.find(byte)
        if column.count(byte) < len(column) - first:  # the highest bits do not ascend
            return None
        begin, place = begin + first, place - 1
        byte, column = claimed >> 7 * place & 0x7F | 0x80, columns[place][begin:]
    return None
