"""Records of consumer groups of KIP-848, made of the group's present state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from pylogbroker.groups.changes import MakeValue
from pylogbroker.groups.consumer import record_schema
from pylogbroker.groups.consumer.group import ConsumerGroup, RecordKind
from pylogbroker.groups.consumer.member import ConsumerMember
from pylogbroker.groups.consumer.partitions import TopicIdPartition, by_topic
from pylogbroker.wire import WireMessage


@attrs.frozen
class ConsumerRecordForms:
    def encode_key(self, kind: RecordKind, group_id: str, name: str) -> bytes:
        return record_schema.encode_key(kind, group_id, name)

    def value(self, group: ConsumerGroup, kind: RecordKind, name: str) -> tuple[MakeValue, int]:
        return _value(group, kind, name)

    def other_keys(self, group_id: str) -> Iterable[bytes]:
        return (record_schema.encode_partition_metadata_key(group_id),)


CONSUMER_RECORDS: Final = ConsumerRecordForms()


def _value(group: ConsumerGroup, kind: RecordKind, name: str) -> tuple[MakeValue, int]:
    """Return a function that makes the value of the present state in any thread, and about how many bytes it has."""
    usual = 100 + len(name)
    if group.is_dead:
        return _tombstone, usual
    match kind:
        case RecordKind.GROUP:
            value = record_schema.GroupValue(group.epoch, group.metadata_hash)
            return lambda: value, usual
        case RecordKind.TARGET:
            target = record_schema.TargetValue(group.target_epoch, group.assigned_ms)
            return lambda: target, usual
        case RecordKind.EXPRESSION:
            return _expression(group, name, usual)
    member = group.members.get(name)
    if member is None:
        return _tombstone, usual
    match kind:
        case RecordKind.TARGET_OF_MEMBER:
            partitions = group.target_of(name)
            return lambda: record_schema.MemberTargetValue(_target_topics(partitions)), usual + 20 * len(partitions)
        case RecordKind.CURRENT:
            return _current(member, usual)
    return _member(member, usual)


def _tombstone() -> None:
    return None


def _expression(group: ConsumerGroup, expression: str, size: int) -> tuple[MakeValue, int]:
    resolved = group.expressions.get(expression)
    if resolved is None:
        return _tombstone, size
    topics, version, resolved_ms = resolved.topics, resolved.version, resolved.resolved_ms
    size += sum(map(len, topics))
    return lambda: record_schema.ExpressionValue(sorted(topics), version, resolved_ms), size


def _member(member: ConsumerMember, size: int) -> tuple[MakeValue, int]:
    classic = member.classic
    value = record_schema.MemberValue(
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        [],
        member.expression,
        member.rebalance_timeout_ms,
        member.assignor,
        None
        if classic is None
        else record_schema.ClassicMemberMetadata(
            classic.session_timeout_ms, [record_schema.ClassicProtocol(*protocol) for protocol in classic.protocols]
        ),
    )
    topics = member.topics
    if classic is not None:
        size += sum(len(metadata) for _, metadata in classic.protocols)

    def make() -> WireMessage:
        value.subscribed_topic_names = sorted(topics)
        return value

    return make, size + sum(map(len, topics))


def _current(member: ConsumerMember, size: int) -> tuple[MakeValue, int]:
    epoch, previous_epoch, state = member.epoch, member.previous_epoch, member.state
    assigned, revoking = member.assigned, member.revoking

    def make() -> WireMessage:
        return record_schema.CurrentValue(
            epoch, previous_epoch, state, _current_topics(assigned), _current_topics(revoking)
        )

    return make, size + 24 * (len(assigned) + len(revoking))


def _target_topics(partitions: Iterable[TopicIdPartition]) -> list[record_schema.TopicPartitions]:
    return [
        record_schema.TopicPartitions(topic_id, numbers) for topic_id, numbers in sorted(by_topic(partitions).items())
    ]


def _current_topics(partitions: Mapping[TopicIdPartition, int]) -> list[record_schema.CurrentTopicPartitions]:
    return [
        record_schema.CurrentTopicPartitions(topic_id, numbers, [partitions[topic_id, number] for number in numbers])
        for topic_id, numbers in sorted(by_topic(partitions).items())
    ]
