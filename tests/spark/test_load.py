"""What is loaded, against both brokers; without Spark."""

from __future__ import annotations

import errno
import io
import os
import random
import re
import stat
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pylogbroker.errors import ConfigError, KafkaError
from pylogbroker.spark.loading.mapping import JsonValue
from pylogbroker.spark.loading.progress import Progress
from pylogbroker.spark.loading.running import LoadFailed
from pylogbroker.spark.loading.store import Store, TargetInUse
from pylogbroker.spark.reading.losses import DataLost
from tests.spark.load_here import here, load_here, manifest, rows, strays
from tests.spark.topics import Rec, Topics

#: so that every answer holds a few records; with files of a byte, each makes a file
SMALL = {"kafka.max.partition.fetch.bytes": "500"}


def records(first: int, end: int, partitions: int = 1) -> list[Rec]:
    return [Rec(b"value-%d" % n, b"key-%d" % n, n % partitions, 1_000 + n) for n in range(first, end)]


def make(topics: Topics, partitions: int = 1, name: str | None = None) -> str:
    """A topic that keeps what is old."""
    return topics.make(partitions, name, retention_ms="-1")


def values(target: Path) -> list[int]:
    return sorted(int(value.decode().split("-")[1]) for (value,) in rows(target, "value"))


def test_all_and_then_what_is_new(topics: Topics, tmp_path: Path) -> None:
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
    told = {name: footer[f"pylogbroker.{name}"] for name in ("topic", "partition", "start_offset", "next_offset")}
    assert told == {"topic": topic, "partition": "1", "start_offset": "0", "next_offset": "2"}
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


def test_only_what_is_committed(topics: Topics, tmp_path: Path) -> None:
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


# -- times ------------------------------------------------------------------------------------------------------------


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


def test_times_that_are_missing_or_cannot_be_told_in_microseconds(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    last = 1 << 60
    topics.fill(topic, [Rec(b"value-%d" % n, timestamp=at) for n, at in enumerate((10, 20, last, 15, last))])
    load_here(topics.bootstrap, topic, tmp_path, since=20)
    assert values(tmp_path) == [1, 2, 4]
    assert [when is None for _, when in sorted(rows(tmp_path, "offset", "timestamp"))] == [False, True, True]


def test_until_a_time_that_has_not_come(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    topics.fill(topic, records(0, 10))
    load_here(topics.bootstrap, topic, tmp_path, until=1 << 50)
    assert values(tmp_path) == list(range(10))


# -- replay -----------------------------------------------------------------------------------------------------------


def upper(batch: pa.RecordBatch) -> pa.RecordBatch:
    again = pa.array([value.replace(b"value", b"again") for value in batch["value"].to_pylist()], pa.binary())
    return batch.set_column(batch.schema.get_field_index("value"), "value", again)


def test_a_replay_takes_the_place_of_what_was(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    for first in range(0, 40, 10):
        topics.fill(topic, records(first, first + 10))
        load_here(topics.bootstrap, topic, tmp_path)
    old = [tmp_path / str(entry.path) for entry in manifest(tmp_path).files()]

    def meanwhile(job, parts, tick):  # type: ignore[no-untyped-def]
        found = here(job, parts, tick)
        assert {value[:5] for (value,) in rows(tmp_path, "value")} == {b"value"}
        return found

    load_here(topics.bootstrap, topic, tmp_path, replay=True, since=1_015, until=1_025, mapping=upper, spread=meanwhile)
    assert values(tmp_path) == list(range(40))
    again = {int(value[6:]) for (value,) in rows(tmp_path, "value") if value.startswith(b"again")}
    assert again == set(range(10, 30))  # whole files
    assert all(path.exists() for path in old)
    load_here(topics.bootstrap, topic, tmp_path, keep=0.0)
    assert [path.exists() for path in old] == [True, False, False, True]
    assert values(tmp_path) == list(range(40))


def test_a_replay_of_all_may_change_the_columns(topics: Topics, tmp_path: Path) -> None:
    topic, other = make(topics), make(topics)
    topics.fill(topic, [Rec(b'{"n": %d}' % n) for n in range(10)])
    topics.fill(other, [Rec(b'{"n": 10}')])
    load_here(topics.bootstrap, [topic, other], tmp_path)
    json = JsonValue(pa.schema([("n", pa.int64())]))
    with pytest.raises(ConfigError, match=r"has the columns key: binary.*now there would be.*n: int64"):
        load_here(topics.bootstrap, [topic, other], tmp_path, mapping=json)
    with pytest.raises(ConfigError, match="has the columns"):
        load_here(topics.bootstrap, topic, tmp_path, replay=True, mapping=json)
    load_here(topics.bootstrap, [topic, other], tmp_path, replay=True, mapping=json)
    assert sorted(rows(tmp_path, "n")) == [(n,) for n in range(11)]
    topics.fill(topic, [Rec(b'{"n": 11}')])
    load_here(topics.bootstrap, [topic, other], tmp_path, mapping=json)
    assert sorted(rows(tmp_path, "n")) == [(n,) for n in range(12)]


def test_a_replay_leaves_out_what_the_load_left_out(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    topics.fill(topic, [Rec(b"value-%d" % time, timestamp=time) for time in (10, 20, 15, 30)])
    load_here(topics.bootstrap, topic, tmp_path, since=20)
    load_here(topics.bootstrap, topic, tmp_path, replay=True)
    assert values(tmp_path) == [20, 30]


def test_a_replay_never_loses_what_the_log_has_not_any_more(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    for first in range(0, 30, 10):
        topics.fill(topic, records(first, first + 10))
        load_here(topics.bootstrap, topic, tmp_path)
    topics.trim(topic, 0, 5)
    with pytest.raises(DataLost, match="the log begins at offset 5: what is loaded of it remains"):
        load_here(topics.bootstrap, topic, tmp_path, replay=True, mapping=upper)
    load_here(topics.bootstrap, topic, tmp_path, replay=True, mapping=upper, options={"failOnDataLoss": "false"})
    assert values(tmp_path) == list(range(30))
    assert len([value for (value,) in rows(tmp_path, "value") if value.startswith(b"again")]) == 20


# -- losses -----------------------------------------------------------------------------------------------------------


def test_retention_has_passed_what_is_loaded(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    topics.fill(topic, records(0, 10))
    load_here(topics.bootstrap, topic, tmp_path)
    topics.fill(topic, records(10, 30))
    topics.trim(topic, 0, 20)
    with pytest.raises(DataLost, match=rf"{topic}/0, offsets 10 to 20, is not loaded yet, but the log begins at"):
        load_here(topics.bootstrap, topic, tmp_path)
    outcome = load_here(topics.bootstrap, topic, tmp_path, options={"failOnDataLoss": "false"})
    assert [(gap.start, gap.end, gap.gap) for gap in outcome.gaps] == [(10, 20, "the log begins at offset 20")]
    assert values(tmp_path) == [*range(10), *range(20, 30)]
    assert load_here(topics.bootstrap, topic, tmp_path).entries == ()


def test_retention_while_loading(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    topics.fill(topic, records(0, 30))

    def late(job, parts, tick):  # type: ignore[no-untyped-def]
        topics.trim(topic, 0, 20)
        return here(job, parts, tick)

    with pytest.raises(LoadFailed, match=f"{topic}/0: some data may have been lost: .* no offset 0"):
        load_here(topics.bootstrap, topic, tmp_path / "failing", spread=late)
    topic = make(topics)
    topics.fill(topic, records(0, 30))
    options = {"failOnDataLoss": "false"}
    outcome = load_here(topics.bootstrap, topic, tmp_path / "going on", spread=late, options=options)
    assert [(gap.start, gap.end) for gap in outcome.gaps] == [(0, 20)]
    assert values(tmp_path / "going on") == list(range(20, 30))


def test_a_topic_made_anew(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    topics.fill(topic, records(0, 10))
    load_here(topics.bootstrap, topic, tmp_path)
    topics.delete(topic)
    with pytest.raises(DataLost, match=f"topic {topic} has been deleted"):
        load_here(topics.bootstrap, topic, tmp_path)
    make_again(topics, topic)
    topics.fill(topic, records(100, 115))
    with pytest.raises(DataLost, match=f"topic {topic} has been deleted and made anew"):
        load_here(topics.bootstrap, topic, tmp_path)
    load_here(topics.bootstrap, topic, tmp_path, options={"failOnDataLoss": "false"})
    assert values(tmp_path) == [*range(10), *range(100, 115)]
    assert load_here(topics.bootstrap, topic, tmp_path).entries == ()
    load_here(topics.bootstrap, topic, tmp_path, replay=True, mapping=upper)
    assert values(tmp_path) == [*range(10), *range(100, 115)]
    assert len([value for (value,) in rows(tmp_path, "value") if value.startswith(b"again")]) == 15


def test_a_topic_made_anew_while_loading(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    topics.fill(topic, records(0, 10))

    def late(job, parts, tick):  # type: ignore[no-untyped-def]
        topics.delete(topic)
        make_again(topics, topic)
        topics.fill(topic, records(100, 115))
        return here(job, parts, tick)

    with pytest.raises(LoadFailed, match="deleted and made anew"):
        load_here(topics.bootstrap, topic, tmp_path, spread=late)
    assert rows(tmp_path, "value") == []


def make_again(topics: Topics, topic: str) -> None:
    for _ in range(100):
        try:
            make(topics, name=topic)
        except AssertionError:
            time.sleep(0.1)
        else:
            return
    pytest.fail("the topic cannot be made again")


def test_topics_that_are_not_there(topics: Topics, tmp_path: Path) -> None:
    with pytest.raises(KafkaError, match="no such topic or partition: nothing-of-that-name"):
        load_here(topics.bootstrap, "nothing-of-that-name", tmp_path)


# -- crashes ----------------------------------------------------------------------------------------------------------


def test_a_partition_that_a_topic_gets(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    topics.fill(topic, records(0, 10))
    load_here(topics.bootstrap, topic, tmp_path)
    topics.widen(topic, 3)
    topics.fill(topic, [attrs.evolve(each, partition=1) for each in records(10, 30)])
    outcome = load_here(topics.bootstrap, topic, tmp_path)
    assert [(entry.partition, entry.start, entry.end) for entry in outcome.entries] == [(1, 0, 20)]
    topics.widen(topic, 4)
    topics.fill(topic, [attrs.evolve(each, partition=3) for each in records(30, 50)])
    topics.trim(topic, 3, 15)
    with pytest.raises(DataLost, match=rf"{topic}/3, offsets 0 to 15, is not loaded yet, but the log begins at"):
        load_here(topics.bootstrap, topic, tmp_path)
    outcome = load_here(topics.bootstrap, topic, tmp_path, options={"failOnDataLoss": "false"})
    assert [(gap.partition, gap.start, gap.end) for gap in outcome.gaps] == [(3, 0, 15)]
    assert values(tmp_path) == [*range(30), *range(45, 50)]


def test_a_topic_that_a_pattern_does_not_find_any_more(topics: Topics, tmp_path: Path) -> None:
    stem = topics.fresh_name()
    names = [make(topics, name=f"{stem}-{letter}") for letter in "ab"]
    for name, first in zip(names, (0, 10), strict=True):
        topics.fill(name, records(first, first + 10))
    pattern = re.compile(f"^{stem}")
    load_here(topics.bootstrap, pattern, tmp_path)
    topics.delete(names[0])
    with pytest.raises(DataLost, match=f"topic {names[0]} has been deleted"):
        load_here(topics.bootstrap, pattern, tmp_path)
    load_here(topics.bootstrap, pattern, tmp_path, options={"failOnDataLoss": "false"})
    assert load_here(topics.bootstrap, pattern, tmp_path).entries == ()
    make_again(topics, names[0])
    topics.fill(names[0], records(20, 25))
    load_here(topics.bootstrap, pattern, tmp_path)
    assert values(tmp_path) == list(range(25))


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


@pytest.mark.parametrize("replay", [False, True])
def test_killed_again_and_again(topics: Topics, tmp_path: Path, replay: bool) -> None:
    topic = make(topics, 2)
    for first in range(0, 400, 10):
        topics.fill(topic, records(first, first + 10, 2))
    if replay:
        load_here(topics.bootstrap, topic, tmp_path)
    chance = random.Random(replay)
    for _ in range(4):
        process = start(topics.bootstrap, topic, tmp_path, replay, pause="0.05")
        wait_for_files(tmp_path, 2)
        time.sleep(0.1 * chance.random())
        assert process.poll() is None
        process.kill()
        process.wait()
        if replay:
            assert values(tmp_path) == list(range(400))
    assert start(topics.bootstrap, topic, tmp_path, replay, pause="0.05").wait(30) == 0
    assert values(tmp_path) == list(range(400))
    assert strays(tmp_path) == [".lock", "manifest.json"]
    assert all(entry.generation == 1 + replay for entry in manifest(tmp_path).files())


def wait_for_files(target: Path, more: int) -> None:
    before = len(list(target.rglob("*.parquet")))
    deadline = time.monotonic() + 30
    while len(list(target.rglob("*.parquet"))) < before + more:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def start(bootstrap: str, topic: str, target: Path | str, replay: bool, pause: str) -> subprocess.Popen[str]:
    arguments = [bootstrap, topic, str(target), "yes" if replay else "no", pause]
    return subprocess.Popen([sys.executable, "-m", "tests.spark.load_here", *arguments], text=True)


class Full(io.RawIOBase):
    """A file on a disk that takes 10,000 bytes more; what it takes at once is less than it is given."""

    def __init__(self, name: str) -> None:
        self._file = open(name, "wb", buffering=0)  # noqa: SIM115
        self._left = 10_000

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file.fileno()

    def write(self, contents: Any) -> int:
        if not self._left:
            raise OSError(errno.ENOSPC, "No space left on device")
        size = min(len(contents), self._left, 500)
        self._file.write(bytes(contents[:size]))
        self._left -= size
        return size


def test_a_full_disk(topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = make(topics, 2)
    topics.fill(topic, records(0, 100, 2))
    topics.fill(
        topic, [Rec(b"value-%d-%s" % (n, os.urandom(20_000).hex().encode()), partition=0) for n in range(100, 110)]
    )
    create = Store.create

    def full(store: Store, name: str) -> Any:
        create(store, name).close()
        return pa.PythonFile(io.BufferedWriter(Full(store.path(name)), 1_000)) if "/" in name else create(store, name)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "create", full)
        with pytest.raises(LoadFailed, match=f"{topic}/0: OSError: .*No space left on device"):
            load_here(topics.bootstrap, topic, tmp_path, file_size=1, options=SMALL)
    assert strays(tmp_path) == [".lock", "manifest.json"]
    loaded = len(rows(tmp_path, "value"))
    assert 0 < loaded < 110
    assert len(load_here(topics.bootstrap, topic, tmp_path).entries) > 0
    assert values(tmp_path) == list(range(110))


def test_what_is_published_is_on_the_disk(topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = make(topics)
    topics.fill(topic, records(0, 10))
    steps: list[str] = []
    sync, replace = os.fsync, os.replace

    def synced(number: int) -> None:
        steps.append("directory" if stat.S_ISDIR(os.fstat(number).st_mode) else "file")
        sync(number)

    def replaced(old: str, new: str) -> None:
        steps.append(Path(new).suffix)
        replace(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    load_here(topics.bootstrap, topic, tmp_path)
    written, made = ["file", ".json", "directory"], ["directory", "directory"]
    assert steps == [*written, *made, "file", ".parquet", "directory", *written]


def test_files_that_the_manifest_does_not_know_of(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    topics.fill(topic, records(0, 10))
    load_here(topics.bootstrap, topic, tmp_path)
    before = (tmp_path / "manifest.json").read_bytes()
    topics.fill(topic, records(10, 20))
    load_here(topics.bootstrap, topic, tmp_path)
    (tmp_path / "manifest.json").write_bytes(before)
    [whole] = tmp_path.rglob(f"*-{10:020}-{20:020}.parquet")
    stamp = whole.stat().st_mtime_ns
    whole.with_name(f"{topic}-0-{5:020}-{15:020}.parquet").write_bytes(whole.read_bytes())
    whole.with_name(".anything.tmp").write_bytes(b"begun")
    whole.with_name("notes.txt").write_bytes(b"somebody's own")
    left = ["notes.txt", f"{topic}-0-{5:020}-{15:020}.parquet", ".anything.tmp"]
    with pytest.raises(KafkaError, match="no such topic"):
        load_here(topics.bootstrap, [topic, "nothing-of-that-name"], tmp_path)
    assert set(left) < set(strays(tmp_path))  # nothing is deleted before the manifest is written
    outcome = load_here(topics.bootstrap, topic, tmp_path)
    assert [(entry.start, entry.end) for entry in outcome.entries] == [(10, 20)]
    assert whole.stat().st_mtime_ns == stamp
    assert values(tmp_path) == list(range(20))
    assert strays(tmp_path) == [".lock", "manifest.json", "notes.txt"]


def test_only_one_at_a_time(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    topics.fill(topic, records(0, 10))

    def meanwhile(job, parts, tick):  # type: ignore[no-untyped-def]
        with pytest.raises(TargetInUse, match=r"is being loaded into by process \d+"):
            load_here(topics.bootstrap, topic, tmp_path)
        return here(job, parts, tick)

    load_here(topics.bootstrap, topic, tmp_path, spread=meanwhile)
    assert values(tmp_path) == list(range(10))


def test_nothing_to_do_writes_nothing(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics, 2)
    topics.fill(topic, records(0, 10, 2))
    load_here(topics.bootstrap, topic, tmp_path)
    before = (tmp_path / "manifest.json").stat()
    outcome = load_here(topics.bootstrap, topic, tmp_path)
    after = (tmp_path / "manifest.json").stat()
    assert (outcome.entries, outcome.lag) == ((), 0)
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_files_that_only_the_task_sees(topics: Topics, tmp_path: Path) -> None:
    """As when each machine has a directory of that name."""
    topic = make(topics)
    topics.fill(topic, records(0, 10))

    def elsewhere(job, parts, tick):  # type: ignore[no-untyped-def]
        return here(attrs.evolve(job, target=str(tmp_path / "elsewhere")), parts, tick)

    with pytest.raises(LoadFailed, match=f"{topic}/0, offsets 0 to 10, is not loaded.* all of Spark's processes share"):
        load_here(topics.bootstrap, topic, tmp_path / "here", spread=elsewhere)
    assert rows(tmp_path / "here", "value") == []


def test_two_attempts_of_a_task_at_once(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    topics.fill(topic, records(0, 400), batch_size=2_000)

    def twice(job, parts, tick):  # type: ignore[no-untyped-def]
        process = start(topics.bootstrap, topic, tmp_path / "other", False, pause="0")
        assert process.wait(30) == 0
        found = here(job, parts, tick)
        for path in (tmp_path / "other").rglob("*.parquet"):
            path.rename(tmp_path / "one" / path.relative_to(tmp_path / "other"))
        return found

    load_here(topics.bootstrap, topic, tmp_path / "one", spread=twice)
    assert values(tmp_path / "one") == list(range(400))
    assert strays(tmp_path / "one") == [".lock", "manifest.json"]


# -- mappings and progress --------------------------------------------------------------------------------------------


def test_a_mapping_that_fails(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    topics.fill(topic, [Rec(b'{"n": 1}'), Rec(b"not json")])
    with pytest.raises(LoadFailed, match=rf"{topic}/0, offset 1: not a JSON object of the schema: b'not json'"):
        load_here(topics.bootstrap, topic, tmp_path, mapping=JsonValue(pa.schema([("n", pa.int64())])))
    assert strays(tmp_path) == [".lock", "manifest.json"]


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

    for mapping, told in (
        (fails_at, f"{topic}/0, offset 77: the mapping failed: RuntimeError: no sevens"),
        (fails_together, f"{topic}/0, offsets 0 to 49: the mapping failed: RuntimeError: too many"),
    ):
        with pytest.raises(LoadFailed, match=told):
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
