"""Reassignment with a throttle, by Kafka's tool."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from tests.cluster.cluster import Cluster
from tests.cluster.members import CALM, own
from tests.support.waiting import wait_until

NewCluster = Callable[..., Cluster]
RATE = 250_000
RECORD_BYTES = 100_000
RECORDS = 20
FIRST_BYTES_MAX = 2 * RECORD_BYTES


def test_a_throttled_reassignment_keeps_its_rate(new_cluster: NewCluster, topic: str, tmp_path: Path) -> None:
    cluster = new_cluster(own, own, own, settings={**CALM, "replica.fetch.max.bytes": str(RECORD_BYTES)})
    cluster.create(topic, replicas=[[1, 2]], configs={"min.insync.replicas": "1"})
    cluster.produce(topic, *(os.urandom(RECORD_BYTES) for _ in range(RECORDS)))
    plan = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [1, 3]}]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    file = ("--reassignment-json-file", str(tmp_path / "plan.json"))

    began = time.monotonic()
    cluster.tool("kafka-reassign-partitions", "--execute", *file, "--throttle", str(RATE))
    stored = cluster.tree.read(f"/config/topics/{topic}")
    assert stored is not None
    assert stored[0]["config"]["follower.replication.throttled.replicas"] == "0:3"
    wait_until(lambda: cluster.tree.assignment(topic)[0] == (1, 3))
    assert time.monotonic() - began >= (RECORDS * RECORD_BYTES - FIRST_BYTES_MAX) / RATE
    assert cluster.isr(topic, 0) == [1, 3]
    copies = cluster.replicas(topic, 0)
    assert copies[1] == copies[3]

    assert "Clearing topic-level throttles" in cluster.tool("kafka-reassign-partitions", "--verify", *file)
    stored = cluster.tree.read(f"/config/topics/{topic}")
    assert stored is not None
    assert "follower.replication.throttled.replicas" not in stored[0]["config"]
