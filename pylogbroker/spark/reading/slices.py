"""Divide offset ranges into slices for tasks; pure functions.

    log       0 ........ start ============================== end ..... latest
    limited                   ==================|             maximum of a micro-batch, divided by remaining offsets
    slices                    |=====|=====|=====|             maximum offsets each, or minimum number of slices

The rules are those of Spark's own source: a job has the same tasks. If slices of `maxRecordsPerPartition` are fewer
than `minPartitions`, long ones are divided by length.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

import attrs

from pylogbroker.interfaces import TopicPartition

Offsets = Mapping[TopicPartition, int]


@attrs.frozen(order=True)
class Slice:
    """Offsets [start, end)."""

    topic: str
    partition: int
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


def slices(start: Offsets, end: Offsets) -> list[Slice]:
    return [Slice(*key, start[key], until) for key, until in sorted(end.items()) if until > start[key]]


def divide(whole: Iterable[Slice], least: int | None, longest: int | None) -> list[Slice]:
    """Divide slices into parts of at most `longest` offsets, and about `least` in total."""
    parts = [part for piece in whole for part in _parts(piece, -(-len(piece) // longest) if longest else 1)]
    if least is None or len(parts) >= least or not parts:
        return parts
    total = sum(map(len, parts))
    short = [part for part in parts if _share(part, total, least) == 1]
    partitions = {(part.topic, part.partition) for part in short}
    left, many = total - sum(map(len, short)), max(least - len(short), 1)
    return [
        part
        for piece in parts
        for part in _parts(piece, 1 if (piece.topic, piece.partition) in partitions else _share(piece, left, many))
    ]


def _share(piece: Slice, total: int, count: int) -> int:
    return max(1, (2 * count * len(piece) + total) // (2 * total))


def _parts(piece: Slice, count: int) -> list[Slice]:
    count = min(count, len(piece))
    length, longer = divmod(len(piece), count)
    bounds = [piece.start + length * number + max(0, number + longer - count) for number in range(count + 1)]
    return [attrs.evolve(piece, start=start, end=end) for start, end in pairwise(bounds)]


def limited(start: Offsets, end: Offsets, most: int) -> dict[TopicPartition, int]:
    """Return the ends of a micro-batch of about `most` offsets, shared in proportion to the rest.

    Shares are at least 1: a partition with few records must not wait for one with many.
    """
    left = {key: max(0, until - start[key]) for key, until in end.items()}
    total = sum(left.values())
    if total <= most:
        return {key: start[key] + size for key, size in left.items()}
    return {key: start[key] + min(size, max(1, most * size // total)) for key, size in left.items()}
