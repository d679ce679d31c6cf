"""Deletions by the answers of delete policies, and the fate of the segments."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
import pytest
from zope.interface import implementer

from pylogbroker.errors import OffsetOutOfRange
from pylogbroker.interfaces import IDeletePolicy, LogView, SegmentView
from pylogbroker.plugins.delete_policies import RecordTimePolicy, SizePolicy
from pylogbroker.storage import DeletedFiles, GuardedPolicy, Log, LogConfig
from pylogbroker.storage.log import retention
from tests.storage.support import NOW, batch, expired, fill, open_log, records_in, reopen, stored

SIZE = len(batch([b"0:" + b"x" * 100]))  # of a batch that `fill` writes (with one digit)


OLD = RecordTimePolicy(10_000)
"""Deletes segments older than ten seconds."""


def expire(log: Log, now_ms: int, *policies: IDeletePolicy) -> list[DeletedFiles]:
    """Let a log's segments go; a policy must not fail."""
    reported: list[str] = []
    guarded = [GuardedPolicy(policy, lambda *what: reported.append(what[1])) for policy in policies]
    gone = expired(log, now_ms, guarded)
    assert reported == []
    return gone


def a_log(tmp_path: Path, batches: int = 9, **settings: Any) -> Log:
    """Three batches to a segment, one second apart."""
    log = open_log(tmp_path / "events_0", LogConfig(**({"segment_bytes": 3 * SIZE + 5} | settings)))
    fill(log, batches)
    return log


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_expired_segments_are_named_and_stay(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    guarded = [GuardedPolicy(OLD, lambda *what: None)]
    for now_ms, expected in ((NOW + 12_000, []), (NOW + 12_001, [0]), (NOW + 99_000, [0, 3, 6])):
        named = [view for view in retention.expired_segments(log, now_ms, guarded) if view is not None]
        assert [view.base_offset for view in named] == expected
        assert bases(log) == [0, 3, 6]


def test_old_segments_are_deleted(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    assert bases(log) == [0, 3, 6]
    assert expire(log, NOW + 12_000, OLD) == []
    [gone] = expire(log, NOW + 12_001, OLD)
    assert gone.size == 3 * SIZE
    assert (bases(log), log.log_start_offset) == ([3, 6], 3)
    assert [offset for offset, _ in stored(log)] == [3, 4, 5, 6, 7, 8]
    assert all(path.endswith(".deleted") for path in gone.paths)
    gone.unlink()
    assert not any(".deleted" in name for name in os.listdir(log.path))


def test_an_empty_segment_stays_when_all_are_deleted(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    assert len(expire(log, NOW + 1_000_000, OLD)) == 3
    assert (bases(log), log.log_start_offset, log.log_end_offset, log.size) == ([9], 9, 9, 0)
    assert expire(log, NOW + 2_000_000, OLD) == []
    fill(log, 1)
    assert [offset for offset, _ in stored(log)] == [9]


def guarded_size(retention_bytes: int) -> list[GuardedPolicy]:
    return [GuardedPolicy(SizePolicy(retention_bytes), pytest.fail)]


def test_each_step_looks_at_one_segment_or_takes_one_away(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    steps = retention.expire(log, NOW, guarded_size(3 * SIZE))
    assert [next(steps), next(steps)] == [None, None]
    assert bases(log) == [0, 3, 6]
    fill(log, 3)
    first = next(steps)
    assert first is not None
    assert (bases(log), log.log_start_offset) == ([9], 9), "what was appended meanwhile counts; all go at once"
    assert sorted(int(name[:20]) for name in os.listdir(log.path) if name.endswith(".kafka")) == [3, 6, 9]
    rest = list(steps)
    assert all(rest)
    assert len(rest) == 2
    assert [offset for offset, _ in stored(log)] == [9, 10, 11]


def test_a_change_of_the_segments_ends_the_deletion(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    steps = retention.expire(log, NOW, guarded_size(0))
    next(steps)
    for deleted in log.truncate_to(3):
        deleted.unlink()
    assert not any(steps)
    assert log.log_start_offset == 0


def test_a_swap_that_begins_ends_the_deletion(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    steps = retention.expire(log, NOW, guarded_size(0))
    next(steps)
    log.begin_swap([])
    assert not any(steps)
    assert log.log_start_offset == 0


def test_segments_beyond_the_retention_size_are_deleted(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    assert len(expire(log, NOW, SizePolicy(6 * SIZE))) == 1
    assert bases(log) == [3, 6]


def test_segments_above_the_high_watermark_are_kept(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.high_watermark = 5
    assert len(expire(log, NOW + 1_000_000, OLD)) == 1
    assert bases(log) == [3, 6]


def test_deleted_records(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    assert log.delete_records_before(4) == 4
    assert log.delete_records_before(2) == 4
    assert len(expired(log, NOW)) == 1
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
    log = a_log(tmp_path)
    region = log.read(0, 1 << 20, upto=9)
    assert region is not None
    for files in expire(log, NOW + 1_000_000, OLD):
        files.unlink()
    assert [offset for offset, _ in records_in(region.read())] == [0, 1, 2]


@implementer(IDeletePolicy)
@attrs.frozen
class Fixed:
    """A policy that names segments by their numbers, or other things."""

    names: Iterable[Any]

    def deletable(self, log: LogView, now_ms: int) -> Iterable[SegmentView]:
        return (log.segments[name] if isinstance(name, int) else name for name in self.names)


@implementer(IDeletePolicy)
class Raises:
    """A policy with a mistake in it, that shows at once or when the answer is looked at."""

    def __init__(self, late: bool) -> None:
        self.late = late

    def deletable(self, log: LogView, now_ms: int) -> Iterable[SegmentView]:
        return (1 // 0 and each for each in log.segments) if self.late else (1 // 0,)  # type: ignore[return-value]


@implementer(IDeletePolicy)
class Ends:
    """A policy that ends things its own way: the broker, or by Ctrl-C."""

    def __init__(self, how: BaseException) -> None:
        self.how = how

    def deletable(self, log: LogView, now_ms: int) -> Iterable[SegmentView]:
        raise self.how


@implementer(IDeletePolicy)
class Nothing:
    """A policy that forgot to answer."""

    def deletable(self, log: LogView, now_ms: int) -> Iterable[SegmentView]:
        return None  # type: ignore[return-value]


ELSEWHERE = SegmentView(999, 1009, 1, 1, 1, active=False)
NONSENSE = {
    "not the oldest": (Fixed([1]), "out of order"),
    "one left out": (Fixed([0, 2]), "out of order"),
    "not in their order": (Fixed([1, 0]), "out of order"),
    "one twice": (Fixed([0, 0]), "out of order"),
    "the active one alone": (Fixed([2]), "out of order"),
    "one that is not there": (Fixed([0, ELSEWHERE]), "that the log lacks"),
    "another type": (Fixed(["00000000000000000000.kafka"]), "of type str"),
    "nothing at all": (Nothing(), "TypeError"),
    "no end": (Fixed(itertools.repeat(0)), "out of order"),
    "an error": (Raises(late=False), "ZeroDivisionError"),
    "an error half way": (Raises(late=True), "ZeroDivisionError"),
    "an end of the broker": (Ends(SystemExit(3)), "SystemExit"),
    "an end of a generator": (Ends(GeneratorExit()), "GeneratorExit"),
}


def test_keyboard_interrupts_are_raised(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        expire(a_log(tmp_path), NOW, Ends(KeyboardInterrupt()))


@pytest.mark.parametrize(("policy", "cause"), NONSENSE.values(), ids=NONSENSE)
def test_nonsense_deletes_nothing_and_is_logged_once(tmp_path: Path, policy: IDeletePolicy, cause: str) -> None:
    log, reported = a_log(tmp_path), []
    guarded = GuardedPolicy(policy, lambda view, what, error: reported.append((view.topic, what)))
    for _ in range(3):
        assert expired(log, NOW, [guarded]) == []
    assert bases(log) == [0, 3, 6]
    assert [topic for topic, _ in reported] == ["events"]
    assert cause in reported[0][1]


def test_each_cause_is_reported(tmp_path: Path) -> None:
    log, reported, names = a_log(tmp_path), [], [1]
    guarded = GuardedPolicy(Fixed(names), lambda view, what, error: reported.append(what))
    expired(log, NOW, [guarded])
    names[:] = ["x"]
    expired(log, NOW, [guarded])
    assert len(reported) == 2
    names[:] = [0]
    assert len(expired(log, NOW, [guarded])) == 1
    assert len(reported) == 2


def test_a_policy_may_name_all_there_is(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    assert len(expire(log, NOW, Fixed([0, 1, 2]))) == 3
    assert (bases(log), log.log_start_offset) == ([9], 9)


def test_each_policy_is_asked_about_the_remaining_segments(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    expire(log, NOW, Fixed([0]), Fixed([]), Fixed([0]))
    assert bases(log) == [6]


def test_no_policy_is_asked_about_an_empty_log(tmp_path: Path) -> None:
    log = open_log(tmp_path / "events_0")
    assert expire(log, NOW, Raises(late=False)) == []


def test_views_describe_the_segments(tmp_path: Path) -> None:
    log = a_log(tmp_path, batches=7)
    views = log.views()
    assert [(v.base_offset, v.next_offset, v.size, v.active) for v in views] == [
        (0, 3, 3 * SIZE, False),
        (3, 6, 3 * SIZE, False),
        (6, 7, SIZE, True),
    ]
    assert [v.largest_timestamp for v in views] == [NOW + 2000, NOW + 5000, NOW + 6000]
    assert all(abs(v.modified_ms / 1000 - os.stat(log.segments[0].path).st_mtime) < 60 for v in views)
