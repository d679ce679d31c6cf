"""Groups that read a topic: their lag there, and how old the oldest record is that they have not read.

In a partition without a commit, a group would begin with the first record: its lag counts from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Annotated, Any, Final

import attrs

from pylogbroker.errors import CorruptRecords, InvalidRecords, KafkaError
from pylogbroker.metadata.image import TopicImage
from pylogbroker.records import entries
from pylogbroker.web.follower_counts import FollowersNow
from pylogbroker.web.offsets import Key, known_ends, known_starts
from pylogbroker.web.paging import Paged, PageNumber, paged
from pylogbroker.web.parameters import Name
from pylogbroker.web.partition_logs import PartitionLog
from pylogbroker.web.record_rows import RecordRegion
from pylogbroker.web.record_search.batches import INFLATED_BYTES_MAX
from pylogbroker.web.record_search.search import open_partitions
from pylogbroker.web.router.values import OneOf
from pylogbroker.web.topic_pages.head import TopicPage, topic_head
from pylogbroker.web.topic_pages.readers import TopicReader, readers_of
from pylogbroker.web.visitors import Visitor

_KEYS: Final = ("group", "state", "members", "lag", "behind")
SORTS: Final = (*_KEYS, *(f"-{key}" for key in _KEYS))
Sort = Annotated[str, OneOf(SORTS), "a column; with - before it downwards"]
_LOOKUPS_MAX: Final = 256
_LOOKUP_SECONDS_MAX: Final = 0.5
"""Records whose time is looked up for a page, and how long that takes; what is left is not known."""
_NAMED_MAX: Final = 5


@attrs.frozen
class GroupOfTopic:
    """`lag` is None if no end is known, `behind_ms` if nobody has looked at the records.

    `without_commit` and `beyond` name partitions without an offset, and with one beyond the end.
    """

    id: str
    state: str
    members: int | None
    lag: int | None
    behind_ms: int | None
    is_at_least: bool
    """There are partitions whose next record was not looked at."""
    without_commit: str
    beyond: str
    unknown: int
    history: Sequence[float | None]
    growth: int | None

    @property
    def behind_kind(self) -> str:
        minutes = (self.behind_ms or 0) // 60_000
        return "bad" if minutes >= 60 else "warn" if minutes >= 5 else ""


class TopicGroupTable(TopicPage, Paged):
    rows: Sequence[GroupOfTopic]
    last: GroupOfTopic | None
    """The group that is farthest behind, if one is."""
    unknown: int
    """Groups whose lag is not known in a partition."""
    is_complete: bool
    followers: FollowersNow | None
    """Connections to this broker that follow the topic by HTTP; None without any."""


_ORDERS: Final[Mapping[str, Callable[[GroupOfTopic], Any]]] = {
    "group": lambda row: row.id,
    "state": lambda row: (row.state, row.id),
    "members": lambda row: (-1 if row.members is None else row.members, row.id),
    "lag": lambda row: -inf if row.lag is None else row.lag,
    "behind": lambda row: -1 if row.behind_ms is None else row.behind_ms,
}


async def topic_groups(visitor: Visitor, topic: Name, sort: Sort = "group", page: PageNumber = 1) -> TopicGroupTable:
    """Return the groups of all brokers that read a topic."""
    head = await topic_head(visitor, topic)
    image = visitor.services.metadata.require_topic(topic)
    reading = await readers_of(visitor, image)
    rows = await _rows(visitor, image, reading.readers)
    rows.sort(key=_ORDERS[sort.removeprefix("-")], reverse=sort.startswith("-"))
    values, shown = paged(page, sort, rows)
    behind = [row for row in rows if row.lag is not None and row.lag > 0]
    last = max(behind, key=lambda row: (row.behind_ms or 0, row.lag or 0), default=None)
    return {
        "head": attrs.evolve(head, groups=len(rows)),
        **values,
        "rows": shown,
        "last": last,
        "unknown": sum(row.unknown > 0 for row in rows),
        "is_complete": reading.is_complete,
        "followers": await _followers(visitor, topic),
    }


async def _followers(visitor: Visitor, topic: str) -> FollowersNow | None:
    if visitor.following is None:
        return None
    rows: Sequence[FollowersNow] = await visitor.services.runtime.slices.run(visitor.following.by_topic(topic))
    return next(iter(rows), None)


async def _rows(visitor: Visitor, topic: TopicImage, readers: Sequence[TopicReader]) -> list[GroupOfTopic]:
    if not readers:
        return []
    indexes = sorted(topic.partitions)
    starts, ends = await _bounds(visitor, [(topic.name, index) for index in indexes])
    over = visitor.services.runtime.slices.over
    standings = [_standing(reader, indexes, starts, ends) async for reader in over(readers)]
    times = NextTimes(visitor, topic.name, ends)
    with suppress(KafkaError):  # the visitor may not read, or no partition has a leader
        by_lag = sorted(standings, key=lambda standing: -(standing.lag or 0))
        await times.look_up([standing.waiting for standing in by_lag])
    lags = visitor.samples.group_lags
    rows = []
    async for standing in over(standings):
        reader, sees_samples = standing.reader, visitor.sees_samples_of(standing.reader.id)
        behind_ms, is_at_least = times.behind(standing.waiting)
        rows.append(
            GroupOfTopic(
                reader.id,
                reader.state,
                reader.members,
                standing.lag,
                behind_ms,
                is_at_least,
                _named(standing.without_commit),
                _named(standing.beyond),
                standing.unknown,
                lags.sparse(reader.id) if sees_samples else (),
                lags.growth_a_minute(reader.id) if sees_samples else None,
            )
        )
    return rows


@attrs.frozen
class Standing:
    """Progress of a group in a topic: `waiting` has where it reads on in partitions that have records for it."""

    reader: TopicReader
    lag: int | None
    waiting: Mapping[int, int]
    without_commit: Sequence[int]
    beyond: Sequence[int]
    """Partitions whose committed offset is beyond the end; they have no lag."""
    unknown: int


def _standing(
    reader: TopicReader, indexes: Sequence[int], starts: Mapping[int, int], ends: Mapping[int, int]
) -> Standing:
    lag, waiting = 0, dict[int, int]()
    without_commit, beyond, unknown = list[int](), list[int](), 0
    for index in indexes:
        place, end = reader.committed.get(index), ends.get(index)
        if place is None:
            without_commit.append(index)
            place = starts.get(index)
        if place is None or end is None:
            unknown += 1
        elif place < end:
            lag += end - place
            waiting[index] = max(place, starts.get(index, 0))
        elif place > end:
            beyond.append(index)
    return Standing(reader, lag if unknown < len(indexes) else None, waiting, without_commit, beyond, unknown)


async def _bounds(visitor: Visitor, keys: Sequence[Key]) -> tuple[dict[int, int], dict[int, int]]:
    """Return first offsets and high watermarks by partition; unknown ones are left out."""
    hosted = visitor.services.partitions.hosted
    elsewhere = [key for key in keys if key not in hosted]
    starts = {index: offset for (_, index), offset in (await known_starts(visitor, elsewhere)).items()}
    ends = {index: offset for (_, index), offset in (await known_ends(visitor, elsewhere)).items()}
    for key in keys:
        if key in hosted:
            log = hosted[key].log
            starts[key[1]], ends[key[1]] = log.log_start_offset, log.high_watermark
    return starts, ends


def _named(indexes: Sequence[int]) -> str:
    shown = ", ".join(map(str, indexes[:_NAMED_MAX]))
    return shown + (f" and {len(indexes) - _NAMED_MAX:,} more" if len(indexes) > _NAMED_MAX else "")


@attrs.define(eq=False, repr=False)
class NextTimes:
    """Times of the records that groups read next, by partition and offset."""

    _visitor: Visitor
    _topic: str
    _ends: Mapping[int, int]
    _times: dict[tuple[int, int], int] = attrs.field(factory=dict, init=False)

    async def look_up(self, waiting: Sequence[Mapping[int, int]]) -> None:
        """Look at the next records of groups, within bounds; raise KafkaError if none can be read."""
        next_places: dict[tuple[int, int], None] = {}
        for places in waiting:
            next_places |= dict.fromkeys(places.items())
            if len(next_places) >= _LOOKUPS_MAX:
                break
        if not next_places:
            return
        logs, _ = await open_partitions(self._visitor, self._topic, sorted({index for index, _ in next_places}))
        by_index = {log.index: log for log in logs}
        clock = self._visitor.services.runtime.clock
        began = clock.seconds()
        for index, offset in [*next_places][:_LOOKUPS_MAX]:
            if clock.seconds() - began > _LOOKUP_SECONDS_MAX:
                return
            if index in by_index:
                time = await self._time(by_index[index], offset)
                if time is not None:
                    self._times[index, offset] = time

    async def _time(self, log: PartitionLog, offset: int) -> int | None:
        region = await log.region_at(offset, self._ends[log.index], 1)
        if region is None:
            return None
        time: int | None = await self._visitor.services.runtime.in_reading_thread(_time_from, region, offset)
        return time

    def behind(self, places: Mapping[int, int]) -> tuple[int | None, bool]:
        """Return the age of the oldest of some records, and whether others were not looked at."""
        times = [self._times[place] for place in places.items() if place in self._times]
        if not places:
            return 0, False
        if not times:
            return None, False
        return max(0, self._visitor.services.runtime.now_ms() - min(times)), len(times) < len(places)


def _time_from(region: RecordRegion, offset: int) -> int | None:
    """Return the time of the first record from an offset on, None if it cannot be read. Blocks."""
    try:
        for entry in entries(region.read(), partial=True):
            if entry.last_offset >= offset:
                if entry.is_control:
                    return entry.max_timestamp
                later = (record for record in entry.records(INFLATED_BYTES_MAX) if record.offset >= offset)
                return next((record.timestamp for record in later), entry.max_timestamp)
    except (CorruptRecords, InvalidRecords):
        return None
    return None
