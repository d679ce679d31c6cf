"""Settings of a test broker: quick defaults, and names as Python writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SMALL: Final[Mapping[str, str]] = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
}
"""Few partitions of the broker's own topics: each takes a moment to create."""

QUICK: Final[Mapping[str, str]] = {
    **SMALL,
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "log.segment.delete.delay.ms": "1000",
    "reactor.stall.warn.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
"""Shorter delays than Kafka's, with which a test waits for seconds.

None of them may delete acknowledged records earlier than Kafka does. `docs/testing.md` lists their visible effects.
"""

OPEN: Final[Mapping[str, str]] = {"listeners": "PLAINTEXT://127.0.0.1:0"}
OPEN_CLUSTER: Final[Mapping[str, str]] = {
    "listeners": "PLAINTEXT://127.0.0.1:0,BROKERS://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
}
"""Brokers have a listener of their own, so that faults of the network are those of clients alone."""

ALLOW_FAULTS: Final[Mapping[str, str]] = {"testing.faults": "true"}


_REPLICAS_MAX: Final = 3


def quick(brokers: int) -> dict[str, str]:
    """Return the defaults of so many brokers; as with Kafka, a cluster keeps groups and transactions without one."""
    replicas = min(brokers, _REPLICAS_MAX)
    return {
        **QUICK,
        "controlled.shutdown.retry.backoff.ms": "100",
        "offsets.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(max(1, replicas - 1)),
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(max(1, replicas - 1)),
        "transaction.state.log.replication.factor": str(replicas),
        "zookeeper.session.timeout.ms": "18000",  # Kafka's: here sessions end with `down`, and the thread may be late
    }
