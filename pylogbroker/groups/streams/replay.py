"""Rebuilds groups of Kafka Streams from their records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain

import attrs

from pylogbroker.errors import CorruptRecords
from pylogbroker.groups.replayed_values import latest, put
from pylogbroker.groups.streams import record_schema as schema
from pylogbroker.groups.streams.configuration import GroupTopology
from pylogbroker.groups.streams.group import StreamsGroup
from pylogbroker.groups.streams.member import StreamsMember
from pylogbroker.groups.streams.states import TaskState
from pylogbroker.groups.streams.tasks import Task, Tasks, TaskSet
from pylogbroker.records import Record
from pylogbroker.wire.streams_topology import StreamsTaskIds


@attrs.define(eq=False, repr=False)
class _Replayed:
    """Last values of the records of one group."""

    group: schema.StreamsGroupValue | None = None
    since: int = 0
    target: schema.StreamsTargetValue | None = None
    topology: schema.StreamsTopologyValue | None = None
    members: dict[str, schema.StreamsMemberValue] = attrs.field(factory=dict)
    targets: dict[str, schema.StreamsMemberTargetValue] = attrs.field(factory=dict)
    current: dict[str, schema.StreamsCurrentValue] = attrs.field(factory=dict)


@attrs.define(eq=False, repr=False)
class ReplayedStreamsGroups:
    """Groups of a partition; a group without epoch does not exist."""

    _groups: dict[str, _Replayed] = attrs.field(factory=lambda: defaultdict(_Replayed), init=False)

    def apply(self, record: Record) -> bool:
        """Apply a record; return False if it is not of a group of Kafka Streams."""
        key = None if record.key is None else schema.decode_key(record.key)
        if key is None:
            return False
        group = self._groups[key.group_id]
        value = record.value
        match key:
            case schema.StreamsGroupKey():
                group.group = latest(schema.StreamsGroupValue, value)
                group.since = record.timestamp
            case schema.StreamsTargetKey():
                group.target = latest(schema.StreamsTargetValue, value)
            case schema.StreamsTopologyKey():
                group.topology = latest(schema.StreamsTopologyValue, value)
            case schema.StreamsMemberKey():
                put(group.members, key.member_id, value, schema.StreamsMemberValue)
            case schema.StreamsMemberTargetKey():
                put(group.targets, key.member_id, value, schema.StreamsMemberTargetValue)
            case schema.StreamsCurrentKey():
                put(group.current, key.member_id, value, schema.StreamsCurrentValue)
        return True

    def drop(self, group_id: str) -> None:
        """Drop a group: a later record makes it a classic one."""
        self._groups.pop(group_id, None)

    def groups(self, partition: int) -> Iterator[StreamsGroup]:
        for group_id, replayed in self._groups.items():
            if replayed.group is not None:
                yield _group(group_id, partition, replayed, replayed.group)


def _group(group_id: str, partition: int, replayed: _Replayed, value: schema.StreamsGroupValue) -> StreamsGroup:
    settings = value.last_assignment_configs
    group = StreamsGroup(
        group_id,
        partition,
        replayed.since,
        value.epoch,
        metadata_hash=value.metadata_hash,
        validated_epoch=value.validated_topology_epoch,
        assignment_settings={setting.key: setting.value for setting in settings or ()},
        description_epochs=(value.stored_description_topology_epoch, value.failed_description_topology_epoch),
    )
    if replayed.topology is not None:
        group.topology = GroupTopology.of(replayed.topology.epoch, replayed.topology.subtopologies)
    if replayed.target is not None:
        group.target_epoch = min(replayed.target.assignment_epoch, value.epoch)
        group.assigned_ms = replayed.target.assignment_timestamp
    epochs = {name: current.member_epoch for name, current in replayed.current.items()}
    for member_id in sorted(replayed.members, key=lambda name: (-epochs.get(name, 0), name)):
        group.add(_member(member_id, replayed.members[member_id], replayed.current.get(member_id)))
        target = replayed.targets.get(member_id)
        if target is not None:
            group.target[member_id] = tasks_of(target.active_tasks, target.standby_tasks, target.warmup_tasks)
    group.take_changes()
    return group


def _member(
    member_id: str, stored: schema.StreamsMemberValue, current: schema.StreamsCurrentValue | None
) -> StreamsMember:
    endpoint = stored.user_endpoint
    member = StreamsMember(
        member_id,
        stored.instance_id,
        stored.rack_id,
        stored.client_id,
        stored.client_host,
        stored.rebalance_timeout_ms,
        stored.topology_epoch,
        stored.process_id,
        None if endpoint is None else (endpoint.host, endpoint.port),
        {tag.key: tag.value for tag in stored.client_tags},
    )
    if current is not None:
        member.epoch, member.previous_epoch = current.member_epoch, current.previous_member_epoch
        member.state = _state(current.state)
        member.assigned = tasks_of(current.active_tasks, current.standby_tasks, current.warmup_tasks)
        member.revoking = tasks_of(
            current.active_tasks_pending_revocation,
            current.standby_tasks_pending_revocation,
            current.warmup_tasks_pending_revocation,
        )
        member.since = dict(
            chain.from_iterable(map(_epochs, (*current.active_tasks, *current.active_tasks_pending_revocation)))
        )
    return member


def _state(number: int) -> TaskState:
    try:
        return TaskState(number)
    except ValueError:
        raise CorruptRecords(f"a member's state is {number}, which is not known") from None


def tasks_of(
    active: Iterable[StreamsTaskIds | schema.CurrentTaskIds],
    standby: Iterable[StreamsTaskIds | schema.CurrentTaskIds],
    warmup: Iterable[StreamsTaskIds | schema.CurrentTaskIds],
) -> Tasks:
    return Tasks(_task_set(active), _task_set(standby), _task_set(warmup))


def _task_set(ids: Iterable[StreamsTaskIds | schema.CurrentTaskIds]) -> TaskSet:
    return frozenset((some.subtopology_id, number) for some in ids for number in some.partitions)


def _epochs(ids: schema.CurrentTaskIds) -> Iterator[tuple[Task, int]]:
    """Yield the epochs at which tasks were assigned, as far as they are stored."""
    epochs = ids.assignment_epochs
    if epochs is not None and len(epochs) == len(ids.partitions):
        for number, epoch in zip(ids.partitions, epochs, strict=True):
            yield (ids.subtopology_id, number), epoch
