"""Log directories: who may use them, what a start finds, and what becomes of one that fails."""

from __future__ import annotations

import base64
import errno
import gc
import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import javaproperties
import pytest

from pylogbroker.errors import StartupError, StorageFailure
from pylogbroker.storage import DirectoryIdentity, LogConfig, LogDirectories, LogManager, Notice, Recovered, load_logs
from tests.storage.support import NOW, batch, bytes_on_disk, fill, stored

CONFIG = LogConfig()


def started(*paths: Path, found: list[Notice | Recovered] | None = None, **settings: Any) -> LogManager:
    manager = LogManager([str(path) for path in paths], **settings)
    manager.directories.lock()
    manager.directories.claim(3, "cluster")
    report = [] if found is None else found
    for deleted in load_logs(manager, lambda topic: CONFIG, NOW, report.append):
        deleted.remove()
    return manager


def test_logs_that_come_and_go_while_a_checkpoint_is_written(tmp_path: Path) -> None:
    """A collection of garbage lets other threads run: here its callback stands for them."""
    manager = started(tmp_path)
    for index in range(50):
        manager.create("t", index, CONFIG, NOW)
    spare = manager.logs.pop(("t", 49))

    def change(phase: str, info: object) -> None:
        if phase == "start" and manager.logs.pop(("t", 49), None) is None:
            manager.logs["t", 49] = spare

    thresholds = gc.get_threshold()
    gc.callbacks.append(change)
    gc.set_threshold(1)
    try:
        assert manager.checkpoints.save_high_watermarks() == []
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(change)
    assert len((tmp_path / "replication-offset-checkpoint").read_text().splitlines()) >= 2 + 49


# Who may use a directory


def test_directories_are_made(tmp_path: Path) -> None:
    started(tmp_path / "a" / "b", tmp_path / "c")
    assert (tmp_path / "a" / "b" / ".lock").exists()
    assert (tmp_path / "c" / "meta.properties").exists()


def test_a_directory_in_use_is_rejected_before_another_is_touched(tmp_path: Path) -> None:
    holder = started(tmp_path / "b")
    before = sorted(os.listdir(tmp_path / "b"))
    manager = LogManager([str(tmp_path / "b"), str(tmp_path / "a")])
    with pytest.raises(StartupError, match=r"b is in use by another broker"):
        manager.directories.lock()
    assert not (tmp_path / "a").exists()
    assert sorted(os.listdir(tmp_path / "b")) == before
    holder.close()
    manager.directories.lock()


def test_a_lock_is_not_kept_when_another_is_rejected(tmp_path: Path) -> None:
    started(tmp_path / "b")
    with pytest.raises(StartupError):
        LogDirectories([str(tmp_path / "a"), str(tmp_path / "b")]).lock()
    LogDirectories([str(tmp_path / "a")]).lock()


def test_another_process_is_rejected_too(tmp_path: Path) -> None:
    started(tmp_path)
    script = f"from pylogbroker.storage import LogDirectories; LogDirectories([{str(tmp_path)!r}]).lock()"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert "in use by another broker" in result.stderr


def test_a_directory_named_twice(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(StartupError, match="twice"):
        LogDirectories([str(tmp_path / "a"), str(tmp_path / "link")]).lock()


def test_a_file_is_not_accepted_as_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartupError, match="no log directory can be used"):
        LogDirectories([str(tmp_path / "file")]).lock()
    manager = LogManager([str(tmp_path / "file"), str(tmp_path / "a")])
    [notice] = manager.directories.lock()
    assert notice.path == str(tmp_path / "file")
    assert [directory.path for directory in manager.directories.online] == [str(tmp_path / "a")]


# Whose data it is


def test_meta_properties(tmp_path: Path) -> None:
    started(tmp_path)
    with (tmp_path / "meta.properties").open() as file:
        found = javaproperties.load(file)
    assert len(base64.urlsafe_b64decode(found.pop("directory.id") + "==")) == 16
    assert found == {"version": "0", "broker.id": "3", "cluster.id": "cluster"}


def test_identities_are_found_in_any_directory(tmp_path: Path) -> None:
    started(tmp_path / "a").close()
    manager = LogManager([str(tmp_path / "b"), str(tmp_path / "a")])
    manager.directories.lock()
    assert manager.directories.read_identity() == DirectoryIdentity(3, "cluster")
    manager.directories.claim(3, "cluster")
    assert (tmp_path / "b" / "meta.properties").exists()


@pytest.mark.parametrize(("broker", "cluster", "named"), [(4, "cluster", "broker 3"), (3, "other", "cluster cluster")])
def test_another_brokers_data_is_rejected(tmp_path: Path, broker: int, cluster: str, named: str) -> None:
    started(tmp_path).close()
    manager = LogManager([str(tmp_path)])
    manager.directories.lock()
    with pytest.raises(StartupError, match=named):
        manager.directories.claim(broker, cluster)


def test_directories_of_two_brokers_are_rejected(tmp_path: Path) -> None:
    started(tmp_path / "a").close()
    started(tmp_path / "b").close()
    text = (tmp_path / "b" / "meta.properties").read_text()
    (tmp_path / "b" / "meta.properties").write_text(text.replace("broker.id=3", "broker.id=9"))
    manager = LogManager([str(tmp_path / "a"), str(tmp_path / "b")])
    manager.directories.lock()
    with pytest.raises(StartupError, match="broker 9"):
        manager.directories.read_identity()


@pytest.mark.parametrize(
    "text", ["version=0\nbroker.id=x\n", "version=9\nbroker.id=3\n", "version=0\nbroker.id=\\u1\n"]
)
def test_a_meta_properties_that_makes_no_sense(tmp_path: Path, text: str) -> None:
    (tmp_path / "meta.properties").write_text(text)
    manager = LogManager([str(tmp_path)])
    manager.directories.lock()
    with pytest.raises(StartupError, match=r"meta\.properties"):
        manager.directories.read_identity()


# Logs


def test_logs_go_to_the_emptiest_directory(tmp_path: Path) -> None:
    manager = started(tmp_path / "a", tmp_path / "b")
    for partition in range(6):
        manager.create("events", partition, CONFIG, NOW)
    assert [len(list((tmp_path / name).glob("events_*"))) for name in "ab"] == [3, 3]
    assert manager.create("events", 0, CONFIG, NOW) is manager.get("events", 0)
    assert manager.get("events", 6) is None


def test_a_clean_stop_and_start(tmp_path: Path) -> None:
    manager = started(tmp_path / "a", tmp_path / "b")
    for partition in range(4):
        fill(manager.create("events_of_x", partition, CONFIG, NOW), partition)
    manager.logs["events_of_x", 3].delete_records_before(1)
    assert manager.close() == []
    for name in "ab":
        assert json.loads((tmp_path / name / ".kafka_cleanshutdown").read_text()) == {"version": 0, "brokerEpoch": -1}
    found: list[Any] = []
    again = started(tmp_path / "a", tmp_path / "b", found=found)
    assert found == []
    assert again.were_closed_cleanly
    assert {key: log.log_end_offset for key, log in again.logs.items()} == {("events_of_x", n): n for n in range(4)}
    third = again.logs["events_of_x", 3]
    assert (third.log_start_offset, third.high_watermark, third.recovery_point) == (1, 3, 3)
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()


def test_checkpoint_files(tmp_path: Path) -> None:
    manager = started(tmp_path)
    log = manager.create("events", 0, CONFIG, NOW)
    fill(log, 5)
    log.sync()
    fill(log, 2)
    log.delete_records_before(3)
    manager.checkpoints.save_recovery_points()
    manager.checkpoints.save_log_starts()
    manager.checkpoints.save_high_watermarks()
    texts = [
        (tmp_path / name).read_text()
        for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint")
    ]
    assert texts == ["0\n1\nevents 0 5\n", "0\n1\nevents 0 3\n", "0\n1\nevents 0 7\n"]


@pytest.mark.parametrize("threads", [1, 4])
def test_after_a_crash_all_logs_are_recovered(tmp_path: Path, threads: int) -> None:
    manager = started(tmp_path)
    for partition in range(5):
        fill(manager.create("events", partition, CONFIG, NOW), 3)
    manager.directories.unlock()  # as the end of a process does
    found: list[Any] = []
    again = started(tmp_path, found=found, recovery_threads=threads)
    assert [str(each) for each in found] == [f"{tmp_path}: not stopped cleanly: 5 logs checked, none cut"]
    assert [again.logs["events", n].log_end_offset for n in range(5)] == [3] * 5
    assert not again.were_closed_cleanly


def test_one_directory_that_was_not_closed_cleanly(tmp_path: Path) -> None:
    assert started(tmp_path / "a", tmp_path / "b").close() == []
    (tmp_path / "b" / ".kafka_cleanshutdown").unlink()
    assert not started(tmp_path / "a", tmp_path / "b").were_closed_cleanly


def test_logs_cut_after_a_crash_are_reported_one_by_one(tmp_path: Path) -> None:
    manager = started(tmp_path / "a", tmp_path / "b")
    for partition in range(6):
        fill(manager.create("events", partition, CONFIG, NOW), 3)
    manager.directories.unlock()
    for partition in (0, 4):
        [entries] = (tmp_path / "a" / f"events_{partition}").glob("*.kafka")
        os.truncate(entries, entries.stat().st_size - 1)
    found: list[Any] = []
    started(tmp_path / "a", tmp_path / "b", found=found)
    cut = sorted(each.path for each in found if isinstance(each, Recovered))
    assert cut == [str(tmp_path / "a" / f"events_{partition}") for partition in (0, 4)]
    assert sorted(str(each) for each in found if isinstance(each, Notice)) == [
        f"{tmp_path}/a: not stopped cleanly: 3 logs checked, 2 cut",
        f"{tmp_path}/b: not stopped cleanly: 3 logs checked, none cut",
    ]


@pytest.mark.parametrize("marker", [b"", b"\0" * 30, b'{"vers'])
def test_a_damaged_marker_does_not_count(tmp_path: Path, marker: bytes) -> None:
    manager = started(tmp_path)
    fill(manager.create("events", 0, CONFIG, NOW), 3)
    manager.close()
    (tmp_path / ".kafka_cleanshutdown").write_bytes(marker)
    found: list[Any] = []
    started(tmp_path, found=found)
    assert [str(each) for each in found] == [f"{tmp_path}: not stopped cleanly: 1 log checked, none cut"]


@pytest.mark.parametrize("damage", [None, b"", b"0\n1\nevents 0 99999\n", b"0\n1\nevents 0 1\n", b"noise", b"\0" * 20])
@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"]
)
def test_damaged_checkpoints(tmp_path: Path, name: str, damage: bytes | None) -> None:
    manager = started(tmp_path)
    fill(manager.create("events", 0, CONFIG, NOW), 5)
    manager.close()
    if damage is None:
        (tmp_path / name).unlink(missing_ok=True)
    else:
        (tmp_path / name).write_bytes(damage)
    found: list[Any] = []
    log = started(tmp_path, found=found).logs["events", 0]
    if b"99999" in (damage or b"") and name.startswith("log-start"):
        assert (log.log_start_offset, log.log_end_offset) == (99999, 99999)  # offsets never go back
        return
    assert log.log_end_offset == 5
    assert [offset for offset, _ in stored(log)] == list(range(log.log_start_offset, 5))
    assert log.high_watermark <= 5
    if damage in (b"", b"noise", b"\0" * 20):
        assert f"{tmp_path}/{name}: ignored, " in str(found[0])


def test_a_partition_in_two_directories_is_rejected(tmp_path: Path) -> None:
    for name in "ab":
        manager = started(tmp_path / name)
        fill(manager.create("events", 0, CONFIG, NOW), 1)
        manager.close()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StartupError, match="partition 0 of events lies in two log directories") as error:
        started(tmp_path / "a", tmp_path / "b")
    assert all(f"{tmp_path}/{name}/events_0" in str(error.value) for name in "ab")
    assert "move the one that is not wanted out" in str(error.value)
    assert sorted(tmp_path.rglob("*")) == before  # clean-stop markers, too


# Deletion


def test_a_deleted_log_is_gone_at_once_and_its_files_later(tmp_path: Path) -> None:
    manager = started(tmp_path)
    log = manager.create("events", 0, CONFIG, NOW)
    fill(log, 3)
    region = log.read(0, 1 << 20, upto=3)
    deleted = manager.delete("events", 0)
    assert deleted is not None
    assert manager.get("events", 0) is None
    assert deleted.path.endswith("-delete")
    assert os.path.isdir(deleted.path)
    with pytest.raises(StorageFailure):
        log.append(batch(), NOW)
    assert manager.isolate(log) == []
    assert manager.create("events", 0, CONFIG, NOW).log_end_offset == 0
    deleted.remove()
    assert not os.path.exists(deleted.path)
    assert region is not None
    assert len(region.read()) == len(region)
    assert manager.delete("events", 1) is None


def test_deletions_that_a_crash_interrupted_are_finished(tmp_path: Path) -> None:
    manager = started(tmp_path)
    fill(manager.create("events", 0, CONFIG, NOW), 3)
    manager.delete("events", 0)
    manager.directories.unlock()
    again = LogManager([str(tmp_path)])
    again.directories.lock()
    [deleted] = load_logs(again, lambda topic: CONFIG, NOW, print)
    deleted.remove()
    assert again.logs == {}
    assert list(tmp_path.glob("*-delete")) == []


@pytest.mark.parametrize("restarts", [False, True])
def test_after_a_crash_a_recreated_log_ignores_old_checkpoints(tmp_path: Path, restarts: bool) -> None:
    manager = started(tmp_path)
    fill(manager.create("events", 0, CONFIG, NOW), 100)
    fill(manager.create("other", 0, CONFIG, NOW), 9)
    manager.logs["events", 0].delete_records_before(90)
    manager.logs["other", 0].delete_records_before(9)
    manager.checkpoints.save_recovery_points()
    manager.checkpoints.save_log_starts()
    manager.checkpoints.save_high_watermarks()
    manager.delete("events", 0)
    if restarts:
        manager.directories.unlock()
        manager = started(tmp_path)
    fill(manager.create("events", 0, CONFIG, NOW), 5)
    manager.directories.unlock()
    again = started(tmp_path)
    log = again.logs["events", 0]
    assert (log.log_start_offset, log.log_end_offset) == (0, 5)
    assert [offset for offset, _ in stored(log)] == [0, 1, 2, 3, 4]
    assert again.logs["other", 0].log_start_offset == 9


def test_a_log_is_not_made_where_an_earlier_one_cannot_be_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = started(tmp_path)
    fill(manager.create("events", 0, CONFIG, NOW), 5)
    manager.checkpoints.save_high_watermarks()
    manager.delete("events", 0)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: broken_write(0, [], 0))
        with pytest.raises(StorageFailure):
            manager.create("events", 0, CONFIG, NOW)
    assert manager.create("events", 0, CONFIG, NOW).log_end_offset == 0


def test_a_sync_under_way_while_the_log_is_deleted(tmp_path: Path) -> None:
    manager = started(tmp_path)
    log = manager.create("events", 0, CONFIG, NOW)
    fill(log, 3)
    deleted = manager.delete("events", 0)
    assert deleted is not None
    deleted.remove()
    try:
        log.sync()
    except StorageFailure:
        assert manager.isolate(log) == []
    assert manager.directories.online


def test_a_sync_that_comes_when_another_log_has_the_name(tmp_path: Path) -> None:
    manager = started(tmp_path)
    log = manager.create("events", 0, CONFIG, NOW)
    log.append(batch(), NOW, leader_epoch=5)
    assert manager.delete("events", 0) is not None
    fill(manager.create("events", 0, CONFIG, NOW), 3)
    with pytest.raises(StorageFailure):
        log.sync()
    assert not (tmp_path / "events_0" / "leader-epoch-checkpoint").exists()
    assert len(manager.directories.online) == 1


# Failure


def broken_write(fd: int, chunks: list[bytes], position: int) -> int:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_failing_directory_does_not_take_the_others_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = started(tmp_path / "a", tmp_path / "b")
    logs = [manager.create("events", partition, CONFIG, NOW) for partition in range(4)]
    failing = [log for log in logs if Path(log.path).parent.name == "a"]
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", broken_write)
        with pytest.raises(StorageFailure):
            fill(failing[0], 1)
    gone = manager.isolate(failing[0])
    assert sorted(gone) == sorted((log.topic, log.partition) for log in failing)
    for log in failing:
        with pytest.raises(StorageFailure):
            manager.get("events", log.partition)
        with pytest.raises(StorageFailure):
            fill(log, 1)
    for log in logs:
        if log not in failing:
            fill(log, 1)
    assert Path(manager.create("events", 4, CONFIG, NOW).path).parent.name == "b"
    with pytest.raises(StorageFailure, match="may be in a directory that is offline"):
        manager.create("events", 5, CONFIG, NOW, is_new=False)
    manager.close()
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "b" / ".kafka_cleanshutdown").exists()
    again = started(tmp_path / "a", tmp_path / "b")
    assert len(again.logs) == 5


def test_a_full_disk_does_not_take_a_directory_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = started(tmp_path)
    log = manager.create("events", 0, CONFIG, NOW)

    def full(fd: int, chunks: list[bytes], position: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", full)
        with pytest.raises(StorageFailure):
            fill(log, 1)
    assert manager.isolate(log) == []
    fill(log, 1)


def test_a_disk_that_fails_at_the_start_takes_its_directory_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = started(tmp_path / "a", tmp_path / "b")
    for partition in range(4):
        fill(manager.create("events", partition, CONFIG, NOW), 1)
    manager.close()
    real = os.scandir

    def scandir(path: str) -> Any:
        if path == f"{tmp_path}/a/events_0":
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    found: list[Any] = []
    again = started(tmp_path / "a", tmp_path / "b", found=found)
    assert sorted(again.logs) == [("events", 1), ("events", 3)]
    assert sorted(again.offline) == [("events", 0), ("events", 2)]
    assert [notice.path for notice in found if isinstance(notice, Notice)] == [str(tmp_path / "a")]
    with pytest.raises(StorageFailure):
        again.get("events", 2)


def test_a_checkpoint_that_cannot_be_written_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = started(tmp_path / "a", tmp_path / "b")
    fill(manager.create("events", 0, CONFIG, NOW), 1)
    fill(manager.create("events", 1, CONFIG, NOW), 1)
    real = os.replace

    def replace(source: str, target: str) -> None:
        if f"{tmp_path}/a" in source:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    assert [notice.path for notice in manager.checkpoints.save_high_watermarks()] == [str(tmp_path / "a")]
    assert (tmp_path / "b" / "replication-offset-checkpoint").read_text() == "0\n1\nevents 1 1\n"
    manager.close()
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "b" / ".kafka_cleanshutdown").exists()


def test_space(tmp_path: Path) -> None:
    total, free = next(iter(started(tmp_path).directories)).space()
    status = os.statvfs(tmp_path)
    assert total == status.f_frsize * status.f_blocks
    assert 0 < free <= total


def test_a_directory_that_cannot_be_marked_is_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = LogManager([str(tmp_path / "a"), str(tmp_path / "b")])
    manager.directories.lock()
    real = os.replace

    def replace(source: str, target: str) -> None:
        if f"{tmp_path}/a" in source:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        manager.directories.claim(3, "cluster")
    assert [directory.path for directory in manager.directories.online] == [str(tmp_path / "b")]
    assert "Read-only file system" in next(iter(manager.directories)).failure


@pytest.mark.parametrize(
    ("code", "online"), [(errno.ENOSPC, 2), (errno.EMFILE, 2), (errno.ENAMETOOLONG, 2), (errno.EIO, 1)]
)
def test_a_log_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, online: int) -> None:
    manager = started(tmp_path / "a", tmp_path / "b")

    def reject(path: str, exist_ok: bool = False) -> None:
        raise OSError(code, os.strerror(code), path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "makedirs", reject)
        with pytest.raises(StorageFailure):
            manager.create("events", 0, CONFIG, NOW)
    assert len(manager.directories.online) == online
    assert manager.create("events", 0, CONFIG, NOW).log_end_offset == 0


def test_without_a_directory_no_log_is_made(tmp_path: Path) -> None:
    manager = started(tmp_path / "a")
    manager.create("events", 0, CONFIG, NOW)
    assert manager.fail_directory(str(tmp_path / "a"), "it burned") == [("events", 0)]
    with pytest.raises(StorageFailure, match="all log directories are offline"):
        manager.create("events", 1, CONFIG, NOW)
    with pytest.raises(StorageFailure, match="it burned"):
        manager.create("events", 0, CONFIG, NOW)


# What concerns one log only


def a_file_instead_of_the_log(log: Path) -> None:
    shutil.rmtree(log)
    log.write_text("somebody else's")


def a_directory_instead_of_the_entries(log: Path) -> None:
    [entries] = log.glob("*.kafka")
    entries.unlink()
    entries.mkdir()


@pytest.mark.parametrize("damage", [a_file_instead_of_the_log, a_directory_instead_of_the_entries])
def test_one_log_that_cannot_be_opened_leaves_the_others_alone(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    manager = started(tmp_path)
    for partition in range(3):
        fill(manager.create("events", partition, CONFIG, NOW), 1)
    manager.close()
    damage(tmp_path / "events_1")
    found: list[Any] = []
    again = started(tmp_path, found=found)
    assert found == []
    assert sorted(again.logs) == [("events", 0), ("events", 2)]
    assert len(again.directories.online) == 1
    with pytest.raises(StorageFailure, match=f"{tmp_path}/events_1"):
        again.create("events", 1, CONFIG, NOW, is_new=False)
    assert again.create("events", 3, CONFIG, NOW).log_end_offset == 0
    assert again.close() == []
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_file_where_a_log_is_to_be_made(tmp_path: Path) -> None:
    manager = started(tmp_path)
    (tmp_path / "events_0").write_text("somebody else's")
    with pytest.raises(StorageFailure, match="events_0"):
        manager.create("events", 0, CONFIG, NOW)
    assert (tmp_path / "events_0").read_text() == "somebody else's"
    assert manager.create("events", 1, CONFIG, NOW).log_end_offset == 0


@pytest.mark.parametrize("whole", [False, True])
def test_a_log_with_files_removed_while_in_use_goes_offline(tmp_path: Path, whole: bool) -> None:
    manager = started(tmp_path / "a")
    logs = [manager.create("events", partition, CONFIG, NOW) for partition in range(2)]
    fill(logs[0], 1)
    shutil.rmtree(tmp_path / "a" if whole else logs[0].path)
    with pytest.raises(StorageFailure):
        logs[0].roll(NOW)
    gone = manager.isolate(logs[0])
    assert sorted(gone) == ([("events", 0), ("events", 1)] if whole else [("events", 0)])
    assert len(manager.directories.online) == (0 if whole else 1)
    assert manager.isolate(logs[0]) == []
    with pytest.raises(StorageFailure, match="No such file"):
        manager.get("events", 0)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_log_that_could_not_be_created_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Recreated in another directory, it would lie in two at the next start."""
    manager = started(tmp_path / "a", tmp_path / "b")

    def reject(path: str) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", reject)
        with pytest.raises(StorageFailure):
            manager.create("events", 0, CONFIG, NOW)
    assert list(tmp_path.glob("*/events_0")) == []


# Whose log it is

FIRST, SECOND = (uuid.uuid5(uuid.NAMESPACE_DNS, name) for name in ("first", "second"))


def test_partition_metadata(tmp_path: Path) -> None:
    """The file is Kafka's: the id in URL-safe base64, without padding."""
    wanted = uuid.UUID(bytes=bytes(range(0xF0, 0x100)))
    log = started(tmp_path).create("events", 0, CONFIG, NOW, topic_id=wanted)
    text = (Path(log.path) / "partition.metadata").read_text()
    assert text == "version: 0\ntopic_id: 8PHy8_T19vf4-fr7_P3-_w\n"


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("restarts", ["", "clean", "crash"])
def test_a_log_of_another_topic_of_the_name_is_quarantined(tmp_path: Path, restarts: str, is_new: bool) -> None:
    manager = started(tmp_path)
    log = manager.create("events", 0, CONFIG, NOW, topic_id=FIRST)
    fill(log, 50)
    log.delete_records_before(40)
    before = bytes_on_disk(log.path)
    if restarts == "clean":
        manager.close()
    elif restarts:
        manager.checkpoints.save_log_starts()
        manager.directories.unlock()
    if restarts:
        manager = started(tmp_path)
        assert manager.logs["events", 0].topic_id == FIRST
    reported: list[Any] = []
    again = manager.create("events", 0, CONFIG, NOW, topic_id=SECOND, is_new=is_new, report=reported.append)
    assert (again.log_start_offset, again.log_end_offset, again.topic_id) == (0, 0, SECOND)
    assert manager.create("events", 0, CONFIG, NOW, topic_id=SECOND, report=reported.append) is again
    [stray] = tmp_path.glob("*-stray")
    assert stray.name.startswith("events_0.")
    assert bytes_on_disk(stray) == before
    assert len(reported) == 1
    assert str(stray) in str(reported[0])
    fill(again, 2)
    manager.directories.unlock()
    third = started(tmp_path)
    assert list(third.logs) == [("events", 0)]
    assert (third.logs["events", 0].topic_id, third.logs["events", 0].log_end_offset) == (SECOND, 2)
    assert third.logs["events", 0].log_start_offset == 0


def test_quarantined_segments_are_ignored_at_the_next_start(tmp_path: Path) -> None:
    manager = started(tmp_path)
    log = manager.create("events", 0, CONFIG, NOW, topic_id=FIRST)
    for _ in range(4):
        fill(log, 10)
        log.roll(NOW)
    manager.directories.unlock()
    files = sorted(Path(log.path).glob("*.kafka"))
    with files[1].open("r+b") as file:
        file.write(b"\xff" * 100)
    reported: list[Any] = []
    again = started(tmp_path, found=reported)
    [quarantined] = tmp_path.glob("events_0.*-stray")
    [line] = [str(each) for each in reported if str(quarantined) in str(each)]
    assert f"kept in {quarantined}" in line
    kept = bytes_on_disk(quarantined)
    for _ in range(2):
        assert list(again.logs) == [("events", 0)]
        assert again.offline == {}
        assert again.logs["events", 0].log_end_offset == int(files[1].stem)
        again.close()
        reported = []
        again = started(tmp_path, found=reported)
        assert reported == []
        assert bytes_on_disk(quarantined) == kept
    assert again.delete("events", 0) is not None
    assert quarantined.is_dir()


@pytest.mark.parametrize("text", [None, b"", b"noise", b"\0" * 45, b"version: 0\ntopic_id: short\n"])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_log_that_does_not_name_its_topic(tmp_path: Path, text: bytes | None, is_new: bool) -> None:
    """A log without an id may be that of an old topic, but not that of a new one."""
    manager = started(tmp_path)
    metadata = Path(manager.create("events", 0, CONFIG, NOW, topic_id=FIRST).path) / "partition.metadata"
    fill(manager.logs["events", 0], 3)
    manager.close()
    metadata.unlink()
    if text is not None:
        metadata.write_bytes(text)
    again = started(tmp_path)
    log = again.create("events", 0, CONFIG, NOW, topic_id=FIRST, is_new=is_new)
    assert log.log_end_offset == (0 if is_new else 3)
    again.close()
    assert started(tmp_path).logs["events", 0].topic_id == FIRST


def test_a_log_that_cannot_be_quarantined_is_not_taken_for_the_topics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = started(tmp_path)
    fill(manager.create("events", 0, CONFIG, NOW, topic_id=FIRST), 3)
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", lambda *_: broken_write(0, [], 0))
        with pytest.raises(StorageFailure):
            manager.create("events", 0, CONFIG, NOW, topic_id=SECOND)


def test_a_clean_start_opens_each_file_of_a_log_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic_id = uuid.UUID(int=7)
    manager = LogManager([str(tmp_path)])
    load_logs(manager, lambda topic: LogConfig(), NOW, print)
    fill(manager.create("events", 0, LogConfig(), NOW, topic_id=topic_id), 3)
    manager.close()
    files = sorted(file.name for file in (tmp_path / "events_0").iterdir() if file.suffix != ".timeindex")
    opened: list[str] = []
    real_open = os.open

    def open_file(path: str, *arguments: int) -> int:
        if "/events_0/" in path:
            opened.append(os.path.basename(path))
        return real_open(path, *arguments)

    monkeypatch.setattr(os, "open", open_file)
    again = LogManager([str(tmp_path)])
    load_logs(again, lambda topic: LogConfig(), NOW, print, {("events", 0): topic_id})
    monkeypatch.undo()
    log = again.logs["events", 0]
    assert (log.log_end_offset, log.topic_id, log.latest_epoch) == (3, topic_id, 0)
    assert sorted(opened) == files
    again.close()
