"""Kills of a mirror and of the brokers on both sides, while producers write.

    python -m tests.mirror.killing --kills 50 --seed 1
    python -m tests.mirror.killing --source kafka-2.7 --kills 10
    python -m tests.mirror.killing --target kafka-4.4 --kills 10
    python -m tests.mirror.killing --source 0.7 --kills 10

The source gets plain records, compressed ones, and transactions, some of which are aborted. At random moments one of
the three processes is killed, and started again. In the end, each partition of the target must have the committed
records of the source: all of them, once each, in their order. After each kill and in the end, groups get offsets in the
source, most of them among the last records that were copied. In the target, each group must have the offset of the same
record: it reads none again, and skips none. Kafka 0.7 has neither transactions nor such groups: records are compared
alone.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Final

import attrs

from pylogbroker.client.admin import NewTopic
from pylogbroker.client.admin.records import LATEST
from pylogbroker.client.errors import is_retriable
from pylogbroker.client.sync import AdminClient, SimpleConsumer
from pylogbroker.errors import PylogbrokerError
from pylogbroker.interfaces import TopicPartition
from tests.legacy07.conftest import SimpleBroker
from tests.mirror.kill_sides import OWN, SOURCES, TARGETS, KilledSide, new_side
from tests.mirror.stamp_writers import PARTITIONS, TOPIC, stamp_writers
from tests.support.brokers import Broker
from tests.support.line_process import LineProcess
from tests.support.waiting import wait_until

GROUPS: Final = 10
"""Groups whose offsets are compared after each kill."""
NEWEST_RECORDS: Final = 3000
"""Records of about the last second before a kill, and of the time since."""
_PROGRESS_SECONDS_MAX: Final = 300.0

Stamp = tuple[int, bytes | None, bytes | None]


@attrs.frozen
class Copied:
    """A record's offsets in both clusters, and the offset in the target of the record before it."""

    upstream: int
    after: int
    downstream: int


class KillRun:
    """`report` gets a line for each kill."""

    def __init__(
        self,
        directory: Path,
        seed: int,
        source: KilledSide,
        target: KilledSide,
        report: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._random = random.Random(seed)
        self._report = report
        self._sides = {"source": source, "target": target}
        self.source, self.target = source.broker, target.broker
        self._mirror: LineProcess | None = None
        self._groups = 0
        self._file = directory / "mirror.properties"
        self.kills = {"mirror": 0, "source": 0, "target": 0}
        self.offsets_compared = 0

    def run(self, kills: int) -> int:
        """Kill so often; return the number of records in the end. Raise AssertionError for a wrong record."""
        for side in self._sides.values():
            side.start()
        is_legacy07 = isinstance(self.source, SimpleBroker)
        configs = {"message.format.version": "0.7"} if is_legacy07 else {}
        with AdminClient(self.source.bootstrap) as admin:
            admin.topics.create([NewTopic(TOPIC, PARTITIONS, configs=configs)])
        writers = stamp_writers(self.source)
        writers.start()
        try:
            self._start_mirror()
            for number in range(kills):
                self._wait_for_progress()
                self._report(f"kill {number + 1}: {self._kill_one()}")
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
        if self._mirror is not None:
            self._mirror.kill()
        for side in self._sides.values():
            side.close()

    def _arguments(self, *more: str) -> list[str]:
        self._file.write_text(
            f"""\
clusters = east, offline
east.bootstrap.servers = {_mirrored_address(self.source)}
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

    def _kill_one(self) -> str:
        """Kill one of the three processes, and start it again; return which."""
        name = self._random.choice(list(self.kills))
        self.kills[name] += 1
        if name == "mirror":
            if self._mirror is not None:
                self._mirror.kill()
            self._start_mirror()
        else:
            self._sides[name].kill()
            self._sides[name].start()
        return name

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
            for path in self.target.partition_dir(TOPIC, partition).glob(f"*{self.target.segment_suffix}")
        )

    def _mirror_all(self) -> None:
        last = LineProcess(self._arguments("--until-caught-up"), forked=True)
        status = last.wait(_PROGRESS_SECONDS_MAX)
        if status:
            raise AssertionError(f"the last mirror ended with {status}: {last.lines[-20:]}")

    def _compare_groups(self) -> None:
        """Commit offsets of groups in the source, and wait for their translations."""
        if isinstance(self.source, SimpleBroker):
            return
        copied: list[list[Copied]] = []

        def have_records() -> bool:
            try:
                copied[:] = [self._copied(partition) for partition in range(PARTITIONS)]
            except PylogbrokerError as error:
                if not is_retriable(error):
                    raise
                return False  # a broker has started, and does not lead its partitions yet
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
        copies = _committed(self.target, partition, NEWEST_RECORDS)
        offsets = {value: offset for offset, value in _committed(self.source, partition, 10 * NEWEST_RECORDS)}
        return [
            Copied(offsets[value], before, offset)
            for (before, _), (offset, value) in pairwise(copies)
            if value in offsets
        ]

    def _compare(self) -> int:
        count = 0
        for partition in range(PARTITIONS):
            expected, mirrored = (_stamps(broker, partition) for broker in (self.source, self.target))
            for number, (record, copy) in enumerate(zip(expected, mirrored, strict=False)):
                if record != copy:
                    raise AssertionError(f"record {number} of partition {partition} is {copy}, expected {record}")
            if len(expected) != len(mirrored):
                raise AssertionError(f"partition {partition} has {len(mirrored)} records, expected {len(expected)}")
            count += len(expected)
        return count


def _mirrored_address(broker: Broker) -> str:
    if isinstance(broker, SimpleBroker):
        host, port = broker.address
        return f"simple://{host}:{port}"
    return broker.bootstrap


def _stamps(broker: Broker, partition: int, offset: int = 0) -> list[Stamp]:
    """Return the committed records of a partition from an offset on."""
    stamps: list[Stamp] = []
    with _consumer(broker) as consumer:
        while True:
            messages = consumer.fetch(TOPIC, partition, offset)
            stamps += [(message.timestamp, message.key, message.value) for message in messages]
            if messages.next_offset == offset:
                return stamps
            offset = messages.next_offset


def _consumer(broker: Broker) -> SimpleConsumer:
    if isinstance(broker, SimpleBroker):
        return SimpleConsumer(*broker.address, protocol="simple")
    host, _, port = broker.bootstrap.rpartition(":")
    return SimpleConsumer(host, int(port), isolation_level="read_committed")


def _committed(broker: Broker, partition: int, count: int) -> list[tuple[int, bytes | None]]:
    """Return offsets and values of about so many of the newest committed records."""
    rows: list[tuple[int, bytes | None]] = []
    with _consumer(broker) as consumer:
        [end] = consumer.get_offsets_before(TOPIC, partition, LATEST, 1)
        offset = max(0, end - count)
        while offset < end:
            messages = consumer.fetch(TOPIC, partition, offset)
            rows += [(message.offset, message.value) for message in messages if message.offset >= offset]
            if messages.next_offset == offset:
                break
            offset = messages.next_offset
    return rows


def report(line: str) -> None:
    print(line, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--source", choices=SOURCES, default=OWN)
    parser.add_argument("--target", choices=TARGETS, default=OWN)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        source = new_side(arguments.source, directory / "source")
        target = new_side(arguments.target, directory / "target")
        run = KillRun(directory, arguments.seed, source, target, report)
        try:
            count = run.run(arguments.kills)
            print(f"seed {arguments.seed}: {count} records as expected after {run.kills}")
            print(f"{run.offsets_compared} offsets of groups were translated exactly")
        finally:
            run.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
