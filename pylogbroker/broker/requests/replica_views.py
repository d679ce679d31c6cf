"""Leaders and replicas of partitions as the clients of one listener may know them.

    leader of the image                           leader shown  error
    --------------------------------------------  ------------  ------------------------------------------------
    none, or not registered, or its log failed    -1            LEADER_NOT_AVAILABLE
    registered without the request's listener     -1            LISTENER_NOT_FOUND, or before Metadata 6 (KIP-302)
                                                                LEADER_NOT_AVAILABLE
    registered with the listener                  the leader    none

Source: Kafka's class ZkMetadataCache.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import attrs

from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.services import HasMetadata, HasNode, HasPartitions
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import NO_LEADER, PartitionState, TopicImage


class _Services(HasMetadata, HasPartitions, HasNode, Protocol):
    """Services that this module uses."""


@attrs.frozen
class ShownReplicas:
    """`offline` are replicas on brokers that are not registered, or with a failed log."""

    leader: int
    error: ErrorCode
    offline: list[int]


@attrs.frozen(eq=False, repr=False)
class ReplicaViews:
    """Views for one request; `reached` has the brokers with its listener."""

    _services: _Services
    reached: frozenset[int]

    @classmethod
    def of(cls, services: _Services, context: RequestContext) -> ReplicaViews:
        image = services.metadata.image
        return cls(services, frozenset(broker.id for broker in services.node.live_brokers(image, context)))

    def show(self, topic: TopicImage, index: int) -> ShownReplicas:
        state, live = topic.partitions[index], self._services.metadata.image.brokers
        is_here = self._is_here(topic.name, index, state)
        own = self._services.node.id
        offline = [
            id_ for id_ in state.replicas if id_ not in live or (not is_here if id_ == own else id_ in state.offline)
        ]
        if state.leader not in live or (state.leader == own and not is_here):
            return ShownReplicas(NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE, offline)
        if state.leader not in self.reached:
            return ShownReplicas(NO_LEADER, ErrorCode.LISTENER_NOT_FOUND, offline)
        return ShownReplicas(state.leader, ErrorCode.NONE, offline)

    def only_reached(self, brokers: Iterable[int]) -> list[int]:
        return [broker for broker in brokers if broker in self.reached]

    def _is_here(self, topic: str, index: int, state: PartitionState) -> bool:
        partitions = self._services.partitions
        leads = state.leader == self._services.node.id
        return (topic, index) in (partitions.led if leads else partitions.hosted)
