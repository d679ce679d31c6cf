"""Kills of a mirror and of the brokers on both sides, while producers write.

    python -m tests.mirror.killing --kills 50 --seed 1

The source gets plain records, compressed ones, and transactions, some of which are aborted. At random moments one of
the three processes is killed, and started again. In the end, each partition of the target must have the committed
records of the source: all of them, once each, in their order. Groups whose offsets in the source lie at random places
must skip no record in the target; `read_again` counts those that they read again.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
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
GROUPS: Final = 20
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


class KillRun:
    def __init__(self, directory: Path, seed: int, report: Callable[[str], None] = print) -> None:
        self._random = random.Random(seed)
        self._report = report
        self.source = BrokerProcess(directory / "source", _SETTINGS)
        self.target = BrokerProcess(directory / "target", _SETTINGS)
        self._mirror: LineProcess | None = None
        self._file = directory / "mirror.properties"
        self.kills = {"mirror": 0, "source": 0, "target": 0}
        self.read_again: list[int] = []

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
            self._wait_for_progress()
        finally:
            writers.stop()
            if self._mirror is not None:
                self._mirror.kill()
        offsets = self._commit_offsets()
        self._mirror_all()
        count = self._compare()
        self._compare_groups(offsets)
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

    def _commit_offsets(self) -> dict[str, dict[TopicPartition, int]]:
        """Commit random offsets of groups in the source."""
        committed: dict[str, dict[TopicPartition, int]] = {}
        with AdminClient(self.source.bootstrap) as admin:
            partitions = [(TOPIC, partition) for partition in range(PARTITIONS)]
            ends = admin.records.offsets(dict.fromkeys(partitions, LATEST))
            for number in range(GROUPS):
                offsets = {place: self._random.randint(0, ends[place].or_end(0)) for place in partitions}
                committed[f"readers-{number}"] = offsets
                admin.groups.alter_offsets(f"readers-{number}", offsets)
        return committed

    def _compare_groups(self, committed: Mapping[str, Mapping[TopicPartition, int]]) -> None:
        with AdminClient(self.target.bootstrap) as admin:
            for group, offsets in committed.items():
                translated = admin.groups.offsets(group)
                for (topic, partition), offset in offsets.items():
                    expected = _stamps(self.source.bootstrap, partition, offset)
                    left = _stamps(self.target.bootstrap, partition, translated[topic, partition].offset)
                    if left[len(left) - len(expected) :] != expected or len(left) < len(expected):
                        place = f"partition {partition}, offset {offset} in the source"
                        raise AssertionError(f"{group} skips {len(expected) - len(left)} records: {place}")
                    self.read_again.append(len(left) - len(expected))

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
            print(f"{len(run.read_again)} offsets of groups skip nothing; read again: {sorted(run.read_again)[-10:]}")
        finally:
            run.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
