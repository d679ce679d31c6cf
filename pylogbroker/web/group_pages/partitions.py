"""Partitions that a group reads: those with an offset, and the others of its members and of its topics.

A partition without a commit has the lag from its first offset on, and is counted apart: where a consumer begins is its
own setting, auto.offset.reset.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping

import attrs

from pylogbroker.web.described_groups import DescribedMember, GroupDescription, Reconciliation
from pylogbroker.web.group_offsets import Committed, ends_of
from pylogbroker.web.offsets import Key, known_starts
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.consumer_protocol import PROTOCOL_TYPE


@attrs.frozen
class ShownMember:
    """A member; `partitions` is None if its assignment is not a consumer's, `heard_ms` if another broker knows."""

    id: str
    instance: str | None
    client: str
    host: str
    partitions: tuple[Key, ...] | None
    heard_ms: int | None
    reconciliation: Reconciliation | None = None

    @property
    def name(self) -> str:
        """Short name: the static id, or what the client calls itself."""
        return self.instance or self.client or self.id

    @property
    def by_topic(self) -> list[tuple[str, str]]:
        """Return topics with their partitions, of which those that follow each other are one range."""
        return ranges_by_topic(self.partitions or ())

    @property
    def to_revoke(self) -> list[tuple[str, str]]:
        """Return partitions that the member has, but not in the target assignment."""
        reconciliation = self.reconciliation
        target = None if reconciliation is None else {*reconciliation.target}
        return ranges_by_topic([key for key in self.partitions or () if target is not None and key not in target])

    @property
    def awaited(self) -> list[tuple[str, str]]:
        """Return partitions of the target assignment that the member does not have yet."""
        held = {*(self.partitions or ())}
        reconciliation = self.reconciliation
        return ranges_by_topic([key for key in (reconciliation.target if reconciliation else ()) if key not in held])


@attrs.frozen
class GroupPartition:
    """A partition; without a commit, `offset` is its first one. `lag` is negative for an offset beyond the end."""

    topic: str
    index: int
    offset: int | None
    end: int | None
    has_commit: bool
    member: ShownMember | None
    commit_ms: int | None = None
    metadata: str = ""
    behind_ms: int | None = None
    is_behind_more: bool = False

    @property
    def lag(self) -> int | None:
        return None if self.offset is None or self.end is None else self.end - self.offset


def ranges_by_topic(partitions: Iterable[Key]) -> list[tuple[str, str]]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return [(topic, ranges_text(indexes)) for topic, indexes in topics.items()]


def ranges_text(indexes: list[int]) -> str:
    """Return sorted numbers, of which 0, 1, 2 are "0 to 2"."""
    ranges: list[list[int]] = []
    for index in indexes:
        if ranges and ranges[-1][-1] == index - 1:
            ranges[-1].append(index)
        else:
            ranges.append([index])
    return ", ".join(f"{some[0]} to {some[-1]}" if len(some) > 2 else ", ".join(map(str, some)) for some in ranges)


async def members_of(visitor: Visitor, group: GroupDescription) -> list[ShownMember]:
    heartbeats = visitor.services.groups.heartbeats(group.id)
    over = visitor.services.runtime.slices.over
    return [_member(member, heartbeats.get(member.id)) async for member in over(group.members)]


def _member(member: DescribedMember, heard_ms: int | None) -> ShownMember:
    host = member.host.removeprefix("/")
    return ShownMember(
        member.id, member.instance, member.client, host, member.partitions, heard_ms, member.reconciliation
    )


async def partitions_of(
    visitor: Visitor, group: GroupDescription, committed: Committed, members: list[ShownMember]
) -> list[GroupPartition]:
    """Return the partitions of a group in order."""
    slices = visitor.services.runtime.slices
    holders = {key: member for member in members for key in member.partitions or ()}
    keys = await slices.in_order([key async for key in _keys(visitor, group, committed, holders)])
    ends = await ends_of(visitor, keys)
    starts = await known_starts(visitor, [key async for key in slices.over(keys) if key not in committed])
    return [_partition(visitor, key, committed, (starts, ends), holders.get(key)) async for key in slices.over(keys)]


async def _keys(
    visitor: Visitor, group: GroupDescription, committed: Committed, holders: Mapping[Key, ShownMember]
) -> AsyncIterator[Key]:
    """Yield each partition once; a group without members' protocol has only those with an offset."""
    over, topics = visitor.services.runtime.slices.over, visitor.services.metadata.topics
    read: dict[str, None] = {}
    async for key in over((*committed, *(key for key in holders if key not in committed))):
        read[key[0]] = None
        yield key
    for topic in read if group.protocol_type == PROTOCOL_TYPE else ():
        if topic in topics:
            async for index in over(topics[topic].partitions):
                if (topic, index) not in committed and (topic, index) not in holders:
                    yield topic, index


def _partition(
    visitor: Visitor,
    key: Key,
    committed: Committed,
    bounds: tuple[Mapping[Key, int], Mapping[Key, int]],
    holder: ShownMember | None,
) -> GroupPartition:
    starts, ends = bounds
    commit, end = committed.get(key), ends.get(key)
    offset = starts.get(key) if commit is None else commit.offset
    row = GroupPartition(*key, offset, end, commit is not None, holder)
    if commit is not None:
        row = attrs.evolve(row, commit_ms=commit.committed if commit.committed >= 0 else None, metadata=commit.metadata)
    if row.lag is None or offset is None or end is None:
        return row
    if row.lag <= 0:
        return attrs.evolve(row, behind_ms=0)
    age = visitor.samples.log_ends.age(key, offset, end, visitor.services.runtime.now_ms())
    return row if age is None else attrs.evolve(row, behind_ms=age.ms, is_behind_more=age.is_more)
