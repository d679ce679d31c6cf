"""Rebuilds groups and offsets from the records of `__consumer_offsets`.

The results are values; the coordinator makes groups of them in its own thread. A transaction is open, and its offsets
pending, until its marker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final

import attrs

from pylogbroker.coordinators import EventQueue, TopicPartition
from pylogbroker.errors import CorruptRecords
from pylogbroker.features import on_first_use
from pylogbroker.groups import record_schema
from pylogbroker.groups.classic.group import Group as ClassicGroup
from pylogbroker.groups.classic.member import Member
from pylogbroker.groups.classic.states import GroupState
from pylogbroker.groups.consumer import record_schema as consumer_schema
from pylogbroker.groups.consumer.replay import ReplayedConsumerGroups
from pylogbroker.groups.kinds import Group
from pylogbroker.groups.offsets import GroupOffsets
from pylogbroker.groups.record_schema import GroupMetadataKey, GroupMetadataValue, MemberMetadata, OffsetCommitKey
from pylogbroker.groups.requests import CommittedOffset
from pylogbroker.groups.share import record_schema as share_schema
from pylogbroker.groups.share.replay import ReplayedShareGroups
from pylogbroker.records import Record
from pylogbroker.wire.versioned_messages import version_of

if TYPE_CHECKING:
    from pylogbroker.groups.streams import replay as streams_replay
    from pylogbroker.groups.streams.replay import ReplayedStreamsGroups
else:
    streams_replay = on_first_use("pylogbroker.groups.streams.replay")

_OF_STREAMS_GROUPS: Final = range(17, 24)
"""Versions of the keys of groups of Kafka Streams."""


@attrs.define(eq=False, repr=False)
class ReplayedGroups:
    """Groups and offsets of a partition.

    `transactions`: open ones by producer id, with the groups of their pending offsets.
    `deleted_partitions`: their topics were deleted during the replay.
    """

    transactions: dict[int, set[str]] = attrs.field(factory=dict, init=False)
    deleted_partitions: set[TopicPartition] = attrs.field(factory=set, init=False)
    _groups: dict[str, GroupMetadataValue] = attrs.field(factory=dict, init=False)
    _consumers: ReplayedConsumerGroups = attrs.field(factory=ReplayedConsumerGroups, init=False)
    _shares: ReplayedShareGroups = attrs.field(factory=ReplayedShareGroups, init=False)
    _offsets: dict[str, GroupOffsets] = attrs.field(factory=dict, init=False)
    _has_streams: bool = attrs.field(default=False, init=False)

    @cached_property
    def _streams(self) -> ReplayedStreamsGroups:
        return streams_replay.ReplayedStreamsGroups()

    def apply(self, record: Record, producer_id: int | None) -> None:
        key = None if record.key is None else record_schema.decode_key(record.key)
        if isinstance(key, OffsetCommitKey):
            self._apply_offset(key, record.value, producer_id)
        elif isinstance(key, GroupMetadataKey):
            self._apply_group(key, record.value)
        else:
            self._apply_assigned(record)

    def _apply_assigned(self, record: Record) -> None:
        """Apply a record of a group that brokers assign."""
        consumer_key = None if record.key is None else consumer_schema.decode_key(record.key)
        if consumer_key is not None:
            self._consumers.apply(consumer_key, record)
            return
        share_key = None if record.key is None else share_schema.decode_key(record.key)
        if share_key is not None:
            self._shares.apply(share_key, record)
            return
        is_of_streams = record.key is not None and version_of(record.key) in _OF_STREAMS_GROUPS
        if not is_of_streams or not self._streams.apply(record):
            raise CorruptRecords("the key is not of a known version")
        self._has_streams = True

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        for group_id in self.transactions.pop(producer_id, ()):
            self._offsets[group_id].end_transaction(producer_id, committed)

    def _apply_offset(self, key: OffsetCommitKey, value: bytes | None, producer_id: int | None) -> None:
        partition = key.topic, key.partition
        offset = None if value is None else record_schema.decode_offset_value(value)
        offsets = self._offsets.setdefault(key.group, GroupOffsets())
        if offset is None:
            offsets.remove([partition])
        elif producer_id is None:
            offsets.commit(partition, offset)
        else:
            offsets.commit_in_transaction(producer_id, partition, offset)
            self.transactions.setdefault(producer_id, set()).add(key.group)

    def _apply_group(self, key: GroupMetadataKey, value: bytes | None) -> None:
        if value is None:
            self._groups.pop(key.group, None)
        else:
            self._groups[key.group] = _checked(record_schema.decode_group_value(value))
            self._consumers.drop(key.group)
            if self._has_streams:
                self._streams.drop(key.group)

    def committed(self) -> dict[str, Mapping[TopicPartition, CommittedOffset]]:
        return {group_id: offsets.committed for group_id, offsets in self._offsets.items()}

    def groups(self, partition: int, events: EventQueue, now_ms: int) -> Iterator[Group]:
        """Make the groups. One with only offsets never had a member.

        A classic group that became one of KIP-848 was removed first; a record of it that is left does not count.
        """
        made = set()
        for consumer_group in self._consumers.groups(partition):
            consumer_group.offsets = self._offsets.get(consumer_group.group_id, consumer_group.offsets)
            made.add(consumer_group.group_id)
            yield consumer_group
        for share_group in self._shares.groups(partition):
            if share_group.group_id not in made:
                made.add(share_group.group_id)
                yield share_group
        if self._has_streams:
            for streams_group in self._streams.groups(partition):
                if streams_group.group_id in made:
                    continue
                streams_group.offsets = self._offsets.get(streams_group.group_id, streams_group.offsets)
                made.add(streams_group.group_id)
                yield streams_group
        for group_id, value in self._groups.items():
            if group_id not in made:
                group = _group(group_id, partition, value, events)
                group.offsets = self._offsets.get(group_id, group.offsets)
                made.add(group_id)
                yield group
        for group_id, offsets in self._offsets.items():
            if offsets and group_id not in made:
                group = ClassicGroup(group_id, partition, events, since=now_ms)
                group.offsets = offsets
                yield group


def _checked(value: GroupMetadataValue) -> GroupMetadataValue:
    if value.members and value.protocol is None:
        raise CorruptRecords("a stored group has members but no protocol")
    return value


def _group(group_id: str, partition: int, value: GroupMetadataValue, events: EventQueue) -> ClassicGroup:
    timestamp = value.current_state_timestamp
    group = ClassicGroup(
        group_id,
        partition,
        events,
        since=None if timestamp == record_schema.UNKNOWN_TIME else timestamp,
        state=GroupState.STABLE if value.members else GroupState.EMPTY,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol_name=value.protocol,
        leader=value.leader,
    )
    for stored in value.members:
        group.add(_member(stored, value.protocol or ""))
    if group.leader not in group.members:
        group.leader = next(iter(group.members), None)
    group.update_subscriptions()
    return group


def _member(stored: MemberMetadata, protocol: str) -> Member:
    return Member(
        stored.member_id,
        stored.group_instance_id,
        stored.client_id,
        stored.client_host,
        stored.session_timeout,
        stored.rebalance_timeout,
        ((protocol, stored.subscription),),
        assignment=stored.assignment,
    )
