"""What a task reads: partitions' offsets divided into slices. Values in, values out.

    log       0 ........ start ============================== end ..... latest
    limited                   ==================|             about so many for a micro-batch, by how much is left
    slices                    |=====|=====|=====|             at most so many offsets each, or about so many slices

All of it as Spark's own source has it, so that a job has the same tasks: no slice is longer than
`maxRecordsPerPartition`; if there are still fewer than `minPartitions`, the long ones are divided by their length.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

import attrs

from pylogbroker.interfaces import TopicPartition

Offsets = Mapping[TopicPartition, int]


@attrs.frozen(order=True)
class Slice:
    """The offsets of one partition from `start` to before `end`."""

    topic: str
    partition: int
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


def slices(start: Offsets, end: Offsets) -> list[Slice]:
    """One for each partition in which there is something between the two, in order."""
    return [Slice(*key, start[key], until) for key, until in sorted(end.items()) if until > start[key]]


def divide(whole: Iterable[Slice], least: int | None, longest: int | None) -> list[Slice]:
    """The slices in parts: none longer than `longest` offsets, and about `least` of them."""
    parts = [part for each in whole for part in _parts(each, -(-len(each) // longest) if longest else 1)]
    if least is None or len(parts) >= least or not parts:
        return parts
    total = sum(map(len, parts))
    short = [each for each in parts if _share(each, total, least) == 1]
    partitions = {(each.topic, each.partition) for each in short}
    left, many = total - sum(map(len, short)), max(least - len(short), 1)
    return [
        part
        for each in parts
        for part in _parts(each, 1 if (each.topic, each.partition) in partitions else _share(each, left, many))
    ]


def _share(each: Slice, total: int, count: int) -> int:
    """How many of `count` parts of the whole lie in a slice, rounded, and at least one."""
    return max(1, (2 * count * len(each) + total) // (2 * total))


def _parts(each: Slice, count: int) -> list[Slice]:
    """Parts of the same length, or for the last ones one more; none is empty."""
    count = min(count, len(each))
    length, longer = divmod(len(each), count)
    bounds = [each.start + length * number + max(0, number + longer - count) for number in range(count + 1)]
    return [attrs.evolve(each, start=start, end=end) for start, end in pairwise(bounds)]


def limited(start: Offsets, end: Offsets, most: int) -> dict[TopicPartition, int]:
    """Where a micro-batch of about `most` offsets ends: each partition gets its share of them, by how much it has.

    Shares are rounded down, but none to nothing: a partition with little in it is not to wait for one with much.
    """
    left = {key: max(0, until - start[key]) for key, until in end.items()}
    total = sum(left.values())
    if total <= most:
        return {key: start[key] + size for key, size in left.items()}
    return {key: start[key] + min(size, max(1, most * size // total)) for key, size in left.items()}
