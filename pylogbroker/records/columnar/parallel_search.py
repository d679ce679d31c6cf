"""Parallel search for the starts of records: each step advances every cursor by one record.

A long batch has several cursors, at guessed record starts. A guess is a place after a zero byte, which may end a record
without headers, with two plausible record lengths in a row.

    batch   |----------------->|---------------->|------------------>|     a cursor advances
    batch   |----------------->|                                           to the start of the next

A wrong number of records proves a wrong guess. The search also stops if a sequential one is faster, since a few cursors
have many records.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from pylogbroker.records.columnar.varints import Bytes, Flags, Ints, raw_varints

_CURSORS_MAX: Final = 512  # with more, steps get slower faster than they get fewer
_SPLIT_BATCH_RECORDS_MIN: Final = 200  # with fewer, guesses cost more than they save
_CURSOR_RECORDS_MIN: Final = 16  # as above, for a guessed cursor
_STEP_COST: Final = 600  # fixed cost of a step; each cursor adds 1
_RECORD_COST: Final = 35  # of a sequential search
_STEPS_BETWEEN_CHECKS: Final = 8  # for finished cursors and long records
_WINDOW_RECORDS: Final = 2  # of the search for a record's end, in average record lengths
_WINDOW_ZEROS_MAX: Final = 64  # with more, guesses cost more than they save
_ZIGZAG_LENGTH_MIN: Final = 12  # six bytes after the length, zigzag


def find_in_parallel(data: Bytes, begins: Ints, ends: Ints, counts: Ints) -> Ints | None:
    """Return the start of each record; None if the search failed or a sequential one is faster."""
    total, longest = int(counts.sum()), int(counts.max())
    cursors, steps = begins, longest
    if longest > _SPLIT_BATCH_RECORDS_MIN and total > _SPLIT_BATCH_RECORDS_MIN * _CURSOR_RECORDS_MIN:
        cursors = np.union1d(begins, _guesses(data, begins, ends, total))
        steps = total // len(cursors)
    most = total * _RECORD_COST // (len(cursors) + _STEP_COST)
    if steps > most:
        return None
    stops = ends[np.searchsorted(begins, cursors, side="right") - 1]
    stops[:-1] = np.minimum(stops[:-1], cursors[1:])
    starts = _advance(data, cursors, stops, most)
    firsts = np.cumsum(counts) - counts
    return starts if len(starts) == total and np.array_equal(starts[firsts], begins) else None


def _strides() -> Ints:
    second, first = np.divmod(np.arange(1 << 16), 1 << 8)
    long = 2 + (first - 0x80 + (second << 7) >> 1)
    return np.where(first < 0x80, 1 + (first >> 1), np.where(second < 0x80, long, 0))


_STRIDES: Final = _strides()


def _advance(data: Bytes, cursors: Ints, ends: Ints, most: int) -> Ints:
    following = data[1:]
    stops = np.minimum(ends, len(following) - 1)  # finished cursors stay there
    pairs = np.empty((len(cursors), 2), np.uint8)
    visited, moved, at = [], [], cursors
    for _ in range(0, most, _STEPS_BETWEEN_CHECKS):
        places = np.empty((_STEPS_BETWEEN_CHECKS + 1, len(cursors)), np.int64)
        places[0] = at
        for at, behind in pairwise(places):
            pairs[:, 0] = data.take(at)
            pairs[:, 1] = following.take(at)
            np.add(at, _STRIDES.take(pairs.view("<u2")[:, 0]), out=behind)
            np.minimum(behind, stops, out=behind)
        _advance_past_long(data, at, behind, stops)
        visited.append(places[:-1])
        moved.append(places[1:] != places[:-1])
        at = behind
        if (at == stops).all():
            break
    begins: Ints = np.concatenate(visited).T[np.concatenate(moved).T]
    return begins


def _advance_past_long(data: Bytes, at: Ints, behind: Ints, stops: Ints) -> None:
    long = np.flatnonzero((behind == at) & (behind < stops))
    if long.size:
        length, body = raw_varints(data, at[long])
        behind[long] = np.minimum(body + (length >> 1), stops[long])


def _guesses(data: Bytes, begins: Ints, ends: Ints, total: int) -> Ints:
    size = int(ends[-1] - begins[0])
    span = max(size // _CURSORS_MAX, size * _CURSOR_RECORDS_MIN // total)
    window = min(_WINDOW_RECORDS * size // total, span)
    targets = _targets(begins, ends, span)
    windows = np.lib.stride_tricks.sliding_window_view(data, window)[targets]
    zeros = np.flatnonzero(windows.ravel() == 0)
    if not 0 < zeros.size < _WINDOW_ZEROS_MAX * targets.size:
        return begins[:0]
    row, column = np.divmod(zeros, window)
    at = targets[row] + column + 1
    likely = np.flatnonzero(_plausible(data, at))
    at, row = at[likely], row[likely]
    length, behind = raw_varints(data, at)
    after = behind + (length >> 1)
    sure = (data.take(after - 1, mode="clip") == 0) & _plausible(data, after)
    at, row = at[sure], row[sure]
    guesses: Ints = at[np.unique(row, return_index=True)[1]]
    return guesses


def _targets(begins: Ints, ends: Ints, span: int) -> Ints:
    parts = np.maximum((ends - begins) // span, 1)
    number = np.arange(int(parts.sum())) - np.repeat(np.cumsum(parts) - parts, parts)
    places = np.repeat(begins, parts) + number * np.repeat((ends - begins) // parts, parts)
    targets: Ints = places[number > 0]
    return targets


def _plausible(data: Bytes, at: Ints) -> Flags:
    first, second, third, fourth = (data.take(at + distance, mode="clip") for distance in range(4))
    longer = np.where(second < 0x80, third == 0, (third < 0x80) & (fourth == 0))
    fits = np.where(first < 0x80, (second == 0) & (first >= _ZIGZAG_LENGTH_MIN), longer)
    plausible: Flags = fits & (first & 1 == 0)
    return plausible
