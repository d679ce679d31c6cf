"""Producers that work while brokers of a cluster come and go, and the checks of what was acknowledged.

    with Traffic(cluster, [Topic("orders", 2)], seed=1) as traffic:       # creates the topics, and starts
        traffic.wait_for_acknowledgements(200)
        cluster.kill(cluster.leader("orders", 0))
        traffic.wait_for_acknowledgements(200)
        cluster.start_all()
        traffic.finish()
    assert traffic.violations() == []

Producers, stamps, history and most of the checks are those of `tests.crash`.  An acknowledged record must be at its
offset in the log that the leader serves.  Records of an idempotent producer are there once, in order, without gaps.
Acknowledged records of a producer that retries are in order.  All replicas have what the leader serves.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final, Self

import attrs

from tests.cluster.cluster import Cluster
from tests.cluster.replica_logs import LogRecord, compare_replicas, records_in
from tests.crash.checks import Violation, check_content, check_record_structure
from tests.crash.content import Content
from tests.crash.history import History, Partition, Promise, Sent
from tests.crash.workloads import RunContext, Topic
from tests.crash.workloads.producing import Plan, Producing
from tests.crash.workloads.senders import confluent
from tests.support.waiting import wait_until

WAIT_SECONDS_MAX: Final = 60.0
#: In a comparison of replicas, the records that consumers get.
SERVED: Final = 0


def usual_plans(*topics: Topic) -> list[Plan]:
    """Return two idempotent producers and one that retries, all with acks=all."""
    return [
        Plan("once-none", confluent, Promise.ONCE, "all", "none", topics),
        Plan("once-zstd", confluent, Promise.ONCE, "all", "zstd", topics),
        Plan("retry-lz4", confluent, Promise.REPEATED, "all", "lz4", topics),
    ]


@attrs.define
class Traffic:
    """Producers to topics of their own; a context manager that starts them, and finishes them in the end."""

    cluster: Cluster
    topics: Sequence[Topic]
    seed: int
    plans: Sequence[Plan] = ()
    history: History = attrs.field(factory=History)
    _producing: Producing | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.finish(WAIT_SECONDS_MAX if exc_info[0] is None else 0.0)

    @property
    def partitions(self) -> list[Partition]:
        """All partitions of the topics."""
        return [partition for topic in self.topics for partition in topic.partition_keys]

    @property
    def acknowledged(self) -> int:
        """The number of acknowledged records so far."""
        return sum(sent.acknowledged for sent in list(self.history.sent.values()))

    def start(self) -> Self:
        """Create the topics on all brokers, and start the producers."""
        for topic in self.topics:
            self.cluster.create(topic.name, topic.partitions, topic.configs)
        reader = self.cluster.reader(*self.partitions[0])
        chance = random.Random(self.seed)
        self._producing = Producing(self.plans or usual_plans(*self.topics))
        self._producing.start(RunContext(self.cluster.bootstrap, self.history, reader, chance, lambda _: None))
        return self

    def wait_for_acknowledgements(self, count: int, seconds: float = WAIT_SECONDS_MAX) -> None:
        """Wait until so many more records are acknowledged."""
        wanted = self.acknowledged + count
        wait_until(lambda: self.acknowledged >= wanted, seconds, lambda: f"{self.acknowledged} of {wanted}")

    def finish(self, seconds: float = WAIT_SECONDS_MAX) -> None:
        """Send nothing more, and wait for all acknowledgements; again has no effect."""
        if self._producing is not None:
            self._producing.finish(seconds)

    def violations(self) -> list[Violation]:
        """Check everything; the producers have finished, and all replicas are or come in sync."""
        for topic in self.topics:
            self.cluster.wait_until_in_sync(topic.name)
        senders = self.history.as_of_now().sent
        return [found for partition in self.partitions for found in self._check(partition, senders)]

    def _check(self, partition: Partition, senders: Sequence[Sent]) -> Iterator[Violation]:
        reader = self.cluster.reader(*partition)
        served = reader.read(partition)
        content = Content()
        content.read(served)
        yield from check_content(partition, content)
        yield from check_record_structure(partition, content, senders, settled=True)
        yield from check_replicas(partition, list(records_in(served)), self.cluster.replicas(*partition))


def check_replicas(
    partition: Partition, served: Sequence[LogRecord], replicas: dict[int, list[LogRecord]]
) -> Iterator[Violation]:
    """Check that consumers get what all replicas have, from the first to the last record."""
    ends = {number: records[-1].offset + 1 if records else 0 for number, records in replicas.items()}
    for violation in compare_replicas({SERVED: served, **replicas}, max(ends.values())):
        yield Violation(violation.kind, f"{partition[0]}-{partition[1]}: {violation.what}")
