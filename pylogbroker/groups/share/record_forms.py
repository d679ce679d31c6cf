"""Records of share groups in `__consumer_offsets`, made of the group's present state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.groups.changes import MakeValue
from pylogbroker.groups.consumer.partitions import TopicIdPartition, by_topic
from pylogbroker.groups.share import record_schema
from pylogbroker.groups.share.group import ShareGroup, ShareRecordKind, StatePartitions
from pylogbroker.groups.share.member import ShareMember

_USUAL_SIZE: Final = 100


@attrs.frozen
class ShareRecordForms:
    def encode_key(self, kind: ShareRecordKind, group_id: str, name: str) -> bytes:
        return record_schema.encode_key(kind, group_id, name)

    def value(self, group: ShareGroup, kind: ShareRecordKind, name: str) -> tuple[MakeValue, int]:
        return _value(group, kind, name)

    def other_keys(self, group_id: str) -> Iterable[bytes]:
        return ()


SHARE_RECORDS: Final = ShareRecordForms()


def _value(group: ShareGroup, kind: ShareRecordKind, name: str) -> tuple[MakeValue, int]:
    usual = _USUAL_SIZE + len(name)
    if group.is_dead:
        return _tombstone, usual
    match kind:
        case ShareRecordKind.GROUP:
            value = record_schema.ShareGroupValue(group.epoch, group.metadata_hash)
            return lambda: value, usual
        case ShareRecordKind.TARGET:
            target = record_schema.ShareTargetValue(group.target_epoch, group.assigned_ms)
            return lambda: target, usual
        case ShareRecordKind.STATE_PARTITIONS:
            return _states(group.states, usual)
    member = group.members.get(name)
    if member is None:
        return _tombstone, usual
    match kind:
        case ShareRecordKind.TARGET_OF_MEMBER:
            partitions = group.target_of(name)
            return lambda: record_schema.ShareMemberTargetValue(_topics(partitions)), usual + 20 * len(partitions)
        case ShareRecordKind.CURRENT:
            epoch, previous_epoch, assigned = member.epoch, member.previous_epoch, member.assigned
            return (
                lambda: record_schema.ShareCurrentValue(epoch, previous_epoch, 0, _topics(assigned)),
                usual + 20 * len(assigned),
            )
    return _member(member, usual)


def _tombstone() -> None:
    return None


def _member(member: ShareMember, size: int) -> tuple[MakeValue, int]:
    rack_id, client_id, client_host, topics = member.rack_id, member.client_id, member.client_host, member.topics
    return (
        lambda: record_schema.ShareMemberValue(rack_id, client_id, client_host, sorted(topics)),
        size + sum(map(len, topics)),
    )


def _states(states: StatePartitions, size: int) -> tuple[MakeValue, int]:
    names, initializing, initialized = dict(states.names), dict(states.initializing), dict(states.initialized)
    deleting = sorted(states.deleting)
    size += 40 * len(names) + 4 * sum(map(len, (*initializing.values(), *initialized.values())))

    def make() -> record_schema.StatePartitionsValue:
        return record_schema.StatePartitionsValue(
            _with_names(initializing, names),
            _with_names(initialized, names),
            [record_schema.DeletedStateTopic(topic_id, names[topic_id]) for topic_id in deleting],
        )

    return make, size


def _with_names(
    partitions: Mapping[UUID, frozenset[int]], names: Mapping[UUID, str]
) -> list[record_schema.StateTopicPartitions]:
    return [
        record_schema.StateTopicPartitions(topic_id, names[topic_id], sorted(numbers))
        for topic_id, numbers in sorted(partitions.items())
    ]


def _topics(partitions: Iterable[TopicIdPartition]) -> list[record_schema.StoredTopicPartitions]:
    return [
        record_schema.StoredTopicPartitions(topic_id, numbers)
        for topic_id, numbers in sorted(by_topic(partitions).items())
    ]
