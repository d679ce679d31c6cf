"""Setup of one run, which follows from its seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

import attrs

from tests.simulation.network import Latency

TOPIC: Final = "orders"
COPIES: Final = "copies"
RECREATED: Final = "passing"
_CLIENTS: Final = 3  # of each run


@attrs.frozen
class Setup:
    brokers: int = 3
    partitions: int = 1
    replicas: int = 3
    min_insync_replicas: int = 2
    latency: Latency = attrs.field(factory=Latency)
    faults: tuple[str, ...] = ()
    """Kinds of faults; more often those that are named more often."""
    fault_seconds: float = 2.0
    """Mean time between faults."""
    late_answers: float = 0.0
    """Share of ZooKeeper's answers that are late."""
    flushes: bool = False
    """flush.messages=1: what is committed is on the disks of all in-sync replicas."""
    group_members: int = 0
    copiers: int = 0
    reassigners: int = 0
    recreators: int = 0
    seconds: float = 20.0
    """Time with clients and faults; afterwards the cluster must come to rest."""

    @classmethod
    def choose(cls, rng: random.Random, kinds: Sequence[str], **fixed: Any) -> Setup:
        brokers = rng.choice((3, 3, 3, 4, 5))
        chosen = cls(
            brokers,
            rng.choice((1, 1, 2, 3)),
            3,
            rng.choice((1, 2, 2)),
            rng.choice((Latency(), Latency(0.002, 0.5, 0.05), Latency(0.02, 0.05, 0.1))),
            tuple(rng.choices(kinds, k=rng.choice((0, 1, 3, 6, 10)))),
            rng.choice((0.5, 1.5, 3.0)),
            rng.choice((0.0, 0.0, 0.05, 0.3)),
            rng.random() < 0.3,
            rng.choice((0, 0, 1, 2)),
            rng.choice((0, 0, 0, 1, 2)),
            rng.choice((0, 0, 1)),
            rng.choice((0, 0, 1)),
        )
        return attrs.evolve(chosen, **fixed)

    @property
    def clients(self) -> int:
        return _CLIENTS + self.group_members + self.copiers + self.reassigners + self.recreators

    @property
    def topics(self) -> tuple[str, ...]:
        return (TOPIC, COPIES) if self.copiers else (TOPIC,)

    @property
    def settings(self) -> dict[str, str]:
        """Settings of each broker: short times, so that much happens."""
        return {
            "zookeeper.session.timeout.ms": "4000",
            "replica.lag.time.max.ms": "3000",
            "replica.socket.timeout.ms": "2000",
            "replica.fetch.backoff.ms": "200",
            "controlled.shutdown.retry.backoff.ms": "500",
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "2",
            "transaction.state.log.num.partitions": "2",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
            "group.min.session.timeout.ms": "1000",
            "group.initial.rebalance.delay.ms": "100",
            **({"log.flush.interval.messages": "1"} if self.flushes else {}),
        }
