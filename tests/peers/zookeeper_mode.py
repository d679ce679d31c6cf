"""A real Apache Kafka broker that is coordinated by ZooKeeper, of release 3.9 or 2.7.

    with ZooKeeperModeBroker(tmp_path, broker_id=1, zookeeper=f"{server.address}/chroot") as broker:
        client(bootstrap_servers=broker.address)

Several brokers with one `zookeeper` are a cluster.  Kafka makes the chroot itself.  `QUICK_FAILURES` are settings for a
small machine and for tests that end brokers.  A death is noticed after 2 to 3 seconds; a paused broker blocks others
for 5.  `settings` overrides them.  The first start takes about 5 seconds, others 3.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tests.peers.kafka import KafkaServer

RELEASES = ("kafka-3.9", "kafka-2.7")
SESSION_SECONDS = 3.0
QUICK_FAILURES: Mapping[str, str] = {
    "zookeeper.session.timeout.ms": str(int(SESSION_SECONDS * 1000)),
    "zookeeper.connection.timeout.ms": "30000",
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.wait.max.ms": "200",
    "replica.fetch.backoff.ms": "100",
    "replica.socket.timeout.ms": "5000",
    "controller.socket.timeout.ms": "5000",
    "request.timeout.ms": "5000",
    "controlled.shutdown.retry.backoff.ms": "500",
    "auto.leader.rebalance.enable": "false",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "2000000",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
}


@attrs.define
class ZooKeeperModeBroker(KafkaServer):
    """Apache Kafka with a broker id and `zookeeper.connect`; `protocol` is its inter-broker protocol version."""

    started = r"\[KafkaServer id=\d+\] started"

    broker_id: int = attrs.field(kw_only=True)
    zookeeper: str = attrs.field(kw_only=True)
    protocol: str | None = attrs.field(default=None, kw_only=True)

    def all_settings(self) -> Mapping[str, str]:
        """Return QUICK_FAILURES, identity, address and directory, and `settings`."""
        protocol = {} if self.protocol is None else {"inter.broker.protocol.version": self.protocol}
        return {
            **QUICK_FAILURES,
            "broker.id": str(self.broker_id),
            "zookeeper.connect": self.zookeeper,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self.data),
            **protocol,
            **self.settings,
        }
