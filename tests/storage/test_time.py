"""Finding records by their time, against a plain search of all records."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylogbroker.storage import Log, LogConfig, NewestSearch, Origin
from pylogbroker.storage.log import newest_lookup
from tests.storage.support import NOW, batch, max_timestamp_offset, messages, offset_for_timestamp, open_log, reopen
from tests.support import bad_batches
from tests.support.examples import examples

times = st.lists(st.lists(st.integers(0, 100), min_size=1, max_size=4), min_size=1, max_size=25)


def expected(batches: list[list[int]], timestamp: int, start: int = 0) -> tuple[int, int] | None:
    flat = [time for part in batches for time in part]
    return next(((o, t) for o, t in enumerate(flat) if t >= timestamp and o >= start), None)


def found(log: Log, timestamp: int) -> tuple[int, int] | None:
    result = offset_for_timestamp(log, timestamp)
    return None if result is None else (result.offset, result.timestamp)


@settings(max_examples=examples(60))
@given(times, st.sampled_from([0, 150, 100_000]), st.booleans(), st.integers(0, 3), st.data())
def test_the_first_record_that_is_young_enough(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[int]],
    interval: int,
    restart: bool,
    codec: int,
    data: st.DataObject,
) -> None:
    config = LogConfig(segment_bytes=700, index_interval_bytes=interval)
    log = open_log(tmp_path_factory.mktemp("log") / "events_0", config)
    for part in batches:
        log.append(batch([b"x"] * len(part), part, codec=codec), NOW)
    log.high_watermark = log.log_end_offset
    if restart:
        log = reopen(log)
        log.high_watermark = log.log_end_offset
    start = data.draw(st.integers(0, log.log_end_offset - 1))
    log.delete_records_before(start)
    for timestamp in range(-1, 102, 3):
        assert found(log, timestamp) == expected(batches, timestamp, start)


def newest_of(flat: list[int], start: int, bound: int) -> tuple[int, int] | None:
    """Offset and time of the newest record between two offsets, by a plain search."""
    readable = [(time, -offset) for offset, time in enumerate(flat) if start <= offset < bound]
    return (-max(readable)[1], max(readable)[0]) if readable else None


@given(times, st.sampled_from([0, 150, 100_000]), st.booleans(), st.sampled_from([1, 500]), st.data())
@settings(max_examples=examples(60), deadline=None)
def test_the_largest_timestamp(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[int]],
    interval: int,
    restart: bool,
    step: int,
    data: st.DataObject,
) -> None:
    """Search between any two offsets, after deletions and truncations, in any message format with timestamps."""
    magic, codec = data.draw(st.sampled_from([(2, 0), (2, 1), (1, 0), (1, 1)]))
    config = LogConfig(segment_bytes=700, index_interval_bytes=interval, magic=magic)
    log = open_log(tmp_path_factory.mktemp("log") / "events_0", config)
    for part in batches:
        log.append(batch([b"x"] * len(part), part, codec=codec), NOW)
    if data.draw(st.booleans()):
        log.truncate_to(data.draw(st.integers(1, log.log_end_offset)))
    if restart:
        log = reopen(log)
    end = log.high_watermark = log.log_end_offset
    flat = [time for part in batches for time in part][:end]
    with patch.object(newest_lookup, "_HEADERS_PER_STEP", step):
        for start in sorted(data.draw(st.lists(st.integers(0, end), min_size=1, max_size=4))):
            log.delete_records_before(start)
            for bound in {end, *data.draw(st.lists(st.integers(start, end), max_size=4))}:
                result = max_timestamp_offset(log, bound)
                assert (result and (result.offset, result.timestamp)) == newest_of(flat, start, bound), (start, bound)


def test_headers_of_another_leader_that_exaggerate(tmp_path: Path) -> None:
    """Followers believe their leader, and older brokers believed producers: the records count."""
    log = open_log(tmp_path / "events_0", LogConfig(segment_bytes=5000))
    flat = [NOW + number * 37 % 50 for number in range(100)]
    for number, time in enumerate(flat):
        claimed = time if number % 3 else NOW + 1_000_000
        one = bad_batches.batch(
            bad_batches.record(0), 1, base_offset=number, first_timestamp=time, max_timestamp=claimed
        )
        log.append(one, NOW, origin=Origin.REPLICATION)
    for bound in (100, 51, 7):
        result = max_timestamp_offset(log, bound)
        assert (result and (result.offset, result.timestamp)) == newest_of(flat, 0, bound)


def test_a_step_reads_a_bounded_number_of_headers(tmp_path: Path) -> None:
    """The newest record is deleted, so all later headers count: the search goes on in steps."""
    log = open_log(tmp_path / "events_0")
    log.append(batch([b"x"], [NOW + 9]), NOW)
    for number in range(50):
        log.append(batch([b"x"], [NOW - number]), NOW)
    log.high_watermark = log.log_end_offset
    log.delete_records_before(1)
    with patch.object(newest_lookup, "_HEADERS_PER_STEP", 10):
        scan = log.next_newest_scan(NewestSearch(log.log_end_offset))
        assert scan is not None
        assert [scan.advance() for _ in range(6)] == [False] * 5 + [True]
    assert scan.newest == (1, NOW, 0)


def test_an_empty_log_has_no_time(tmp_path: Path) -> None:
    log = open_log(tmp_path / "events_0")
    assert offset_for_timestamp(log, 0) is None
    assert max_timestamp_offset(log) is None


def test_the_epoch_comes_along(tmp_path: Path) -> None:
    log = open_log(tmp_path / "events_0")
    log.append(batch([b"x"], [10]), NOW, leader_epoch=3)
    log.append(batch([b"x"], [20]), NOW, leader_epoch=5)
    assert offset_for_timestamp(log, 15) == (1, 20, 5)


@pytest.mark.parametrize(("magic", "answer"), [(0, None), (1, (2, 20))])
def test_older_formats(tmp_path: Path, magic: int, answer: tuple[int, int] | None) -> None:
    log = open_log(tmp_path / "events_0", LogConfig(magic=magic))
    log.append(messages([b"a", b"b"], magic, 10), NOW)
    log.append(messages([b"c"], magic, 20), NOW)
    for _ in range(2):
        assert found(log, 15) == answer
        log = reopen(log)


def test_compressed_message_sets(tmp_path: Path) -> None:
    log = open_log(tmp_path / "events_0", LogConfig(magic=1))
    for time in (10, 20, 30):
        log.append(messages([b"a", b"b", b"c"], 1, time, codec=1), NOW)
    assert [found(log, time) for time in (5, 10, 11, 20, 30, 31)] == [(0, 10), (0, 10), (3, 20), (3, 20), (6, 30), None]
