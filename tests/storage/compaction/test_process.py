"""The cleaner as a process, and its files as Kafka's own tool reads them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import attrs

from pylogbroker.records import Codec, Record
from pylogbroker.storage.compaction.jobs import Cleaned, CleanerJob, Failed
from pylogbroker.storage.compaction.process import CleanerProcess
from tests.peers.tools import tool
from tests.storage.compaction.log_files import NOW, SUFFIXES, Files

MEASURED = """
import resource, sys
from pylogbroker.storage.compaction.cleaner import clean
from pylogbroker.storage.compaction.jobs import CleanerJob
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
cleaned = clean(CleanerJob.from_json(sys.stdin.read()))
print(cleaned.statistics.records_kept, before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def run(*jobs: CleanerJob) -> list[Cleaned | Failed]:
    """Return the output of one process for some jobs."""
    process = CleanerProcess()
    try:
        return [process.run(job) for job in jobs]
    finally:
        process.close()


def test_jobs_one_after_the_other(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.put((b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    files.roll()
    job = files.job()
    lost = attrs.evolve(job, sources=(attrs.evolve(job.sources[0], path=str(tmp_path / "lost")),))
    shutil.copy(files.path(0), tmp_path / "bad")
    bad = attrs.evolve(job, sources=(attrs.evolve(job.sources[0], path=str(tmp_path / "bad")),))
    data = bytearray((tmp_path / "bad").read_bytes())
    data[-1] ^= 1
    (tmp_path / "bad").write_bytes(data)
    first, second, third, fourth = run(job, lost, bad, job)
    assert isinstance(first, Cleaned)
    assert [replacement.replaced for replacement in first.replacements] == [(0,)]
    assert isinstance(second, Failed)
    assert "lost" in second.detail
    assert third == Failed("the CRC is wrong", str(tmp_path / "bad"), 0)
    assert isinstance(fourth, Cleaned)
    assert fourth.replacements == first.replacements
    assert {path.name for path in tmp_path.glob("*.cleaned")} == {
        f"{0:020d}{suffix}.cleaned" for suffix in SUFFIXES[:3]
    }


def test_memory_is_bounded(tmp_path: Path) -> None:
    """100 MB of records, few of which stay, go through much less memory."""
    files = Files(tmp_path)
    value = bytes(range(250)) * 4
    for number in range(100):
        files.put(*((b"%d" % (n + number), value) for n in range(1000)))
        if number % 25 == 24:
            files.roll()
    job = files.job(segment_bytes=1 << 30, dedupe_bytes=1 << 20)
    done = subprocess.run(
        [sys.executable, "-c", MEASURED], input=job.to_json(), capture_output=True, text=True, check=True
    )
    kept, before, most = map(int, done.stdout.split())
    assert kept == 1099
    assert most - before < 130 << 10


def test_kafka_reads_the_files(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    files = Files(tmp_path / "ours")
    for number in range(30):
        codec = Codec(number % 5)
        records = [Record(0, NOW + n, b"key %d" % (n + number), b"v" * n or None) for n in range(20)]
        files.add(records, codec=codec)
        files.put(
            (b"t%d" % (number % 4), b"1"), producer_id=3, producer_epoch=0, base_sequence=2 * number, transactional=True
        )
        files.finish(3, committed=number % 3 > 0)
        if number % 10 == 9:
            files.roll()
    kept = {base + 20 for base in range(0, 660, 22)}
    last = {3: max(kept)}
    files.clean(NOW, last_sequences=last, segment_bytes=1 << 20)
    files.clean(NOW + 1, last_sequences=last, delete_retention_ms=1000)
    (tmp_path / "events-0").mkdir()
    for path in files.directory.iterdir():
        shutil.copy(path, tmp_path / "events-0" / path.name.replace(".kafka", ".log"))
    wanted = sorted(str(path) for path in (tmp_path / "events-0").iterdir() if path.stat().st_size)
    said = tool("kafka-dump-log", "--files", ",".join(wanted), "--print-data-log").stdout
    assert said.count("isvalid: true") == len(files.batches())
    for wrong in ("isvalid: false", "mismatch", "not found", "corrupt", "exception"):
        assert wrong not in said.lower()
    horizons = [batch for batch in files.batches() if batch.horizon is not None]
    assert horizons
    assert len(re.findall(r"deleteHorizonMs: OptionalLong\[\d+\]", said)) == len(horizons)
    data = [record for batch in files.batches() for record in batch.records]
    reported = re.findall(r"^\| offset: (\d+) CreateTime: (\d+) ", said, re.MULTILINE)
    assert [(int(offset), int(at)) for offset, at in reported] == [(record.offset, record.timestamp) for record in data]
    assert (
        len(re.findall(r"^offset: \d+ position: \d+$", said, re.MULTILINE))
        == files.path(0, ".index").stat().st_size // 8
    )


def test_the_broker_does_without_numpy() -> None:
    """numpy takes a quarter of a second and a lot of memory; only the cleaner's process imports it."""
    script = "import sys, pylogbroker.tap, pylogbroker.storage.compaction.process; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
