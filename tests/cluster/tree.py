"""A cluster's state in ZooKeeper, read by kazoo: nothing is asked of the brokers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Self

import attrs
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.cluster.states import NONE, StoredState
from tests.support.shared_zookeeper import START_SECONDS_MAX

#: A connection is lost, too, when the machine stands still.
AGAIN = {"max_tries": 30, "delay": 0.1, "max_delay": 1.0}
REASSIGNMENTS = "/admin/reassign_partitions"


@attrs.define
class Tree:
    """Kafka's nodes below a chroot."""

    client: Any  # of kazoo

    @classmethod
    def open(cls, hosts: str) -> Self:
        """Connect to ZooKeeper; `hosts` has the chroot."""
        client = KazooClient(hosts, timeout=60.0, command_retry=AGAIN)
        client.start(START_SECONDS_MAX)
        return cls(client)

    def close(self) -> None:
        """End the session."""
        self.client.stop()
        self.client.close()

    def read(self, path: str) -> tuple[dict[str, Any], Any] | None:
        """Return the JSON of a node and its stat; None if there is no node."""
        try:
            data, stat = self.client.retry(self.client.get, path)
        except NoNodeError:
            return None
        return json.loads(data), stat

    def brokers(self) -> dict[int, int]:
        """Return the registered brokers' ids, with the epoch of each (czxid)."""
        try:
            found = {
                int(name): self.client.retry(self.client.exists, f"/brokers/ids/{name}")
                for name in self._children("/brokers/ids")
            }
        except NoNodeError:
            return {}
        return {number: stat.czxid for number, stat in sorted(found.items()) if stat is not None}

    def controller(self) -> int:
        """Return the controller's id; NONE while there is none."""
        found = self.read("/controller")
        return NONE if found is None else int(found[0]["brokerid"])

    def controller_epoch(self) -> int:
        """Return the number of controllers so far; 0 before the first."""
        found = self.read("/controller_epoch")
        return 0 if found is None else int(found[0])  # type: ignore[call-overload]  # the JSON is a number

    def assignment(self, topic: str) -> dict[int, tuple[int, ...]]:
        """Return the replicas of each partition, in the order of preference; empty if there is no such topic."""
        found = self.read(f"/brokers/topics/{topic}")
        partitions = {} if found is None else found[0]["partitions"]
        return {int(number): tuple(replicas) for number, replicas in sorted(partitions.items())}

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Let the controller move a partition, as tools before Kafka 2.4 do."""
        wanted = [{"topic": topic, "partition": partition, "replicas": list(replicas)}]
        self.client.create(REASSIGNMENTS, json.dumps({"version": 1, "partitions": wanted}).encode())

    def reassigned(self) -> bool:
        """Return whether what `reassign` asked for is under way."""
        return self.read(REASSIGNMENTS) is not None

    def topics(self) -> list[str]:
        """Return the names of all topics."""
        return sorted(self._children("/brokers/topics"))

    def state(self, topic: str, partition: int) -> StoredState | None:
        """Return the state of a partition; None before the controller has made it."""
        found = self.read(f"/brokers/topics/{topic}/partitions/{partition}/state")
        if found is None:
            return None
        node, stat = found
        return StoredState(
            leader=node["leader"],
            leader_epoch=node["leader_epoch"],
            isr=tuple(node["isr"]),
            controller_epoch=node["controller_epoch"],
            version=stat.version,
            leader_recovery_state=node.get("leader_recovery_state", 0),
        )

    def _children(self, path: str) -> list[str]:
        try:
            found: list[str] = self.client.retry(self.client.get_children, path)
        except NoNodeError:
            return []
        return found
