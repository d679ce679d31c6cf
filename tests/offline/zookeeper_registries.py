"""Kafka's nodes in ZooKeeper, of both generations, and a real server's files with them.

`python -m tests.offline.zookeeper_registries DIRECTORY` has a real ZooKeeper write such files: a snapshot with
the nodes of BEFORE, and a transaction log that leads to `after(BEFORE)`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILES = Path(__file__).with_name("zookeeper")
CHROOT = "/kafka"

TOPIC = {
    "partitions": {"0": [1, 2], "1": [2, 1], "2": [1, 2]},
    "topic_id": "K0QHHXQSTwafd7tGOXo1dA",
    "adding_replicas": {},
    "removing_replicas": {},
    "version": 3,
}
CONFIG = {"version": 1, "config": {"retention.ms": "60000", "cleanup.policy": "compact", "leader.replication": "x"}}

BEFORE: Mapping[str, str | None] = {
    "/brokers/ids": None,
    "/brokers/topics/my_topic/0": "2",
    "/brokers/topics/my_topic/3": "1",
    "/brokers/topics/orders": json.dumps(TOPIC),
    "/brokers/topics/orders/partitions/0/state": '{"leader":1}',
    "/brokers/topics/old_orders": json.dumps({"version": 1, "partitions": {"0": [1]}}),
    "/brokers/topics/going": json.dumps({"version": 1, "partitions": {"0": [1]}}),
    "/brokers/topics/__consumer_offsets": json.dumps({"version": 1, "partitions": {"0": [1]}}),
    "/admin/delete_topics/going": None,
    "/config/topics/orders": json.dumps(CONFIG),
    "/consumers/readers/offsets/my_topic/0-0": "26",
    "/consumers/readers/offsets/my_topic/0-1": "0",
    "/consumers/readers/offsets/my_topic/3-0": "13",
    "/consumers/readers/offsets/orders/0": "0",
    "/consumers/readers/offsets/orders/2": "1042",
    "/consumers/readers/offsets/unknown/0": "7",
    "/consumers/late/offsets/my_topic/0-0": "13",
    "/consumers/late/owners/my_topic": None,
    "/consumers/broken/offsets/my_topic/0-0": "soon",
}


def after(nodes: Mapping[str, str | None]) -> dict[str, str | None]:
    """The nodes when the server was stopped."""
    changed = {
        **nodes,
        "/consumers/late/offsets/my_topic/0-0": "26",
        "/consumers/new/offsets/my_topic/0-0": "13",
        "/consumers/multi/offsets/my_topic/0-0": "26",
        "/consumers/multi/offsets/my_topic/0-1": "0",
    }
    del changed["/brokers/topics/old_orders"]
    return changed


def _write(directory: Path) -> None:
    from kazoo.client import KazooClient

    from tests.peers.zookeeper import ZooKeeper

    def connected(server: ZooKeeper) -> Any:
        client = KazooClient(server.address)
        client.start()
        return client

    server = ZooKeeper(directory)
    with server:
        client = connected(server)
        for path, data in BEFORE.items():
            client.create(CHROOT + path, (data or "").encode(), makepath=True)
        client.create(CHROOT + "/brokers/ids/0", b"alive", ephemeral=True)
        client.stop()
        server.stop()
    with server:  # which writes a snapshot
        client = connected(server)
        client.set(CHROOT + "/consumers/late/offsets/my_topic/0-0", b"26")
        client.create(CHROOT + "/consumers/new/offsets/my_topic/0-0", b"13", makepath=True)
        client.delete(CHROOT + "/brokers/topics/old_orders")
        client.ensure_path(CHROOT + "/consumers/multi/offsets/my_topic")
        together = client.transaction()
        together.create(CHROOT + "/consumers/multi/offsets/my_topic/0-0", b"1")
        together.set_data(CHROOT + "/consumers/multi/offsets/my_topic/0-0", b"26")
        together.create(CHROOT + "/consumers/multi/offsets/my_topic/0-1", b"0")
        assert len(together.commit()) == 3
        failing = client.transaction()
        failing.set_data(CHROOT + "/consumers/new/offsets/my_topic/0-0", b"99")
        failing.check(CHROOT + "/consumers/new", 77)
        failing.commit()
        client.stop()
        server.stop()


if __name__ == "__main__":
    _write(Path(sys.argv[1]))
