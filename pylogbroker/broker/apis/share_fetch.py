"""ShareFetch (78): acquire records of a share group, and acknowledge others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.services import (
    HasConfig,
    HasMetadata,
    HasNode,
    HasPartitions,
    HasQuotas,
    HasRuntime,
    HasShareGroups,
)
from pylogbroker.broker.share.member_requests import (
    NamedLeaders,
    acknowledgements_of,
    may_read_group,
    require_member,
    split_by_access,
)
from pylogbroker.broker.share.share_fetch import ShareFetch, ShareFetchLimits, ShareFetchResult
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups.share.sessions import FINAL_EPOCH, FIRST_EPOCH, ShareSession, TopicIdPartition
from pylogbroker.wire.messages.share_fetch import (
    AcquiredRange,
    NodeEndpoint,
    ShareFetchableTopicResponse,
    ShareFetchPartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)

_FIRST_WITH_RENEWAL: Final = 2
_EXACT_RECORDS: Final = 1  # share_acquire_mode


class _Services(HasConfig, HasRuntime, HasMetadata, HasPartitions, HasNode, HasQuotas, HasShareGroups, Protocol):
    """Services that this API uses."""


@serves(ShareFetchRequest, access=[may_read_group])
async def handle(services: _Services, context: RequestContext, request: ShareFetchRequest) -> ShareFetchResponse:
    groups = services.share_groups
    acknowledged = await acknowledgements_of(request.topics)
    try:
        group_id, member_id = require_member(request)
        if request.share_session_epoch == FIRST_EPOCH:
            if acknowledged:
                raise KafkaError("a session does not begin with acknowledgements", ErrorCode.INVALID_REQUEST)
            session = groups.open_session(group_id, member_id, context.caller)
        else:
            session = groups.go_on(group_id, member_id, context.caller, request.share_session_epoch)
        if request.share_session_epoch != FINAL_EPOCH:
            groups.update_session(session, _added(request), _forgotten(request))
    except KafkaError as error:
        return ShareFetchResponse(error_code=error.code, error_message=error.detail)
    is_renewal = context.api_version >= _FIRST_WITH_RENEWAL and request.is_renew_ack
    allowed, results = await split_by_access(services, context, acknowledged)
    results |= await groups.acknowledge(session, allowed, may_renew=is_renewal)
    records: dict[TopicIdPartition, ShareFetchResult] = {}
    if request.share_session_epoch == FINAL_EPOCH:
        groups.end_session(session)
    elif not is_renewal:
        records = await _fetch(services, context, request, session)
    named: Iterable[TopicIdPartition] = session.partitions if request.share_session_epoch == FIRST_EPOCH else ()
    return _response(services, context, group_id, dict.fromkeys((*named, *results, *records)), results, records)


def _added(request: ShareFetchRequest) -> list[TopicIdPartition]:
    return [(topic.topic_id, partition.partition_index) for topic in request.topics for partition in topic.partitions]


def _forgotten(request: ShareFetchRequest) -> list[TopicIdPartition]:
    return [(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions]


async def _fetch(
    services: _Services, context: RequestContext, request: ShareFetchRequest, session: ShareSession
) -> dict[TopicIdPartition, ShareFetchResult]:
    config, meters = services.config, services.quotas.meters
    bytes_max = min(request.max_bytes, config.fetch_max_bytes)
    if meters is not None:
        bytes_max = int(min(meters.fetch_bytes_max(context), bytes_max))
    limits = ShareFetchLimits(
        request.max_wait_ms,
        request.min_bytes,
        bytes_max,
        min(request.max_records, config.share_fetch_max_fetch_records),
        max(request.batch_size, 1),
        request.share_acquire_mode == _EXACT_RECORDS,
    )
    groups = services.share_groups
    fetch = ShareFetch(services, context, groups.partitions, session, limits)
    groups.fetch_begins(session, fetch)
    try:
        return await fetch.run()
    finally:
        groups.fetch_ends(session, fetch)


def _response(
    services: _Services,
    context: RequestContext,
    group_id: str,
    partitions: Iterable[TopicIdPartition],
    acknowledged: dict[TopicIdPartition, KafkaError | None],
    records: dict[TopicIdPartition, ShareFetchResult],
) -> ShareFetchResponse:
    leaders = NamedLeaders(services, context)
    topics: dict[object, ShareFetchableTopicResponse] = {}
    nothing = ShareFetchResult()
    for partition in partitions:
        topic_id, index = partition
        fetched, error = records.get(partition, nothing), acknowledged.get(partition)
        answer = ShareFetchPartitionData(index, fetched.error, fetched.detail)
        if error is not None:
            answer.acknowledge_error_code, answer.acknowledge_error_message = error.code, error.detail
        leaders.name(answer, partition, fetched.error, ErrorCode.NONE if error is None else error.code)
        if fetched.acquired:
            answer.records = fetched.chunks[0] if len(fetched.chunks) == 1 else b"".join(fetched.chunks)
            answer.acquired_records = [
                AcquiredRange(acquired.first, acquired.last, acquired.delivery_count) for acquired in fetched.acquired
            ]
            _count_sent(services, partition, len(answer.records))
        topics.setdefault(topic_id, ShareFetchableTopicResponse(topic_id)).partitions.append(answer)
    meters = services.quotas.meters
    size = sum(result.size for result in records.values())
    return ShareFetchResponse(
        throttle_time_ms=0 if meters is None else meters.count_fetched(context, size),
        acquisition_lock_timeout_ms=services.share_groups.settings_of(group_id).records.lock_duration_ms,
        responses=list(topics.values()),
        node_endpoints=[NodeEndpoint(*address) for address in leaders.addresses.values()],
    )


def _count_sent(services: _Services, partition: TopicIdPartition, size: int) -> None:
    topic = services.metadata.image.topic_by_id(partition[0])
    if topic is not None:
        services.partitions.traffic.of(topic.name).bytes_out += size
