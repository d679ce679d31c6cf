"""Connections to leaders for exclusive use, so that no other responses come between."""

from __future__ import annotations

from pylogbroker.spark.brokers.cluster import BlockingCluster
from pylogbroker.spark.brokers.connection import Connection, dial


class Connections:
    """Map each leader to a connection, opened on demand and reopened after a loss."""

    def __init__(self, cluster: BlockingCluster) -> None:
        self._cluster = cluster
        self._made: dict[int, Connection] = {}

    def to(self, leader: int) -> Connection:
        """Return an open connection to a leader; raise if there can be none."""
        connection = self._made.get(leader)
        if connection is None or not connection.is_open:
            connection = self._made[leader] = dial(self._cluster.address_of(leader), self._cluster.connection_settings)
        return connection

    def in_flight(self, leader: int) -> int:
        """Return the number of responses still to be received from a leader."""
        return self._made[leader].in_flight if leader in self._made else 0

    def close(self) -> None:
        for connection in self._made.values():
            connection.close()
        self._made.clear()
