"""Heartbeats of consumer groups whose coordinator assigns (KIP-848)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, Protocol
from uuid import UUID

import attrs

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.consumer.actions import SendEpochHeartbeat, TopicIdPartition
from pylogbroker.client.consumer.epoch_member import EpochHeartbeatAnswer
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.rpc.errors import raise_for
from pylogbroker.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OwnedTopicPartitions,
)

_EXPRESSION_VERSION: Final = 1


class AssignedTopic(Protocol):
    topic_id: UUID
    partitions: list[int]


def assigned_partitions(topics: Iterable[AssignedTopic]) -> frozenset[TopicIdPartition]:
    return frozenset((topic.topic_id, number) for topic in topics for number in topic.partitions)


@attrs.frozen
class ConsumerGroupHeartbeats:
    _cluster: Cluster
    _group: str
    _instance_id: str | None
    _rack: str | None
    _assignor: str | None
    _rebalance_timeout_ms: int
    unsupported: str = (
        "set group.protocol=classic for this broker: it does not offer consumer groups of KIP-848, as Kafka from 4.0 on"
        " and pylogbroker do unless the feature group.version has level 0"
    )

    async def send(self, node: int, beat: SendEpochHeartbeat, timeout: float) -> EpochHeartbeatAnswer:
        request = ConsumerGroupHeartbeatRequest(self._group, beat.member_id, beat.epoch, self._instance_id)
        if beat.is_full:
            request.rack_id, request.server_assignor = self._rack, self._assignor
            request.rebalance_timeout_ms = self._rebalance_timeout_ms
        if beat.subscription is not None:
            await self._subscribe(node, request, beat)
        if beat.owned is not None:
            request.topic_partitions = _by_topic(beat.owned)
        response: ConsumerGroupHeartbeatResponse = await self._cluster.send(node, request, timeout=timeout)
        raise_for(response.error_code, response.error_message or self._group)
        assignment = response.assignment
        return EpochHeartbeatAnswer(
            response.member_epoch,
            response.heartbeat_interval_ms,
            None if assignment is None else assigned_partitions(assignment.topic_partitions),
            response.member_id,
        )

    async def _subscribe(self, node: int, request: ConsumerGroupHeartbeatRequest, beat: SendEpochHeartbeat) -> None:
        subscription = beat.subscription
        if subscription is None:
            return
        request.subscribed_topic_names = sorted(subscription.names)
        if await self._cluster.find_version(node, ConsumerGroupHeartbeatRequest) >= _EXPRESSION_VERSION:
            request.subscribed_topic_regex = subscription.expression or ""
        elif subscription.expression is not None:
            raise KafkaError(
                "the broker does not evaluate regular expressions of consumer groups, as Kafka does from 4.0 on:"
                " subscribe to topics by their names",
                ErrorCode.UNSUPPORTED_VERSION,
            )


def _by_topic(partitions: Collection[TopicIdPartition]) -> list[OwnedTopicPartitions]:
    topics: dict[UUID, list[int]] = {}
    for topic_id, number in sorted(partitions):
        topics.setdefault(topic_id, []).append(number)
    return [OwnedTopicPartitions(topic_id, numbers) for topic_id, numbers in topics.items()]
