"""Reading a partition of `__consumer_offsets` back: later records replace earlier ones, tombstones remove them.

What was committed in a transaction is held back until its marker comes, and dropped if that says so. Transactions that
are still open at the end stay so: their offsets are pending.

A `GroupReplay` touches nothing but itself while it replays, so another thread may do that. What results are values;
the coordinator makes groups of them, in its own thread, when everything has been replayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import attrs

from pylogbroker.coordinators import EventQueue
from pylogbroker.errors import CorruptRecords
from pylogbroker.groups import record_schema
from pylogbroker.groups.classic.group import Group
from pylogbroker.groups.classic.member import Member
from pylogbroker.groups.classic.states import GroupState
from pylogbroker.groups.offsets import GroupOffsets
from pylogbroker.groups.record_schema import GroupMetadataKey, GroupMetadataValue, MemberMetadata, OffsetCommitKey
from pylogbroker.groups.requests import CommittedOffset, TopicPartition
from pylogbroker.records import LogEntry, Record, parse_marker


@attrs.define(eq=False)
class GroupReplay:
    """What has been replayed of one partition so far. `problems` tells of records that were passed over.

    `transactions` are the open ones, by producer id: the groups that have something pending.
    `gone` are partitions that were deleted meanwhile; the coordinator keeps it, the replay does not look at it.
    """

    partition: int
    problems: list[str] = attrs.field(factory=list, init=False)
    transactions: dict[int, set[str]] = attrs.field(factory=dict, init=False)
    deleted_partitions: set[TopicPartition] = attrs.field(factory=set, init=False)
    _groups: dict[str, GroupMetadataValue] = attrs.field(factory=dict, init=False)
    _offsets: dict[str, GroupOffsets] = attrs.field(factory=dict, init=False)

    def replay(self, entries: Iterable[LogEntry]) -> None:
        """Take in the entries of the log that follow those taken in before."""
        for entry in entries:
            try:
                self._replay_entry(entry)
            except CorruptRecords as problem:
                self.problems.append(f"entry at offset {entry.base_offset}: {problem.detail}")

    def _replay_entry(self, entry: LogEntry) -> None:
        entry.check()
        if entry.is_control:
            self._replay_marker(entry)
        else:
            producer_id = entry.producer_id if entry.is_transactional else None
            for record in entry.records():
                self._replay(record, producer_id)

    def _replay_marker(self, entry: LogEntry) -> None:
        marker = parse_marker(entry)
        if marker is not None:
            for group_id in self.transactions.pop(entry.producer_id, ()):
                self._offsets[group_id].end_transaction(entry.producer_id, marker.committed)

    def _replay(self, record: Record, producer_id: int | None) -> None:
        try:
            key = None if record.key is None else record_schema.decode_key(record.key)
            if isinstance(key, OffsetCommitKey):
                self._replay_offset(key, record.value, producer_id)
            elif isinstance(key, GroupMetadataKey):
                self._replay_group(key, record.value)
            else:
                self.problems.append(f"offset {record.offset}: the key is not of a known version")
        except CorruptRecords as problem:
            self.problems.append(f"offset {record.offset}: {problem.detail}")

    def _replay_offset(self, key: OffsetCommitKey, value: bytes | None, producer_id: int | None) -> None:
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

    def _replay_group(self, key: GroupMetadataKey, value: bytes | None) -> None:
        if value is None:
            self._groups.pop(key.group, None)
        else:
            self._groups[key.group] = _checked(record_schema.decode_group_value(value))

    def committed(self) -> dict[str, Mapping[TopicPartition, CommittedOffset]]:
        """What is committed, by group."""
        return {group_id: offsets.committed for group_id, offsets in self._offsets.items()}

    def groups(self, events: EventQueue, now_ms: int) -> Iterator[Group]:
        """The groups that there were. One that only offsets tell of was never more than a place for them."""
        for group_id, value in self._groups.items():
            group = _group(group_id, self.partition, value, events)
            group.offsets = self._offsets.get(group_id, group.offsets)
            yield group
        for group_id, offsets in self._offsets.items():
            if offsets and group_id not in self._groups:
                group = Group(group_id, self.partition, events, since=now_ms)
                group.offsets = offsets
                yield group


def _checked(value: GroupMetadataValue) -> GroupMetadataValue:
    if value.members and value.protocol is None:
        raise CorruptRecords("a stored group has members but no protocol")
    return value


def _group(group_id: str, partition: int, value: GroupMetadataValue, events: EventQueue) -> Group:
    timestamp = value.current_state_timestamp
    group = Group(
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
