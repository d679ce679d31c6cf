"""Writers of keyed records, to a topic that is compacted all the time: the last record of each key must stay.

Each writer has keys of its own, and now and then deletes one.  In the end half of them are deleted, and must vanish.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import attrs
from confluent_kafka import Producer

from tests.clients.adapters.aiokafka import AioKafka
from tests.clients.adapters.confluent import Confluent
from tests.clients.adapters.kafka_python import KafkaPython
from tests.crash.checks import Violation
from tests.crash.compacted import STAMP, CompactedLog, Written
from tests.crash.history import Partition
from tests.crash.stamps import Stamp, value_of
from tests.crash.workloads import RunContext, Topic

#: So that it is compacted all the time.
SETTINGS: Final = {"log.cleaner.backoff.ms": "200"}
_TOPIC: Final = Topic(
    "compacted",
    2,
    {
        "cleanup.policy": "compact",
        "segment.bytes": "12000",
        "min.cleanable.dirty.ratio": "0.1",
        "delete.retention.ms": "1500",
        "min.compaction.lag.ms": "0",
        "max.compaction.lag.ms": "3000",
    },
    judged=False,
)
_CODECS: Final = ("none", "zstd", "lz4")  # of each writer
_KEYS: Final = 40  # of a writer in a partition
_DELETES: Final = 0.1  # of all records
_BURSTS_PER_SECOND: Final = 12
_READS_MAX: Final = 20  # of a client, until no compaction comes between


class Compacting:
    """The writers."""

    over = False

    def __init__(self) -> None:
        self._writers: list[_Writer] = []
        self._logs = {partition: CompactedLog() for partition in _TOPIC.partition_keys}
        self._world: RunContext | None = None
        self._late: list[Violation] = []

    def topics(self) -> list[Topic]:
        return [_TOPIC]

    def start(self, context: RunContext) -> None:
        self._world = context
        self._writers = [_Writer(f"writer-{codec}", codec, context) for codec in _CODECS]

    def check(self, context: RunContext, *, settled: bool) -> Iterator[Violation]:
        for partition, log in self._logs.items():
            before = {writer.name: writer.written[partition].as_of_now() for writer in self._writers}
            log.read(context.reader.read(partition))
            for violation in log.check(before):
                yield Violation(violation.kind, f"{partition[0]}-{partition[1]}: {violation.what}")
            if settled:
                yield from self._check_readers(context, partition, log)
        yield from self._late
        failed = [failure for writer in self._writers for failure in writer.failures]
        if failed:
            yield Violation("rejected", f"{failed[0]}; {len(failed)} in all")

    def _check_readers(self, context: RunContext, partition: Partition, log: CompactedLog) -> Iterator[Violation]:
        """Check that other clients see the same, possibly during one more compaction."""
        for client in (Confluent(), KafkaPython(), AioKafka()):
            for _ in range(_READS_MAX):
                seen = [each.key for each in client.read(context.bootstrap, partition[0], [partition[1]])]
                log.read(context.reader.read(partition))
                if seen == [each.key for each in log.found]:
                    break
            else:
                yield Violation("readers", f"{client.name} reads {len(seen)} records, there are {len(log.found)}")

    def finish(self, seconds: float) -> None:
        for writer in self._writers:
            writer.ending.set()
        for writer in self._writers:
            writer.thread.join(2 * seconds)
        assert self._world is not None
        deleted = {key for writer in self._writers for key in writer.deleted_for_good}
        deadline = time.monotonic() + seconds
        while left := deleted & self._keys_there(self._world):
            if time.monotonic() > deadline:
                self._late = [Violation("deleted", f"{len(left)} of {len(deleted)} deleted keys are still there")]
                return
            for writer in self._writers:
                writer.fill()
            time.sleep(0.2)

    def _keys_there(self, context: RunContext) -> set[bytes]:
        for partition, log in self._logs.items():
            log.read(context.reader.read(partition))
        return {one.key for log in self._logs.values() for one in log.found}

    def figures(self) -> dict[str, int | float]:
        written = [one for writer in self._writers for one in writer.written.values()]
        return {
            "keyed records written": sum(len(one.keys) for one in written),
            "marks of deletion written": sum(sum(one.deletes) for one in written),
            "keyed records left in the end": sum(len(log.found) for log in self._logs.values()),
            "keys": len({key for one in written for key in one.keys}),
        }


@attrs.define(slots=False)
class _Writer:
    """An idempotent producer, in a thread."""

    name: str
    _codec: str
    _world: RunContext

    def __attrs_post_init__(self) -> None:
        self.ending = threading.Event()
        self.failures: list[str] = []
        self.written = {partition: Written() for partition in _TOPIC.partition_keys}
        self.deleted_for_good: list[bytes] = []
        self._chance = random.Random(self._world.chance.random())
        settings: dict[str, Any] = {
            "bootstrap.servers": self._world.bootstrap,
            "enable.idempotence": True,
            "compression.type": self._codec,
            "linger.ms": 2,
            "batch.size": 4000,
            "message.timeout.ms": 600_000,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 50,
            "retry.backoff.ms": 10,
            "log_level": 0,
        }
        self._producer = Producer(settings)
        self.thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while not self.ending.is_set():
            partition = self._chance.choice(_TOPIC.partition_keys)
            for _ in range(self._chance.choice((1, 5, 20))):
                self._write(partition, self._key(partition, self._chance.randrange(_KEYS)))
            until = time.monotonic() + self._chance.expovariate(_BURSTS_PER_SECOND)
            while (left := until - time.monotonic()) > 0:
                self._producer.poll(left)
            while len(self._producer) > 300 and not self.ending.is_set():
                self._producer.poll(0.02)
        for partition in self.written:
            for number in range(0, _KEYS, 2):
                self.deleted_for_good.append(self._key(partition, number))
                self._write(partition, self.deleted_for_good[-1], deletes=True)
        self._producer.flush(60)

    def _key(self, partition: Partition, number: int) -> bytes:
        return f"{self.name}-{partition[1]}-{number}".encode()

    def fill(self) -> None:
        """Write what makes the log roll, so that what stands before can be compacted."""
        for partition in self.written:
            for _ in range(20):
                self._write(partition, self._key(partition, 1), deletes=False)
        self._producer.flush(10)

    def _write(self, partition: Partition, key: bytes, deletes: bool | None = None) -> None:
        written = self.written[partition]
        deletes = self._chance.random() < _DELETES if deletes is None else deletes
        sequence = written.begin(key, deletes)
        stamp = value_of(Stamp(self.name, *partition, sequence))
        value = None if deletes else b"x" * self._chance.randrange(200)
        topic, index = partition
        reported = self._reported(written, sequence)
        self._producer.produce(topic, value, key, index, on_delivery=reported, headers={STAMP: stamp})

    def _reported(self, written: Written, sequence: int) -> Callable[[Any, Any], None]:
        def reported(error: Any, message: Any) -> None:
            if error is None:
                written.offsets[sequence] = message.offset()
                self._world.met("ack")
            else:
                self.failures.append(str(error))

        return reported
