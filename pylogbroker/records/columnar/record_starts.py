"""Search for the records of many batches.

Three ways find probable starts; `find_records` verifies them against all lengths:

    uniform records in each batch    multiples of a stride; offset deltas from 64, and from 8192, take one more byte
    many records                     `parallel_search`
    otherwise                        one by one
"""

from __future__ import annotations

from typing import Final

import attrs
import numpy as np

from pylogbroker.records.columnar.parallel_search import find_in_parallel
from pylogbroker.records.columnar.varints import MAX_SHIFT, Bytes, Ints, NotUniform, raw_varints, require, signed
from pylogbroker.records.model import Buffer

_WIDER: Final = (64, 8192, 1 << 20)  # offset deltas that need one more byte


_RECORD_BYTES_MIN: Final = 7
ZIGZAG_LENGTH_MAX: Final = 1 << 32  # bound of a length or offset delta


@attrs.frozen(eq=False, repr=False)
class RecordPositions:
    """Positions of records, and their numbers before the key, in order."""

    start: Ints
    end: Ints
    timestamp_delta: Ints
    offset_delta_at: Ints
    offset_delta: Ints
    key_length_at: Ints


def find_records(data: Bytes, raw: Buffer, begins: Ints, ends: Ints, counts: Ints) -> RecordPositions:
    """Find the records of non-empty batches; `raw` has the bytes of `data`.

    Raise NotUniform unless lengths and counts agree.
    """
    require((counts > 0) & (counts <= (ends - begins) // _RECORD_BYTES_MIN))
    start = record_starts(data, raw, begins, ends, counts)
    end = np.empty_like(start)
    end[:-1] = start[1:]
    end[counts.cumsum() - 1] = ends
    length, body = raw_varints(data, start)
    require((length & 1 == 0) & (length < ZIGZAG_LENGTH_MAX))
    require(body + (length >> 1) == end)
    timestamp_delta, offset_delta_at = raw_varints(data, body + 1)
    offset_delta, key_length_at = raw_varints(data, offset_delta_at)
    require(offset_delta < ZIGZAG_LENGTH_MAX)
    return RecordPositions(start, end, signed(timestamp_delta), offset_delta_at, signed(offset_delta), key_length_at)


def record_starts(data: Bytes, raw: Buffer, begins: Ints, ends: Ints, counts: Ints) -> Ints:
    guess = _uniform_starts(data, begins, ends, counts)
    if guess is not None:
        return guess
    starts = find_in_parallel(data, begins, ends, counts)
    return _sequential_starts(raw, begins, counts) if starts is None else starts


def _uniform_starts(data: Bytes, begins: Ints, ends: Ints, counts: Ints) -> Ints | None:
    length, behind = raw_varints(data, begins)
    stride = (length >> 1) + behind - begins
    expected = counts * stride
    most = int(counts.max())
    widths = [wider for wider in _WIDER if most > wider]
    for wider in widths:
        expected += np.maximum(counts - wider, 0)
    if (expected != ends - begins).any():
        return None
    firsts = counts.cumsum() - counts
    delta = np.arange(int(counts.sum())) - firsts.repeat(counts)
    guess: Ints = begins.repeat(counts) + delta * stride.repeat(counts)
    for wider in widths:
        guess += np.maximum(delta - wider, 0)
    return guess


def _sequential_starts(raw: Buffer, begins: Ints, counts: Ints) -> Ints:
    starts: list[int] = []
    add = starts.append
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
    return np.array(starts, np.int64)


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
