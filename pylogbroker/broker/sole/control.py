"""Requests to the controller of a broker that is alone: its partitions are led here, and have no other place.

Kafka's tools ask a cluster of one broker, too. As Kafka's controller there, this one answers that there is nothing to
do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs

from pylogbroker.broker.metadata.cluster_metadata import ClusterMetadata
from pylogbroker.broker.partitions.service import Partitions
from pylogbroker.controller import reassignments
from pylogbroker.controller.requested_elections import ElectionKind
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.long_loops import over
from pylogbroker.metadata.image import ClusterImage, PartitionKey, PartitionState

_NO_CANDIDATE = {
    ElectionKind.PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ElectionKind.UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


@attrs.frozen(eq=False, repr=False)
class SoleControl:
    """Counterpart of the controller's driver of a cluster (`pylogbroker.broker.membership.control`)."""

    _broker_id: int
    _metadata: ClusterMetadata
    _partitions: Partitions

    @property
    def image(self) -> ClusterImage:
        return self._metadata.image

    async def elect_leaders(
        self, kind: ElectionKind, keys: Iterable[PartitionKey] | None
    ) -> dict[PartitionKey, ErrorCode]:
        """Return ELECTION_NOT_NEEDED for each partition that is led; one in a failed directory has no candidate."""
        return {key: self._elected(kind, key) async for key in over(self._all() if keys is None else keys)}

    async def alter_reassignments(
        self, targets: Mapping[PartitionKey, Sequence[int] | None], *, keeps_factor: bool = False
    ) -> dict[PartitionKey, KafkaError | None]:
        """Accept this broker as the target, and nothing else; there is no reassignment to cancel."""
        return {key: self._reassigned(key, target, keeps_factor) async for key, target in over(targets.items())}

    async def list_reassignments(self, keys: Iterable[PartitionKey] | None) -> dict[PartitionKey, PartitionState]:
        return {}

    def _all(self) -> Iterable[PartitionKey]:
        return ((topic.name, number) for topic in self.image.topics.values() for number in topic.partitions)

    def _state(self, key: PartitionKey) -> PartitionState | None:
        topic = self.image.topics.get(key[0])
        return None if topic is None else topic.partitions.get(key[1])

    def _elected(self, kind: ElectionKind, key: PartitionKey) -> ErrorCode:
        if self._state(key) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.ELECTION_NOT_NEEDED if key in self._partitions.hosted else _NO_CANDIDATE[kind]

    def _reassigned(self, key: PartitionKey, target: Sequence[int] | None, keeps_factor: bool) -> KafkaError | None:
        state = self._state(key)
        if state is None:
            return KafkaError("The topic has no such partition", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        try:
            after = reassignments.planned(state, target, (self._broker_id,), keeps_factor)
        except KafkaError as error:
            return error
        if after == state:
            return None
        return KafkaError(
            f"Replicas {list(state.replicas)} are of a former cluster: this broker is alone, and does not move them",
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        )
