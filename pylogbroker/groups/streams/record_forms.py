"""Records of groups of Kafka Streams, made of the group's present state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from pylogbroker.groups.changes import MakeValue
from pylogbroker.groups.streams import record_schema
from pylogbroker.groups.streams.group import StreamsGroup, StreamsRecordKind
from pylogbroker.groups.streams.member import StreamsMember
from pylogbroker.groups.streams.tasks import Task, TaskSet, by_subtopology
from pylogbroker.wire import WireMessage
from pylogbroker.wire.streams_topology import StreamsEndpoint, StreamsKeyValue, StreamsTaskIds

_NO_EPOCHS: Final[Mapping[Task, int]] = {}


@attrs.frozen
class StreamsRecordForms:
    def encode_key(self, kind: StreamsRecordKind, group_id: str, name: str) -> bytes:
        return record_schema.encode_key(kind, group_id, name)

    def value(self, group: StreamsGroup, kind: StreamsRecordKind, name: str) -> tuple[MakeValue, int]:
        return _value(group, kind, name)

    def other_keys(self, group_id: str) -> Iterable[bytes]:
        return ()


STREAMS_RECORDS: Final = StreamsRecordForms()


def _value(group: StreamsGroup, kind: StreamsRecordKind, name: str) -> tuple[MakeValue, int]:
    """Return a function that makes the value of the present state in any thread, and about how many bytes it has."""
    usual = 100 + len(name)
    if group.is_dead:
        return _tombstone, usual
    match kind:
        case StreamsRecordKind.GROUP:
            value = _group(group)
            return lambda: value, usual
        case StreamsRecordKind.TARGET:
            target = record_schema.StreamsTargetValue(group.target_epoch, group.assigned_ms)
            return lambda: target, usual
        case StreamsRecordKind.TOPOLOGY:
            return _topology(group)
    member = group.members.get(name)
    if member is None:
        return _tombstone, usual
    match kind:
        case StreamsRecordKind.TARGET_OF_MEMBER:
            return _target(group, name, usual)
        case StreamsRecordKind.CURRENT:
            return _current(member, usual)
    metadata = _member(member)
    return lambda: metadata, usual + 40 * len(member.client_tags)


def _tombstone() -> None:
    return None


def _group(group: StreamsGroup) -> WireMessage:
    settings = group.assignment_settings
    return record_schema.StreamsGroupValue(
        group.epoch,
        group.metadata_hash,
        group.validated_epoch,
        [StreamsKeyValue(*setting) for setting in sorted(settings.items())],
        *group.description_epochs,
    )


def _topology(group: StreamsGroup) -> tuple[MakeValue, int]:
    topology = group.topology
    if not group.has_topology:
        return _tombstone, 100
    value = record_schema.StreamsTopologyValue(topology.epoch, list(topology.subtopologies))
    return lambda: value, 100 + 500 * len(topology.subtopologies)


def _member(member: StreamsMember) -> WireMessage:
    return record_schema.StreamsMemberValue(
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.topology_epoch,
        member.process_id,
        None if member.endpoint is None else StreamsEndpoint(*member.endpoint),
        [StreamsKeyValue(*tag) for tag in sorted(member.client_tags.items())],
    )


def _target(group: StreamsGroup, member_id: str, size: int) -> tuple[MakeValue, int]:
    target = group.target_of(member_id)

    def make() -> WireMessage:
        return record_schema.StreamsMemberTargetValue(
            task_ids(target.active), task_ids(target.standby), task_ids(target.warmup)
        )

    return make, size + 8 * len(target)


def _current(member: StreamsMember, size: int) -> tuple[MakeValue, int]:
    epoch, previous_epoch, state = member.epoch, member.previous_epoch, member.state
    assigned, revoking, since = member.assigned, member.revoking, member.since

    def make() -> WireMessage:
        return record_schema.StreamsCurrentValue(
            epoch,
            previous_epoch,
            state,
            _current_ids(assigned.active, since),
            _current_ids(assigned.standby),
            _current_ids(assigned.warmup),
            _current_ids(revoking.active, since),
            _current_ids(revoking.standby),
            _current_ids(revoking.warmup),
        )

    return make, size + 12 * (len(assigned) + len(revoking))


def task_ids(tasks: Iterable[Task]) -> list[StreamsTaskIds]:
    return [StreamsTaskIds(name, numbers) for name, numbers in by_subtopology(tasks).items()]


def _current_ids(tasks: TaskSet, since: Mapping[Task, int] = _NO_EPOCHS) -> list[record_schema.CurrentTaskIds]:
    return [
        record_schema.CurrentTaskIds(name, numbers, [since[name, number] for number in numbers] if since else [])
        for name, numbers in by_subtopology(tasks).items()
    ]
