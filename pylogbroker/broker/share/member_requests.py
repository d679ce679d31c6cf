"""Parts that ShareFetch and ShareAcknowledge share: checks, acknowledgements, and leaders that errors name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import attrs

from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.current_leaders import find_leader
from pylogbroker.broker.security.rules import required
from pylogbroker.broker.services import HasMetadata, HasNode, HasPartitions
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups.share.sessions import TopicIdPartition
from pylogbroker.groups.share.values import Acknowledgement
from pylogbroker.long_loops import over
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.share_fetch import AcknowledgementBatch

may_read_group: Final = required(
    lambda access, request: access.allows_on_group(AclOperation.READ, request.group_id or ""),
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
)
_ERRORS_OF_LEADERS: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class _Services(HasMetadata, HasPartitions, HasNode, Protocol):
    """Services that this module uses."""


def require_member(request: Any) -> tuple[str, str]:
    """Return group and member; raise INVALID_REQUEST without one of them."""
    if not request.group_id or not request.member_id:
        raise KafkaError("the request names no group or no member", ErrorCode.INVALID_REQUEST)
    return request.group_id, request.member_id


async def acknowledgements_of(topics: Sequence[Any]) -> dict[TopicIdPartition, list[Acknowledgement]]:
    """Return the acknowledgements in a request, by partition."""
    acknowledged: dict[TopicIdPartition, list[Acknowledgement]] = {}
    for topic in topics:
        async for partition in over(topic.partitions):
            if partition.acknowledgement_batches:
                batches = acknowledged.setdefault((topic.topic_id, partition.partition_index), [])
                batches += map(_acknowledgement, partition.acknowledgement_batches)
    return acknowledged


def _acknowledgement(batch: AcknowledgementBatch) -> Acknowledgement:
    return Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types)


async def split_by_access(
    services: _Services, context: RequestContext, acknowledged: dict[TopicIdPartition, list[Acknowledgement]]
) -> tuple[dict[TopicIdPartition, list[Acknowledgement]], dict[TopicIdPartition, KafkaError | None]]:
    """Return the acknowledgements that the client may make, and errors for the others."""
    access = context.access
    if access is None:
        return acknowledged, {}
    allowed: dict[TopicIdPartition, list[Acknowledgement]] = {}
    denied: dict[TopicIdPartition, KafkaError | None] = {}
    async for partition, batches in over(acknowledged.items()):
        topic = services.metadata.image.topic_by_id(partition[0])
        if topic is None or access.allows_on_topic(AclOperation.READ, topic.name):
            allowed[partition] = batches
        else:
            denied[partition] = KafkaError("the topic may not be read", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return allowed, denied


@attrs.define(eq=False, repr=False)
class NamedLeaders:
    """Leaders of partitions with errors, and where they are, so that members need not ask for them."""

    _services: _Services
    _context: RequestContext
    addresses: dict[int, tuple[int, str, int, str | None]] = attrs.field(factory=dict, init=False)

    def name(self, answer: Any, partition: TopicIdPartition, *errors: ErrorCode) -> None:
        """Put the leader of a partition into an answer with one of its errors."""
        if not any(error in _ERRORS_OF_LEADERS for error in errors):
            return
        leader = find_leader(self._services, self._context, *partition)
        if leader is not None:
            answer.current_leader.leader_id = leader.id
            answer.current_leader.leader_epoch = leader.epoch
            if (address := leader.address) is not None:
                self.addresses[address.id] = address.id, address.host, address.port, address.rack
