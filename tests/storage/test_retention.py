"""Delete policies, and what a log takes from their answers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pylogbroker.errors import OffsetOutOfRange
from pylogbroker.storage import Log, LogConfig, RecordTimePolicy, SegmentView, SizePolicy
from tests.storage.support import NOW, batch, fill, open_log, records_in, reopen, stored

SIZE = len(batch([b"0:" + b"x" * 100]))  # of a batch that `fill` writes (with one digit)


def view(number: int, timestamp: int = 0, size: int = 100, modified: int = 0, active: bool = False) -> SegmentView:
    return SegmentView(10 * number, 10 * number + 10, size, timestamp, modified, active)


@pytest.mark.parametrize(
    ("retention", "timestamps", "gone"),
    [
        (10, [0, 5, 9, 20], 3),
        (10, [0, 10, 0, 20], 1),  # a young segment protects what follows
        (-1, [0, 0, 0, 0], 0),
        (0, [0, 5, 19, 19], 4),
        (10, [-1, -1, 15, 15], 2),  # without timestamps the file's own time counts
    ],
)
def test_by_record_time(retention: int, timestamps: list[int], gone: int) -> None:
    views = [view(number, timestamp, modified=3) for number, timestamp in enumerate(timestamps)]
    assert list(RecordTimePolicy(retention).deletable(views, 20)) == views[:gone]


@pytest.mark.parametrize(("retention", "gone"), [(-1, 0), (1000, 0), (400, 0), (399, 0), (300, 1), (250, 1), (0, 4)])
def test_by_size(retention: int, gone: int) -> None:
    views = [view(number) for number in range(4)]
    assert list(SizePolicy(retention).deletable(views, 0)) == views[:gone]


def a_log(tmp_path: Path, batches: int = 9, **settings: Any) -> Log:
    """Three batches to a segment, one second apart."""
    log = open_log(tmp_path / "events_0", LogConfig(**({"segment_bytes": 3 * SIZE + 5} | settings)))
    fill(log, batches)
    return log


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_old_segments_go(tmp_path: Path) -> None:
    log = a_log(tmp_path, retention_ms=10_000)
    assert bases(log) == [0, 3, 6]
    assert log.expire(NOW + 12_000) == []
    [gone] = log.expire(NOW + 12_001)
    assert gone.size == 3 * SIZE
    assert (bases(log), log.log_start_offset) == ([3, 6], 3)
    assert [offset for offset, _ in stored(log)] == [3, 4, 5, 6, 7, 8]
    assert all(path.endswith(".deleted") for path in gone.paths)
    gone.unlink()
    assert not any(".deleted" in name for name in os.listdir(log.path))


def test_when_all_may_go_an_empty_segment_stays(tmp_path: Path) -> None:
    log = a_log(tmp_path, retention_ms=10_000)
    assert len(log.expire(NOW + 1_000_000)) == 3
    assert (bases(log), log.log_start_offset, log.log_end_offset, log.size) == ([9], 9, 9, 0)
    assert log.expire(NOW + 2_000_000) == []
    fill(log, 1)
    assert [offset for offset, _ in stored(log)] == [9]


def test_too_much_goes(tmp_path: Path) -> None:
    log = a_log(tmp_path, retention_ms=-1, retention_bytes=6 * SIZE)
    assert len(log.expire(NOW)) == 1
    assert bases(log) == [3, 6]


@pytest.mark.parametrize("policy", [(), ("compact",)])
def test_only_the_delete_policy_deletes(tmp_path: Path, policy: tuple[str, ...]) -> None:
    log = a_log(tmp_path)
    log.config = LogConfig(cleanup_policy=policy, retention_ms=0, retention_bytes=0)
    assert log.expire(NOW + 1_000_000) == []


def test_what_is_above_the_high_watermark_stays(tmp_path: Path) -> None:
    log = a_log(tmp_path, retention_ms=10_000)
    log.high_watermark = 5
    assert len(log.expire(NOW + 1_000_000)) == 1
    assert bases(log) == [3, 6]


def test_deleted_records(tmp_path: Path) -> None:
    log = a_log(tmp_path, cleanup_policy=())
    assert log.delete_records_before(4) == 4
    assert log.delete_records_before(2) == 4
    assert len(log.expire(NOW)) == 1
    assert (bases(log), log.log_start_offset) == ([3, 6], 4)
    with pytest.raises(OffsetOutOfRange):
        log.read(3, 100, upto=9)
    with pytest.raises(OffsetOutOfRange):
        log.delete_records_before(10)
    assert log.delete_records_before(9) == 9
    assert log.read(9, 100, upto=9) is None


def test_deleted_records_stay_deleted(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.delete_records_before(4)
    again = reopen(log)
    assert again.log_start_offset == 4
    with pytest.raises(OffsetOutOfRange):
        again.read(3, 100, upto=9)


def test_readers_of_a_deleted_segment_finish(tmp_path: Path) -> None:
    log = a_log(tmp_path, retention_ms=10_000)
    region = log.read(0, 1 << 20, upto=9)
    assert region is not None
    for files in log.expire(NOW + 1_000_000):
        files.unlink()
    assert [offset for offset, _ in records_in(region.read())] == [0, 1, 2]


class Fixed:
    """A policy that names the segments it was made with."""

    def __init__(self, *names: Any) -> None:
        self.names = names

    def deletable(self, segments: Sequence[SegmentView], now_ms: int) -> Iterable[SegmentView]:
        for name in self.names:
            yield segments[name] if isinstance(name, int) else name


@pytest.mark.parametrize(
    ("policy", "left"),
    [
        (Fixed(0, 1), [6]),
        (Fixed(1), [0, 3, 6]),  # not from the oldest on
        (Fixed(0, 2), [3, 6]),
        (Fixed(1, 0), [6]),
        (Fixed(view(999)), [0, 3, 6]),
    ],
)
def test_other_policies_are_taken_as_far_as_they_make_sense(tmp_path: Path, policy: Fixed, left: list[int]) -> None:
    log = a_log(tmp_path)
    log.expire(NOW, [policy])
    assert bases(log) == left


def test_views_tell_what_there_is(tmp_path: Path) -> None:
    log = a_log(tmp_path, batches=7)
    views = log.views()
    assert [(v.base_offset, v.next_offset, v.size, v.active) for v in views] == [
        (0, 3, 3 * SIZE, False),
        (3, 6, 3 * SIZE, False),
        (6, 7, SIZE, True),
    ]
    assert [v.largest_timestamp for v in views] == [NOW + 2000, NOW + 5000, NOW + 6000]
    assert all(abs(v.modified_ms / 1000 - os.stat(log.segments[0].path).st_mtime) < 60 for v in views)
