"""Where many records begin: walked over in lanes, one record of each lane in a step.

A batch is a lane.  A long one is several, by guesses of where records begin in the middle of it: behind a byte that may
end a record without headers, where what would be the next record looks like one too.

    batch   |----------------->|---------------->|------------------>|     each is walked from where it begins
    batch   |----------------->|                                           to where the next one does

If these are not as many records as there should be, a guess was wrong, and nothing is known; nor when so many of them
are in few lanes that to go on would take longer than to walk over all one by one.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from pylogbroker.records.columns.varints import Bytes, Flags, Ints, raw_varints

_LANES: Final = 512  # with more, steps get slower as they get fewer
_LONG: Final = 200  # records of a batch; with fewer, guesses cost more than they save
_RECORDS: Final = 16  # of a lane that was guessed; so for fewer
_STEP: Final = 600  # what a step costs, against what a lane adds to it
_WALKED: Final = 35  # what a record costs that is walked over one by one
_LOOK: Final = 8  # steps, after which it is seen who has arrived, and whose record is too long for them
_WIDE: Final = 2  # records, as long as they are on average, in which a record's end is looked for
_ZEROS: Final = 64  # in a window; if there are more, guesses cost more than they save
_SMALLEST: Final = 12  # six bytes, zigzag: what a record's length is at least


def in_lanes(data: Bytes, begins: Ints, ends: Ints, counts: Ints) -> Ints | None:
    """Where each record begins; None if that is not known, or soon found out one by one."""
    total, longest = int(counts.sum()), int(counts.max())
    lanes, steps = begins, longest
    if longest > _LONG and total > _LONG * _RECORDS:
        lanes = np.union1d(begins, _guesses(data, begins, ends, total))
        steps = total // len(lanes)
    most = total * _WALKED // (len(lanes) + _STEP)
    if steps > most:
        return None
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
    """Where records begin, lane by lane; no more than about so many of a lane."""
    following = data[1:]
    stops = np.minimum(ends, len(following) - 1)  # there a lane waits for the others
    pairs = np.empty((len(lanes), 2), np.uint8)
    found, moved, at = [], [], lanes
    for _ in range(0, most, _LOOK):
        places = np.empty((_LOOK + 1, len(lanes)), np.int64)
        places[0] = at
        for at, behind in pairwise(places):
            pairs[:, 0] = data.take(at)
            pairs[:, 1] = following.take(at)
            np.add(at, _STRIDES.take(pairs.view("<u2")[:, 0]), out=behind)
            np.minimum(behind, stops, out=behind)
        _pass_long(data, at, behind, stops)
        found.append(places[:-1])
        moved.append(places[1:] != places[:-1])
        at = behind
        if (at == stops).all():
            break
    begins: Ints = np.concatenate(found).T[np.concatenate(moved).T]
    return begins


def _pass_long(data: Bytes, at: Ints, behind: Ints, stops: Ints) -> None:
    """Go on in lanes where two bytes did not tell how far."""
    long = np.flatnonzero((behind == at) & (behind < stops))
    if long.size:
        length, body = raw_varints(data, at[long])
        behind[long] = np.minimum(body + (length >> 1), stops[long])


def _guesses(data: Bytes, begins: Ints, ends: Ints, total: int) -> Ints:
    """Places in the middle of long batches at which a record seems to begin."""
    size = int(ends[-1] - begins[0])
    span = max(size // _LANES, size * _RECORDS // total)
    window = min(_WIDE * size // total, span)
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
