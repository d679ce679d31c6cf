"""Varints of many records at once, and where records begin.

A record's length is the first thing in it, so where one begins is known only when the one before it is.  Three ways to
find that out, none of which is believed before all lengths were compared with it:

    records of a batch are alike     each begins a stride behind the one before it; offset deltas from 64, and from
                                     8192, on take a byte more
    many batches                     side by side, one record of each in a step
    else                             one by one
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Bytes: TypeAlias = npt.NDArray[np.uint8]
Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

WIDER: Final = (64, 8192, 1 << 20)  # offset deltas from which on they take a byte more
_SIDE_BY_SIDE: Final = 256  # batches; for fewer, a step costs more than it saves
_MAX_SHIFT: Final = 56  # nine bytes: more might not fit


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
        if shift > _MAX_SHIFT:
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


def starts(data: Bytes, raw: bytes, begins: Ints, ends: Ints, counts: Ints) -> Ints:
    """Where each record seems to begin; `raw` is the same as `data`."""
    guess = _alike(data, begins, ends, counts)
    if guess is not None:
        return guess
    if len(counts) >= _SIDE_BY_SIDE:
        return _side_by_side(data, begins, counts)
    return _one_by_one(raw, begins, counts)


def _alike(data: Bytes, begins: Ints, ends: Ints, counts: Ints) -> Ints | None:
    """If each batch is as long as it would be if all its records were like its first."""
    length, behind = raw_varints(data, begins)
    stride = (length >> 1) + behind - begins
    expected = counts * stride
    for wider in WIDER:
        expected += np.maximum(counts - wider, 0)
    if not np.array_equal(expected, ends - begins):
        return None
    firsts = np.cumsum(counts) - counts
    delta = np.arange(int(counts.sum())) - np.repeat(firsts, counts)
    guess: Ints = np.repeat(begins, counts) + delta * np.repeat(stride, counts)
    most = int(counts.max())
    for wider in WIDER:
        if most > wider:
            guess += np.maximum(delta - wider, 0)
    return guess


def _side_by_side(data: Bytes, begins: Ints, counts: Ints) -> Ints:
    found = np.empty(int(counts.sum()), np.int64)
    order = np.argsort(-counts, kind="stable")
    slot = (np.cumsum(counts) - counts)[order]
    at = begins[order]
    left = np.searchsorted(-counts[order], -np.arange(1, int(counts.max()) + 1), side="right")
    for count in left.tolist():
        at, slot = at[:count], slot[:count]
        found[slot] = at
        length, behind = raw_varints(data, at)
        at = behind + (length >> 1)
        slot = slot + 1
    return found


def _one_by_one(raw: bytes, begins: Ints, counts: Ints) -> Ints:
    found: list[int] = []
    add = found.append
    try:
        for position, count in zip(begins.tolist(), counts.tolist(), strict=True):
            for _ in range(count):
                add(position)
                byte = raw[position]
                if byte < 0x80:
                    position += 1 + (byte >> 1)
                    continue
                second = raw[position + 1]
                if second < 0x80:
                    position += (byte >> 1) + (second << 6) - 62
                else:
                    position = _behind_long(raw, position)
    except IndexError:
        raise Unsure from None
    return np.array(found, np.int64)


def _behind_long(raw: bytes, position: int) -> int:
    length = shift = 0
    while True:
        byte = raw[position]
        position += 1
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return position + (length >> 1)
        if shift > _MAX_SHIFT:
            raise Unsure
