"""Wait for new records without polling.

Spark asks an idle stream every 10 ms. One fetch per leader stays open until records arrive; the next wait continues
with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pylogbroker.blocking.cluster import BlockingCluster, LeaderConnections
from pylogbroker.blocking.connection import BlockingConnection, readable
from pylogbroker.client.fetch_requests import NAMES_VERSION_MAX, FetchTarget, fetch_request
from pylogbroker.errors import PylogbrokerError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.wire.messages.fetch import FetchRequest

_FETCH_WAIT_MS: Final = 1000  # how long a leader holds a fetch


class RecordWait:
    def __init__(self, cluster: BlockingCluster) -> None:
        self._cluster = cluster
        self._connections = LeaderConnections(cluster)

    def wait(self, ends: Mapping[TopicPartition, int], seconds: float) -> bool:
        """Wait up to `seconds`; return whether a partition may have records at or after its end."""
        try:
            connections = self._ask(ends)
            ready = readable(connections, seconds)
            for connection in connections:
                if connection.fileno() in ready:
                    connection.receive()
        except (PylogbrokerError, OSError):
            self.close()
            return True  # the next offset lookup will report the error
        return bool(ready)

    def close(self) -> None:
        self._connections.close()

    def _ask(self, ends: Mapping[TopicPartition, int]) -> list[BlockingConnection]:
        by_leader: dict[int, list[FetchTarget]] = {}
        for key, end in ends.items():
            by_leader.setdefault(self._cluster.leader_id(*key), []).append(FetchTarget(*key, end, max_bytes=1))
        connections = []
        for leader, targets in by_leader.items():
            connection = self._connections.to(leader)
            connections.append(connection)
            if not connection.in_flight:
                request = fetch_request(self._cluster.settings, targets, wait_ms=_FETCH_WAIT_MS)
                connection.send(request, version=min(NAMES_VERSION_MAX, connection.version_of(FetchRequest)))
        return connections
