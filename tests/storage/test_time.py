"""Finding records by their time, against a plain search of all records."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylogbroker.storage import Log, LogConfig
from tests.storage.support import NOW, batch, max_timestamp_offset, messages, offset_for_timestamp, open_log, reopen
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


@given(times)
@settings(max_examples=examples(40))
def test_the_largest_timestamp(tmp_path_factory: pytest.TempPathFactory, batches: list[list[int]]) -> None:
    log = open_log(tmp_path_factory.mktemp("log") / "events_0", LogConfig(segment_bytes=400))
    for part in batches:
        log.append(batch([b"x"] * len(part), part), NOW)
    largest = max(time for part in batches for time in part)
    result = max_timestamp_offset(log)
    assert result is not None
    assert (result.offset, result.timestamp) == expected(batches, largest)


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
