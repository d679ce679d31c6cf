"""Rebuilds share groups from their records in `__consumer_offsets`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from uuid import UUID

import attrs

from pylogbroker.groups.consumer.partitions import TopicIdPartition
from pylogbroker.groups.replayed_values import latest, put
from pylogbroker.groups.share import record_schema as schema
from pylogbroker.groups.share.group import FIRST_EPOCH, ShareGroup
from pylogbroker.groups.share.member import ShareMember
from pylogbroker.records import Record


@attrs.define(eq=False, repr=False)
class _Replayed:
    """Last values of the records of one group."""

    group: schema.ShareGroupValue | None = None
    since: int = 0
    target: schema.ShareTargetValue | None = None
    states: schema.StatePartitionsValue | None = None
    members: dict[str, schema.ShareMemberValue] = attrs.field(factory=dict)
    targets: dict[str, schema.ShareMemberTargetValue] = attrs.field(factory=dict)
    current: dict[str, schema.ShareCurrentValue] = attrs.field(factory=dict)


@attrs.define(eq=False, repr=False)
class ReplayedShareGroups:
    """Groups of a partition; a group without epoch and states does not exist.

    Kafka stores no epoch of a group that was created by its offsets.
    """

    _groups: dict[str, _Replayed] = attrs.field(factory=lambda: defaultdict(_Replayed), init=False)

    def apply(self, key: schema.ShareKey, record: Record) -> None:
        group = self._groups[key.group_id]
        value = record.value
        match key:
            case schema.ShareGroupKey():
                group.group = latest(schema.ShareGroupValue, value)
                group.since = record.timestamp
            case schema.ShareTargetKey():
                group.target = latest(schema.ShareTargetValue, value)
            case schema.StatePartitionsKey():
                group.states = latest(schema.StatePartitionsValue, value)
            case schema.ShareMemberKey():
                put(group.members, key.member_id, value, schema.ShareMemberValue)
            case schema.ShareMemberTargetKey():
                put(group.targets, key.member_id, value, schema.ShareMemberTargetValue)
            case schema.ShareCurrentKey():
                put(group.current, key.member_id, value, schema.ShareCurrentValue)

    def groups(self, partition: int) -> Iterator[ShareGroup]:
        for group_id, replayed in self._groups.items():
            if replayed.group is not None or replayed.states is not None:
                yield _group(group_id, partition, replayed)


def _group(group_id: str, partition: int, replayed: _Replayed) -> ShareGroup:
    value = replayed.group or schema.ShareGroupValue(FIRST_EPOCH)
    group = ShareGroup(group_id, partition, replayed.since, value.epoch, metadata_hash=value.metadata_hash)
    if replayed.target is not None:
        group.target_epoch = min(replayed.target.assignment_epoch, value.epoch)
        group.assigned_ms = replayed.target.assignment_timestamp
    for member_id in sorted(replayed.members):
        group.add(_member(member_id, replayed.members[member_id], replayed.current.get(member_id)))
        target = replayed.targets.get(member_id)
        if target is not None:
            group.target[member_id] = _partitions(target.topic_partitions)
    if replayed.states is not None:
        _add_states(group, replayed.states)
    group.take_changes()
    return group


def _member(member_id: str, stored: schema.ShareMemberValue, current: schema.ShareCurrentValue | None) -> ShareMember:
    member = ShareMember(
        member_id,
        stored.rack_id,
        stored.client_id,
        stored.client_host,
        frozenset(stored.subscribed_topic_names),
    )
    if current is not None:
        member.epoch, member.previous_epoch = current.member_epoch, current.previous_member_epoch
        member.assigned = _partitions(current.assigned_partitions)
    return member


def _add_states(group: ShareGroup, value: schema.StatePartitionsValue) -> None:
    states = group.states
    states.initializing = _by_id(value.initializing_topics)
    states.initialized = _by_id(value.initialized_topics)
    states.deleting = {topic.topic_id for topic in value.deleting_topics}
    states.names = {topic.topic_id: topic.topic_name for topic in value.deleting_topics}
    for topic in (*value.initializing_topics, *value.initialized_topics):
        states.names[topic.topic_id] = topic.topic_name
    states.drop_unused_names()


def _by_id(topics: Iterable[schema.StateTopicPartitions]) -> dict[UUID, frozenset[int]]:
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics if topic.partitions}


def _partitions(topics: Iterable[schema.StoredTopicPartitions]) -> frozenset[TopicIdPartition]:
    return frozenset((topic.topic_id, number) for topic in topics for number in topic.partitions)
