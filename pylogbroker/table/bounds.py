"""Bounds of a read: users' starts and ends, and the offsets that they mean.

| bound                                  | start                          | end, exclusive                 |
|----------------------------------------|--------------------------------|--------------------------------|
| "earliest", "latest"                   | log start; end now             | log start; end now             |
| 1000                                   | offset, in each partition      | offset, in each partition      |
| -1000                                  | so many before the end         | so many before the end         |
| {0: 1000, 3: "earliest"}               | by partition; others not read  | by partition; others: latest   |
| datetime with an offset from UTC       | first record as late           | first record as late           |
| "2023-11-14T22:13:20Z", "2023-11-14"   | the same                       | the same                       |
| "12h", timedelta(hours=12)             | so long ago                    | so long ago                    |

A time without a record as late means the end. An end beyond the end of a partition means its end: a read is bounded by
the records that exist when it begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import Final, TypeAlias

import attrs

from pylogbroker.config import times
from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.java.text import is_digits
from pylogbroker.table.errors import RecordsDeleted
from pylogbroker.wire.messages.list_offsets import EARLIEST, LATEST

_NAMED: Final = {"earliest": EARLIEST, "latest": LATEST}
_OFFSET_MAX: Final = (1 << 63) - 1

Point: TypeAlias = int | str | datetime | timedelta
Bound: TypeAlias = Point | Mapping[int, Point]
Lookup: TypeAlias = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, int]]
"""Returns the first offset at or after each time in ms, -1 without one; EARLIEST and LATEST are times, too."""


@attrs.frozen
class ReadRange:
    """Offsets [start, end) of a partition."""

    partition: int
    start: int
    end: int
    may_begin_later: bool = False
    """No offset was named as the start: records that are deleted before the read are not missed."""

    def __len__(self) -> int:
        return max(0, self.end - self.start)


@attrs.frozen
class _At:
    """A point of one partition: an offset, one before the end if negative, or else a time in ms."""

    offset: int | None = None
    time: int | None = None


def ranges_of(lookup: Lookup, topic: str, partitions: Collection[int], start: Bound, end: Bound) -> list[ReadRange]:
    """Return what is to be read of each partition; raise ConfigError or RecordsDeleted."""
    starts, ends = _points("start", start, partitions), _points("end", end, partitions)
    chosen = sorted(starts if isinstance(start, Mapping) else partitions)
    keys = [(topic, partition) for partition in chosen]
    first = {key[1]: offset for key, offset in lookup(dict.fromkeys(keys, EARLIEST)).items()}
    last = {key[1]: offset for key, offset in lookup(dict.fromkeys(keys, LATEST)).items()}
    at = _times(lookup, topic, {partition: starts[partition] for partition in chosen}, last)
    until = _times(lookup, topic, {partition: ends.get(partition, _At(time=LATEST)) for partition in chosen}, last)
    ranges = []
    for partition in chosen:
        begin = at[partition]
        named = starts[partition].offset
        if named is not None and 0 <= named < first[partition]:
            raise RecordsDeleted(
                f"{topic}/{partition} begins at offset {first[partition]}, not at {named}: older records were deleted;"
                ' start="earliest" reads from where it begins'
            )
        begin = max(begin, first[partition])
        ranges.append(
            ReadRange(partition, begin, max(begin, min(until[partition], last[partition])), named is None or named < 0)
        )
    _check_order(topic, start, end, chosen, at, until, last)
    return ranges


def _points(name: str, bound: Bound, partitions: Collection[int]) -> dict[int, _At]:
    if not isinstance(bound, Mapping):
        return dict.fromkeys(partitions, _point(name, bound))
    for partition in bound:
        if isinstance(partition, bool) or not isinstance(partition, int) or partition not in partitions:
            raise ConfigError(
                f"{name}: there is no partition {partition!r} to read; expected {_listed(sorted(partitions))}"
            )
    return {partition: _point(name, point) for partition, point in bound.items()}


def _listed(numbers: Collection[int]) -> str:
    ordered = list(numbers)
    if ordered == list(range(len(ordered))) and len(ordered) > 2:
        return f"0 to {len(ordered) - 1}"
    return ", ".join(map(str, ordered)) or "none"


def _point(name: str, point: Point) -> _At:
    if isinstance(point, timedelta):
        return _At(time=max(0, time.time_ns() // 1_000_000 - point // timedelta(milliseconds=1)))
    if isinstance(point, int) and not isinstance(point, bool):
        if abs(point) > _OFFSET_MAX:
            raise ConfigError(f"{name}: {point} is no offset: it exceeds 64 bits")
        return _At(offset=point)
    if isinstance(point, str):
        text = point.strip().lower()
        if text in _NAMED:
            return _At(time=_NAMED[text])
        if is_digits(text.removeprefix("-")):
            raise ConfigError(f"{name}: {point!r} may be an offset or a time: give a number for an offset")
    elif not isinstance(point, datetime):
        raise ConfigError(
            f'{name}: {point!r} is not accepted; expected "earliest", "latest", an offset, a time such as'
            ' "2023-11-14T22:13:20Z" or "12h" (ago), a datetime, or one of these for each partition'
        )
    return _At(time=max(0, times.milliseconds(name, point) or 0))


def _times(lookup: Lookup, topic: str, points: Mapping[int, _At], last: Mapping[int, int]) -> dict[int, int]:
    """Return the offset of each point."""
    times_ms = {(topic, partition): at.time for partition, at in points.items() if at.time is not None}
    offsets = {key[1]: offset for key, offset in lookup(times_ms).items()} if times_ms else {}
    for partition, at in points.items():
        if at.offset is not None:
            offsets[partition] = at.offset if at.offset >= 0 else max(0, last[partition] + at.offset)
        elif offsets[partition] < 0:
            offsets[partition] = last[partition]
    return offsets


def _check_order(
    topic: str,
    start: Bound,
    end: Bound,
    partitions: Collection[int],
    at: Mapping[int, int],
    until: Mapping[int, int],
    last: Mapping[int, int],
) -> None:
    """Raise ConfigError for an end before its start, and for a start that no partition has yet."""
    for partition in partitions:
        if at[partition] > until[partition] and until[partition] < last[partition]:
            raise ConfigError(
                f"{topic}/{partition}: the end {end!r} is offset {until[partition]}, before the start {start!r},"
                f" offset {at[partition]}: there are no records between them"
            )
    if partitions and all(at[partition] > last[partition] for partition in partitions):
        ends = ", ".join(f"{topic}/{partition} ends at {last[partition]}" for partition in list(partitions)[:10])
        raise ConfigError(f"start: there is no offset {start!r} yet: {ends}")
