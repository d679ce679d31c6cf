"""Every file but segments: missing, empty, torn, overwritten, stale. Nothing of the log is lost.

Such a file can be rebuilt or is not needed. Entries have the offsets, times and producers. Without a usable checkpoint
more is checked; without a marker of a clean stop everything is.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pylogbroker.storage import Log
from tests.storage.support import NOW, batch, offset_for_timestamp, read_all
from tests.support.budget import Budget
from tests.torn.undamaged import TOPIC_ID, Original, log_directory, make, start

SMALL = [
    ".kafka_cleanshutdown",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "events_0/leader-epoch-checkpoint",
    "events_0/aborted-transaction-checkpoint",
    "events_0/partition.metadata",
    "meta.properties",
]
LARGE = ["events_0/*.index", "events_0/*.timeindex", "events_0/*.snapshot", "events_0/*.txnindex"]


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Original]:
    """Original data directories, by whether the stop was clean."""
    return {clean: make(tmp_path_factory.mktemp("original") / "home", 2, clean=clean) for clean in (False, True)}


# Damages: what becomes of a file's content; None if it is gone


def missing(data: bytes) -> None:
    return None


def empty(data: bytes) -> bytes:
    return b""


def zeroed(data: bytes) -> bytes:
    return bytes(len(data))


def overwritten(data: bytes) -> bytes:
    return random.Random(3).randbytes(len(data))


def followed_by_zeros(data: bytes) -> bytes:
    return data + bytes(512)


def followed_by_noise(data: bytes) -> bytes:
    return data + random.Random(4).randbytes(512)


DAMAGES = [missing, empty, zeroed, overwritten, followed_by_zeros, followed_by_noise]
Damage = Callable[[bytes], bytes | None]


@contextmanager
def damaged(original: Original, tmp_path: Path, pattern: str, damage: Damage) -> Iterator[Path]:
    """A copy, with all files of a pattern damaged; those that are not there are made, for what is left over."""
    home = original.copy(tmp_path / "home")
    paths = sorted(home.glob(pattern)) or ([] if "*" in pattern else [home / pattern])
    for path in paths:
        after = damage(path.read_bytes() if path.exists() else b"")
        path.unlink(missing_ok=True)
        if after is not None:
            path.write_bytes(after)
    yield home


def check_whole(home: Path, original: Original, starts: int = 2) -> Log:
    """All of the log is there: by offset, by time, by epoch and by producer; and after another start, too."""
    for _ in range(starts):
        started = start(home, original.config)
        log = started.log
        assert read_all(log, 0) == original.data
        assert log.log_start_offset == 0
        for number, entry in enumerate(original.entries):
            region = log.read(entry.last, 1, upto=log.log_end_offset)
            assert region is not None
            assert region.read() == original.data[entry.begin : entry.end]
            assert offset_for_timestamp(log, NOW + number) == (entry.first, NOW + number, number // 5)
        assert started.reported_lines(home) == []
        assert max(segment.largest()[0] for segment in log.segments) == NOW + len(original.entries) - 1
        for epoch, first in enumerate(original.entries[5::5]):
            assert log.end_offset_for_epoch(epoch) == (epoch, first.first)
        check_producer(log, original)
        log.truncate_to(original.entries[-1].last + 1)
        assert started.manager.close() == []
    return log


def check_producer(log: Log, original: Original) -> None:
    """The next batch of the idempotent producer is taken, and the last one is known; what was appended goes again."""
    number = len(original.entries) - 2
    assert number % 2
    sequence = 3 * (number // 2)
    resent = batch([b"%03d" % number, b"value " * (number % 4), b"x"], [NOW + number] * 3, (7, 0, sequence))
    assert log.append(resent, NOW, 9).duplicate
    appended = log.append(batch([b"next"], [NOW], (7, 0, sequence + 3)), NOW, len(original.entries) // 5)
    assert (appended.base_offset, appended.duplicate) == (original.entries[-1].last + 1, False)


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("pattern", SMALL + LARGE)
def test_damaged_files_lose_no_records(
    originals: dict[bool, Original], tmp_path: Path, pattern: str, damage: Damage, clean: bool
) -> None:
    with damaged(originals[clean], tmp_path, pattern, damage) as home:
        log = check_whole(home, originals[clean])
        assert log.topic_id == (None if pattern.endswith("metadata") else TOPIC_ID)


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("name", SMALL)
def test_small_files_cut_at_every_byte(
    originals: dict[bool, Original], tmp_path: Path, name: str, clean: bool, budget: Budget
) -> None:
    path = originals[clean].path / name
    for length in budget.some(range(path.stat().st_size if path.exists() else 0), name):
        with damaged(originals[clean], tmp_path, name, lambda data, to=length: data[:to]) as home:
            check_whole(home, originals[clean], starts=1)


@pytest.mark.parametrize("pattern", LARGE)
def test_every_byte_of_a_derived_file_flipped(
    originals: dict[bool, Original], tmp_path: Path, pattern: str, budget: Budget
) -> None:
    original = originals[True]
    for path in sorted(original.path.glob(pattern))[-2:]:
        data = path.read_bytes()
        for place in budget.some(range(0, len(data), 1 if len(data) < 100 else 3), path.name):
            with damaged(original, tmp_path, f"events_0/{path.name}", lambda raw, at=place: flipped(raw, at)) as home:
                check_whole(home, original, starts=1)


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ (1 << place % 8)]) + data[place + 1 :]


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_an_index_of_another_segment(originals: dict[bool, Original], tmp_path: Path, suffix: str) -> None:
    original = originals[True]
    home = original.copy(tmp_path / "home")
    one, *_, other = sorted(log_directory(home).glob(f"*.{suffix}"))
    before = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(before)
    check_whole(home, original)


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("offset", [0, 1, 20, 1000])
def test_a_stale_recovery_point(originals: dict[bool, Original], tmp_path: Path, offset: int, clean: bool) -> None:
    home = originals[clean].copy(tmp_path / "home")
    (home / "recovery-point-offset-checkpoint").write_text(f"0\n1\nevents 0 {offset}\n")
    check_whole(home, originals[clean])


@pytest.mark.parametrize("offset", [0, 5, 1000])
def test_a_stale_high_watermark(originals: dict[bool, Original], tmp_path: Path, offset: int) -> None:
    home = originals[True].copy(tmp_path / "home")
    (home / "replication-offset-checkpoint").write_text(f"0\n2\nevents 0 {offset}\ngone 3 77\n")
    started = start(home, originals[True].config)
    assert started.log.high_watermark == min(offset, started.log.log_end_offset)
    started.manager.close()
    check_whole(home, originals[True])


def test_a_stale_list_of_epochs(originals: dict[bool, Original], tmp_path: Path) -> None:
    for clean in (False, True):
        home = originals[clean].copy(tmp_path / "home")
        (log_directory(home) / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        check_whole(home, originals[clean])


def test_a_marker_that_a_crash_did_not_take_away(originals: dict[bool, Original], tmp_path: Path) -> None:
    """A log that claims a clean stop but does not end at its checkpoint is recovered."""
    original = originals[False]
    marker = (originals[True].path / ".kafka_cleanshutdown").read_bytes()
    home = original.copy(tmp_path / "home")
    (home / ".kafka_cleanshutdown").write_bytes(marker)
    with (log_directory(home) / original.last_file).open("ab") as file:
        file.write(bytes(100))
    started = start(home, original.config)
    assert read_all(started.log, 0) == original.data
    [line] = started.reported_lines(home)
    assert "cut 100 bytes" in line
    assert not (home / ".kafka_cleanshutdown").exists()


def test_the_newest_snapshot_alone_is_missing(originals: dict[bool, Original], tmp_path: Path) -> None:
    for clean in (False, True):
        home = originals[clean].copy(tmp_path / "home")
        max(log_directory(home).glob("*.snapshot")).unlink()
        check_whole(home, originals[clean])


def test_all_other_files_are_missing(originals: dict[bool, Original], tmp_path: Path) -> None:
    """Nothing but entries is left, and they are enough."""
    home = originals[True].copy(tmp_path / "home")
    for path in [*home.rglob("*"), *home.glob(".*")]:
        if path.is_file() and path.suffix != ".kafka":
            path.unlink()
    check_whole(home, originals[True])
