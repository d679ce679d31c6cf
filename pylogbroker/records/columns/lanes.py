"""Where many records begin: walked over in lanes, one record of each lane in a step.

A batch is a lane.  A long one is several, by guesses of where records begin in the middle of it: behind a byte that may
end a record without headers, where what would be the next record looks like one too.

    batch   |----------------->|---------------->|------------------>|     each is walked from where it begins
    batch   |----------------->|                                           to where the next one does

If these are not as many records as there should be, a guess was wrong, and nothing is known; nor when so many of them
are in few lanes that to go on would take longer than to walk over all one by one.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pylogbroker.records.columns.varints import Bytes, Flags, Ints, raw_varints

_LANES: Final = 512  # with more, steps get slower as they get fewer
_FEWEST: Final = 128  # with fewer, a step costs more than it saves
_RECORDS: Final = 16  # of a lane; with fewer, guesses cost more than they save
_STEP: Final = 700  # what a step costs, against what a lane adds to it
_WALKED: Final = 12  # what a record costs that is walked over one by one
_CHEAP: Final = 1000  # bytes that are soon looked through for where a record begins
_ZEROS: Final = 64  # in a window; if there are more, guesses cost more than they save
_SMALLEST: Final = 12  # six bytes, zigzag: what a record's length is at least


def in_lanes(data: Bytes, begins: Ints, ends: Ints, counts: Ints) -> Ints | None:
    """Where each record begins; None if that is not known, or soon found out one by one."""
    total = int(counts.sum())
    if len(counts) + total // _RECORDS < _FEWEST:
        return None
    lanes = np.union1d(begins, _guesses(data, begins, ends, total))
    if len(lanes) < _FEWEST:
        return None
    most = min(int(counts.max()), total * _WALKED // (len(lanes) + _STEP))
    stops = ends[np.searchsorted(begins, lanes, side="right") - 1]
    stops[:-1] = np.minimum(stops[:-1], lanes[1:])
    found = _walk(data, lanes, stops, most)
    firsts = np.cumsum(counts) - counts
    return found if len(found) == total and np.array_equal(found[firsts], begins) else None


def _strides() -> Ints:
    """How far it is to the next record from one that begins with these two bytes; 0 if two do not tell."""
    second, first = np.divmod(np.arange(1 << 16), 1 << 8)
    long = 2 + (first - 0x80 + (second << 7) >> 1)
    return np.where(first < 0x80, 1 + (first >> 1), np.where(second < 0x80, long, 0))


_STRIDES: Final = _strides()


def _walk(data: Bytes, lanes: Ints, ends: Ints, most: int) -> Ints:
    """Where records begin, lane by lane; at most so many of a lane."""
    pairs = np.ndarray(len(data) - 1, "<u2", data, strides=(1,))
    stops = np.minimum(ends, len(pairs) - 1)  # there a lane waits for the others
    at, steps = lanes, []
    for _ in range(most):
        steps.append(at)
        stride = _STRIDES.take(pairs[at])
        if not stride.all():
            _add_long(data, at, stride, at < stops)
        at = np.minimum(at + stride, stops)
        if (at == stops).all():
            break
    places = np.stack(steps, axis=1)
    found: Ints = places[places < stops[:, None]]
    return found


def _add_long(data: Bytes, at: Ints, stride: Ints, going: Flags) -> None:
    """Fill in the strides that are still 0."""
    long = np.flatnonzero((stride == 0) & going)
    length, behind = raw_varints(data, at[long])
    stride[long] = behind - at[long] + (length >> 1)


def _guesses(data: Bytes, begins: Ints, ends: Ints, total: int) -> Ints:
    """Places in the middle of long batches at which a record seems to begin."""
    size = int(ends[-1] - begins[0])
    span = max(size // _LANES, size * _RECORDS // total)
    usual = size // total
    window = min(max(usual * 2, min(_CHEAP, 8 * usual)), span)
    targets = _targets(begins, ends, span)
    windows = np.lib.stride_tricks.sliding_window_view(data, window)[targets]
    zeros = np.flatnonzero(windows.ravel() == 0)
    if not 0 < zeros.size < _ZEROS * targets.size:
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
    """Places about a span from each other, in batches of two spans and more."""
    parts = np.maximum((ends - begins) // span, 1)
    number = np.arange(int(parts.sum())) - np.repeat(np.cumsum(parts) - parts, parts)
    places = np.repeat(begins, parts) + number * np.repeat((ends - begins) // parts, parts)
    targets: Ints = places[number > 0]
    return targets


def _plausible(data: Bytes, at: Ints) -> Flags:
    """Whether what is there may be the length of a record and its attributes, which are 0."""
    first, second, third, fourth = (data.take(at + each, mode="clip") for each in range(4))
    longer = np.where(second < 0x80, third == 0, (third < 0x80) & (fourth == 0))
    fits = np.where(first < 0x80, (second == 0) & (first >= _SMALLEST), longer)
    plausible: Flags = fits & (first & 1 == 0)
    return plausible
