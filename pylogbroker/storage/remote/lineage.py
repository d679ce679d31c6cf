"""Chooses remote segments by the leader epochs of a log (KIP-405).

Leaders copy independently of each other, so that segments overlap. A leader that was deposed may copy on for a while.
A segment counts as far as its leader epochs are those of the log: both have the same records there.

```
log's epochs       0                    2             3
segments           [ 0 ]  [ 0      ]                     of the leader of epoch 0
                          [ 0      : 1        ]          the same leader, and another one that is unknown to the log
                               [ 0      2    ]           of the leader of epoch 2
pieces             [ 0 ]  [ 0      ][ 0  2    ]
```
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter, itemgetter

import attrs

from pylogbroker.storage.remote.manifest import Epochs, RemoteSegment

_start = itemgetter(1)
_first = attrgetter("first_offset")


@attrs.frozen
class SegmentPiece:
    """Part of a remote segment that belongs to a log: the offsets from `first_offset` to before `end_offset`."""

    segment: RemoteSegment
    first_offset: int
    end_offset: int


Pieces = tuple[SegmentPiece, ...]


def agreed_end(segment: RemoteSegment, epochs: Epochs, log_start: int) -> int:
    """Return the offset up to which a segment has the records of a log, by the log's epochs from its start on.

    It is at most the first offset that counts if they differ from the beginning.
    """
    first = max(segment.base_offset, log_start)
    theirs, ours = (
        epochs_between(segment.epochs, first, segment.end_offset),
        epochs_between(epochs, first, segment.end_offset),
    )
    for mine, other in zip(ours, theirs, strict=False):
        if mine != other:
            return min(mine[1], other[1])
    both = min(len(ours), len(theirs))
    rest = ours[both:] or theirs[both:]
    return rest[0][1] if rest else segment.end_offset


def epochs_between(epochs: Epochs, first: int, end: int) -> Epochs:
    """Return the epochs between two offsets; -1 stands for an unknown one at the beginning."""
    slot = bisect_right(epochs, first, key=_start) - 1
    begin = (epochs[slot][0] if slot >= 0 else -1, first)
    return (begin, *(entry for entry in epochs[slot + 1 :] if entry[1] < end))


def choose(segments: Iterable[RemoteSegment], epochs: Epochs, log_start: int) -> Pieces:
    """Return the pieces that cover as much of a log as possible from its start on, in order, without overlaps."""
    useful = sorted(
        ((max(segment.base_offset, log_start), end, segment) for segment in segments
         if (end := agreed_end(segment, epochs, log_start)) > max(segment.base_offset, log_start)),
        key=itemgetter(0),
    )  # fmt: skip
    pieces: list[SegmentPiece] = []
    position, at = log_start, 0
    while at < len(useful):
        if useful[at][0] > position:  # a gap
            position = useful[at][0]
        best = None
        while at < len(useful) and useful[at][0] <= position:
            if best is None or useful[at][1] > best[1]:
                best = useful[at]
            at += 1
        if best is not None and best[1] > position:
            pieces.append(SegmentPiece(best[2], position, best[1]))
            position = best[1]
    return tuple(pieces)


def contiguous_end(pieces: Pieces, first: int) -> int:
    """Return the offset up to which the pieces have all from `first` on; `first` if they do not have it."""
    end = first
    for piece in pieces[max(bisect_right(pieces, first, key=_first) - 1, 0) :]:
        if not piece.first_offset <= end < piece.end_offset:
            if piece.first_offset > end:
                break
            continue
        end = piece.end_offset
    return end


def find(pieces: Sequence[SegmentPiece], offset: int) -> int | None:
    """Return the number of the piece with an offset, or None."""
    slot = bisect_right(pieces, offset, key=_first) - 1
    return slot if slot >= 0 and offset < pieces[slot].end_offset else None
