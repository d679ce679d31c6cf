"""StreamsGroupHeartbeat (88): join a group of Kafka Streams, follow its assignment, and leave it.

A member must be allowed to describe all topics of its topology. Internal topics that are missing are created for it, if
it may create them; else the answer has a status that names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final, Protocol

import attrs
from twisted.internet.defer import Deferred

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import on_group, on_named_topics
from pylogbroker.broker.security.visibility import may_create_topic
from pylogbroker.broker.services import HasGroups, HasRuntime
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups.streams.configuration import GroupTopology
from pylogbroker.groups.streams.record_forms import task_ids
from pylogbroker.groups.streams.replay import tasks_of
from pylogbroker.groups.streams.requests import PartitionsOfEndpoint, StreamsHeartbeat, StreamsHeartbeatResult
from pylogbroker.groups.streams.states import JOIN_EPOCH, StatusCode
from pylogbroker.groups.streams.tasks import NO_TASKS, Task, Tasks
from pylogbroker.metadata.topic_names import INTERNAL_TOPICS, check_name
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.streams_group_heartbeat import (
    EndpointToPartitions,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsStatus,
    StreamsTopicPartitions,
)
from pylogbroker.wire.streams_topology import StreamsEndpoint, StreamsTaskIds, StreamsTaskOffset

_AS_BEFORE: Final = -1


class _Services(HasRuntime, HasGroups, Protocol):
    """Services that this API uses."""


def _names(request: StreamsGroupHeartbeatRequest) -> list[str]:
    topology = _topology(request)
    return [] if topology is None else sorted(topology.topics())


@serves(StreamsGroupHeartbeatRequest, access=[on_group(AclOperation.READ), on_named_topics(_names)])
def handle(
    services: _Services, context: RequestContext, request: StreamsGroupHeartbeatRequest
) -> Deferred[StreamsGroupHeartbeatResponse]:
    beat = _heartbeat(context, request)
    _check_names(beat.topology)
    replied: Deferred[StreamsHeartbeatResult] = Deferred()
    services.groups.streams.heartbeat(beat, replied.callback, services.runtime.now_ms())
    return replied.addCallback(partial(_answer, services, context, request.group_id))


def _answer(
    services: _Services, context: RequestContext, group_id: str, result: StreamsHeartbeatResult
) -> StreamsGroupHeartbeatResponse:
    """Create missing topics for a member that may do so, and answer."""
    access = context.access
    forbidden = [
        topic.name for topic in result.missing if access is not None and not may_create_topic(access, topic.name)
    ]
    if forbidden:
        why = f"Unauthorized to CREATE on topics {', '.join(forbidden)}."
        result = attrs.evolve(result, statuses=tuple(_with_reason(result.statuses, why)))
    elif result.missing:
        services.groups.streams.port.create_topics(group_id, result.missing)
    return _response(result)


def _with_reason(statuses: Iterable[tuple[StatusCode, str]], why: str) -> Iterator[tuple[StatusCode, str]]:
    for code, detail in statuses:
        yield code, f"{detail}; {why}" if code is StatusCode.MISSING_INTERNAL_TOPICS else detail


def _check_names(topology: GroupTopology | None) -> None:
    """Raise KafkaError for names that topics of an application cannot have."""
    names = set() if topology is None else topology.topics()
    internal = sorted(names & INTERNAL_TOPICS)
    if internal:
        raise KafkaError(
            f"Use of Kafka internal topics {', '.join(internal)} in a Kafka Streams topology is prohibited.",
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
        )
    for name in sorted(names):
        try:
            check_name(name)
        except KafkaError as error:
            raise KafkaError(
                f"Topic names {name} are not valid topic names: {error.detail}", ErrorCode.STREAMS_INVALID_TOPOLOGY
            ) from None


def _heartbeat(context: RequestContext, request: StreamsGroupHeartbeatRequest) -> StreamsHeartbeat:
    endpoint, tags = request.user_endpoint, request.client_tags
    return StreamsHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        epoch=request.member_epoch,
        endpoint_epoch=request.endpoint_information_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=None if request.rebalance_timeout_ms == _AS_BEFORE else request.rebalance_timeout_ms,
        topology=_topology(request),
        owned=_owned(request),
        process_id=request.process_id,
        endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        client_tags=None if tags is None else {tag.key: tag.value for tag in tags},
        offsets=_offsets(request.task_offsets),
        end_offsets=_offsets(request.task_end_offsets),
        shuts_down=request.shutdown_application,
        client_id=context.client_id or "",
        client_host=f"/{context.client_host}",
    )


def _topology(request: StreamsGroupHeartbeatRequest) -> GroupTopology | None:
    topology = request.topology
    return None if topology is None else GroupTopology.of(topology.epoch, topology.subtopologies)


def _owned(request: StreamsGroupHeartbeatRequest) -> Tasks | None:
    """Return the tasks that a member says it has; raise KafkaError if it leaves out a role."""
    roles = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if all(role is None for role in roles):
        return NO_TASKS if request.member_epoch == JOIN_EPOCH else None
    if any(role is None for role in roles):
        raise KafkaError("If one task-type is non-null, all must be non-null.", ErrorCode.INVALID_REQUEST)
    active, standby, warmup = (role or () for role in roles)
    return tasks_of(active, standby, warmup)


def _offsets(offsets: list[StreamsTaskOffset] | None) -> Mapping[Task, int] | None:
    if offsets is None:
        return None
    return {(task.subtopology_id, task.partition): task.offset for task in offsets}


def _response(result: StreamsHeartbeatResult) -> StreamsGroupHeartbeatResponse:
    tasks, endpoints = result.assignment, result.endpoints
    active: list[StreamsTaskIds] | None = None
    standby: list[StreamsTaskIds] | None = None
    warmup: list[StreamsTaskIds] | None = None
    if tasks is not None:
        active, standby, warmup = task_ids(tasks.active), task_ids(tasks.standby), task_ids(tasks.warmup)
    return StreamsGroupHeartbeatResponse(
        error_code=result.error,
        error_message=result.text,
        member_id=result.member_id,
        member_epoch=result.epoch,
        heartbeat_interval_ms=result.interval_ms,
        task_offset_interval_ms=result.offset_interval_ms,
        acceptable_recovery_lag=result.recovery_lag,
        status=[StreamsStatus(code, detail) for code, detail in result.statuses],
        active_tasks=active,
        standby_tasks=standby,
        warmup_tasks=warmup,
        endpoint_information_epoch=result.endpoint_epoch,
        partitions_by_user_endpoint=None if endpoints is None else [_endpoint(endpoint) for endpoint in endpoints],
    )


def _endpoint(partitions: PartitionsOfEndpoint) -> EndpointToPartitions:
    return EndpointToPartitions(
        StreamsEndpoint(*partitions.endpoint), _partitions(partitions.active), _partitions(partitions.standby)
    )


def _partitions(partitions: Mapping[str, Iterable[int]]) -> list[StreamsTopicPartitions]:
    return [StreamsTopicPartitions(topic, list(numbers)) for topic, numbers in partitions.items()]
