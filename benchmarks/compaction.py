"""`python -m benchmarks.compaction`: the same topic, compacted by this project's cleaner and by Apache Kafka's.

Each round of Kafka's cleaner gets a new topic, produced with compaction off.  Then compaction is turned on, and the
times come from the cleaner's log lines.  This project's cleaner gets a copy of the same segments, in a new process each
time, whose start counts.  Neither is throttled; each has one thread and 128 MiB for keys.  Both must leave the same
number of records, with the same offsets.
"""

import os
import random
import re
import resource
import shutil
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import click
from kafka.admin import ConfigResource, KafkaAdminClient
from rich.console import Console

from benchmarks.broker import show
from benchmarks.brokers import Running, scratch
from benchmarks.driver import Block, pump
from benchmarks.errors import BenchmarkError
from benchmarks.machine import touch_memory
from benchmarks.requests import produce_request
from benchmarks.session import Session, expect, try_produce
from pylogbroker.records import Record, build
from pylogbroker.storage.compaction.jobs import Cleaned, CleanerJob, SourceSegment
from pylogbroker.storage.compaction.process import CleanerProcess
from pylogbroker.storage.files import FileHandle
from pylogbroker.storage.log.header_scan import headers, scan_offset_addressed
from tests.peers.kafka import KafkaBroker

SEGMENT_BYTES = 100 << 20  # at most
SEGMENTS = 5  # at least; the active one is not compacted
RECORDS = 160  # per batch, which gives 16 KB
VALUE_BYTES = 76  # gives records of about 100 bytes
PART = 4096  # requests prepared at a time
WAIT_SECONDS_MAX = 300.0
AT_LEAST_0, AT_LEAST_1 = click.IntRange(0), click.IntRange(1)
SETTINGS = {"log.cleaner.backoff.ms": "200", "log.segment.delete.delay.ms": "100"}
LATER = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
SAID = re.compile(
    r"cleaned log (?P<log>\S+) .*\n"
    r".*processed in (?P<total>[\d.,]+) seconds.*\n"
    r".*Indexed .* in (?P<map>[\d.,]+) seconds"
)


@attrs.frozen
class Round:
    """Result of one cleaning: its total time, the time for the map of keys, and the entries left in each file.

    `processor` is the processor time of the whole process.
    """

    total: float
    learning: float
    processor: float
    left: dict[int, list[tuple[int, int]]]


@click.command()
@click.option("--megabytes", type=AT_LEAST_1, default=1000, show_default=True, help="Size of the topic.")
@click.option("--keys", type=AT_LEAST_1, default=1_000_000, show_default=True, help="Number of different keys.")
@click.option("--rounds", type=AT_LEAST_1, default=3, show_default=True, help="Measurements of each cleaner.")
@click.option("--warm-up", type=AT_LEAST_0, default=1, show_default=True, help="Runs before the measurements.")
@click.option("--directory", type=click.Path(path_type=Path), help="Directory of the data; by default in /tmp.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
@click.option("--verbose", is_flag=True, help="Print every measurement.")
def main(
    megabytes: int, keys: int, rounds: int, warm_up: int, directory: Path | None, markdown: bool, verbose: bool
) -> None:
    """Compact a topic with this project's cleaner and with Apache Kafka's."""
    console = Console()
    touch_memory()
    ours: list[Round] = []
    theirs: list[Round] = []
    with scratch(directory) as parent, KafkaBroker(parent / "kafka", SETTINGS) as broker:
        requests = list(batches(megabytes, keys))
        for number in range(-warm_up, rounds):
            ours_now, theirs_now = one_round(broker, parent / "copy", requests)
            if verbose:
                console.print(f"{number}: {described(ours_now)}; Kafka {described(theirs_now)}")
            if number >= 0:
                ours.append(ours_now)
                theirs.append(theirs_now)
    size = sum(map(len, requests)) / 1e6
    rows = [row("learn the keys", [r.learning for r in ours], [r.learning for r in theirs], size)]
    rows += [row("all", [r.total for r in ours], [r.total for r in theirs], size)]
    rows += [row("all, by processor time", [r.processor for r in ours], [r.processor for r in theirs], size)]
    show(console, ["work", "unit", "pylogbroker", "Apache Kafka", "ratio"], rows, markdown)


def described(cleaned: Round) -> str:
    return f"{cleaned.total:.2f} s, processor time {cleaned.processor:.2f} s (load {os.getloadavg()[0]:.1f})"


def row(what: str, ours: list[float], theirs: list[float], megabytes: float) -> list[str]:
    first, second = statistics.median(ours), statistics.median(theirs)
    return [what, "MB/s", f"{megabytes / first:,.0f}", f"{megabytes / second:,.0f}", f"{second / first:.2f} x"]


def batches(megabytes: int, keys: int) -> Iterator[bytes]:
    """Yield batches with random keys, the same in every run."""
    drawn = random.Random(megabytes)
    value = drawn.randbytes(VALUE_BYTES)
    now_ms, done = int(time.time() * 1000), 0
    while done < megabytes * 1_000_000:
        records = [Record(n, now_ms, b"key-%010d" % drawn.randrange(keys), value) for n in range(RECORDS)]
        yield (one := build(records))
        done += len(one)


def one_round(broker: KafkaBroker, copy: Path, requests: list[bytes]) -> tuple[Round, Round]:
    """Produce the topic, clean a copy of it, and let Kafka clean it."""
    session = Session("127.0.0.1", broker.port)
    segment_bytes = min(SEGMENT_BYTES, sum(map(len, requests)) // SEGMENTS)
    with session.topic(settings={"cleanup.policy": "delete", "segment.bytes": str(segment_bytes)}) as topic:
        fill(session, topic, requests)
        kept = broker.data / f"{topic}-0"
        job = copied(kept, copy, segment_bytes)
        try:
            ours = clean(job)
        finally:
            shutil.rmtree(copy)
        theirs = clean_by_kafka(broker, topic, kept, job.end_offset)
    if entries_of(ours) != entries_of(theirs):
        raise BenchmarkError("the two cleaners do not leave the same")
    return ours, theirs


def entries_of(cleaned: Round) -> list[tuple[int, int]]:
    """Return first offset and size of every entry left, without empty ones that mark the end of a segment."""
    return [entry for _, entries in sorted(cleaned.left.items()) for entry in entries if entry[1] > 61]


def fill(session: Session, topic: str, requests: list[bytes]) -> None:
    with session.connection() as sock:
        size = try_produce(sock, produce_request(topic, [(0, requests[0])]), [0])
        for first in range(1, len(requests), PART):
            part = [produce_request(topic, [(0, each)]) for each in requests[first : first + PART]]
            same = Block.of(part)
            pump(sock, same, len(part), 5, size)
    expect(session.end_offsets(topic), [len(requests) * RECORDS], "log end")


def copied(kept: Path, copy: Path, segment_bytes: int) -> CleanerJob:
    """Copy the sealed segments of a topic; return the job for this project's cleaner."""
    copy.mkdir()
    files = sorted(kept.glob("*.log"))
    sources = []
    for file in files[:-1]:
        shutil.copyfile(file, copy / f"{file.stem}.kafka")
        sources.append(SourceSegment(int(file.stem), str(copy / f"{file.stem}.kafka"), file.stat().st_size, 0))
    os.sync()
    end = int(files[-1].stem)
    return CleanerJob(str(copy), tuple(sources), 0, end, int(time.time() * 1000), segment_bytes=segment_bytes)


def clean(job: CleanerJob) -> Round:
    """Clean in a process of its own."""
    process = CleanerProcess()
    begin, used = time.perf_counter(), _ended()
    cleaned = process.run(job)
    total = time.perf_counter() - begin
    process.close()
    if not isinstance(cleaned, Cleaned):
        raise BenchmarkError(str(cleaned))
    names = [Path(job.directory) / f"{each.base_offset:020d}.kafka.cleaned" for each in cleaned.replacements]
    left = {int(name.name[:20]): left_in(name) for name in names}
    return Round(total, cleaned.statistics.map_seconds, _ended() - used, left)


def _ended() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def clean_by_kafka(broker: KafkaBroker, topic: str, kept: Path, end: int) -> Round:
    running = Running("Apache Kafka", Session("127.0.0.1", broker.port), broker.process.pid if broker.process else None)
    used = running.cpu_seconds()
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    try:
        admin.alter_configs([ConfigResource("TOPIC", topic, LATER)])
    finally:
        admin.close()
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while time.monotonic() < deadline:
        for said in SAID.finditer(broker.log.read_text()):
            if said["log"] == f"{topic}-0":
                processor = running.cpu_seconds() - used
                left = {int(f.stem): left_in(f) for f in kept.glob("*.log") if int(f.stem) < end}
                return Round(number(said["total"]), number(said["map"]), processor, left)
        time.sleep(0.1)
    raise BenchmarkError(f"Kafka has not compacted within {WAIT_SECONDS_MAX} s")


def number(text: str) -> float:
    return float(text.replace(",", ""))


def left_in(file: Path) -> list[tuple[int, int]]:
    """Return first offset and size of each entry of a segment."""
    read = FileHandle.open(str(file)).read
    return [(each.first_offset, each.size) for each in headers(scan_offset_addressed(read, 0, file.stat().st_size))]


if __name__ == "__main__":
    main()
