"""ConsumerGroupHeartbeat (68): join a consumer group, follow its assignment, and leave it.

A member must be allowed to describe the topics that it names. A regular expression matches what it may describe.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import Final, Protocol

from twisted.internet.defer import Deferred

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import on_group, on_named_topics
from pylogbroker.broker.security.visibility import may_see_topic
from pylogbroker.broker.services import HasGroups, HasRuntime
from pylogbroker.groups.consumer.partitions import by_topic
from pylogbroker.groups.consumer.requests import HeartbeatResult, MemberHeartbeat
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatAssignment,
    OwnedTopicPartitions,
)

_FIRST_WITH_IDS_OF_CLIENTS: Final = 1
_AS_BEFORE: Final = -1


class _Services(HasRuntime, HasGroups, Protocol):
    """Services that this API uses."""


@serves(
    ConsumerGroupHeartbeatRequest,
    access=[on_group(AclOperation.READ), on_named_topics(attrgetter("subscribed_topic_names"))],
)
def handle(
    services: _Services, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> Deferred[ConsumerGroupHeartbeatResponse]:
    replied: Deferred[HeartbeatResult] = Deferred()
    services.groups.consumers.heartbeat(_heartbeat(context, request), replied.callback, services.runtime.now_ms())
    return replied.addCallback(_response)


def _heartbeat(context: RequestContext, request: ConsumerGroupHeartbeatRequest) -> MemberHeartbeat:
    names, owned = request.subscribed_topic_names, request.topic_partitions
    return MemberHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=None if request.rebalance_timeout_ms == _AS_BEFORE else request.rebalance_timeout_ms,
        topics=None if names is None else frozenset(names),
        expression=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None
        if owned is None
        else frozenset((topic.topic_id, number) for topic in owned for number in topic.partitions),
        client_id=context.client_id or "",
        client_host=f"/{context.client_host}",
        may_see=partial(may_see_topic, context),
        makes_ids=context.api_version < _FIRST_WITH_IDS_OF_CLIENTS,
    )


def _response(result: HeartbeatResult) -> ConsumerGroupHeartbeatResponse:
    assignment = result.assignment
    return ConsumerGroupHeartbeatResponse(
        error_code=result.error,
        error_message=result.text,
        member_id=result.member_id,
        member_epoch=result.epoch,
        heartbeat_interval_ms=result.interval_ms,
        assignment=None
        if assignment is None
        else HeartbeatAssignment([OwnedTopicPartitions(*topic) for topic in by_topic(assignment).items()]),
    )
