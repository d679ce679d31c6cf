"""Rebuilds consumer groups from their records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import attrs

from pylogbroker.errors import CorruptRecords
from pylogbroker.groups.consumer import record_schema as schema
from pylogbroker.groups.consumer.group import ConsumerGroup, Resolved
from pylogbroker.groups.consumer.member import ClassicMembership, ConsumerMember
from pylogbroker.groups.consumer.partitions import TopicIdPartition
from pylogbroker.groups.consumer.states import ReconciliationState
from pylogbroker.groups.replayed_values import latest, put
from pylogbroker.records import Record


@attrs.define(eq=False, repr=False)
class _Replayed:
    """Last values of the records of one group."""

    group: schema.GroupValue | None = None
    since: int = 0
    target: schema.TargetValue | None = None
    members: dict[str, schema.MemberValue] = attrs.field(factory=dict)
    targets: dict[str, schema.MemberTargetValue] = attrs.field(factory=dict)
    current: dict[str, schema.CurrentValue] = attrs.field(factory=dict)
    expressions: dict[str, schema.ExpressionValue] = attrs.field(factory=dict)


@attrs.define(eq=False, repr=False)
class ReplayedConsumerGroups:
    """Groups of a partition; a group without epoch does not exist."""

    _groups: dict[str, _Replayed] = attrs.field(factory=lambda: defaultdict(_Replayed), init=False)

    def apply(self, key: schema.Key, record: Record) -> None:
        group = self._groups[key.group_id]
        value = record.value
        match key:
            case schema.GroupKey():
                group.group = latest(schema.GroupValue, value)
                group.since = record.timestamp
            case schema.TargetKey():
                group.target = latest(schema.TargetValue, value)
            case schema.MemberKey():
                put(group.members, key.member_id, value, schema.MemberValue)
            case schema.MemberTargetKey():
                put(group.targets, key.member_id, value, schema.MemberTargetValue)
            case schema.CurrentKey():
                put(group.current, key.member_id, value, schema.CurrentValue, _check_current)
            case schema.ExpressionKey():
                put(group.expressions, key.expression, value, schema.ExpressionValue)

    def __contains__(self, group_id: str) -> bool:
        group = self._groups.get(group_id)
        return group is not None and group.group is not None

    def drop(self, group_id: str) -> None:
        """Drop a group: a later record makes it a classic one."""
        self._groups.pop(group_id, None)

    def groups(self, partition: int) -> Iterator[ConsumerGroup]:
        for group_id, replayed in self._groups.items():
            if replayed.group is not None:
                yield _group(group_id, partition, replayed, replayed.group)


def _check_current(value: schema.CurrentValue) -> None:
    if value.state not in tuple(ReconciliationState):
        raise CorruptRecords(f"a member's state is {value.state}, which is not known")


def _group(group_id: str, partition: int, replayed: _Replayed, value: schema.GroupValue) -> ConsumerGroup:
    group = ConsumerGroup(group_id, partition, replayed.since, value.epoch, metadata_hash=value.metadata_hash)
    if replayed.target is not None:
        group.target_epoch = min(replayed.target.assignment_epoch, value.epoch)
        group.assigned_ms = replayed.target.assignment_timestamp
    for expression, resolved in replayed.expressions.items():
        group.expressions[expression] = Resolved(frozenset(resolved.topics), resolved.version, resolved.timestamp)
    epochs = {name: current.member_epoch for name, current in replayed.current.items()}
    for member_id in sorted(replayed.members, key=lambda name: (-epochs.get(name, 0), name)):
        group.add(_member(member_id, replayed.members[member_id], replayed.current.get(member_id)))
        target = replayed.targets.get(member_id)
        if target is not None:
            group.target[member_id] = frozenset(
                (topic.topic_id, number) for topic in target.topic_partitions for number in topic.partitions
            )
    group.take_changes()
    return group


def _member(member_id: str, stored: schema.MemberValue, current: schema.CurrentValue | None) -> ConsumerMember:
    classic = stored.classic_member_metadata
    member = ConsumerMember(
        member_id,
        stored.instance_id,
        stored.rack_id,
        stored.client_id,
        stored.client_host,
        stored.rebalance_timeout_ms,
        frozenset(stored.subscribed_topic_names),
        stored.subscribed_topic_regex or None,
        stored.server_assignor,
        None
        if classic is None or not classic.supported_protocols
        else ClassicMembership(
            classic.session_timeout_ms,
            tuple((protocol.name, protocol.metadata) for protocol in classic.supported_protocols),
        ),
    )
    if current is not None:
        member.epoch, member.previous_epoch = current.member_epoch, current.previous_member_epoch
        member.state = ReconciliationState(current.state)
        member.assigned = _assigned(current.assigned_partitions, current.member_epoch)
        member.revoking = _assigned(current.partitions_pending_revocation, current.member_epoch)
    return member


def _assigned(topics: list[schema.CurrentTopicPartitions], epoch: int) -> dict[TopicIdPartition, int]:
    assigned: dict[TopicIdPartition, int] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [epoch] * len(topic.partitions)
        assigned |= {(topic.topic_id, number): since for number, since in zip(topic.partitions, epochs, strict=True)}
    return assigned
