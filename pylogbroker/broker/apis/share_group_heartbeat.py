"""ShareGroupHeartbeat (76): join a share group, follow its assignment, and leave it.

A member must be allowed to describe the topics that it names.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Protocol

from twisted.internet.defer import Deferred

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import on_group, on_named_topics
from pylogbroker.broker.services import HasGroups, HasRuntime
from pylogbroker.groups.consumer.partitions import by_topic
from pylogbroker.groups.share.requests import ShareHeartbeat, ShareHeartbeatResult
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.share_group_heartbeat import (
    ShareAssignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    ShareTopicPartitions,
)


class _Services(HasRuntime, HasGroups, Protocol):
    """Services that this API uses."""


@serves(
    ShareGroupHeartbeatRequest,
    access=[on_group(AclOperation.READ), on_named_topics(attrgetter("subscribed_topic_names"))],
)
def handle(
    services: _Services, context: RequestContext, request: ShareGroupHeartbeatRequest
) -> Deferred[ShareGroupHeartbeatResponse]:
    replied: Deferred[ShareHeartbeatResult] = Deferred()
    services.groups.shares.heartbeat(_heartbeat(context, request), replied.callback, services.runtime.now_ms())
    return replied.addCallback(_response)


def _heartbeat(context: RequestContext, request: ShareGroupHeartbeatRequest) -> ShareHeartbeat:
    names = request.subscribed_topic_names
    return ShareHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        epoch=request.member_epoch,
        rack_id=request.rack_id,
        topics=None if names is None else frozenset(names),
        client_id=context.client_id or "",
        client_host=f"/{context.client_host}",
    )


def _response(result: ShareHeartbeatResult) -> ShareGroupHeartbeatResponse:
    assignment = result.assignment
    return ShareGroupHeartbeatResponse(
        error_code=result.error,
        error_message=result.text,
        member_id=result.member_id,
        member_epoch=result.epoch,
        heartbeat_interval_ms=result.interval_ms,
        assignment=None
        if assignment is None
        else ShareAssignment([ShareTopicPartitions(*topic) for topic in by_topic(assignment).items()]),
    )
