"""Members of a share group, which accept, release and reject what producers write, while the broker comes and goes.

Members are share consumers of librdkafka, of Java, and of this project. Each works for some seconds; then it leaves, or
its process is killed. At the end they go on until the group has finished all records.
"""

from __future__ import annotations

import random
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

import attrs

from pylogbroker.client import LATEST, AcknowledgeType
from pylogbroker.client.admin.configs import ConfigResource
from pylogbroker.client.share.consumer import AcknowledgementsFailed, NotAcquired
from pylogbroker.client.sync import AdminClient, ShareConsumer, TimedOut
from pylogbroker.config import ConfigOperation, SettingChange
from tests.cluster.replica_logs import records_in
from tests.crash.checks import Violation
from tests.crash.history import UNANSWERED, History, Partition, Promise
from tests.crash.shared_records import ACCEPT, DELIVERIES_MAX, GROUP, REJECT, RELEASE, Delivery, SharedRecords
from tests.crash.stamps import Stamp
from tests.crash.workloads import RunContext, Topic, persistently
from tests.crash.workloads.producing import Plan, Producing
from tests.crash.workloads.senders import confluent
from tests.peers.java import Program
from tests.support.broker_process import ROOT
from tests.support.line_process import LineProcess, ProcessFailed

SHARED: Final = Topic("shared", 3, judged=False)
LETTERS: Final = Topic("dlq.shared", 1, {"errors.deadletterqueue.group.enable": "true"}, judged=False)
SETTINGS: Final[Mapping[str, str]] = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "3000",
    "group.share.delivery.count.limit": str(DELIVERIES_MAX),
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.session.timeout.ms": "6000",
    "group.share.assignment.interval.ms": "0",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.snapshot.update.records.per.snapshot": "20",
    "share.coordinator.state.topic.prune.interval.ms": "1000",
}
ALONE: Final[Mapping[str, str]] = {
    **SETTINGS,
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
_OF_GROUP: Final = {
    "share.auto.offset.reset": "earliest",
    "errors.deadletterqueue.topic.name": LETTERS.name,
    "errors.deadletterqueue.copy.record.enable": "true",
}
_JAVA: Final = Program(Path(__file__).parent / "ShareWorker.java", "clients-4", log_level="error")
_RECORDS_MAX: Final = 100
_LIFE_SECONDS: Final = (3.0, 12.0)
_SILENT_SECONDS_MAX: Final = 60.0
_CLOSE_SECONDS_MAX: Final = 30.0
_KILLED_SHARE: Final = 0.5
_CALL_SECONDS: Final = 10.0

Chosen = list[tuple[Delivery, str]]


class Worker(Protocol):
    """A share consumer of one client, used by one thread."""

    def work(self) -> bool:
        """Poll, acknowledge what came, and report it; return False if the worker has ended."""

    def close(self, *, is_killed: bool) -> None:
        """Leave, or die if the worker is a process of its own."""


Start = Callable[[str, "SharedRecords", random.Random, Callable[[str], None]], Worker]


def choose(chance: random.Random) -> str:
    value = chance.random()
    return REJECT if value < 0.05 else RELEASE if value < 0.2 else ACCEPT


class _Polling:
    """Worker in this process: polls, and times of the polls before."""

    name = ""

    def __init__(
        self, bootstrap: str, records: SharedRecords, chance: random.Random, met: Callable[[str], None]
    ) -> None:
        self._records, self._chance, self._met = records, chance, met
        self._polls = [time.monotonic()] * 2  # the start of the last but one, and of the last
        self._open(bootstrap)

    def _open(self, bootstrap: str) -> None:
        raise NotImplementedError

    def _poll(self) -> Iterable[tuple[Any, Partition, int, int, bytes | None]]:
        """Return messages: the client's own, partition, offset, delivery count, value."""
        raise NotImplementedError

    def _acknowledge(self, message: Any, kind: str) -> bool:
        """Choose what becomes of a message; return False if the client has lost it."""
        raise NotImplementedError

    def _commit(self) -> Callable[[Partition], bool]:
        """Send the acknowledgements; return a function that is true of partitions whose were confirmed."""
        raise NotImplementedError

    def work(self) -> bool:
        since = self._polls[0]
        self._polls = [self._polls[1], time.monotonic()]
        chosen: Chosen = []
        for message, partition, offset, count, value in self._poll():
            delivery = Delivery((partition, offset), count, since, self.name)
            self._records.deliver(delivery, value)
            kind = choose(self._chance)
            self._records.acknowledging(delivery, kind)
            if self._acknowledge(message, kind):
                chosen.append((delivery, kind))
        if chosen:
            is_confirmed = self._commit()
            now = time.monotonic()
            for delivery, kind in chosen:
                if is_confirmed(delivery.record[0]):
                    self._records.acknowledge(delivery, kind, now)
            self._met("commit")
        return True


class librdkafka(_Polling):  # noqa: N801  (named as the client)
    name = "librdkafka"

    def _open(self, bootstrap: str) -> None:
        from confluent_kafka import ShareConsumer as RdShareConsumer

        self._consumer = RdShareConsumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "share.acknowledgement.mode": "explicit",
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([SHARED.name])

    def _poll(self) -> Iterator[tuple[Any, Partition, int, int, bytes | None]]:
        from confluent_kafka import KafkaException

        try:
            messages = self._consumer.poll(0.2)
        except KafkaException:
            return
        for message in messages:
            if message.error() is None:
                partition = message.topic(), message.partition()
                yield message, partition, message.offset(), message.delivery_count(), message.value()

    def _acknowledge(self, message: Any, kind: str) -> bool:
        from confluent_kafka import AcknowledgeType as RdAcknowledgeType
        from confluent_kafka import KafkaException

        try:
            self._consumer.acknowledge(message, getattr(RdAcknowledgeType, kind))
        except KafkaException:
            return False
        return True

    def _commit(self) -> Callable[[Partition], bool]:
        from confluent_kafka import KafkaException

        try:
            answers = self._consumer.commit_sync(_CALL_SECONDS)
        except KafkaException:
            return lambda partition: False
        confirmed = {(answer.topic, answer.partition) for answer, error in answers.items() if error is None}
        return confirmed.__contains__

    def close(self, *, is_killed: bool) -> None:
        self._consumer.close()


class own(_Polling):  # noqa: N801  (named as the client)
    name = "own"

    def _open(self, bootstrap: str) -> None:
        self._consumer = ShareConsumer(
            bootstrap, group=GROUP, timeout=_CALL_SECONDS, settings={"share.acknowledgement.mode": "explicit"}
        )
        try:
            self._consumer.subscribe([SHARED.name])
        except BaseException:
            self._consumer.close()
            raise

    def _poll(self) -> Iterator[tuple[Any, Partition, int, int, bytes | None]]:
        try:
            messages = self._consumer.poll(_RECORDS_MAX, 0.2)
        except TimedOut:
            return
        for message in messages:
            partition = message.topic, message.partition
            yield message, partition, message.offset, message.delivery_count, message.value

    def _acknowledge(self, message: Any, kind: str) -> bool:
        try:
            self._consumer.acknowledge(message, AcknowledgeType[kind])
        except (NotAcquired, TimedOut):
            return False
        return True

    def _commit(self) -> Callable[[Partition], bool]:
        try:
            self._consumer.commit()
        except AcknowledgementsFailed as failed:
            errors = failed.errors
            return lambda partition: partition not in errors
        except TimedOut:  # the brokers may have them
            return lambda partition: False
        return lambda partition: True

    def close(self, *, is_killed: bool) -> None:
        self._consumer.close()


class java:  # noqa: N801  (named as the client)
    """Kafka's share consumer, in a process that prints what it does."""

    def __init__(
        self, bootstrap: str, records: SharedRecords, chance: random.Random, met: Callable[[str], None]
    ) -> None:
        self._records, self._met = records, met
        self._process = LineProcess(_JAVA.command(bootstrap, SHARED.name, GROUP), cwd=ROOT)
        self._chosen: dict[int, Chosen] = {}
        self._heard_at = time.monotonic()

    def work(self) -> bool:
        try:
            line = self._process.expect("^(got|confirmed|refused|idle) ?(.*)", 0.2)
        except ProcessFailed:
            return self._process.running and time.monotonic() - self._heard_at < _SILENT_SECONDS_MAX
        self._heard_at = time.monotonic()
        self._obey(line[1], line[2])
        return True

    def _obey(self, word: str, rest: str) -> None:
        if word == "got":
            index, offset, count, since, kind, value = rest.split(" ", 5)
            partition = SHARED.name, int(index)
            delivery = Delivery((partition, int(offset)), int(count), int(since) / 1e9, "java")
            self._records.deliver(delivery, value.encode())
            self._records.acknowledging(delivery, kind)
            self._chosen.setdefault(partition[1], []).append((delivery, kind))
        elif word == "confirmed":
            index, at = rest.split(" ")
            for delivery, kind in self._chosen.pop(int(index), []):
                self._records.acknowledge(delivery, kind, int(at) / 1e9)
            self._met("commit")
        elif word == "refused":
            index = rest.partition(" ")[0]
            if int(index) < 0:
                self._chosen.clear()
            self._chosen.pop(int(index), None)

    def close(self, *, is_killed: bool) -> None:
        if is_killed:
            self._process.signal(signal.SIGKILL)
        else:
            self._process.close_input()
        with suppress(ProcessFailed):
            self._process.wait(_CLOSE_SECONDS_MAX)
        for line in self._process.lines_left():
            word, _, rest = line.partition(" ")
            self._obey(word, rest)
        self._process.kill()


ALL_CLIENTS: Final[Sequence[Start]] = (librdkafka, librdkafka, own, own, java, java)


class Sharing:
    """Members of the group, and a producer that writes for them until `finish`."""

    over = False

    def __init__(self, clients: Sequence[Start], stale_seconds: float = 1.0) -> None:
        self._clients = clients
        self.records = SharedRecords(stale_seconds)
        self._history = History()
        plans = [Plan("shared-once", confluent, Promise.ONCE, "all", "none", (SHARED,))]
        self._producing = Producing(plans)
        self._running: list[_Running] = []
        self._bootstrap = ""

    def topics(self) -> list[Topic]:
        return [SHARED, LETTERS]

    def start(self, context: RunContext) -> None:
        self._bootstrap = context.bootstrap
        group = ConfigResource.group(GROUP)
        changes = [SettingChange(name, ConfigOperation.SET, value) for name, value in _OF_GROUP.items()]

        def set_up() -> None:
            with AdminClient(context.bootstrap) as admin:
                admin.configs.alter({group: changes})

        persistently(set_up)
        self._producing.start(attrs.evolve(context, history=self._history, met=lambda event: None))
        self._running = [_Running(client, self.records, context) for client in self._clients]

    def check(self, context: RunContext, *, settled: bool) -> Iterator[Violation]:
        yield from self._producing.check(context, settled=settled)
        yield from self.records.violations()
        for worker in self._running:
            if worker.problem:
                yield Violation("harness", f"a share consumer: {worker.problem}")
        if settled:
            letters = list(records_in(context.reader.read(LETTERS.partition_keys[0])))
            yield from self.records.missing(self._acknowledged(), letters)

    def _acknowledged(self) -> Iterator[Stamp]:
        for sent in self._history.sent.values():
            for sequence, offset in enumerate(sent.offsets):
                if offset != UNANSWERED:
                    yield Stamp(sent.producer, *sent.partition, sequence)

    def figures(self) -> dict[str, int | float]:
        written = sum(sent.acknowledged for sent in self._history.sent.values())
        counts = {"records written": written, **dict(sorted(self.records.counts.items()))}
        return {f"shared: {name}": count for name, count in counts.items()}

    def finish(self, seconds: float) -> None:
        """Let the members go on until the group has finished all that was written."""
        self._producing.finish(seconds)
        deadline = time.monotonic() + seconds
        with suppress(TimeoutError):
            while time.monotonic() < deadline and not self._is_finished():
                time.sleep(0.2)
        for worker in self._running:
            worker.ending.set()
        for worker in self._running:
            worker.thread.join(_CLOSE_SECONDS_MAX)

    def _is_finished(self) -> bool:
        try:
            with AdminClient(self._bootstrap, timeout=_CALL_SECONDS) as admin:
                offsets = admin.share_groups.offsets([GROUP])[GROUP]
                ends = admin.records.offsets(dict.fromkeys(SHARED.partition_keys, LATEST))
        except Exception:
            return False
        return all(partition in offsets and offsets[partition].start == end.offset for partition, end in ends.items())


class _Running:
    """A member at work, life after life."""

    def __init__(self, client: Start, records: SharedRecords, context: RunContext) -> None:
        self._client, self._records, self._context = client, records, context
        self._chance = random.Random(context.chance.random())
        self.ending = threading.Event()
        self.problem = ""
        self.thread = threading.Thread(target=self._run, name="share consumer", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            while not self.ending.is_set():
                self._live()
        except Exception as error:
            self.problem = "".join(traceback.format_exception(error))

    def _live(self) -> None:
        worker = persistently(
            lambda: self._client(self._context.bootstrap, self._records, self._chance, self._context.met)
        )
        until = time.monotonic() + self._chance.uniform(*_LIFE_SECONDS)
        is_alive = True
        try:
            while is_alive and time.monotonic() < until and not self.ending.is_set():
                is_alive = worker.work()
        finally:  # a member that nobody polls would keep its partitions
            worker.close(is_killed=not is_alive or self._chance.random() < _KILLED_SHARE)
