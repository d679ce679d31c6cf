"""Jobs of an archive: each record once, whatever fails, and damaged batches as dead letters."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import attrs
import duckdb
import polars as pl
import pyarrow.parquet as pq
import pytest

from pylogbroker.records import Codec, Record, build, end_marker
from pylogbroker.table import TableError
from pylogbroker.table.archive import __main__ as archive_process
from pylogbroker.table.archive import segments
from pylogbroker.table.archive.jobs import Archived, ArchiveJob, SegmentRange
from pylogbroker.table.archive.layout import files_in, id_text
from pylogbroker.table.archive.writer import archive

TIME_MS = 1_767_355_200_000


def batch(start: int, count: int, **others: Any) -> bytes:
    records = [
        Record(
            start + number, TIME_MS + start + number, b"k%d" % number, b"value %d" % (start + number), (("h", b"x"),)
        )
        for number in range(count)
    ]
    return build(records, base_offset=start, **others)


class LogOnDisk:
    """Segments of 20 records in batches of 5."""

    def __init__(self, root: Path) -> None:
        self.directory = root / "log"
        self.directory.mkdir()
        self.archive = root / "archive"
        self.segments: list[SegmentRange] = []

    def add(self, *batches: bytes, start: int, end: int) -> None:
        data = b"".join(batches)
        (self.directory / f"{start:020d}.kafka").write_bytes(data + b"\0\0\0")  # space behind the records
        self.segments.append(SegmentRange(start, end, len(data)))

    def fill(self, count: int) -> None:
        for number in range(count):
            base = 20 * number
            self.add(*(batch(base + 5 * part, 5) for part in range(4)), start=base, end=base + 20)

    def job(self, *chosen: SegmentRange, aborted: tuple[tuple[int, int], ...] = ()) -> ArchiveJob:
        return ArchiveJob(
            str(self.archive), "orders", "abc", 3, str(self.directory), chosen or tuple(self.segments), aborted
        )

    def offsets(self) -> list[int]:
        return [offset for file in self.files() for offset in pq.read_table(file)["offset"].to_pylist()]

    def files(self) -> list[Path]:
        return [Path(file.place) for file in files_in(self.archive / "records/topic=orders/topic_id=abc/partition=3")]

    def has_files(self, count: int) -> bool:
        """Return whether there are so many files, also ones that are being written."""
        return len(list(self.archive.rglob("*.parquet*"))) >= count

    def dead_letters(self) -> list[dict[str, Any]]:
        paths = sorted(self.archive.glob("dead-letters/topic=orders/topic_id=abc/partition=3/*.parquet"))
        return [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]


@pytest.fixture
def log(tmp_path: Path) -> LogOnDisk:
    return LogOnDisk(tmp_path)


def test_records_of_segments(log: LogOnDisk) -> None:
    log.fill(2)
    assert archive(log.job()) == Archived(40, files=2, records=40)
    assert [path.name[:41] for path in log.files()] == [f"{0:020d}-{20:020d}", f"{20:020d}-{40:020d}"]
    [row] = pq.ParquetFile(log.files()[0]).read().slice(7, 1).to_pylist()
    assert row["timestamp"].timestamp() * 1000 == TIME_MS + 7
    assert {**row, "timestamp": 0} == {
        "offset": 7,
        "timestamp": 0,
        "timestamp_type": "CreateTime",
        "key": b"k2",
        "value": b"value 7",
        "headers": [{"key": "h", "value": b"x"}],
    }


def test_other_tools_read_an_archive(log: LogOnDisk) -> None:
    log.fill(2)
    archive(log.job())
    pattern = f"{log.archive}/records/**/*.parquet"
    query = f"SELECT topic, partition, count(*), max(\"offset\") FROM read_parquet('{pattern}') GROUP BY ALL"
    relation: Any = duckdb.sql(query)
    assert relation.fetchall() == [("orders", 3, 40, 39)]
    frame = pl.scan_parquet(pattern, hive_partitioning=True).select("topic", "partition", "offset").collect()
    assert frame["offset"].sum() == sum(range(40))
    assert frame["partition"].unique().to_list() == [3]


def test_a_job_goes_on_where_the_last_one_ended(log: LogOnDisk) -> None:
    log.fill(3)
    assert archive(log.job(log.segments[0])).archived_to == 20
    assert archive(log.job(*log.segments)) == Archived(60, files=2, records=40)
    assert archive(log.job(*log.segments)) == Archived(60, files=0, records=0)
    assert log.offsets() == list(range(60))


def test_replicas_with_other_segments_archive_each_record_once(log: LogOnDisk) -> None:
    log.fill(2)
    archive(log.job(log.segments[0]))
    log.add(*(batch(10 + 5 * part, 5) for part in range(6)), start=10, end=40)
    assert archive(log.job(log.segments[-1])) == Archived(40, files=1, records=20)
    assert log.offsets() == list(range(40))


def test_a_damaged_batch_is_a_dead_letter_and_others_are_records(log: LogOnDisk) -> None:
    good, damaged = batch(0, 5), bytearray(batch(5, 5))
    damaged[-1] ^= 1
    log.add(good, bytes(damaged), batch(10, 5), start=0, end=15)
    assert archive(log.job()) == Archived(15, files=1, records=10, dead_letters=1)
    assert log.offsets() == [*range(5), *range(10, 15)]
    [letter] = log.dead_letters()
    assert (letter["offset"], letter["position"], letter["content"]) == (5, len(good), bytes(damaged))
    assert "CRC" in letter["reason"] or "checksum" in letter["reason"]


@pytest.mark.parametrize("rest", [b"\0" * 40, b"\xff" * 40, batch(5, 5)[:30]], ids=["zeros", "ones", "cut"])
def test_bytes_without_batches_are_dead_letters(log: LogOnDisk, monkeypatch: pytest.MonkeyPatch, rest: bytes) -> None:
    monkeypatch.setattr(segments, "_CHUNK_BYTES", 32)
    log.add(batch(0, 5), rest, start=0, end=15)
    outcome = archive(log.job())
    assert (outcome.archived_to, outcome.records) == (15, 5)
    assert b"".join(letter["content"] for letter in log.dead_letters()) == rest


def test_aborted_transactions_and_markers_are_left_out(log: LogOnDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_CHUNK_BYTES", 100)
    producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}

    def marker(committed: bool, offset: int) -> bytes:
        return offset.to_bytes(8, "big") + end_marker(committed, 0, 7, 0, TIME_MS)[8:]

    log.add(batch(0, 5, **producer), batch(5, 2), marker(False, 7), batch(8, 3, **producer), start=0, end=11)
    log.add(marker(True, 11), batch(12, 2), start=11, end=14)
    assert archive(log.job(aborted=((7, 0),))).records == 7
    assert log.offsets() == [5, 6, 8, 9, 10, 12, 13]


def test_aborted_batches_stay_hidden_where_others_are_damaged(log: LogOnDisk) -> None:
    producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    marker = (7).to_bytes(8, "big") + end_marker(False, 0, 7, 0, TIME_MS)[8:]
    damaged = batch(8, 3)[:-1] + b"\xff"
    log.add(batch(0, 5, **producer), batch(5, 2), marker, damaged, batch(11, 1), start=0, end=12)
    assert archive(log.job(aborted=((7, 0),))).dead_letters == 1
    assert log.offsets() == [5, 6, 11]


@pytest.mark.parametrize("codec", list(Codec))
def test_compressed_and_large_batches(log: LogOnDisk, monkeypatch: pytest.MonkeyPatch, codec: Codec) -> None:
    monkeypatch.setattr(segments, "_CHUNK_BYTES", 300)
    log.add(batch(0, 100, codec=codec), batch(100, 1, codec=codec), batch(101, 50), start=0, end=151)
    assert archive(log.job()).records == 151
    assert log.offsets() == list(range(151))


def test_overlapping_files_are_an_error(log: LogOnDisk) -> None:
    log.fill(2)
    archive(log.job())
    log.files()[0].rename(log.files()[0].with_name(f"{5:020d}-{25:020d}.parquet"))
    with pytest.raises(TableError, match="overlap: records are archived twice"):
        archive(log.job())


def test_topics_without_an_id_are_not_archived(log: LogOnDisk) -> None:
    """A later topic of that name would have the same place: its records would count as archived."""
    log.fill(1)
    with pytest.raises(TableError, match=r"the topic has no id, .* inter\.broker\.protocol\.version=2\.8"):
        archive(attrs.evolve(log.job(), topic_id=id_text(None)))


def test_logs_of_kafka_07_are_not_archived(log: LogOnDisk) -> None:
    log.fill(1)
    (log.directory / "message-format").write_text("0.7")
    with pytest.raises(TableError, match=r"has the format of Kafka 0\.7"):
        archive(log.job())


def test_the_process_answers_with_an_outcome_or_an_error(
    log: LogOnDisk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log.fill(1)
    fields = {
        "root": str(log.archive),
        "topic": "orders",
        "topic_id": "abc",
        "partition": 3,
        "directory": str(log.directory),
        "segments": [(0, 20, log.segments[0].size)],
        "aborted": [],
    }
    monkeypatch.setattr(os, "nice", lambda _: 0)
    monkeypatch.setattr(archive_process, "_end_with_stdin", lambda: None)
    for directory, expected in ((log.directory, {"archived_to": 20, "files": 1}), (log.archive / "none", None)):
        monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps({**fields, "directory": str(directory)}) + "\n"))
        if expected is None:
            fields["topic"] = "other"
        archive_process.main()
        answer = json.loads(capsys.readouterr().out)
        if expected:
            assert answer.items() >= expected.items()
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps({**fields, "directory": "/nonexistent"}) + "\n"))
    archive_process.main()
    assert "FileNotFoundError" in json.loads(capsys.readouterr().out)["error"]
