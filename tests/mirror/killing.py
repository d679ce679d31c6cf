"""Kills of a mirror and of the brokers on both sides, while producers write.

    python -m tests.mirror.killing --kills 50 --seed 1

The source gets plain records, compressed ones, and transactions, some of which are aborted. At random moments one of
the three processes is killed, and started again. In the end, each partition of the target must have the committed
records of the source: all of them, once each, in their order. After each kill and in the end, groups get offsets in the
source, most of them among the last records that were copied. In the target, each group must have the offset of the same
record: it reads none again, and skips none.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Final

import attrs

from pylogbroker.client.admin import NewTopic
from pylogbroker.client.admin.records import LATEST
from pylogbroker.client.sync import AdminClient, Producer, SimpleConsumer
from pylogbroker.errors import PylogbrokerError
from pylogbroker.interfaces import TopicPartition
from tests.support.broker_process import BrokerProcess
from tests.support.line_process import LineProcess
from tests.support.waiting import wait_until

TOPIC: Final = "stamps"
PARTITIONS: Final = 3
GROUPS: Final = 10
"""Groups whose offsets are compared after each kill."""
NEWEST_RECORDS: Final = 3000
"""Records of about the last second before a kill, and of the time since."""
_PROGRESS_SECONDS_MAX: Final = 120.0
_SETTINGS: Final = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
_PATIENT: Final = {"delivery.timeout.ms": "600000", "max.block.ms": "600000"}

Stamp = tuple[int, bytes | None, bytes | None]


@attrs.define
class Writers:
    """Producers in threads: each writes its own stamps, in order."""

    bootstrap: str
    is_over: threading.Event = attrs.field(factory=threading.Event)
    errors: list[BaseException] = attrs.field(factory=list)
    _threads: list[threading.Thread] = attrs.field(factory=list)

    def start(self) -> None:
        for work in (self._plain, self._compressed, self._transactions):
            thread = threading.Thread(target=self._guarded, args=(work,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        self.is_over.set()
        for thread in self._threads:
            thread.join()
        for error in self.errors:
            raise error

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self.errors.append(error)

    def _plain(self) -> None:
        self._write("plain", "none")

    def _compressed(self) -> None:
        self._write("lz4", "lz4")

    def _write(self, name: str, codec: str) -> None:
        with Producer(self.bootstrap, compression_type=codec, **_named(_PATIENT)) as producer:
            number = 0
            while not self.is_over.wait(0.01):
                for _ in range(20):
                    producer.submit(
                        TOPIC, b"%s %d" % (name.encode(), number) + b"." * 50, partition=number % PARTITIONS
                    )
                    number += 1
                producer.flush()

    def _transactions(self) -> None:
        number = 0
        while not self.is_over.is_set():
            try:
                with Producer(self.bootstrap, transactional_id="stamps", **_named(_PATIENT)) as producer:
                    while not self.is_over.wait(0.02):
                        producer.begin()
                        for _ in range(5):
                            producer.submit(TOPIC, b"transaction %d" % number, partition=number % PARTITIONS)
                            number += 1
                        producer.flush()
                        if number % 3:
                            producer.commit()
                        else:
                            producer.abort()
            except PylogbrokerError:
                continue  # a kill may leave an unknown outcome; the source's log says which


def _named(settings: dict[str, str]) -> dict[str, str]:
    return {name.replace(".", "_"): value for name, value in settings.items()}


@attrs.frozen
class Copied:
    """A record's offsets in both clusters, and the offset in the target of the record before it."""

    upstream: int
    after: int
    downstream: int


class KillRun:
    def __init__(self, directory: Path, seed: int, report: Callable[[str], None] = print) -> None:
        self._random = random.Random(seed)
        self._report = report
        self.source = BrokerProcess(directory / "source", _SETTINGS)
        self.target = BrokerProcess(directory / "target", _SETTINGS)
        self._mirror: LineProcess | None = None
        self._groups = 0
        self._file = directory / "mirror.properties"
        self.kills = {"mirror": 0, "source": 0, "target": 0}
        self.offsets_compared = 0

    def run(self, kills: int) -> int:
        """Kill so often; return the number of records in the end. Raise AssertionError for a wrong record."""
        self.source.start()
        self.target.start()
        with AdminClient(self.source.bootstrap) as admin:
            admin.topics.create([NewTopic(TOPIC, PARTITIONS)])
        writers = Writers(self.source.bootstrap)
        writers.start()
        try:
            self._start_mirror()
            for _ in range(kills):
                self._wait_for_progress()
                self._kill_one()
                self._compare_groups()
            self._wait_for_progress()
        finally:
            writers.stop()
            if self._mirror is not None:
                self._mirror.kill()
        self._mirror_all()
        count = self._compare()
        self._start_mirror()
        self._compare_groups()
        return count

    def close(self) -> None:
        for process in (self._mirror, self.source, self.target):
            if process is not None:
                process.kill()

    def _arguments(self, *more: str) -> list[str]:
        self._file.write_text(
            f"""\
clusters = east, offline
east.bootstrap.servers = {self.source.bootstrap}
offline.bootstrap.servers = {self.target.bootstrap}
offline.consumer.session.timeout.ms = 1500
offline.consumer.heartbeat.interval.ms = 400
east->offline.enabled = true
east->offline.topics = {TOPIC}
emit.checkpoints.interval.seconds = 1
replication.policy.class = same
"""
        )
        return [sys.executable, "-m", "pylogbroker.cli", "mirror", "--config", str(self._file), "-q", *more]

    def _start_mirror(self) -> None:
        self._mirror = LineProcess(self._arguments(), forked=True)

    def _kill_one(self) -> None:
        name = self._random.choice(list(self.kills))
        self.kills[name] += 1
        if name == "mirror":
            if self._mirror is not None:
                self._mirror.kill()
            self._start_mirror()
        else:
            broker = self.source if name == "source" else self.target
            broker.kill()
            broker.start()

    def _wait_for_progress(self) -> None:
        """Wait until the target's log has grown by a random number of bytes."""
        size = self._target_bytes() + self._random.randrange(1, 40_000)
        wait_until(lambda: self._target_bytes() >= size, _PROGRESS_SECONDS_MAX, self._last_lines)

    def _last_lines(self) -> list[str]:
        return [] if self._mirror is None else self._mirror.lines[-20:]

    def _target_bytes(self) -> int:
        return sum(
            path.stat().st_size
            for partition in range(PARTITIONS)
            for path in self.target.partition_dir(TOPIC, partition).glob("*.kafka")
        )

    def _mirror_all(self) -> None:
        last = LineProcess(self._arguments("--until-caught-up"), forked=True)
        status = last.wait(_PROGRESS_SECONDS_MAX)
        if status:
            raise AssertionError(f"the last mirror ended with {status}: {last.lines[-20:]}")

    def _compare_groups(self) -> None:
        """Commit offsets of groups in the source, and wait for their translations."""
        copied: list[list[Copied]] = []

        def have_records() -> bool:
            copied[:] = [self._copied(partition) for partition in range(PARTITIONS)]
            return all(copied)

        wait_until(have_records, _PROGRESS_SECONDS_MAX, self._last_lines)
        expected: dict[str, dict[TopicPartition, Copied]] = {}
        with AdminClient(self.source.bootstrap) as source, AdminClient(self.target.bootstrap) as target:
            for _ in range(GROUPS):
                group = f"readers-{self._groups}"
                self._groups += 1
                expected[group] = {(TOPIC, place): self._random.choice(rows) for place, rows in enumerate(copied)}
                source.groups.alter_offsets(group, {place: row.upstream for place, row in expected[group].items()})
            for group, rows in expected.items():
                wait_until(
                    lambda group=group: len(target.groups.offsets(group)) == PARTITIONS,
                    _PROGRESS_SECONDS_MAX,
                    self._last_lines,
                )
                translated = target.groups.offsets(group)
                for place, row in rows.items():
                    offset = translated[place].offset
                    if not row.after < offset <= row.downstream:
                        raise AssertionError(
                            f"{group}: offset {row.upstream} of partition {place[1]} in the source became {offset},"
                            f" expected {row.after + 1} to {row.downstream}"
                        )
                    self.offsets_compared += 1

    def _copied(self, partition: int) -> list[Copied]:
        """Return the newest records that are copied, and some old ones."""
        copies = _committed(self.target.bootstrap, partition, NEWEST_RECORDS)
        offsets = {value: offset for offset, value in _committed(self.source.bootstrap, partition, 10 * NEWEST_RECORDS)}
        return [
            Copied(offsets[value], before, offset)
            for (before, _), (offset, value) in pairwise(copies)
            if value in offsets
        ]

    def _compare(self) -> int:
        count = 0
        for partition in range(PARTITIONS):
            expected, mirrored = (_stamps(broker.bootstrap, partition) for broker in (self.source, self.target))
            for number, (record, copy) in enumerate(zip(expected, mirrored, strict=False)):
                if record != copy:
                    raise AssertionError(f"record {number} of partition {partition} is {copy}, expected {record}")
            if len(expected) != len(mirrored):
                raise AssertionError(f"partition {partition} has {len(mirrored)} records, expected {len(expected)}")
            count += len(expected)
        return count


def _stamps(bootstrap: str, partition: int, offset: int = 0) -> list[Stamp]:
    """Return the committed records of a partition from an offset on."""
    stamps: list[Stamp] = []
    host, _, port = bootstrap.rpartition(":")
    with SimpleConsumer(host, int(port), isolation_level="read_committed") as consumer:
        while True:
            messages = consumer.fetch(TOPIC, partition, offset)
            stamps += [(message.timestamp, message.key, message.value) for message in messages]
            if messages.next_offset == offset:
                return stamps
            offset = messages.next_offset


def _committed(bootstrap: str, partition: int, count: int) -> list[tuple[int, bytes | None]]:
    """Return offsets and values of about so many of the newest committed records."""
    rows: list[tuple[int, bytes | None]] = []
    host, _, port = bootstrap.rpartition(":")
    with SimpleConsumer(host, int(port), isolation_level="read_committed") as consumer:
        [end] = consumer.get_offsets_before(TOPIC, partition, LATEST, 1)
        offset = max(0, end - count)
        while offset < end:
            messages = consumer.fetch(TOPIC, partition, offset)
            rows += [(message.offset, message.value) for message in messages if message.offset >= offset]
            if messages.next_offset == offset:
                break
            offset = messages.next_offset
    return rows


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        run = KillRun(Path(directory), arguments.seed)
        try:
            count = run.run(arguments.kills)
            print(f"seed {arguments.seed}: {count} records as expected after {run.kills}")
            print(f"{run.offsets_compared} offsets of groups were translated exactly")
        finally:
            run.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
