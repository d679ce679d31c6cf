"""ShareAcknowledge (79): accept, release, reject or renew records that a member of a share group has acquired."""

from __future__ import annotations

from typing import Final, Protocol

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.services import HasMetadata, HasNode, HasPartitions, HasShareGroups
from pylogbroker.broker.share.member_requests import (
    NamedLeaders,
    acknowledgements_of,
    may_read_group,
    require_member,
    split_by_access,
)
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups.share.sessions import FINAL_EPOCH, FIRST_EPOCH, TopicIdPartition
from pylogbroker.wire.messages.share_acknowledge import (
    ShareAcknowledgePartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from pylogbroker.wire.messages.share_fetch import NodeEndpoint

_FIRST_WITH_RENEWAL: Final = 2


class _Services(HasMetadata, HasPartitions, HasNode, HasShareGroups, Protocol):
    """Services that this API uses."""


@serves(ShareAcknowledgeRequest, access=[may_read_group])
async def handle(
    services: _Services, context: RequestContext, request: ShareAcknowledgeRequest
) -> ShareAcknowledgeResponse:
    groups = services.share_groups
    try:
        group_id, member_id = require_member(request)
        if request.share_session_epoch == FIRST_EPOCH:
            raise KafkaError("a session begins with a fetch", ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session = groups.go_on(group_id, member_id, context.caller, request.share_session_epoch)
    except KafkaError as error:
        return ShareAcknowledgeResponse(error_code=error.code, error_message=error.detail)
    acknowledged = await acknowledgements_of(request.topics)
    allowed, results = await split_by_access(services, context, acknowledged)
    may_renew = context.api_version >= _FIRST_WITH_RENEWAL and request.is_renew_ack
    results |= await groups.acknowledge(session, allowed, may_renew=may_renew)
    if request.share_session_epoch == FINAL_EPOCH:
        groups.end_session(session)
    return _response(services, context, group_id, {partition: results[partition] for partition in acknowledged})


def _response(
    services: _Services,
    context: RequestContext,
    group_id: str,
    results: dict[TopicIdPartition, KafkaError | None],
) -> ShareAcknowledgeResponse:
    leaders = NamedLeaders(services, context)
    topics: dict[object, ShareAcknowledgeTopicResponse] = {}
    for partition, error in results.items():
        topic_id, index = partition
        answer = ShareAcknowledgePartitionData(index)
        if error is not None:
            answer.error_code, answer.error_message = error.code, error.detail
            leaders.name(answer, partition, error.code)
        topics.setdefault(topic_id, ShareAcknowledgeTopicResponse(topic_id)).partitions.append(answer)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=services.share_groups.settings_of(group_id).records.lock_duration_ms,
        responses=list(topics.values()),
        node_endpoints=[NodeEndpoint(*address) for address in leaders.addresses.values()],
    )
