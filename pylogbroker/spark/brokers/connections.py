"""Connections to leaders that are for one use alone, so that answers to others do not come between."""

from __future__ import annotations

from pylogbroker.spark.brokers.cluster import Cluster
from pylogbroker.spark.brokers.connection import Connection, dial


class Connections:
    """One to each leader, by its number, made when it is needed, and again when it has been lost."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._made: dict[int, Connection] = {}

    def to(self, leader: int) -> Connection:
        """A connection that is open; raises if there can be none."""
        connection = self._made.get(leader)
        if connection is None or not connection.is_open:
            connection = self._made[leader] = dial(self._cluster.address_of(leader), self._cluster.settings)
        return connection

    def in_flight(self, leader: int) -> int:
        """How many answers of a leader are still to be received."""
        return self._made[leader].in_flight if leader in self._made else 0

    def close(self) -> None:
        """Drop them."""
        for connection in self._made.values():
            connection.close()
        self._made.clear()
