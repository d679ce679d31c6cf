"""Selection for compaction: clean, dirty and uncleanable parts of logs, and their order."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import attrs
import pytest

from pylogbroker.records import Record, build
from pylogbroker.storage import Log, LogConfig, Origin
from pylogbroker.storage.compaction.jobs import SourceSegment
from pylogbroker.storage.compaction.selection import Cleanable, CleanerLimits, dirtiest, examine, must_seal
from tests.storage.compaction.support import COMPACT, compact, keyed, put
from tests.storage.support import NOW, batch, open_log

DAY = 86_400_000


def log_of(path: Path, *timestamps: int, **settings: Any) -> Log:
    """Segments of one record each, the last one active; all can be seen."""
    log = open_log(path / "events_0", attrs.evolve(COMPACT, **settings))
    for number, timestamp in enumerate(timestamps):
        if number:
            log.roll(NOW)
        put(log, (b"k", b"value"), timestamp=timestamp)
    return log


def bases(found: Cleanable | None) -> list[int]:
    return [] if found is None else [segment.base_offset for segment in found.segments]


def test_all_but_the_active_segment(tmp_path: Path) -> None:
    log = log_of(tmp_path, *[NOW] * 5)
    found = examine(log, NOW)
    assert found is not None
    assert (bases(found), found.first_dirty_offset, found.end_offset) == ([0, 1, 2, 3], 0, 4)
    assert (found.clean_bytes, found.dirty_bytes) == (0, sum(segment.size for segment in log.segments[:4]))


@pytest.mark.parametrize("policy", [("delete",), ()])
def test_logs_without_the_compact_policy_are_not_selected(tmp_path: Path, policy: tuple[str, ...]) -> None:
    assert examine(log_of(tmp_path, *[NOW] * 5, cleanup_policy=policy), NOW) is None


def test_logs_with_compact_and_delete_are_selected(tmp_path: Path) -> None:
    assert bases(examine(log_of(tmp_path, *[NOW] * 3, cleanup_policy=("compact", "delete")), NOW)) == [0, 1]


def test_one_segment_is_nothing(tmp_path: Path) -> None:
    assert examine(log_of(tmp_path, NOW), NOW) is None


def test_a_log_that_is_offline(tmp_path: Path) -> None:
    log = log_of(tmp_path, *[NOW] * 5)
    log.take_offline("gone")
    assert examine(log, NOW) is None


@pytest.mark.parametrize(("seen", "expected"), [(5, [0, 1, 2, 3]), (3, [0, 1, 2]), (1, [0]), (0, [])])
def test_segments_above_the_high_watermark_are_not_selected(tmp_path: Path, seen: int, expected: list[int]) -> None:
    log = log_of(tmp_path, *[NOW] * 5)
    log.high_watermark = seen
    assert bases(examine(log, NOW)) == expected


def test_segments_above_the_last_stable_offset_are_not_selected(tmp_path: Path) -> None:
    log = log_of(tmp_path, NOW, NOW)
    log.append(batch([b"v"], [NOW], producer=(5, 0, 0), transactional=True), NOW, origin=Origin.COORDINATOR)
    log.roll(NOW)
    put(log, (b"k", b"v"))
    log.roll(NOW)
    assert (log.last_stable_offset, log.log_end_offset) == (2, 4)
    assert bases(examine(log, NOW)) == [0]  # the transaction begins in the second one


@pytest.mark.parametrize(
    ("lag", "timestamps", "expected"),
    [
        (0, [NOW, NOW, NOW, NOW], [0, 1, 2]),
        (1000, [NOW - 3000, NOW - 1001, NOW - 1000, NOW], [0, 1, 2]),
        (1000, [NOW - 3000, NOW - 1001, NOW - 999, NOW], [0, 1]),
        (1000, [NOW - 3000, NOW - 10, NOW - 3000, NOW], [0]),  # what comes behind waits, too
        (1000, [NOW, NOW, NOW, NOW], []),
    ],
)
def test_segments_within_the_minimum_lag_are_not_selected(
    tmp_path: Path, lag: int, timestamps: list[int], expected: list[int]
) -> None:
    assert bases(examine(log_of(tmp_path, *timestamps, min_compaction_lag_ms=lag), NOW)) == expected


def test_the_files_age_stands_in_for_records_without_time(tmp_path: Path) -> None:
    log = open_log(tmp_path / "events_0", attrs.evolve(COMPACT, magic=0, min_compaction_lag_ms=DAY))
    for _ in range(3):
        log.append(build([Record(0, -1, b"k", b"v")], magic=0), NOW, origin=Origin.COORDINATOR)
        log.roll(NOW)
    log.high_watermark = 3
    now_ms = int(os.stat(log.segments[0].path).st_mtime * 1000)
    assert bases(examine(log, now_ms + DAY // 2)) == []
    os.utime(log.segments[0].path, (0, 0))
    assert bases(examine(log, now_ms + DAY // 2)) == [0]


def test_young_segments_below_the_checkpoint_are_read_again(tmp_path: Path) -> None:
    """A part that was too young counts as clean, and is read again when it is old enough."""
    log = log_of(tmp_path, NOW - 9000, NOW - 9000, NOW - 100, NOW, min_compaction_lag_ms=1000)
    log.cleaner_checkpoint = 3
    assert bases(examine(log, NOW)) == [0, 1, 2]


def test_clean_and_dirty_bytes(tmp_path: Path) -> None:
    log = log_of(tmp_path, *[NOW] * 6)
    sizes = [segment.size for segment in log.segments]
    log.cleaner_checkpoint = 2
    found = examine(log, NOW)
    assert found is not None
    assert (found.clean_bytes, found.dirty_bytes, found.first_dirty_offset) == (sum(sizes[:2]), sum(sizes[2:5]), 2)
    assert found.dirty_ratio == pytest.approx(3 / 5)


def test_a_segment_that_is_clean_in_part_is_dirty(tmp_path: Path) -> None:
    log = open_log(tmp_path / "events_0", COMPACT)
    for _ in range(3):
        put(log, (b"a", b"1"), (b"b", b"1"))
        log.roll(NOW)
    log.cleaner_checkpoint = 3
    found = examine(log, NOW)
    assert found is not None
    assert found.clean_bytes == log.segments[0].size


@pytest.mark.parametrize(("ratio", "due"), [(0.0, True), (0.59, True), (0.6, False), (0.9, False), (1.0, False)])
def test_the_ratio_decides(tmp_path: Path, ratio: float, due: bool) -> None:
    log = log_of(tmp_path, *[NOW] * 6, min_cleanable_dirty_ratio=ratio)
    log.cleaner_checkpoint = 2
    found = examine(log, NOW)
    assert found is not None
    assert found.is_due is due


def test_without_anything_new_nothing_is_due(tmp_path: Path) -> None:
    log = log_of(tmp_path, *[NOW - DAY] * 6, min_cleanable_dirty_ratio=0.0, max_compaction_lag_ms=1)
    compact(log)
    found = examine(log, NOW)
    assert found is None or not found.is_due


@pytest.mark.parametrize(("age", "due"), [(1001, True), (1000, False), (0, False)])
def test_segments_beyond_the_maximum_lag_are_due_at_any_ratio(tmp_path: Path, age: int, due: bool) -> None:
    settings = {"min_cleanable_dirty_ratio": 1.0, "max_compaction_lag_ms": 1000}
    log = log_of(tmp_path, *[NOW - 9000] * 5, NOW - age, NOW, **settings)
    log.cleaner_checkpoint = 5
    found = examine(log, NOW)
    assert found is not None
    assert (found.is_overdue, found.is_due) == (due, due)


@pytest.mark.parametrize(
    ("policy", "age", "opened", "expected"),
    [
        ("compact", 1001, 1001, True),
        ("compact", 1000, 1001, False),
        ("compact", 9999, 1000, False),  # it came with an old timestamp
        ("compact", 9999, 1001, True),
        ("delete", 1001, 1001, False),
    ],
)
def test_an_active_segment_is_sealed_in_time(
    tmp_path: Path, policy: str, age: int, opened: int, expected: bool
) -> None:
    log = open_log(tmp_path / "events_0", LogConfig(cleanup_policy=(policy,), max_compaction_lag_ms=1000))
    assert not must_seal(log, NOW + opened)  # there is nothing in it
    put(log, (b"k", b"v"), timestamp=NOW + opened - age)
    assert must_seal(log, NOW + opened) is expected


def test_appends_roll_an_overdue_segment_too(tmp_path: Path) -> None:
    log = open_log(tmp_path / "events_0", LogConfig(cleanup_policy=("compact",), max_compaction_lag_ms=1000))
    for timestamp in (NOW, NOW + 1000, NOW + 1001):
        put(log, (b"k", b"v"), timestamp=timestamp)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_the_dirtiest_comes_first(tmp_path: Path) -> None:
    found = []
    for number, upto in enumerate((3, 1, 2, 5)):
        log = log_of(tmp_path / str(number), *[NOW] * 6, min_cleanable_dirty_ratio=0.1)
        log.cleaner_checkpoint = upto
        found.append(examine(log, NOW))
    candidates = [each for each in found if each is not None]
    assert len(candidates) == 4
    first = dirtiest(candidates)
    assert first is not None
    assert first.log.cleaner_checkpoint == 1
    assert dirtiest(candidates[3:]) is None


def test_a_job_carries_the_settings_and_segments(tmp_path: Path) -> None:
    log = log_of(tmp_path, *[NOW] * 3, delete_retention_ms=7, segment_bytes=5000)
    log.append(keyed((b"k", b"v"), producer=(8, 1, 0)), NOW)
    log.append(keyed((b"k", b"v"), (b"l", b"v"), producer=(8, 1, 1)), NOW)
    log.high_watermark = log.log_end_offset
    log.cleaner_checkpoint = 1
    found = examine(log, NOW)
    assert found is not None
    job = found.job(NOW + 5, CleanerLimits(dedupe_bytes=1 << 20, io_bytes_per_second=99))
    assert (job.directory, job.first_dirty_offset, job.end_offset, job.now_ms) == (log.path, 1, 2, NOW + 5)
    assert (job.delete_retention_ms, job.segment_bytes, job.index_interval_bytes) == (7, 5000, 100)
    assert (job.dedupe_bytes, job.io_bytes_per_second) == (1 << 20, 99)
    assert job.last_sequences == {8: 5}
    stats = [os.stat(segment.path) for segment in log.segments[:2]]
    assert job.sources == tuple(
        SourceSegment(base, segment.path, stat.st_size, int(stat.st_mtime * 1000))
        for base, segment, stat in zip((0, 1), log.segments, stats, strict=False)
    )
