"""The crash tests' reader, for a cluster: it asks the leader of a partition, or the coordinator of a group."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from tests.clients.stored_batches import ask
from tests.cluster.cluster import Cluster
from tests.crash.history import Partition
from tests.crash.reader import Reader, patiently

_FIND_COORDINATOR: Final = 2


class ClusterReader(Reader):
    """Reads whole partitions and groups' offsets; leaders and coordinators may move meanwhile."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def _leader(self, partition: Partition) -> str:
        return self._cluster.members[self._cluster.wait_for_leader(*partition)].bootstrap

    def _coordinator(self, group: str) -> str:
        member = self._cluster.members[self._cluster.wait_for_controller()]
        request = FindCoordinatorRequest(key=group, key_type=0)
        answer = patiently(lambda: ask(member.bootstrap, request, FindCoordinatorResponse, _FIND_COORDINATOR))
        return f"{answer.host}:{answer.port}"

    def _segments(self, partition: Partition) -> list[Path]:
        """The files of the leader."""
        member = self._cluster.members[self._cluster.wait_for_leader(*partition)]
        return sorted(member.partition_dir(*partition).glob(f"*{member.segment_suffix}"))
