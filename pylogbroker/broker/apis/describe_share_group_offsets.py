"""DescribeShareGroupOffsets (90): return where share groups start in their partitions, and their lag.

Null topics are all topics of a group that the client may see. A partition that the group does not read has no offset.
A group of another type, or one that does not exist, reads none; as in Kafka, that is no error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol
from uuid import UUID

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.limits import ResponseBudget
from pylogbroker.broker.security.access import Access
from pylogbroker.broker.security.rules import on_each
from pylogbroker.broker.security.visibility import may_see_topic
from pylogbroker.broker.services import HasGroups, HasMetadata, HasShareOffsets
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups.share.requests import ShareOffset
from pylogbroker.long_loops import over
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from pylogbroker.wire.schema import NO_ID

_PARTITION_BYTES: Final = 32
_NOT_READ: Final = ShareOffset()


class _Services(HasGroups, HasMetadata, HasShareOffsets, Protocol):
    """Services that this API uses."""


def _may_describe(access: Access, group: DescribeShareGroupOffsetsRequestGroup) -> bool:
    return access.allows_on_group(AclOperation.DESCRIBE, group.group_id)


def _rejected(group: DescribeShareGroupOffsetsRequestGroup) -> DescribeShareGroupOffsetsResponseGroup:
    return _error(group.group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)


def _answer_off(request: DescribeShareGroupOffsetsRequest) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(
        groups=[_error(group.group_id, ErrorCode.UNSUPPORTED_VERSION) for group in request.groups]
    )


@serves(
    DescribeShareGroupOffsetsRequest,
    access=[on_each("groups", "groups", _may_describe, _rejected)],
    answer_off=_answer_off,
)
async def handle(
    services: _Services, context: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    space, response = ResponseBudget(), DescribeShareGroupOffsetsResponse()
    async for group in over(request.groups):
        try:
            response.groups.append(await _described(services, context, group, space))
        except KafkaError as error:
            response.groups.append(_error(group.group_id, error.code, error.detail))
    return response


async def _described(
    services: _Services, context: RequestContext, group: DescribeShareGroupOffsetsRequestGroup, space: ResponseBudget
) -> DescribeShareGroupOffsetsResponseGroup:
    """Raise KafkaError if the coordinator is another broker's, or the answer would be too long."""
    present = services.groups.shares.partitions_with_states(group.group_id)
    topics = group.topics
    if topics is None:
        names = {topic_id: services.groups.shares.topic_name(topic_id) for topic_id in present}
        topics = [
            DescribeShareGroupOffsetsRequestTopic(name, sorted(present[topic_id]))
            for topic_id, name in names.items()
            if name is not None and may_see_topic(context, name)
        ]
    space.take(sum(_PARTITION_BYTES * (1 + len(topic.partitions)) for topic in topics))
    ids: dict[str, UUID] = {}
    described: dict[UUID, set[int]] = {}
    async for topic in over(topics):
        image = services.metadata.topics.get(topic.topic_name)
        if image is not None and may_see_topic(context, topic.topic_name):
            ids[topic.topic_name] = image.id
            some = described.setdefault(image.id, set())
            some.update(present.get(image.id, frozenset()).intersection(topic.partitions))
    offsets = await services.share_offsets.describe(group.group_id, described)
    answers = [_topic(context, topic, ids, offsets) async for topic in over(topics)]
    return DescribeShareGroupOffsetsResponseGroup(group.group_id, answers)


def _topic(
    context: RequestContext,
    topic: DescribeShareGroupOffsetsRequestTopic,
    ids: Mapping[str, UUID],
    offsets: Mapping[tuple[UUID, int], ShareOffset],
) -> DescribeShareGroupOffsetsResponseTopic:
    name, topic_id = topic.topic_name, ids.get(topic.topic_name)
    if topic_id is None:
        is_denied = not may_see_topic(context, name)
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED if is_denied else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        missing = ShareOffset(error=code)
        answers = [_partition(number, missing) for number in dict.fromkeys(topic.partitions)]
        return DescribeShareGroupOffsetsResponseTopic(name, NO_ID, answers)
    numbers = dict.fromkeys(topic.partitions)
    answers = [_partition(number, offsets.get((topic_id, number), _NOT_READ)) for number in numbers]
    return DescribeShareGroupOffsetsResponseTopic(name, topic_id, answers)


def _partition(number: int, offset: ShareOffset) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        number,
        offset.start,
        offset.leader_epoch,
        offset.lag,
        offset.error,
        offset.error.meaning if offset.error else None,
    )


def _error(group_id: str, code: ErrorCode, text: str | None = None) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(group_id, [], code, text or code.meaning)
