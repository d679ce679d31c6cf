"""Search over partitions of a topic, merged by time, then partition and offset.

Within a partition, records keep the order of the log. Of several partitions, the record comes first that is the newest,
or the oldest. A record is known to come next once no other partition can have one before it: the times where the other
cursors stand say so.

    search = await TopicSearch.opened(visitor, request)
    while not search.is_done:
        rows = await search.advance(50)     # some blocks, and the records that are certain then
    search.positions                        # to go on from
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs
from twisted.internet.defer import FirstError, gatherResults

from pylogbroker.conditions import Subject
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.image import NO_LEADER
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.offsets import offsets_at
from pylogbroker.web.partition_logs import PartitionLog, open_logs
from pylogbroker.web.record_search.cursor import PartitionCursor
from pylogbroker.web.record_search.decoding import RegionDecoder
from pylogbroker.web.record_search.selection import Selection
from pylogbroker.web.responsible_brokers import leader_of
from pylogbroker.web.visitors import Visitor

PARTITIONS_MAX: Final = 64
_CURSORS_AT_ONCE: Final = 3
_FOUND_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes of all records that wait until they are next."""


@attrs.frozen
class StartPoint:
    """Place where a search begins: an offset, or a time in milliseconds; without both, an end of the log."""

    offset: int | None = None
    time_ms: int | None = None


@attrs.frozen
class SearchRequest:
    """`partitions` are all of the topic if there are none; `positions` are those of an earlier search."""

    topic: str
    selection: Selection = attrs.field(factory=Selection)
    partitions: Sequence[int] = ()
    is_newest_first: bool = True
    start: StartPoint = attrs.field(factory=StartPoint)
    positions: Mapping[int, int] = attrs.field(factory=dict)
    floors: Mapping[int, int] = attrs.field(factory=dict)
    """Offsets by partition below which nothing is searched."""
    rows_max: int = 200


@attrs.define(eq=False, repr=False)
class TopicSearch:
    """Cursors of partitions; `problems` name the partitions that are missing, and why."""

    _visitor: Visitor
    request: SearchRequest
    _cursors: Sequence[PartitionCursor]
    _problems: Sequence[str]
    total: int
    """Offsets that the search covers, those before its positions included."""
    _decoder: RegionDecoder | None = None

    @classmethod
    async def opened(cls, visitor: Visitor, request: SearchRequest) -> TopicSearch:
        """Raise KafkaError if no partition can be searched."""
        logs, problems = await open_partitions(visitor, request.topic, request.partitions)
        bounds = await _bounds(visitor, request, logs)
        total = sum(max(0, high - low) for low, high in bounds.values())
        runtime, store = visitor.services.runtime, visitor.schemas
        decoder = None if store is None else RegionDecoder(store, request.topic, runtime.in_thread)
        cursors = []
        for log in logs:
            low, high = bounds[log.index]
            low = max(low, request.floors.get(log.index, low))
            at = request.positions.get(log.index)
            if at is not None:
                low, high = (low, min(at, high)) if request.is_newest_first else (max(at, low), high)
            bytes_max = _FOUND_BYTES_MAX // len(logs)
            is_newest_first, rows_max = request.is_newest_first, request.rows_max
            cursors.append(
                PartitionCursor(log, request.selection, is_newest_first, low, high, rows_max, bytes_max, decoder)
            )
        return cls(visitor, request, cursors, problems, total, decoder)

    @property
    def is_done(self) -> bool:
        return not any(cursor.left or cursor.pending for cursor in self._cursors)

    @property
    def looked_at(self) -> int:
        """Offsets that were looked at, also by earlier searches that this one goes on."""
        return max(0, self.total - sum(cursor.left for cursor in self._cursors))

    @property
    def time(self) -> int | None:
        """Time up to which all partitions were searched; None before that is known."""
        unfinished = [cursor for cursor in self._cursors if cursor.left]
        if not unfinished or not all(cursor.has_begun for cursor in unfinished):
            return None
        times = [cursor.time for cursor in unfinished]
        return max(times) if self.request.is_newest_first else min(times)

    @property
    def positions(self) -> dict[int, int]:
        """Offsets to go on from by partition, for all records that `advance` has not returned."""
        return {cursor.partition: cursor.position for cursor in self._cursors}

    @property
    def ends(self) -> dict[int, int]:
        """High watermarks by partition."""
        return {cursor.partition: cursor.log.high_watermark for cursor in self._cursors}

    @property
    def left(self) -> int:
        """Number of offsets that were not looked at."""
        return sum(cursor.left + len(cursor.pending) for cursor in self._cursors)

    @property
    def problems(self) -> list[str]:
        damages = [damage for cursor in self._cursors for damage in cursor.damages]
        return [*self._problems, *damages, *(self._decoder.problems if self._decoder is not None else ())]

    async def advance(self, rows_max: int) -> list[Subject]:
        """Search some blocks; return records that come next, `rows_max` at most."""
        rows = self._next_records(rows_max)
        if rows:
            return rows
        await self._advance_cursors()
        return self._next_records(rows_max)

    async def _advance_cursors(self) -> None:
        """Search one block of the cursors that hold up the others: while one reads, another one decodes."""
        waiting = sorted((cursor for cursor in self._cursors if cursor.left and not cursor.pending), key=self._place)
        chosen = [cursor for cursor in waiting if not cursor.has_begun] or waiting[:_CURSORS_AT_ONCE]
        runtime = self._visitor.services.runtime
        works = [runtime.slices.start(cursor.advance(runtime.in_reading_thread)) for cursor in chosen]
        try:
            await gatherResults(works, consumeErrors=True)
        except FirstError as error:  # of one partition, or the viewer has gone
            raise error.subFailure.value or error from None

    def _next_cursor(self) -> PartitionCursor | None:
        """Return the cursor whose records hold up the others."""
        waiting = [cursor for cursor in self._cursors if cursor.left and not cursor.pending]
        return min(waiting, key=self._place, default=None)

    def _next_records(self, rows_max: int) -> list[Subject]:
        rows: list[Subject] = []
        while len(rows) < rows_max:
            waiting = self._next_cursor()
            ready = [cursor for cursor in self._cursors if cursor.pending]
            if not ready:
                break
            first = min(ready, key=self._place)
            if waiting is not None and self._place(waiting) < self._place(first):
                break
            rows.append(first.pending.popleft())
        return rows

    def _place(self, cursor: PartitionCursor) -> tuple[int, int]:
        """Return what orders cursors by their next record, or by where they stand."""
        time = cursor.pending[0].time if cursor.pending else cursor.time
        return (-time if self.request.is_newest_first else time), cursor.partition


async def open_partitions(visitor: Visitor, topic: str, indexes: Sequence[int]) -> tuple[list[PartitionLog], list[str]]:
    """Return the logs of partitions, all by default, and why others are missing; raise KafkaError if all are."""
    visitor.check(AclOperation.READ, AclResourceType.TOPIC, topic)
    partitions = visitor.services.metadata.require_topic(topic).partitions
    for index in indexes:
        if index not in partitions:
            what = f"{topic} has no partition {index}: it has {len(partitions)}, from 0 on"
            raise KafkaError(what, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    chosen = sorted(indexes or partitions)
    leaders: dict[int, list[int]] = {}
    problems: list[str] = []
    for index in chosen[:PARTITIONS_MAX]:
        if partitions[index].leader == NO_LEADER:
            problems.append(f"Partition {index} has no leader now: its records are missing here.")
        else:
            leaders.setdefault(leader_of(visitor, topic, index), []).append(index)
    if len(chosen) > PARTITIONS_MAX:
        problems.append(
            f"The first {PARTITIONS_MAX} of {len(chosen)} partitions are searched: choose others by number."
        )
    logs: list[PartitionLog] = []
    failure: KafkaError | None = None
    for led in leaders.values():
        try:
            logs += await open_logs(visitor, topic, led)
        except KafkaError as error:
            failure = error
            problems.append(f"{_named(led)} missing here: {error.detail}.")
    if failure is not None and not logs:
        raise failure
    return sorted(logs, key=lambda log: log.index), problems


def _named(indexes: Sequence[int]) -> str:
    names = ", ".join(map(str, indexes))
    return f"Partition {names} is" if len(indexes) == 1 else f"Partitions {names} are"


async def _bounds(visitor: Visitor, request: SearchRequest, logs: Sequence[PartitionLog]) -> dict[int, tuple[int, int]]:
    """Return the offsets that a search covers by partition."""
    selection, start = request.selection, request.start
    keys = [(log.topic, log.index) for log in logs]
    since = await offsets_at(visitor, keys, selection.since_ms) if selection.since_ms >= 0 else {}
    until = await offsets_at(visitor, keys, selection.until_ms) if selection.until_ms >= 0 else {}
    started = await offsets_at(visitor, keys, start.time_ms) if start.time_ms is not None else {}
    bounds = {}
    for log in logs:
        key, low, high = (log.topic, log.index), log.log_start_offset, log.high_watermark
        for places, is_low in ((since, True), (until, False), (started, not request.is_newest_first)):
            if key in places:
                place = high if places[key] < 0 else places[key]  # no record is as new
                low, high = (max(low, place), high) if is_low else (low, min(high, place))
        if start.offset is not None:
            is_newest_first = request.is_newest_first
            low, high = (low, min(high, start.offset + 1)) if is_newest_first else (max(low, start.offset), high)
        bounds[log.index] = low, max(low, high)
    return bounds
