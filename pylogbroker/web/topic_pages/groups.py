"""Groups that read a topic: their lag there, and how old the oldest record is that they have not read.

A group reads a topic if it has committed an offset there, or a member that partitions of it are assigned to. In a
partition without a commit, it would begin with the first record: its lag counts from there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Annotated, Any, Final

import attrs

from pylogbroker.errors import CorruptRecords, InvalidRecords, KafkaError
from pylogbroker.groups import CommittedOffset
from pylogbroker.metadata.image import TopicImage
from pylogbroker.records import entries
from pylogbroker.web.offsets import Key, known_ends, known_starts
from pylogbroker.web.paging import Paged, PageNumber, paged
from pylogbroker.web.parameters import Name
from pylogbroker.web.partition_logs import PartitionLog
from pylogbroker.web.record_rows import RecordRegion
from pylogbroker.web.record_search.batches import INFLATED_BYTES_MAX
from pylogbroker.web.record_search.search import open_partitions
from pylogbroker.web.responsible_brokers import ask_all
from pylogbroker.web.router.values import OneOf
from pylogbroker.web.topic_pages.head import TopicPage, topic_head
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire import UnsupportedVersion, WireError
from pylogbroker.wire.consumer_protocol import PROTOCOL_TYPE, decode_assignment
from pylogbroker.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from pylogbroker.wire.messages.list_groups import ListedGroup, ListGroupsRequest
from pylogbroker.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

_KEYS: Final = ("group", "state", "members", "lag", "behind")
SORTS: Final = (*_KEYS, *(f"-{key}" for key in _KEYS))
Sort = Annotated[str, OneOf(SORTS), "a column; with - before it downwards"]
_WITHOUT_MEMBERS: Final = ("Empty", "Dead")
_DESCRIBED_AT_ONCE: Final = 50
_OFFSETS_AT_ONCE: Final = 5000
_VERSION_OF_SEVERAL: Final = 8
_LOOKUPS_MAX: Final = 256
_LOOKUP_SECONDS_MAX: Final = 0.5
"""Records whose time is looked up for a page, and how long that takes; what is left is not known."""
_NAMED_MAX: Final = 5


@attrs.frozen
class Members:
    """Members of a group, and the partitions of the topic that are assigned to them."""

    count: int
    assigned: frozenset[int]


@attrs.frozen
class TopicReader:
    """A group that reads the topic, with its committed offsets there."""

    id: str
    state: str
    members: int | None
    committed: Mapping[int, int]


@attrs.frozen
class GroupOfTopic:
    """`lag` is None if no end is known, `behind_ms` if nobody has looked at the records."""

    id: str
    state: str
    members: int | None
    lag: int | None
    behind_ms: int | None
    is_at_least: bool
    """There are partitions whose next record was not looked at."""
    without_commit: str
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
    is_complete: bool


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
    readers, is_complete = await readers_of(visitor, image)
    rows = await _rows(visitor, image, readers)
    rows.sort(key=_ORDERS[sort.removeprefix("-")], reverse=sort.startswith("-"))
    values, shown = paged(page, sort, rows)
    behind = [row for row in rows if row.lag is not None and row.lag > 0]
    last = max(behind, key=lambda row: (row.behind_ms or 0, row.lag or 0), default=None)
    return {
        "head": attrs.evolve(head, groups=len(rows)),
        **values,
        "rows": shown,
        "last": last,
        "is_complete": is_complete,
    }


async def readers_of(visitor: Visitor, topic: TopicImage) -> tuple[list[TopicReader], bool]:
    """Return the groups that read a topic, and whether all brokers have answered."""
    readers, is_complete = list[TopicReader](), True
    for broker_id, answer in (await ask_all(visitor, ListGroupsRequest())).items():
        if answer is None or answer.error_code:
            is_complete = False
            continue
        listed: dict[str, ListedGroup] = {group.group_id: group for group in answer.groups}
        committed = await _committed(visitor, broker_id, [*listed], topic)
        members = await _members(visitor, broker_id, listed.values(), topic.name)
        async for group_id, group in visitor.services.runtime.slices.over(listed.items()):
            group_members = members.get(group_id)
            if committed.get(group_id) or (group_members is not None and group_members.assigned):
                count = (
                    0
                    if group.group_state in _WITHOUT_MEMBERS
                    else None
                    if group_members is None
                    else group_members.count
                )
                readers.append(TopicReader(group_id, group.group_state, count, committed.get(group_id, {})))
    return readers, is_complete


async def _committed(
    visitor: Visitor, broker_id: int, ids: Sequence[str], topic: TopicImage
) -> dict[str, dict[int, int]]:
    """Return offsets by group and partition; groups whose offsets are not known are left out."""
    services, offsets = visitor.services, dict[str, dict[int, int]]()
    over = services.runtime.slices.over
    if broker_id == services.node.id:
        for group_id in ids:
            with suppress(KafkaError):
                fetched = services.groups.fetch(group_id)
                offsets[group_id] = {
                    key[1]: offset.offset
                    async for key, offset in over(fetched.offsets.items())
                    if key[0] == topic.name and key[1] in topic.partitions and isinstance(offset, CommittedOffset)
                }
        return offsets
    requested = [OffsetFetchRequestTopics(topic.name, [*topic.partitions])]
    step = max(1, _OFFSETS_AT_ONCE // len(topic.partitions))
    with suppress(KafkaError, UnsupportedVersion):
        for start in range(0, len(ids), step):
            groups = [OffsetFetchRequestGroup(group_id, topics=requested) for group_id in ids[start : start + step]]
            request = OffsetFetchRequest(groups=groups)
            for group in (await services.peers.send(broker_id, request, _VERSION_OF_SEVERAL)).groups:
                rows = [row for described in group.topics for row in described.partitions]
                offsets[group.group_id] = {
                    row.partition_index: row.committed_offset
                    async for row in over(rows)
                    if not row.error_code and row.committed_offset >= 0
                }
    return offsets


async def _members(visitor: Visitor, broker_id: int, listed: Iterable[ListedGroup], topic: str) -> dict[str, Members]:
    ids = [group.group_id for group in listed if group.group_state not in _WITHOUT_MEMBERS]
    members: dict[str, Members] = {}
    with suppress(KafkaError):
        for start in range(0, len(ids), _DESCRIBED_AT_ONCE):
            request = DescribeGroupsRequest(ids[start : start + _DESCRIBED_AT_ONCE])
            for group in (await visitor.ask(request, broker_id)).groups:
                if not group.error_code:
                    assigned = [index async for index in _assigned(visitor, group, topic)]
                    members[group.group_id] = Members(len(group.members), frozenset(assigned))
    return members


async def _assigned(visitor: Visitor, group: DescribedGroup, topic: str) -> AsyncIterator[int]:
    """Yield the partitions of a topic that are assigned to members."""
    if group.protocol_type != PROTOCOL_TYPE:
        return
    async for member in visitor.services.runtime.slices.over(group.members):
        with suppress(WireError):
            for name, index in decode_assignment(member.member_assignment) if member.member_assignment else ():
                if name == topic:
                    yield index


async def _rows(visitor: Visitor, topic: TopicImage, readers: Sequence[TopicReader]) -> list[GroupOfTopic]:
    if not readers:
        return []
    keys: list[Key] = [(topic.name, index) for index in sorted(topic.partitions)]
    starts, ends = await _bounds(visitor, keys)
    times = NextTimes(visitor, topic.name, ends)
    with suppress(KafkaError):  # the visitor may not read, or no partition has a leader
        waiting = [places for reader in readers if (places := _waiting(reader, starts, ends))]
        await times.look_up(sorted(waiting, key=lambda places: -_lag_at(places, ends)))
    lags = visitor.samples.group_lags
    rows = []
    async for reader in visitor.services.runtime.slices.over(readers):
        lag_by_partition = {index: ends[index] - at for index, at in _places(reader, starts, ends).items()}
        missing = [index for index in sorted(topic.partitions) if index not in reader.committed]
        behind_ms, is_at_least = times.behind(_waiting(reader, starts, ends))
        rows.append(
            GroupOfTopic(
                reader.id,
                reader.state,
                reader.members,
                sum(lag_by_partition.values()) if lag_by_partition else None,
                behind_ms,
                is_at_least,
                _named(missing),
                len(topic.partitions) - len(lag_by_partition),
                lags.sparse(reader.id) if visitor.sees_samples_of(reader.id) else (),
                lags.growth_a_minute(reader.id) if visitor.sees_samples_of(reader.id) else None,
            )
        )
    return rows


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


def _places(reader: TopicReader, starts: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, int]:
    """Return where a group reads on by partition: its commit, or the first offset."""
    places = {index: reader.committed.get(index, starts.get(index)) for index in ends}
    return {index: place for index, place in places.items() if place is not None}


def _waiting(reader: TopicReader, starts: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, int]:
    """Return where a group reads on in the partitions that have records for it."""
    places = _places(reader, starts, ends)
    return {index: max(place, starts.get(index, 0)) for index, place in places.items() if place < ends[index]}


def _lag_at(places: Mapping[int, int], ends: Mapping[int, int]) -> int:
    return sum(ends[index] - place for index, place in places.items())


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
        next_places = dict.fromkeys(place for places in waiting for place in places.items())
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
