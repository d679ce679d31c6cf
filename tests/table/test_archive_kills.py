"""An archive as a directory, after a kill or a loss of power at every step of a job: each record is there once.

A job runs once. After each of its steps, the files are copied as a kill leaves them, and as a loss of power may leave
them. Then names are missing that no sync of their directory followed, and files have the bytes of their last sync.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pyarrow.parquet as pq
import pytest

from pylogbroker.records import Record, build
from pylogbroker.table.archive.jobs import ArchiveJob
from pylogbroker.table.archive.writer import archive
from tests.support.waiting import wait_until
from tests.table.test_archive_writer import TIME_MS, LogOnDisk, batch

END = 45
OFFSETS = [*range(20), *range(25, END)]
DEAD_LETTERS = [20, 35, 36, 37]


def json_batch(start: int, count: int) -> bytes:
    records = [Record(start + number, TIME_MS, None, b'{"a": %d}' % number) for number in range(count)]
    return build(records, base_offset=start)


def damaged_batch(start: int, count: int) -> bytes:
    content = bytearray(batch(start, count))
    content[-1] ^= 1
    return bytes(content)


SEGMENTS = (
    (0, 15, [json_batch(0, 15)]),
    (15, 30, [json_batch(15, 5), damaged_batch(20, 5), json_batch(25, 5)]),
    (30, END, [json_batch(30, 5), batch(35, 3), json_batch(38, 7)]),  # 35 to 37 have no JSON
)


def job_of(log: LogOnDisk) -> ArchiveJob:
    return attrs.evolve(log.job(), decoding={"value": "json"})


@attrs.define
class SyncedTree:
    """The part of a directory that a loss of power certainly leaves."""

    root: Path
    _bytes: dict[int, bytes] = attrs.field(factory=dict)
    _entries: dict[int, list[tuple[str, int, bool]]] = attrs.field(factory=dict)

    def note(self, fd: int) -> None:
        """Note the sync of a file or directory."""
        inode, path = os.fstat(fd).st_ino, Path(f"/proc/self/fd/{fd}")
        if path.is_dir():
            self._entries[inode] = [(entry.name, entry.inode(), entry.is_dir()) for entry in os.scandir(path)]
        else:
            self._bytes[inode] = path.read_bytes()

    def copy(self, target: Path) -> None:
        self._copy(self.root.stat().st_ino, target)

    def _copy(self, inode: int, target: Path) -> None:
        target.mkdir()
        for name, child, is_directory in self._entries.get(inode, ()):
            if is_directory:
                self._copy(child, target / name)
            else:
                (target / name).write_bytes(self._bytes.get(child, b""))


@attrs.define
class Recorder:
    """Archives a log, and copies the archive after each step."""

    log: LogOnDisk
    copies: list[Path] = attrs.field(factory=list)
    _is_copying: bool = attrs.field(default=False, init=False)

    def run(self, patched: pytest.MonkeyPatch) -> None:
        self.log.archive.mkdir()
        synced = SyncedTree(self.log.archive)
        fsync = os.fsync

        def noted(fd: int) -> None:
            fsync(fd)
            synced.note(fd)

        patched.setattr(os, "fsync", noted)
        for owner, names in (
            (os, ("fsync", "mkdir", "rename")),
            (pq.ParquetWriter, ("__init__", "write_table", "close")),
        ):
            for name in names:
                patched.setattr(owner, name, self._stepping(getattr(owner, name), synced))
        archive(job_of(self.log))

    def _stepping(self, function: Callable[..., Any], synced: SyncedTree) -> Callable[..., Any]:
        def call(*arguments: Any, **others: Any) -> Any:
            result = function(*arguments, **others)
            if self._is_copying:
                return result
            self._is_copying = True
            for kind in ("kill", "power"):
                self.copies.append(self.log.archive.with_name(f"{kind}-{len(self.copies)}"))
            shutil.copytree(self.log.archive, self.copies[-2])
            synced.copy(self.copies[-1])
            self._is_copying = False
            return result

        return call


@pytest.fixture
def log(tmp_path: Path) -> LogOnDisk:
    log = LogOnDisk(tmp_path)
    for start, end, batches in SEGMENTS:
        log.add(*batches, start=start, end=end)
    return log


@pytest.fixture
def recorder(log: LogOnDisk) -> Recorder:
    recorder = Recorder(log)
    with pytest.MonkeyPatch.context() as patched:
        recorder.run(patched)
    assert len(recorder.copies) > 60
    return recorder


def dead_letter_offsets(log: LogOnDisk) -> list[int]:
    return [letter["offset"] for letter in log.dead_letters()]


def archived_to(log: LogOnDisk) -> int:
    return int(log.files()[-1].name[21:41]) if log.files() else 0


def test_an_archive_is_whole_at_any_step(recorder: Recorder) -> None:
    """Records up to the end of the last file are there, with the dead letters between them."""
    log, ends = recorder.log, set()
    for log.archive in recorder.copies:
        end = archived_to(log)
        assert log.offsets() == [offset for offset in OFFSETS if offset < end]
        assert set(dead_letter_offsets(log)) >= {offset for offset in DEAD_LETTERS if offset < end}
        ends.add(end)
    assert ends == {0, 15, 30, END}


@pytest.mark.parametrize("has_other_segments", [False, True], ids=["same", "replica"])
def test_the_next_job_neither_loses_nor_doubles(recorder: Recorder, has_other_segments: bool) -> None:
    log = recorder.log
    if has_other_segments:  # as a replica has them
        batches = [content for _, _, contents in SEGMENTS for content in contents]
        log.segments.clear()
        log.add(*batches[:3], start=0, end=25)
        log.add(*batches[3:6], start=25, end=38)
        log.add(*batches[6:], start=38, end=END)
    for log.archive in recorder.copies:
        assert archive(job_of(log)).archived_to == END
        assert log.offsets() == OFFSETS, log.archive
        assert dead_letter_offsets(log) == DEAD_LETTERS, log.archive
        assert not list(log.archive.rglob("*.tmp")), log.archive


def test_a_job_that_is_done_survives_a_loss_of_power(recorder: Recorder) -> None:
    """Its segments may be deleted then."""
    recorder.log.archive = recorder.copies[-1]
    assert recorder.log.archive.name.startswith("power")
    assert recorder.log.offsets() == OFFSETS
    assert dead_letter_offsets(recorder.log) == DEAD_LETTERS


def kill_process(job: str, is_due: Callable[[], bool]) -> None:
    """Begin a job, and kill its process when it is due."""
    command = [sys.executable, "-m", "pylogbroker.table.archive"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        process.stdin.write(job + "\n")
        process.stdin.flush()
        wait_until(lambda: process.poll() is not None or is_due())
        process.kill()


def test_kills_of_the_process_neither_lose_nor_double(tmp_path: Path) -> None:
    """The process is killed while it writes its first file, its second one, and so on."""
    log = LogOnDisk(tmp_path)
    for number in range(4):
        start = 5000 * number
        log.add(*(batch(start + 50 * part, 50) for part in range(100)), start=start, end=start + 5000)
    fields = {**attrs.asdict(log.job()), "segments": [attrs.astuple(segment) for segment in log.segments]}
    for number in range(3):
        kill_process(json.dumps(fields), partial(log.has_files, number + 1))
    archive(log.job())
    assert log.offsets() == list(range(20_000))
    assert not list(log.archive.rglob("*.tmp"))
