"""Elections that an operator or a tool asks for. Source: KafkaController.processReplicaLeaderElection.

| kind      | needed if             | otherwise           | without a candidate            |
|-----------|-----------------------|---------------------|--------------------------------|
| preferred | another replica leads | ELECTION_NOT_NEEDED | PREFERRED_LEADER_NOT_AVAILABLE |
| unclean   | no live broker leads  | ELECTION_NOT_NEEDED | ELIGIBLE_LEADERS_NOT_AVAILABLE |
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from pylogbroker.controller import elections
from pylogbroker.controller.controlled_cluster import ControlledCluster
from pylogbroker.errors import ErrorCode
from pylogbroker.interfaces import Delete
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.image import PartitionKey, PartitionState


class ElectionKind(IntEnum):
    """Numbers are those of ElectLeaders requests."""

    PREFERRED = 0
    UNCLEAN = 1


async def elect(
    cluster: ControlledCluster, kind: ElectionKind, keys: Iterable[PartitionKey]
) -> dict[PartitionKey, ErrorCode]:
    results: dict[PartitionKey, ErrorCode] = {}
    needed = []
    async for key in cluster.slices.over(keys):
        state = cluster.state(key)
        if state is None or not state.is_stored:
            results[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif not _is_needed(cluster, kind, key, state):
            results[key] = ErrorCode.ELECTION_NOT_NEEDED
        else:
            needed.append(key)
    if kind is ElectionKind.PREFERRED:
        changed = await cluster.update(needed, lambda key, state: elections.preferred(state, cluster.live(key)))
        missing = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    else:
        marks_recovery = cluster.settings.protocol.has_leader_recovery_state
        changed = await cluster.update(
            needed, lambda key, state: elections.unclean(state, cluster.live(key), marks_recovery=marks_recovery)
        )
        missing = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    elected = frozenset(changed)
    results.update((key, ErrorCode.NONE if key in elected else missing) for key in needed)
    return results


def _is_needed(cluster: ControlledCluster, kind: ElectionKind, key: PartitionKey, state: PartitionState) -> bool:
    if kind is ElectionKind.PREFERRED:
        return state.leader != state.replicas[0]
    return cluster.is_dead(key, state.leader)


async def read_listed(cluster: ControlledCluster) -> None:
    """Hold the preferred elections that an old tool has written into a node, and remove the node."""
    [node] = await cluster.tree.get_many([zk_paths.PREFERRED_ELECTION])
    if node is not None:
        await elect(cluster, ElectionKind.PREFERRED, zk_schema.decode_partition_list(node.data))
        await cluster.tree.write([Delete(zk_paths.PREFERRED_ELECTION)])
