"""Search for the starts of records.

A record begins with its length, so its end is known only once its start is.  There are three ways to find the starts;
`decode` verifies the result against all lengths:

    uniform records in each batch    multiples of a stride; offset deltas from 64, and from 8192, take one more byte
    many records                     in parallel, see `lanes`
    otherwise                        one by one
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pylogbroker.records.buffers import Buffer
from pylogbroker.records.columnar.parallel_search import find_in_parallel
from pylogbroker.records.columnar.varints import MAX_SHIFT, Bytes, Ints, NotUniform, raw_varints

WIDER: Final = (64, 8192, 1 << 20)  # offset deltas from which on one more byte is needed


def record_starts(data: Bytes, raw: Buffer, begins: Ints, ends: Ints, counts: Ints) -> Ints:
    """Return the probable start of each record; `raw` has the bytes of `data`."""
    guess = _uniform_starts(data, begins, ends, counts)
    if guess is not None:
        return guess
    found = find_in_parallel(data, begins, ends, counts)
    return _sequential_starts(raw, begins, counts) if found is None else found


def _uniform_starts(data: Bytes, begins: Ints, ends: Ints, counts: Ints) -> Ints | None:
    """Return starts by stride; None unless each batch has the size that uniform records would give."""
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


def _sequential_starts(raw: Buffer, begins: Ints, counts: Ints) -> Ints:
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
        raise NotUniform from None
    return np.array(found, np.int64)


def _behind_long(raw: Buffer, position: int) -> int:
    length = shift = 0
    while True:
        byte = raw[position]
        position += 1
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return position + (length >> 1)
        if shift > MAX_SHIFT:
            raise NotUniform
