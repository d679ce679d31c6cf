"""Setup of one run, which follows from its seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from copy import copy
from typing import Any, Final

import attrs

from pylogbroker.metadata.topic_names import SHARE_STATE_TOPIC
from tests.simulation.network import Latency

TOPIC: Final = "orders"
COPIES: Final = "copies"
RECREATED: Final = "passing"
LETTERS: Final = "dlq.orders"
"""The dead letter topic of the share group."""
CONSUMER_SESSION_MS: Final = 1500
SHARE_GROUP: Final = "workers"
SHARE_DELIVERIES_MAX: Final = 3
_SHARE_SESSION_MS: Final = 1500
_AUTHORIZER: Final = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}
_CONSUMER_GROUPS: Final = {
    "api.versions.release": "4.4",
    "group.consumer.min.session.timeout.ms": str(CONSUMER_SESSION_MS),
    "group.consumer.session.timeout.ms": str(CONSUMER_SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "100",
}
_SHARE_GROUPS: Final = {
    "api.versions.release": "4.4",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.snapshot.update.records.per.snapshot": "5",
    "group.share.min.session.timeout.ms": str(_SHARE_SESSION_MS),
    "group.share.session.timeout.ms": str(_SHARE_SESSION_MS),
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "200",
    "group.share.assignment.interval.ms": "100",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.max.record.lock.duration.ms": "3600000",
    "group.share.delivery.count.limit": str(SHARE_DELIVERIES_MAX),
}
_CLIENTS: Final = 3  # of each run
ZOOKEEPER: Final = "zookeeper"
KRAFT: Final = "kraft"
ENGINES: Final = (ZOOKEEPER, KRAFT)


@attrs.frozen
class Setup:
    brokers: int = 3
    partitions: int = 1
    replicas: int = 3
    min_insync_replicas: int = 2
    latency: Latency = attrs.field(factory=Latency)
    faults: tuple[str, ...] = ()
    """Kinds of faults; more often those that are named more often."""
    fault_seconds: float = 1.0
    """Mean time between faults."""
    late_answers: float = 0.0
    """Share of ZooKeeper's answers that are late."""
    flushes: bool = False
    """flush.messages=1: what is committed is on the disks of all in-sync replicas."""
    group_members: int = 0
    copiers: int = 0
    reassigners: int = 0
    recreators: int = 0
    administrators: int = 0
    pipeliners: int = 0
    consumer_group_members: int = 0
    transactions_v2: bool = False
    """Brokers offer the versions and features of Kafka 4.4, and copiers use transactions v2."""
    share_members: int = 0
    share_lock_ms: int = 1000
    shares_copies: bool = False
    """The share group reads committed copies, if there are copiers."""
    share_resets: bool = False
    """The only member sets sometimes where the group begins."""
    prunes_share_states: bool = False
    """Brokers delete records of `__share_group_state` that no state needs."""
    seconds: float = 8.0
    """Time with clients and faults; afterwards the cluster must come to rest."""
    engine: str = ZOOKEEPER
    """Keeps the metadata."""
    has_elr: bool = False
    """The controllers have eligible leader replicas."""
    metadata_transactions: float = 0.0
    """Share of new topics whose records are a metadata transaction."""
    raced_isr_changes: float = 0.0
    """Share of changes of ISRs that find another state: the controller has just fenced a member."""

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
            rng.choice((0.25, 0.75, 1.5)),
            rng.choice((0.0, 0.0, 0.05, 0.3)),
            rng.random() < 0.3,
            rng.choice((0, 0, 1, 2)),
            rng.choice((0, 0, 0, 1, 2)),
            rng.choice((0, 0, 1)),
            rng.choice((0, 0, 1)),
            rng.choice((0, 0, 1)),
        )
        later = copy(rng)  # planted bugs are found by the same seeds as without these
        chosen = attrs.evolve(
            chosen,
            pipeliners=later.choice((0, 0, 1)),
            transactions_v2=later.random() < 0.5,
            consumer_group_members=later.choice((0, 0, 1, 2, 3)),
            share_members=later.choice((0, 0, 1, 2, 3)),
            share_lock_ms=later.choice((1000, 1500, 4000)),
            prunes_share_states=later.random() < 0.5,
        )
        chosen = attrs.evolve(
            chosen,
            share_resets=chosen.share_members == 1 and later.random() < 0.5,
            shares_copies=later.random() < 0.5,
        )
        if fixed.get("engine") == KRAFT:
            chosen = attrs.evolve(
                chosen,
                has_elr=later.random() < 0.5,
                metadata_transactions=later.choice((0.0, 0.5, 1.0)),
                raced_isr_changes=later.choice((0.0, 0.0, 0.3)),
            )
        return attrs.evolve(chosen, **fixed)

    @property
    def clients(self) -> int:
        others = self.group_members + self.copiers + self.reassigners + self.recreators + self.administrators
        return _CLIENTS + others + self.pipeliners + self.consumer_group_members + self.share_members

    @property
    def topics(self) -> tuple[str, ...]:
        return (TOPIC, *((COPIES,) if self.copiers else ()), *((LETTERS,) if self.share_members else ()))

    @property
    def shared_topic(self) -> str:
        """Topic of the share group."""
        return COPIES if self.shares_copies and self.copiers else TOPIC

    @property
    def unchecked_topics(self) -> tuple[str, ...]:
        """Topics whose logs do not begin at offset 0 all the time."""
        return (RECREATED, SHARE_STATE_TOPIC) if self.prunes_share_states else (RECREATED,)

    @property
    def settings(self) -> dict[str, str]:
        """Settings of each broker: short times, so that much happens in few events."""
        return {
            "replica.lag.time.max.ms": "1500",
            "replica.socket.timeout.ms": "1000",
            "controller.socket.timeout.ms": "1000",
            "replica.fetch.backoff.ms": "100",
            "controlled.shutdown.retry.backoff.ms": "250",
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "2",
            "transaction.state.log.num.partitions": "2",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
            "group.min.session.timeout.ms": "500",
            "group.initial.rebalance.delay.ms": "50",
            **(_CONSUMER_GROUPS if self.consumer_group_members else {}),
            **(_SHARE_GROUPS if self.share_members else {}),
            **({"group.share.record.lock.duration.ms": str(self.share_lock_ms)} if self.share_members else {}),
            **({"share.coordinator.state.topic.prune.interval.ms": "1000"} if self.prunes_share_states else {}),
            **({"log.flush.interval.messages": "1"} if self.flushes else {}),
            **({"api.versions.release": "4.4"} if self.transactions_v2 else {}),
            **(_AUTHORIZER if self.administrators else {}),
        }
