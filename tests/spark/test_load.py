"""Loaded rows, against both brokers; without Spark."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pylogbroker.spark.loading.job import LoadFailed
from pylogbroker.spark.loading.mappings import JsonValue
from pylogbroker.spark.loading.progress import Progress
from tests.spark.local_load import SMALL, load_here, make, records, rows, stray_files, values
from tests.spark.topics import Rec, Topics


def test_later_loads_add_only_new_records(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics, 3)
    topics.fill(topic, records(0, 90, 3))
    first = load_here(topics.bootstrap, topic, tmp_path)
    assert [(entry.partition, entry.start, entry.end, entry.records) for entry in first.entries] == [
        (number, 0, 30, 30) for number in range(3)
    ]
    assert first.lag == 0
    assert load_here(topics.bootstrap, topic, tmp_path).entries == ()
    topics.fill(topic, records(90, 120, 2))
    again = load_here(topics.bootstrap, topic, tmp_path)
    assert [(entry.partition, entry.start, entry.end) for entry in again.entries] == [(0, 30, 45), (1, 30, 45)]
    assert values(tmp_path) == list(range(120))


def test_the_rows_and_their_footers(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics, 2)
    topics.fill(topic, [Rec(b"one", b"k", 1, 1_000, [("h", b"1")]), Rec(None, None, 1, 2_000)])
    load_here(topics.bootstrap, topic, tmp_path, options={"includeHeaders": "true"})
    [path] = tmp_path.rglob("*.parquet")
    assert path.name == f"{topic}-1-{0:020}-{2:020}.parquet"
    table = pq.read_table(path)
    assert table.column_names == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "headers",
    ]
    first, second = table.to_pylist()
    assert (first["key"], first["value"], first["topic"], first["partition"]) == (b"k", b"one", topic, 1)
    assert (first["offset"], first["timestamp"].timestamp(), first["headers"]) == (0, 1, [{"key": "h", "value": b"1"}])
    assert (second["key"], second["value"], second["headers"]) == (None, None, None)
    footer = {key.decode(): value.decode() for key, value in pq.read_metadata(path).metadata.items()}
    reported = {name: footer[f"pylogbroker.{name}"] for name in ("topic", "partition", "start_offset", "next_offset")}
    assert reported == {"topic": topic, "partition": "1", "start_offset": "0", "next_offset": "2"}
    assert footer["pylogbroker.last_offset"] == "1"


def test_many_files(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    topics.fill(topic, records(0, 2_000), batch_size=2_000)
    outcome = load_here(topics.bootstrap, topic, tmp_path, options=SMALL, file_size=1)
    ends = [(entry.start, entry.end) for entry in outcome.entries]
    assert len(ends) > 10
    assert ends[0][0] == 0
    assert ends[-1][1] == 2_000
    assert all(one[1] == other[0] for one, other in pairwise(ends))
    assert values(tmp_path) == list(range(2_000))


def test_only_committed_records_are_loaded(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    topics.transaction(topic, records(0, 5), commit=True)
    topics.transaction(topic, records(5, 9), commit=False)
    topics.transaction(topic, records(9, 12), commit=True)
    load_here(topics.bootstrap, topic, tmp_path / "committed")
    assert values(tmp_path / "committed") == [0, 1, 2, 3, 4, 9, 10, 11]
    load_here(topics.bootstrap, topic, tmp_path / "all", options={"kafka.isolation.level": "read_uncommitted"})
    assert values(tmp_path / "all") == list(range(12))
    assert load_here(topics.bootstrap, topic, tmp_path / "committed").entries == ()


def test_offsets_without_any_rows_are_done_with(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    topics.transaction(topic, records(0, 5), commit=False)
    assert [entry.path for entry in load_here(topics.bootstrap, topic, tmp_path).entries] == [None]
    assert load_here(topics.bootstrap, topic, tmp_path).entries == ()
    assert rows(tmp_path, "value") == []


def test_since_and_until(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    times = [10, 20, 15, 30, 12, 40, 35, 50]
    topics.fill(topic, [Rec(b"value-%d" % time, timestamp=time) for time in times])
    outcome = load_here(topics.bootstrap, topic, tmp_path, since=20, until=40)
    assert values(tmp_path) == [20, 30]  # 12 and 15 are earlier; 35 comes behind 40
    assert outcome.lag == 3
    load_here(topics.bootstrap, topic, tmp_path)
    assert values(tmp_path) == [20, 30, 35, 40, 50]


def test_a_later_since_leaves_a_gap(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    topics.fill(topic, records(0, 10))
    load_here(topics.bootstrap, topic, tmp_path)
    topics.fill(topic, records(10, 30))
    outcome = load_here(topics.bootstrap, topic, tmp_path, since=1_020)
    assert [(gap.start, gap.end) for gap in outcome.gaps] == [(10, 20)]
    assert values(tmp_path) == [*range(10), *range(20, 30)]
    assert load_here(topics.bootstrap, topic, tmp_path).entries == ()


def test_times_that_are_missing_or_too_late_for_microseconds(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    last = 1 << 60
    topics.fill(topic, [Rec(b"value-%d" % n, timestamp=at) for n, at in enumerate((10, 20, last, 15, last))])
    load_here(topics.bootstrap, topic, tmp_path, since=20)
    assert values(tmp_path) == [1, 2, 4]
    assert [when is None for _, when in sorted(rows(tmp_path, "offset", "timestamp"))] == [False, True, True]


def test_a_future_until_loads_everything(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    topics.fill(topic, records(0, 10))
    load_here(topics.bootstrap, topic, tmp_path, until=1 << 50)
    assert values(tmp_path) == list(range(10))


def test_a_name_that_is_too_long_for_a_file(topics: Topics, tmp_path: Path) -> None:
    stem = topics.fresh_name()
    names = [f"_{stem}{'x' * 250}"[:248] + letter for letter in "ab"]
    for name, first in zip(names, (0, 10), strict=True):
        make(topics, name=name)
        topics.fill(name, records(first, first + 10))
    load_here(topics.bootstrap, names, tmp_path)
    assert values(tmp_path) == list(range(20))
    assert load_here(topics.bootstrap, names, tmp_path).entries == ()
    load_here(topics.bootstrap, names, tmp_path, replay=True)
    assert values(tmp_path) == list(range(20))


def test_a_load_without_new_records_writes_nothing(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics, 2)
    topics.fill(topic, records(0, 10, 2))
    load_here(topics.bootstrap, topic, tmp_path)
    before = (tmp_path / "manifest.json").stat()
    outcome = load_here(topics.bootstrap, topic, tmp_path)
    after = (tmp_path / "manifest.json").stat()
    assert (outcome.entries, outcome.lag) == ((), 0)
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_mapping_that_fails(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    topics.fill(topic, [Rec(b'{"n": 1}'), Rec(b"not json")])
    with pytest.raises(LoadFailed, match=rf"{topic}/0, offset 1: not a JSON object of the schema: b'not json'"):
        load_here(topics.bootstrap, topic, tmp_path, mapping=JsonValue(pa.schema([("n", pa.int64())])))
    assert stray_files(tmp_path) == [".lock", "manifest.json"]


def test_the_offset_that_a_mapping_fails_at(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    topics.fill(topic, records(0, 100))

    def fails_at(batch: pa.RecordBatch) -> pa.RecordBatch:
        if b"value-77" in batch["value"].to_pylist():
            raise RuntimeError("no sevens")
        return batch

    def fails_together(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.num_rows > 30:
            raise RuntimeError("too many")
        return batch

    for mapping, reported in (
        (fails_at, f"{topic}/0, offset 77: the mapping failed: RuntimeError: no sevens"),
        (fails_together, f"{topic}/0, offsets 0 to 49: the mapping failed: RuntimeError: too many"),
    ):
        with pytest.raises(LoadFailed, match=reported):
            load_here(topics.bootstrap, topic, tmp_path, mapping=mapping)


def test_progress(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics, 2)
    topics.fill(topic, records(0, 40, 2))
    seen: list[Progress] = []
    load_here(topics.bootstrap, topic, tmp_path, report=seen.append)
    first, last = seen[0], seen[-1]
    assert (first.records, first.offsets, first.total, first.lag) == (0, 0, 40, 40)
    assert (last.records, last.offsets, last.total, last.lag, last.files) == (40, 40, 40, 0, 2)
    assert last.bytes == sum(path.stat().st_size for path in tmp_path.rglob("*.parquet"))
    assert 20 in [each.records for each in seen]
