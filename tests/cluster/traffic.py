"""Clients that work while brokers of a cluster come and go, and the checks of their answers.

    with Traffic(cluster, [Topic("orders", 2)], seed=1) as traffic:       # creates the topics, and starts
        traffic.wait_for_acknowledgements(200)
        cluster.kill(cluster.leader("orders", 0))
        traffic.wait_for_acknowledgements(200)
        cluster.start_all()
        traffic.check()                                                   # raises, unless nothing is wrong so far
    assert traffic.violations() == []

`others` are more workloads of `tests.crash`, as transactional copiers, which end before the producers.

Clients, stamps, history and checks are those of `tests.crash`.  An acknowledged record must be at its offset in the log
that the leader serves.  Records of an idempotent producer are there once, in order, without gaps.  What a consumer has
read stays; consumers skip nothing, and offsets of groups do not go back.  An entry below the high watermark is the same
at each check, and on all replicas at the end.  So are the logs of groups and transactions, apart from what compaction
has removed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, Self

import attrs

from tests.cluster.cluster import Cluster
from tests.cluster.cluster_reader import ClusterReader
from tests.cluster.replica_logs import LogRecord, compare_replicas, records_in
from tests.crash.checks import Violation
from tests.crash.history import UNANSWERED, History, Partition, Promise
from tests.crash.log_checker import LogChecker
from tests.crash.workloads import RunContext, Topic, Workload
from tests.crash.workloads.consuming import Consuming, Seat
from tests.crash.workloads.consuming import confluent as confluent_member
from tests.crash.workloads.producing import Plan, Producing
from tests.crash.workloads.senders import Sender, confluent
from tests.support.waiting import wait_until

WAIT_SECONDS_MAX: Final = 120.0
#: Topics of the brokers themselves.
INTERNAL: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")
#: In a comparison of replicas, the records that consumers get.
SERVED: Final = 0


#: A consumer without a group, and two in one.
SEATS: Final = (
    Seat("alone", confluent_member, shares=False),
    Seat("group", confluent_member),
    Seat("group", confluent_member),
)


def usual_plans(*topics: Topic, client: Callable[..., Sender] = confluent) -> list[Plan]:
    """Return two idempotent producers and one that retries, all with acks=all."""
    return [
        Plan("once-none", client, Promise.ONCE, "all", "none", topics),
        Plan("once-zstd", client, Promise.ONCE, "all", "zstd", topics),
        Plan("retry-lz4", client, Promise.REPEATED, "all", "lz4", topics),
    ]


@attrs.define(slots=False)
class Traffic:
    """Clients with topics of their own; a context manager that starts them, and finishes them in the end."""

    cluster: Cluster
    topics: Sequence[Topic]
    seed: int
    plans: Sequence[Plan] = ()
    seats: Sequence[Seat] = SEATS
    others: Sequence[Workload] = ()
    met: Callable[[str], None] = lambda event: None  # events at which a broker may be killed: "ack", "commit" ...
    history: History = attrs.field(factory=History)
    _workloads: Sequence[Workload] = ()
    _producing: Producing | None = None

    def __attrs_post_init__(self) -> None:
        self._reader = ClusterReader(self.cluster)
        self._checker = LogChecker(self.history, self._reader)
        self._checker.watch(self.partitions)

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
        """Create the topics on all brokers, and start the clients."""
        for topic in [*self.topics, *(topic for workload in self.others for topic in workload.topics())]:
            self.cluster.create(topic.name, topic.partitions, topic.configs)
        context = self._context()
        self._producing = Producing(self.plans or usual_plans(*self.topics))
        self._workloads = (*self.others, self._producing, Consuming(self.topics, self.seats))
        for workload in self._workloads:
            workload.start(context)
        return self

    def _context(self) -> RunContext:
        chance = random.Random(self.seed)
        return RunContext(self.cluster.bootstrap, self.history, self._reader, chance, self.met)

    def wait_for_acknowledgements(self, count: int, seconds: float = WAIT_SECONDS_MAX) -> None:
        """Wait until so many more records are acknowledged; AssertionError if a producer has ended."""
        wanted = self.acknowledged + count

        def are_acknowledged() -> bool:
            problems = [] if self._producing is None else self._producing.problems()
            assert problems == [], problems[0]
            return self.acknowledged >= wanted

        wait_until(are_acknowledged, seconds, lambda: f"{self.acknowledged} of {wanted}")

    def wait_until_busy(self, least: int, seconds: float = WAIT_SECONDS_MAX) -> None:
        """Wait until each producer has so many acknowledgements, and consumers have as many of their commits.

        Producers and groups need very different times to begin, on a slow machine still more so.
        """

        def counts() -> Counter[str]:
            found = Counter[str]()
            for sent in list(self.history.sent.values()):
                found[sent.producer] += sent.acknowledged
            found["commits"] = sum(one.count for one in list(self.history.committed.values()))
            return found

        wait_until(lambda: min(counts().values()) >= least, seconds, counts)

    def check(self) -> None:
        """Raise an AssertionError if anything is wrong so far; every partition must have a leader."""
        assert self.problems() == []

    def problems(self, *, settled: bool = False) -> list[Violation]:
        """Check what clients saw so far; `settled`: they have finished."""
        context = self._context()
        return [
            *self._checker.check(settled=settled),
            *(found for workload in self._workloads for found in workload.check(context, settled=settled)),
        ]

    def finish(self, seconds: float = WAIT_SECONDS_MAX) -> None:
        """Send nothing more, and wait until all is acknowledged and read."""
        for workload in self._workloads:
            if isinstance(workload, Consuming):
                with suppress(TimeoutError):  # then the checks show what is wrong
                    wait_until(self._is_all_read, seconds)
            workload.finish(seconds)

    def _is_all_read(self) -> bool:
        """Return whether consumers have read the last acknowledged record of each partition."""
        if not self.seats:
            return True
        last: dict[Partition, int] = {}
        for sent in list(self.history.sent.values()):
            last[sent.partition] = max(last.get(sent.partition, UNANSWERED), *sent.offsets, UNANSWERED)
        return all(offset < 0 or offset in self.history.seen.get(partition, {}) for partition, offset in last.items())

    def violations(self) -> list[Violation]:
        """Check everything; the clients have finished, and all replicas are or come in sync."""
        self.wait_until_in_sync()
        return [
            *self.problems(settled=True),
            *(found for topic in self.cluster.states.topics() for found in self._check_topic(topic)),
        ]

    def wait_until_in_sync(self) -> None:
        """Wait until all replicas of all topics are in sync."""
        for topic in self.cluster.states.topics():
            self.cluster.wait_until_in_sync(topic)

    def _check_topic(self, topic: str) -> Iterator[Violation]:
        for number in self.cluster.states.assignment(topic):
            partition = topic, number
            yield from self._check_internal(partition) if topic in INTERNAL else self._check_replicas(partition)

    def _check_replicas(self, partition: Partition) -> Iterator[Violation]:
        def end() -> int:
            return max(map(end_offset, self.cluster.replicas(*partition).values()))

        with suppress(TimeoutError):  # then the comparison shows what is wrong
            wait_until(lambda: self._reader.ends(partition)[1] >= end(), WAIT_SECONDS_MAX)
        served = list(records_in(self._reader.read(partition)))
        replicas = self.cluster.replicas(*partition)
        if any(
            topic.is_archived for topic in self.topics if topic.name == partition[0]
        ):  # they have the last ones alone
            return named(partition, compare_replicas({SERVED: served, **replicas}, len(served), compacted=True))
        return check_replicas(partition, served, replicas)

    def _check_internal(self, partition: Partition) -> Iterator[Violation]:
        """Compare the replicas of a log that is compacted or pruned; each broker does that by itself."""

        def are_equal() -> bool:
            return len(set(map(end_offset, self.cluster.replicas(*partition).values()))) == 1

        with suppress(TimeoutError):
            wait_until(are_equal, WAIT_SECONDS_MAX)
        replicas = self.cluster.replicas(*partition)
        yield from named(partition, compare_replicas(replicas, max(map(end_offset, replicas.values())), compacted=True))


def end_offset(records: Sequence[LogRecord]) -> int:
    """Return the offset behind the last record."""
    return records[-1].offset + 1 if records else 0


def check_replicas(
    partition: Partition, served: Sequence[LogRecord], replicas: dict[int, list[LogRecord]]
) -> Iterator[Violation]:
    """Check that consumers get what all replicas have, from the first to the last record."""
    end = max(map(end_offset, replicas.values()))
    return named(partition, compare_replicas({SERVED: served, **replicas}, end))


def named(partition: Partition, violations: Iterable[Violation]) -> Iterator[Violation]:
    """Yield violations with the name of their partition."""
    for violation in violations:
        yield Violation(violation.kind, f"{partition[0]}-{partition[1]}: {violation.what}")
