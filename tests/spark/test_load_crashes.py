"""Loads that are killed, that find the disk full, and that come in each other's way; without Spark."""

from __future__ import annotations

import errno
import io
import os
import random
import stat
import time
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest

from pylogbroker.errors import KafkaError
from pylogbroker.spark.loading.job import LoadFailed
from pylogbroker.spark.loading.store import Store, TargetInUse
from tests.spark.local_load import SMALL, here, load_here, make, manifest, records, rows, start, stray_files, values
from tests.spark.topics import Rec, Topics
from tests.support.waiting import wait_until

#: A load takes long enough to be killed, and a replay goes on with the same mapping only.
PAUSE = "0.1"


@pytest.mark.parametrize("replay", [False, True])
def test_killed_again_and_again(topics: Topics, tmp_path: Path, replay: bool) -> None:
    topic = make(topics, 2)
    for first in range(0, 400, 10):
        topics.fill(topic, records(first, first + 10, 2))
    if replay:
        load_here(topics.bootstrap, topic, tmp_path)
    chance = random.Random(replay)
    for _ in range(4):
        process = start(topics.bootstrap, topic, tmp_path, replay, pause=PAUSE)
        wait_for_files(tmp_path, 2)
        time.sleep(0.1 * chance.random())
        assert process.poll() is None
        process.kill()
        process.wait()
        if replay:
            assert values(tmp_path) == list(range(400))
    assert start(topics.bootstrap, topic, tmp_path, replay, pause=PAUSE).wait(120) == 0
    assert values(tmp_path) == list(range(400))
    assert stray_files(tmp_path) == [".lock", "manifest.json"]
    assert all(entry.generation == 1 + replay for entry in manifest(tmp_path).files())


def wait_for_files(target: Path, more: int) -> None:
    before = len(list(target.rglob("*.parquet")))
    wait_until(lambda: len(list(target.rglob("*.parquet"))) >= before + more)


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
    assert stray_files(tmp_path) == [".lock", "manifest.json"]
    loaded = len(rows(tmp_path, "value"))
    assert 0 < loaded < 110
    assert len(load_here(topics.bootstrap, topic, tmp_path).entries) > 0
    assert values(tmp_path) == list(range(110))


def test_published_files_are_synced_first(topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert set(left) < set(stray_files(tmp_path))  # nothing is deleted before the manifest is written
    outcome = load_here(topics.bootstrap, topic, tmp_path)
    assert [(entry.start, entry.end) for entry in outcome.entries] == [(10, 20)]
    assert whole.stat().st_mtime_ns == stamp
    assert values(tmp_path) == list(range(20))
    assert stray_files(tmp_path) == [".lock", "manifest.json", "notes.txt"]


def test_a_second_load_of_a_target_is_rejected(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    topics.fill(topic, records(0, 10))

    def meanwhile(job, parts, tick):  # type: ignore[no-untyped-def]
        with pytest.raises(TargetInUse, match=r"is in use by a load in process \d+"):
            load_here(topics.bootstrap, topic, tmp_path)
        return here(job, parts, tick)

    load_here(topics.bootstrap, topic, tmp_path, schedule=meanwhile)
    assert values(tmp_path) == list(range(10))


def test_files_that_only_the_task_sees(topics: Topics, tmp_path: Path) -> None:
    """Each machine may have a directory of that name."""
    topic = make(topics)
    topics.fill(topic, records(0, 10))

    def elsewhere(job, parts, tick):  # type: ignore[no-untyped-def]
        return here(attrs.evolve(job, target=str(tmp_path / "elsewhere")), parts, tick)

    with pytest.raises(LoadFailed, match=f"{topic}/0, offsets 0 to 10, is not loaded.* all of Spark's processes share"):
        load_here(topics.bootstrap, topic, tmp_path / "here", schedule=elsewhere)
    assert rows(tmp_path / "here", "value") == []


def test_two_attempts_of_a_task_at_once(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    topics.fill(topic, records(0, 400), batch_size=2_000)

    def twice(job, parts, tick):  # type: ignore[no-untyped-def]
        process = start(topics.bootstrap, topic, tmp_path / "other", False, pause="0")
        assert process.wait(120) == 0
        found = here(job, parts, tick)
        for path in (tmp_path / "other").rglob("*.parquet"):
            path.rename(tmp_path / "one" / path.relative_to(tmp_path / "other"))
        return found

    load_here(topics.bootstrap, topic, tmp_path / "one", schedule=twice)
    assert values(tmp_path / "one") == list(range(400))
    assert stray_files(tmp_path / "one") == [".lock", "manifest.json"]
