"""Archived topics: what producers write is copied to a remote storage, which kills the broker at a call of its own.

topic        what happens to it
---------    ------------------------------------------------------------------------------------------------
rolling      producers write, nothing is deleted: all is read after each start, most of it from the store
flushed      likewise
trimmed      one producer writes numbers, and DeleteRecords deletes the first of them
short-<n>    created, written and deleted, one after the other
"""

from __future__ import annotations

import os
import random
import threading
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import attrs

from tests.cluster.faults import PARTITIONS
from tests.crash.checks import Violation
from tests.crash.content import end_of
from tests.crash.kill_moments import KillContext
from tests.crash.killing_storage import PLUGIN, WHEN
from tests.crash.workloads import RunContext, Topic
from tests.crash.workloads.producing import OLD, PLANS, Producing
from tests.support.waiting import wait_until

_CHANGES_MAX: Final = 12
_DEATH_SECONDS_MAX: Final = 4.0
_OUT_OF_RANGE: Final = 1
_SHORT: Final = "short-"
ARCHIVED: Final[Mapping[str, str]] = {"remote.storage.enable": "true", "local.retention.bytes": "1"}
TRIMMED: Final = Topic("trimmed", 1, {**ARCHIVED, "segment.bytes": "3000"}, judged=False)
ORDERS: Final = Topic("orders", PARTITIONS, {**ARCHIVED, "segment.bytes": "20000"})
"""Topic of clusters."""

SETTINGS: Final[Mapping[str, str]] = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "100",
    "remote.fetch.max.wait.ms": "60000",
    "log.retention.check.interval.ms": "100",
    "log.segment.delete.delay.ms": "0",
}


def settings_of(directory: Path, place: str) -> tuple[dict[str, str], dict[str, str]]:
    """Settings and environment of a broker whose store, at `place`, kills it."""
    plugins = directory / "plugin" / "pylogbroker" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "killing_storage.py").write_text(PLUGIN)
    environment = {**os.environ, "PYTHONPATH": str(directory / "plugin")}
    return {**SETTINGS, "remote.log.storage": f"killing:{_order_in(directory)}|{place}"}, environment


def _order_in(directory: Path) -> Path:
    return directory / "kill-at"


def in_the_store(directory: Path) -> Callable[[KillContext], None]:
    """Return the moment of one of the next changes of the store: before, within or after it."""

    def moment(scene: KillContext) -> None:
        order = _order_in(directory)
        order.with_suffix(".new").write_text(f"{scene.chance.randint(1, _CHANGES_MAX)} {scene.chance.choice(WHEN)}")
        os.replace(order.with_suffix(".new"), order)
        with suppress(TimeoutError):
            wait_until(lambda: not scene.victim.process.running, _DEATH_SECONDS_MAX)
        with suppress(FileNotFoundError):
            order.unlink()
        scene.victim.strike()

    return moment


def topic_ids_on_disk(data_dir: Path) -> set[str]:
    """Return the ids of topics with a log in a directory."""
    texts = [path.read_text() for path in data_dir.glob("*_*/partition.metadata")]
    encoded = [text.rpartition("topic_id: ")[2].strip() for text in texts]
    return {str(UUID(bytes=urlsafe_b64decode(text + "=="))) for text in encoded}


class ArchivedProducing(Producing):
    """Producers of topics that are archived: each of the plans, or each second one, and so on."""

    def __init__(self, step: int) -> None:
        super().__init__([plan for plan in PLANS if OLD not in plan.topics][::step])

    def topics(self) -> list[Topic]:
        return [attrs.evolve(topic, configs={**topic.configs, **ARCHIVED}) for topic in super().topics()]


class Trimming:
    """A producer whose records are deleted, and topics that are deleted."""

    over = False

    def __init__(self, topic_ids_in_store: Callable[[], set[str]], topic_ids_on_disk: Callable[[], set[str]]) -> None:
        """Functions return the ids of topics with objects, and of those with logs, which are archived."""
        self._in_store, self._on_disk = topic_ids_in_store, topic_ids_on_disk
        self._ending = threading.Event()
        self._chance = random.Random()
        self._trims = self._deleted = self._numbers = 0
        self._problem = ""

    def topics(self) -> list[Topic]:
        return [TRIMMED]

    def start(self, context: RunContext) -> None:
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient

        self._chance = random.Random(context.chance.random())
        servers = {
            "bootstrap.servers": context.bootstrap,
            "log_level": 0,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 50,
        }
        self._producer = Producer({**servers, "enable.idempotence": True, "message.timeout.ms": 600_000})
        self._admin = AdminClient(servers)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            while not self._ending.is_set():
                for _ in range(20):
                    self._producer.produce(TRIMMED.name, f"{self._numbers}".rjust(100))
                    self._numbers += 1
                self._producer.flush(60)
                if self._chance.random() < 0.3:
                    self._trim()
                if self._chance.random() < 0.05:
                    self._use_short_topic()
                self._ending.wait(0.05)
        except Exception as error:
            self._problem = repr(error)

    def _trim(self) -> None:
        from confluent_kafka import TopicPartition

        offset = self._chance.randint(max(self._numbers - 300, 0), self._numbers)
        [deletion] = self._admin.delete_records([TopicPartition(TRIMMED.name, 0, offset)], request_timeout=5).values()
        self._trims += _succeeds(deletion)

    def _use_short_topic(self) -> None:
        from confluent_kafka.admin import NewTopic

        name = f"{_SHORT}{self._deleted}"
        [creation] = self._admin.create_topics([NewTopic(name, 1, 1, config=dict(TRIMMED.configs))]).values()
        if _succeeds(creation):
            for _ in range(200):
                self._producer.produce(name, b"x" * 100)
            self._producer.flush(20)
            self._ending.wait(self._chance.uniform(0, 0.5))
        [deletion] = self._admin.delete_topics([name], request_timeout=5).values()
        _succeeds(deletion)
        self._deleted += 1

    def check(self, context: RunContext, *, settled: bool) -> Iterator[Violation]:
        """Read the numbers from the log start on."""
        if self._problem:
            yield Violation("harness", self._problem)
        yield from _check_numbers(context)
        if settled:
            try:
                wait_until(lambda: self._in_store() <= self._on_disk(), 60)
            except TimeoutError:
                left = sorted(self._in_store() - self._on_disk())
                yield Violation("left", f"objects of topics that were deleted: {left}")

    def figures(self) -> dict[str, int | float]:
        return {"numbers sent": self._numbers, "trims": self._trims, "topics deleted": self._deleted}

    def finish(self, seconds: float) -> None:
        self._ending.set()
        self._thread.join(2 * seconds)
        with suppress(Exception):
            for name in self._admin.list_topics(timeout=20).topics:
                if name.startswith(_SHORT):
                    _succeeds(self._admin.delete_topics([name])[name])


def _succeeds(future: Any) -> bool:
    """Return whether a request was answered without an error; the broker may die."""
    try:
        future.result(20)
    except Exception:
        return False
    return True


def _check_numbers(context: RunContext) -> Iterator[Violation]:
    """Check that the record at each offset is the number of this offset."""
    from kafka.record import MemoryRecords

    key = TRIMMED.partition_keys[0]
    offset, end = context.reader.bounds(key)
    while offset < end:
        answer = context.reader.fetch(key, offset)
        if answer.error_code == _OUT_OF_RANGE:  # trimmed since
            offset, _ = context.reader.bounds(key)
            continue
        data = bytes(answer.records or b"")
        if answer.error_code or not data:
            yield Violation(
                "lost", f"error {answer.error_code}, or no record, at {offset} of {key}, which ends at {end}"
            )
            return
        records = MemoryRecords(data)
        while (batch := records.next_batch()) is not None:
            for record in batch:
                if int(record.value) != record.offset:
                    yield Violation("changed", f"{record.value!r} at {record.offset} of {key}")
                    return
        offset = end_of(data)
