"""Cutting a log, as a follower does, and a restart at another offset."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pylogbroker.storage import Log, LogConfig
from tests.storage.support import (
    NOW,
    batch,
    bytes_on_disk,
    expired,
    fill,
    offset_for_timestamp,
    open_log,
    read_all,
    records_in,
    reopen,
    stored,
)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Twenty batches in several segments, five to an epoch."""
    log = open_log(tmp_path / "events_0", LogConfig(segment_bytes=1000, index_interval_bytes=300))
    for number in range(20):
        log.append(batch([b"%02d" % number, b"x" * 50], [NOW + number] * 2), NOW, leader_epoch=number // 5)
    log.high_watermark = log.log_end_offset
    assert len(log.segments) > 2
    return log


@pytest.mark.parametrize("keep", range(21))
def test_between_batches(log: Log, keep: int) -> None:
    whole = bytes_on_disk(log.path)
    size = len(whole) // 20
    for files in log.truncate_to(2 * keep):
        files.unlink()
    assert (log.log_end_offset, log.high_watermark) == (2 * keep, 2 * keep)
    assert bytes_on_disk(log.path) == whole[: keep * size]
    assert log.latest_epoch == (keep - 1) // 5
    assert offset_for_timestamp(log, NOW + keep) is None
    assert read_all(log, 0) == whole[: keep * size]
    fill(log, 3)
    assert [offset for offset, _ in stored(reopen(log))] == list(range(2 * keep + 3))


def test_within_a_batch_the_batch_goes(log: Log) -> None:
    log.truncate_to(7)
    assert log.log_end_offset == 6


def test_at_the_end_nothing_goes(log: Log) -> None:
    assert log.truncate_to(40) == log.truncate_to(99) == []
    assert log.log_end_offset == 40


def test_readers_find_records_appended_after_a_truncation(log: Log) -> None:
    """Places remembered from before the cut don't count after it."""
    read_all(log, 0, 300)
    log.truncate_to(32)
    for size in (7, 90, 3):
        log.append(batch([b"z" * size, b"z"], [NOW, NOW]), NOW)
    for offset in range(32, 38):
        region = log.read(offset, 1, upto=38)
        assert region is not None
        assert records_in(region.read())[0][0] == offset - offset % 2


def test_producers_are_as_they_were(tmp_path: Path) -> None:
    log = open_log(tmp_path / "events_0", LogConfig(segment_bytes=500))
    batches = [batch([b"%d" % n], producer=(7, 0, n)) for n in range(20)]
    for sent in batches:
        log.append(sent, NOW)
    log.truncate_to(13)
    assert log.append(batches[12], NOW).duplicate
    assert log.append(batches[13], NOW).base_offset == 13
    assert {int(name[:20]) for name in os.listdir(log.path) if name.endswith(".snapshot")} <= set(range(14))


def test_below_the_first_segment_the_log_restarts(log: Log) -> None:
    log.delete_records_before(30)
    for files in expired(log, NOW):
        files.unlink()
    log.truncate_to(3)
    assert (log.log_start_offset, log.log_end_offset, log.size) == (3, 3, 0)


def test_restarting_elsewhere(log: Log) -> None:
    gone = log.restart_at(1000, NOW)
    for files in gone:
        files.unlink()
    assert (log.log_start_offset, log.log_end_offset, log.size) == (1000, 1000, 0)
    assert log.epochs.entries == ()
    fill(log, 2)
    again = reopen(log)
    assert (again.log_start_offset, again.log_end_offset) == (1000, 1002)
    assert [offset for offset, _ in stored(again)] == [1000, 1001]


def test_epochs_before_the_start_end_with_the_start_that_was_stored(log: Log) -> None:
    """The start may have been stored after the leader epochs."""
    assert log.epochs.entries == ((0, 0), (1, 10), (2, 20), (3, 30))
    for start, entries in ((15, ((1, 15), (2, 20), (3, 30))), (30, ((3, 30),))):
        log = reopen(log, log_start=start)
        assert log.epochs.entries == entries
    assert log.end_offset_for_epoch(1) == (1, 30)
