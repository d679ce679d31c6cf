"""Groups that read what producers write: each member must read on without a gap, and go on where its group committed.

Members come and go: each reads for some seconds, leaves, and joins again, so that what the broker remembers of commits
is used and not just asked for.
"""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

import attrs

from tests.crash.checks import Violation
from tests.crash.history import Partition
from tests.crash.stamps import NotStamped, stamp_in
from tests.crash.workloads import RunContext, Topic, persistently

Found = Iterable[tuple[Partition, int, bytes | None]]  # offset and value
_COMMIT_SECONDS: Final = 3.0


class Member(Protocol):
    """A consumer of one client that is a member of a group, used by one thread."""

    def poll(self) -> Found:
        """Records, after a short wait at most."""

    def commit(self, offsets: Mapping[Partition, int]) -> list[Partition]:
        """Commit and wait for the answer; says for which partitions that was acknowledged."""

    def close(self) -> None:
        """Leave."""


class Assignment(Protocol):
    """Partitions of a member, as its client says them."""

    def assigned(self, partitions: Sequence[Partition]) -> None:
        """Take partitions, which are all that the member has."""

    def added(self, partitions: Sequence[Partition]) -> None:
        """Take partitions besides those that the member has."""

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Read and commit some partitions no more."""


Join = Callable[["Place", Assignment], Member]


@attrs.frozen
class Place:
    """Place of a member: broker, group and topics."""

    bootstrap: str
    group: str
    partitions: Sequence[Partition]
    shares: bool  # the partitions with the other members, as the group decides; else it takes all, and asks nobody

    @property
    def is_of_cluster(self) -> bool:
        return "," in self.bootstrap

    @property
    def topics(self) -> list[str]:
        return list(dict.fromkeys(topic for topic, _ in self.partitions))


class confluent:  # noqa: N801  (named as the client)
    """librdkafka."""

    membership: Mapping[str, Any] = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500}

    def __init__(self, place: Place, assignment: Assignment) -> None:
        from confluent_kafka import Consumer, TopicPartition

        self._assignment = assignment
        self._consumer = Consumer(
            {
                "bootstrap.servers": place.bootstrap,
                "group.id": place.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "fetch.wait.max.ms": 50,
                "fetch.error.backoff.ms": 20,
                "log_level": 0,
                **self.membership,
            }
        )
        if place.shares:
            self._subscribe(place.topics)
        else:
            assignment.assigned(place.partitions)
            self._consumer.assign([TopicPartition(*partition) for partition in place.partitions])

    def _subscribe(self, topics: list[str]) -> None:
        self._consumer.subscribe(topics, on_assign=lambda _, found: self._assignment.assigned(_keys(found)))

    def poll(self) -> Found:
        for message in self._consumer.consume(200, 0.05):
            if message.error() is None:
                yield (message.topic(), message.partition()), message.offset(), message.value()

    def commit(self, offsets: Mapping[Partition, int]) -> list[Partition]:
        from confluent_kafka import KafkaException, TopicPartition

        wanted = [TopicPartition(topic, index, offset) for (topic, index), offset in offsets.items()]
        try:
            answers = self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException:
            return []
        return [(each.topic, each.partition) for each in answers if each.error is None]

    def close(self) -> None:
        self._consumer.close()


class confluent_of_kip_848(confluent):  # noqa: N801
    """librdkafka, as a member of a group whose broker assigns: it keeps partitions over rebalances."""

    membership = {"group.protocol": "consumer"}

    def _subscribe(self, topics: list[str]) -> None:
        assignment = self._assignment
        self._consumer.subscribe(
            topics,
            on_assign=lambda _, found: assignment.added(_keys(found)),
            on_revoke=lambda _, found: assignment.revoked(_keys(found)),
            on_lost=lambda _, found: assignment.revoked(_keys(found)),
        )


def _keys(partitions: Iterable[Any]) -> list[Partition]:
    return [(partition.topic, partition.partition) for partition in partitions]


class kafka_python:  # noqa: N801
    """kafka-python."""

    def __init__(self, place: Place, assignment: Assignment) -> None:
        from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_assigned(self, found: Any) -> None:
                assignment.assigned(_keys(found))

            def on_partitions_revoked(self, found: Any) -> None:
                """Forget the position; the assignment has the next one."""

        self._consumer = KafkaConsumer(
            bootstrap_servers=place.bootstrap,
            group_id=place.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=6000,
            heartbeat_interval_ms=500,
            fetch_max_wait_ms=50,
            reconnect_backoff_ms=10,
            reconnect_backoff_max_ms=50,
            retry_backoff_ms=20,
        )
        if place.shares:
            self._consumer.subscribe(place.topics, listener=Listener())
        else:
            assignment.assigned(place.partitions)
            self._consumer.assign([TopicPartition(*partition) for partition in place.partitions])

    def poll(self) -> Found:
        from kafka.errors import KafkaError

        try:
            found = self._consumer.poll(50, 200)
        except KafkaError:  # it does not hide that nobody listens, while it looks for its coordinator
            return
        for partition, records in found.items():
            for record in records:
                yield (partition.topic, partition.partition), record.offset, record.value

    def commit(self, offsets: Mapping[Partition, int]) -> list[Partition]:
        from kafka import OffsetAndMetadata, TopicPartition
        from kafka.errors import KafkaError

        wanted = {TopicPartition(*key): OffsetAndMetadata(offset, "", -1) for key, offset in offsets.items()}
        try:
            self._consumer.commit(wanted, timeout_ms=_COMMIT_SECONDS * 1000)
        except KafkaError:
            return []
        return list(offsets)

    def close(self) -> None:
        from kafka.errors import KafkaError

        with suppress(KafkaError):
            self._consumer.close(timeout_ms=3000)


@attrs.frozen
class Seat:
    """A member of a group."""

    group: str
    client: Join
    shares: bool = True


SEATS: Final = (
    Seat("rd", confluent),
    Seat("rd", confluent),
    Seat("py", kafka_python),
    Seat("rd-alone", confluent, shares=False),
    Seat("py-alone", kafka_python, shares=False),
    Seat("rd-848", confluent_of_kip_848),
    Seat("rd-848", confluent_of_kip_848),
)


class Consuming:
    """The members of `seats`, each in a thread, reading `topics`, which others write."""

    over = False

    def __init__(self, topics: Sequence[Topic], seats: Sequence[Seat] = SEATS) -> None:
        self._partitions = [key for topic in topics for key in topic.partition_keys]
        self._seats = seats
        self._running: list[_Running] = []

    def topics(self) -> list[Topic]:
        return []

    def start(self, context: RunContext) -> None:
        self._running = [_Running(seat, self._partitions, context) for seat in self._seats]

    def check(self, context: RunContext, *, settled: bool) -> Iterator[Violation]:
        for one in self._running:
            if one.problem:
                yield Violation("harness", f"a member of {one.seat.group}: {one.problem}")

    def figures(self) -> dict[str, int | float]:
        return {}

    def finish(self, seconds: float) -> None:
        for one in self._running:
            one.ending.set()
        for one in self._running:
            one.thread.join(seconds)


def _committed(place: Place, partition: Partition) -> int:
    """Ask the group's coordinator of now for the committed offset."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": place.bootstrap, "group.id": place.group, "log_level": 0})
    try:
        [found] = consumer.committed([TopicPartition(*partition)], timeout=10)
    finally:
        consumer.close()
    offset: int = found.offset
    return offset


class _Running:
    """A member at work."""

    def __init__(self, seat: Seat, partitions: Sequence[Partition], context: RunContext) -> None:
        self.seat, self._world = seat, context
        self._place = Place(context.bootstrap, seat.group, partitions, seat.shares)
        self.ending = threading.Event()
        self.problem = ""
        self._chance = random.Random(context.chance.random())
        self._next: dict[Partition, int] = {}  # what comes next, where something was read since the assignment
        self._floors: dict[Partition, int] = {}  # what was committed when a partition was assigned
        self.thread = threading.Thread(target=self._run, name=f"member of {seat.group}", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            while not self.ending.is_set():
                seconds = self._chance.uniform(8, 25) if self.seat.shares else self._chance.uniform(3, 12)
                self._sit(time.monotonic() + seconds)
        except Exception as error:
            self.problem = "".join(traceback.format_exception(error))

    def _sit(self, until: float) -> None:
        """Join, read and commit for a while, and leave."""
        member = persistently(lambda: self.seat.client(self._place, self))
        commit_at = time.monotonic()
        while time.monotonic() < until and not self.ending.is_set():
            for partition, offset, value in member.poll():
                self._take(partition, offset, value)
            if time.monotonic() > commit_at:
                self._commit(member)
                commit_at = time.monotonic() + self._chance.expovariate(10)
        self._next.clear()
        member.close()

    def assigned(self, partitions: Sequence[Partition]) -> None:
        self._next.clear()
        self._floors.clear()
        self.added(partitions)

    def added(self, partitions: Sequence[Partition]) -> None:
        self.revoked(partitions)
        commit_of = self._world.history.commit_of
        self._floors |= {key: commit_of(self.seat.group, key).acknowledged for key in partitions}

    def revoked(self, partitions: Sequence[Partition]) -> None:
        for partition in partitions:
            self._next.pop(partition, None)

    def _take(self, partition: Partition, offset: int, value: bytes | None) -> None:
        history = self._world.history
        expected = self._next.get(partition)
        if expected is None:
            self._check_first(partition, offset)
        elif offset != expected:
            history.contradict(f"{self.seat.group} read {offset} of {partition} where {expected} comes next")
        self._next[partition] = offset + 1
        try:
            history.see(partition, offset, stamp_in(value), self.seat.group)
        except NotStamped as error:
            history.contradict(f"{self.seat.group} read at {offset} of {partition} what nobody sent: {error}")

    def _check_first(self, partition: Partition, offset: int) -> None:
        """A member goes on where the group has committed.

        In a cluster, a paused coordinator may answer with an earlier commit, before it hears of its successor.
        """
        least = max(self._floors.get(partition, 0), 0)
        most = max(self._world.history.commit_of(self.seat.group, partition).tried, 0)
        is_earlier = self._place.is_of_cluster and 0 <= offset < least
        if is_earlier and persistently(lambda: _committed(self._place, partition)) >= least:
            return
        if not least <= offset <= most:
            what = f"{self.seat.group} began with {offset} of {partition}; its commits are {least} to {most}"
            self._world.history.contradict(what)

    def _commit(self, member: Member) -> None:
        offsets = dict(self._next)
        if not offsets:
            return
        history, group = self._world.history, self.seat.group
        for partition, offset in offsets.items():
            history.try_commit(group, partition, offset)
        acknowledged = member.commit(offsets)
        for partition in acknowledged:
            history.commit(group, partition, offsets[partition])
        if acknowledged:
            self._world.met("commit")
