"""Syncs: when a log must be synced, what a sync forces to the disk, and what it then says."""

from __future__ import annotations

import errno
import os
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

from pylogbroker.errors import StorageFailure
from pylogbroker.storage import LogConfig
from pylogbroker.storage.log.log_reader import LogReader
from pylogbroker.storage.log.partition_metadata import write_topic_id
from tests.storage.support import NOW, batch, fill, open_log


class Counted:
    """Counts what is forced to the disk, by path."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paths: list[str] = []
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, self._counting(getattr(os, name)))

    def _counting(self, real: Any) -> Any:
        def forced(fd: int) -> None:
            self.paths.append(os.readlink(f"/proc/self/fd/{fd}"))
            real(fd)

        return forced

    def taken(self) -> list[str]:
        names, self.paths = [os.path.basename(path) for path in self.paths], []
        return names


def test_flush_messages(tmp_path: Path) -> None:
    log = open_log(tmp_path / "events_0", LogConfig(flush_messages=3))
    assert [log.append(batch([b"x"]), NOW).must_sync for _ in range(4)] == [False, False, True, True]
    assert log.sync() == log.recovery_point == 4
    assert [log.append(batch([b"x", b"y"]), NOW).must_sync for _ in range(2)] == [False, True]


def test_a_repeated_batch_waits_for_the_disk_too(tmp_path: Path) -> None:
    log = open_log(tmp_path / "events_0", LogConfig(flush_messages=1))
    sent = batch([b"x"], producer=(1, 0, 0))
    assert log.append(sent, NOW).must_sync
    assert log.append(sent, NOW).must_sync
    log.sync()
    assert not log.append(sent, NOW).must_sync


def test_flush_ms(tmp_path: Path) -> None:
    log = open_log(tmp_path / "events_0", LogConfig(flush_ms=1000))
    assert log.sync_target(NOW + 5000) is None  # nothing to sync
    fill(log, 2)
    assert log.sync_target(NOW + 5999) is None
    assert log.sync_target(NOW + 6000) == 2
    log.sync(2)
    assert log.sync_target(NOW + 60_000) is None


def test_sealed_segments_are_synced_without_being_asked(tmp_path: Path) -> None:
    log = open_log(tmp_path / "events_0")
    fill(log, 2)
    assert log.sync_target(NOW) is None
    log.roll(NOW)
    fill(log, 1)
    assert log.sync_target(NOW) == 2
    assert log.sync(2) == log.recovery_point == 2
    assert log.sync_target(NOW) is None


def test_a_sync_covers_all_changed_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path / "events_0", LogConfig(index_interval_bytes=0))
    counted = Counted(monkeypatch)
    first, third = f"{0:020}", f"{5:020}"
    fill(log, 2)
    log.sync()
    new_log = ["leader-epoch-checkpoint.tmp", f"{first}.kafka", "events_0", tmp_path.name]
    assert counted.taken() == new_log
    log.sync()
    assert counted.taken() == []
    fill(log, 1)
    log.sync()
    assert counted.taken() == [f"{first}.kafka"]
    fill(log, 2)
    log.roll(NOW)
    fill(log, 1)
    log.sync(5)
    sealed = [f"{first}.kafka", f"{first}.index", f"{first}.timeindex", f"{third}.snapshot", "events_0"]
    assert counted.taken() == sealed
    log.sync()
    assert counted.taken() == [f"{third}.kafka", "events_0"]


def test_a_failed_sync_takes_the_log_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path / "events_0")
    fill(log, 2)

    def fail(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        with pytest.raises(StorageFailure):
            log.sync()
    assert log.recovery_point == 0
    assert log.offline_reason
    with pytest.raises(StorageFailure):
        fill(log, 1)


def test_the_topics_id_is_forced_with_the_first_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path / "events_0")
    write_topic_id(log.path, uuid.uuid4())
    fill(log, 2)
    counted = Counted(monkeypatch)
    log.sync()
    assert "partition.metadata" in counted.taken()
    fill(log, 2)
    log.sync()
    assert "partition.metadata" not in counted.taken()


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_a_sync_without_a_descriptor_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    log = open_log(tmp_path / "events_0")
    fill(log, 2)
    log.sync()
    fill(log, 2)
    log.segments[-1].file.release()

    def reject(path: str, *_: Any) -> int:
        raise OSError(code, os.strerror(code), path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", reject)
        with pytest.raises(StorageFailure):
            log.sync()
    assert (log.offline_reason, log.recovery_point) == ("", 2)
    assert log.sync() == 4


def test_leader_epochs_that_find_no_space_are_kept_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path / "events_0")
    log.append(batch(), NOW, leader_epoch=5)

    def full(fd: int, chunks: list[bytes], position: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", full)
        with pytest.raises(StorageFailure, match="No space left"):
            log.sync()
    assert (log.offline_reason, log.recovery_point) == ("", 0)
    assert log.sync() == 1
    assert (tmp_path / "events_0" / "leader-epoch-checkpoint").read_text() == "0\n1\n5 0\n"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_entries_that_find_no_space_when_they_are_forced_are_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Another fdatasync would say nothing of them."""
    log = open_log(tmp_path / "events_0")
    fill(log, 2)

    def fail(fd: int) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        with pytest.raises(StorageFailure):
            log.sync()
    assert log.offline_reason
    with pytest.raises(StorageFailure):
        log.sync()


def test_syncs_in_threads_while_appending(tmp_path: Path) -> None:
    log = open_log(tmp_path / "events_0", LogConfig(segment_bytes=2000))
    stop = threading.Event()
    seen: list[int] = []

    def sync() -> None:
        while not stop.is_set():
            seen.append(log.sync())

    threads = [threading.Thread(target=sync) for _ in range(3)]
    for thread in threads:
        thread.start()
    fill(log, 200)
    stop.set()
    for thread in threads:
        thread.join()
    assert log.sync() == log.recovery_point == 200
    assert max(seen, default=0) <= 200


def test_a_cut_during_a_sync_is_not_taken_for_safe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Appends after the cut were never synced, whatever a sync that began before it reports."""
    log = open_log(tmp_path / "events_0")
    fill(log, 5)
    real = os.fdatasync

    def cut_first(fd: int) -> None:
        log.truncate_to(2)
        fill(log, 3)
        real(fd)

    monkeypatch.setattr(os, "fdatasync", cut_first)
    log.sync()
    assert log.log_end_offset == 5
    assert log.recovery_point == 0


def test_a_sync_that_begins_during_a_cut_does_not_reach_beyond_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sync begins while the cut changes the log, in another thread, and ends after the cut."""
    log = open_log(tmp_path / "events_0")
    fill(log, 5)
    is_syncing, is_cut = threading.Event(), threading.Event()
    real_sync, real_forget = os.fdatasync, LogReader.forget
    threads: list[threading.Thread] = []

    def sync() -> None:
        log.sync()
        is_syncing.set()

    def sync_after_the_cut(fd: int) -> None:
        is_syncing.set()
        assert is_cut.wait(60)
        real_sync(fd)

    def begin_a_sync(reader: LogReader) -> None:
        threads.append(threading.Thread(target=sync))
        threads[-1].start()
        assert is_syncing.wait(60)
        real_forget(reader)

    monkeypatch.setattr(os, "fdatasync", sync_after_the_cut)
    monkeypatch.setattr(LogReader, "forget", begin_a_sync)
    log.truncate_to(2)
    is_cut.set()
    for thread in threads:
        thread.join()
    assert len(threads) == 1
    assert log.recovery_point <= log.log_end_offset == 2
