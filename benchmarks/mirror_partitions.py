"""Cost of many partitions in a mirror: `python -m benchmarks.mirror --partitions 5000`.

Topics have ten partitions. The mirror starts with empty topics, which it creates in the target. It is paused while a
backlog is written, copies the backlog, then nothing for some seconds, and then single records at a constant rate, each
to a partition at random. In the end the target must have each record once.

Processor time is that of the mirror's process. Iterations are those of its reactor.
"""

import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import attrs
from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.brokers import PROJECT, Running, environment, exact_cpu_seconds, process_resident_bytes
from benchmarks.driver import call
from benchmarks.errors import BenchmarkError
from benchmarks.reactor_iterations import long_iterations, program
from benchmarks.requests import batch, produce_request, produced
from pylogbroker.blocking.admin import BlockingAdmin
from pylogbroker.client.admin import NewTopic
from tests.peers.processes import stop

TOPIC_PARTITIONS = 10
RECORD_BYTES = 100
BATCH_RECORDS = 160
BACKLOG_BYTES = 80_000_000
IDLE_SECONDS = 20.0
RECORDS_PER_SECOND = 200
STEADY_SECONDS = 20.0
SETTLED_SECONDS = 10.0
WAIT_SECONDS_MAX = 600.0
TOPICS_AT_ONCE = 50
HEAD = ["partitions", "phase", "records", "seconds", "processor s", "core", "µs/record", "longest iteration ms", "MB"]


@attrs.frozen
class PhaseCosts:
    """Costs of one phase; the longest iteration is in seconds of processor time."""

    name: str
    records: int
    seconds: float
    cpu: float
    longest_iteration: float
    resident_megabytes: float

    def row(self, partitions: int) -> Sequence[str]:
        """Return the cells of the table."""
        return [
            f"{partitions:,}",
            self.name,
            f"{self.records:,}",
            f"{self.seconds:.1f}",
            f"{self.cpu:.2f}",
            f"{self.cpu / self.seconds:.1%}",
            f"{self.cpu / self.records * 1e6:.2f}" if self.records else "",
            f"{self.longest_iteration * 1e3:.1f}",
            f"{self.resident_megabytes:,.0f}",
        ]


@attrs.define
class _MeasuredMirror:
    """A mirror's process, and the phase that it is in."""

    process: "subprocess.Popen[bytes]"
    iterations: Path
    progress: Path
    _records: int = 0
    _begin: float = attrs.field(factory=time.monotonic)
    _cpu: float = 0.0

    def begin(self) -> None:
        self._begin, self._cpu = time.monotonic(), exact_cpu_seconds(self.process.pid)

    def end(self, name: str, records: int) -> PhaseCosts:
        """End a phase, in which so many records were copied, and begin the next one."""
        now = time.monotonic()
        cpu = exact_cpu_seconds(self.process.pid) - self._cpu
        longest = max(long_iterations(self.iterations, self._begin, now), default=0.0)
        megabytes = process_resident_bytes(self.process.pid) / 1e6
        costs = PhaseCosts(name, records, now - self._begin, cpu, longest, megabytes)
        self.begin()
        return costs

    def wait_for(self, records: int) -> None:
        """Wait until the mirror has copied so many records in all, and says that it has caught up."""
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while (line := self._last_line()) is None or line != (True, records):
            if time.monotonic() > deadline:
                raise BenchmarkError(f"not mirrored after {WAIT_SECONDS_MAX:g} s: {self.progress.read_text()[-2000:]}")
            if self.process.poll() is not None:
                raise BenchmarkError(f"the mirror has ended: {self.progress.read_text()[-2000:]}")
            time.sleep(0.1)

    def _last_line(self) -> tuple[bool, int] | None:
        lines = re.findall(r": (caught up|lag \d+); (\d+) records?", self.progress.read_text())
        return (lines[-1][0] == "caught up", int(lines[-1][1])) if lines else None


def measure_partitions(directory: Path, source: Running, target: Running, partitions: int) -> list[PhaseCosts]:
    """Run a mirror of so many partitions, and check that it copies all records, each once."""
    topics = [f"many-{number:05}" for number in range(max(1, partitions // TOPIC_PARTITIONS))]
    copies = [f"from{partitions}.{name}" for name in topics]
    with _admin(source) as admin:
        for start in range(0, len(topics), TOPICS_AT_ONCE):
            some = topics[start : start + TOPICS_AT_ONCE]
            admin.topics.create([NewTopic(name, TOPIC_PARTITIONS, 1) for name in some])
    mirror = _started(directory, source, target, partitions)
    try:
        phases = _phases(mirror, source, topics)
    finally:
        stop(mirror.process)
    _check(target, copies, sum(phase.records for phase in phases))
    with _admin(source) as admin:
        admin.topics.delete(topics)
    with _admin(target) as admin:
        admin.topics.delete(copies)
    return phases


def _phases(mirror: _MeasuredMirror, source: Running, topics: Sequence[str]) -> list[PhaseCosts]:
    mirror.wait_for(0)
    start = mirror.end("start", 0)
    time.sleep(SETTLED_SECONDS)
    mirror.process.send_signal(signal.SIGSTOP)
    records = _write_backlog(source, topics)
    mirror.begin()
    mirror.process.send_signal(signal.SIGCONT)
    mirror.wait_for(records)
    backlog = mirror.end("backlog", records)
    time.sleep(SETTLED_SECONDS)
    mirror.begin()
    time.sleep(IDLE_SECONDS)
    idle = mirror.end("idle", 0)
    singles = _write_slowly(source, topics)
    mirror.wait_for(records + singles)
    return [start, backlog, idle, mirror.end("single records", singles)]


def _admin(broker: Running) -> BlockingAdmin:
    return BlockingAdmin({"bootstrap.servers": _address(broker)}, 120.0)


def _address(broker: Running) -> str:
    return f"{broker.session.host}:{broker.session.port}"


def _started(directory: Path, source: Running, target: Running, partitions: int) -> _MeasuredMirror:
    """Start the command as a user does, with a reactor that records its iterations."""
    arguments = ["mirror", "--from", _address(source), "--to", _address(target), "--topics", "many-.*"]
    arguments += ["--from-alias", f"from{partitions}", "--to-alias", "target", "--names", "prefix"]
    noted, progress = directory / f"iterations-{partitions}", directory / f"mirror-{partitions}.log"
    code = program(noted, f"from pylogbroker.cli import main; main({arguments!r}, prog_name='pylogbroker')")
    with progress.open("wb") as log:
        command = [sys.executable, "-c", code]
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=PROJECT, env=environment())
    return _MeasuredMirror(process, noted, progress)


def _write_backlog(source: Running, topics: Sequence[str]) -> int:
    """Write as many batches to each partition as make up the backlog; return the number of records."""
    content = batch(BATCH_RECORDS, RECORD_BYTES)
    partitions = len(topics) * TOPIC_PARTITIONS
    rounds = max(1, round(BACKLOG_BYTES / partitions / len(content)))
    with source.session.connection() as sock:
        for _ in range(rounds):
            for topic in topics:
                request = produce_request(topic, [(partition, content) for partition in range(TOPIC_PARTITIONS)])
                if any(code for code, _ in produced(call(sock, request))):
                    raise BenchmarkError(f"{topic} does not take records")
    return rounds * partitions * BATCH_RECORDS


def _write_slowly(source: Running, topics: Sequence[str]) -> int:
    producer = Producer({"bootstrap.servers": _address(source), "linger.ms": 0})
    chooser, begin, sent = random.Random(len(topics)), time.monotonic(), 0
    while (elapsed := time.monotonic() - begin) < STEADY_SECONDS:
        while sent < elapsed * RECORDS_PER_SECOND:
            producer.produce(chooser.choice(topics), b"%0100d" % sent, partition=chooser.randrange(TOPIC_PARTITIONS))
            sent += 1
        producer.poll(0.005)
    if producer.flush(60):
        raise BenchmarkError("the source does not take single records")
    return sent


def _check(target: Running, copies: Sequence[str], records: int) -> None:
    """Read the copies, and raise BenchmarkError unless they have so many records."""
    settings = {"bootstrap.servers": _address(target), "group.id": "check", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "enable.partition.eof": True})
    consumer.assign([TopicPartition(copy, number, 0) for copy in copies for number in range(TOPIC_PARTITIONS)])
    count, open_partitions = 0, len(copies) * TOPIC_PARTITIONS
    while open_partitions > 0:
        for message in consumer.consume(10_000, 1.0):
            if message.error() is None:
                count += 1
            else:
                open_partitions -= 1
    consumer.close()
    if count != records:
        raise BenchmarkError(f"the target has {count} records instead of {records}")
