"""Rolling: when a new segment is begun, and what a sealed one leaves on disk."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from pylogbroker.errors import KafkaError
from pylogbroker.storage import Log, LogConfig, Origin, Recovered
from tests.storage.support import NOW, batch, fill, open_log, reopen, stored

HOUR = 3_600_000


def a_log(tmp_path: Path, **settings: Any) -> Log:
    return open_log(tmp_path / "events_0", LogConfig(**settings))


def bases(log: Log) -> list[int]:
    assert [segment.base_offset for segment in log.segments] == sorted(
        int(path.stem) for path in Path(log.path).glob("*.kafka")
    )
    return [segment.base_offset for segment in log.segments]


def append_at(log: Log, *times: int, now: int = NOW) -> None:
    for time in times:
        log.append(batch([b"x"], [time]), now)


def test_by_size(tmp_path: Path) -> None:
    size = len(batch([b"x"]))
    log = a_log(tmp_path, segment_bytes=3 * size)
    append_at(log, *[NOW] * 7)
    assert bases(log) == [0, 3, 6]


def test_by_the_records_time(tmp_path: Path) -> None:
    log = a_log(tmp_path, segment_ms=HOUR)
    append_at(log, 0, HOUR, HOUR + 1, HOUR + 2, 5 * HOUR)
    assert bases(log) == [0, 2, 4]


def test_by_the_records_time_after_a_restart(tmp_path: Path) -> None:
    log = a_log(tmp_path, segment_ms=HOUR)
    append_at(log, 0)
    log = reopen(log)
    append_at(log, HOUR)
    append_at(log, HOUR + 1)
    assert bases(log) == [0, 2]


def test_by_the_clock_if_records_have_no_time(tmp_path: Path) -> None:
    log = a_log(tmp_path, segment_ms=HOUR)
    append_at(log, -1, now=NOW)
    append_at(log, -1, now=NOW + HOUR)
    append_at(log, -1, now=NOW + HOUR + 1)
    assert bases(log) == [0, 2]


def test_jitter_rolls_earlier(tmp_path: Path) -> None:
    log = a_log(tmp_path, segment_ms=HOUR, segment_jitter_ms=HOUR // 2)
    for number in range(60):
        append_at(log, number * HOUR // 4)
    gaps = {end - begin for begin, end in zip(bases(log), bases(log)[1:], strict=False)}
    assert gaps <= {3, 4, 5}  # between half of an hour and an hour
    assert len(gaps) > 1


def test_by_a_full_index(tmp_path: Path) -> None:
    log = a_log(tmp_path, index_interval_bytes=0, segment_index_bytes=80)
    append_at(log, *[NOW] * 25)
    assert bases(log) == [0, 11, 22]  # the first batch is not indexed; ten entries of 8 bytes are


def test_by_a_full_time_index(tmp_path: Path) -> None:
    log = a_log(tmp_path, index_interval_bytes=0, segment_index_bytes=80)
    append_at(log, *range(NOW, NOW + 20))
    assert bases(log) == [0, 6, 12, 18]  # six entries of 12 bytes, one of which sealing needs


def test_by_an_offset_too_far_away(tmp_path: Path) -> None:
    """A follower may see such offsets: what lies between was compacted away."""
    log = a_log(tmp_path)
    for offset in (0, 2**31 - 1, 2**31):
        entry = struct.pack(">q", offset) + batch([b"x"])[8:]
        log.append(entry, NOW, origin=Origin.REPLICATION)
    assert bases(log) == [0, 2**31]
    assert [offset for offset, _ in stored(log)] == [0, 2**31 - 1, 2**31]


def test_an_empty_segment_makes_way_for_an_offset_too_far_away(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.append(struct.pack(">q", 2**40) + batch([b"x"])[8:], NOW, origin=Origin.REPLICATION)
    assert bases(log) == [2**40]
    assert log.log_start_offset == 2**40


def test_by_hand(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.roll(NOW)
    assert bases(log) == [0]
    append_at(log, NOW)
    log.roll(NOW)
    log.roll(NOW)
    assert bases(log) == [0, 1]


def test_a_rolled_segment_leaves_indexes_and_a_snapshot(tmp_path: Path) -> None:
    log = a_log(tmp_path, index_interval_bytes=2 * len(batch([b"x"])))
    append_at(log, NOW, NOW + 5, NOW + 2, NOW + 6, NOW + 7, NOW + 8, NOW + 1)
    size = log.size // 7
    log.roll(NOW)
    directory = Path(log.path)
    assert (directory / f"{0:020}.index").read_bytes() == struct.pack(">IIII", 3, 3 * size, 6, 6 * size)
    assert (directory / f"{0:020}.timeindex").read_bytes() == struct.pack(">qIqI", NOW + 6, 3, NOW + 8, 5)
    assert (directory / f"{7:020}.snapshot").read_bytes()[:2] == b"\0\1"


@pytest.mark.parametrize("clean", [True, False])
def test_preallocated_segments(tmp_path: Path, clean: bool) -> None:
    log = a_log(tmp_path, preallocate=True, segment_bytes=4096)
    fill(log, 20)
    sizes = [segment.size for segment in log.segments]
    files = sorted(Path(log.path).glob("*.kafka"))
    assert [path.stat().st_size for path in files] == [*sizes[:-1], 4096]
    again = reopen(log) if clean else open_log(log.path, log.config)
    assert [segment.size for segment in again.segments] == sizes
    assert [offset for offset, _ in stored(again)] == list(range(20))


def test_preallocated_blocks_are_released(tmp_path: Path) -> None:
    log = a_log(tmp_path, segment_bytes=1 << 30)
    records = batch([bytes(100_000)])
    for _ in range(30):
        log.append(records, NOW)
    file = next(tmp_path.rglob("*.kafka"))
    written = file.stat().st_size
    used = file.stat().st_blocks * 512
    assert written == log.size
    assert used < written * 1.3
    log.close()
    assert file.stat().st_size == written
    assert file.stat().st_blocks * 512 < written + 64 * 1024


def test_a_follower_accepts_batches_larger_than_its_segment_size(tmp_path: Path) -> None:
    log = a_log(tmp_path, segment_bytes=1000)
    records = batch([bytes(3000)])
    with pytest.raises(KafkaError, match=r"exceed segment\.bytes"):
        log.append(records, NOW)
    log.append(records, NOW, origin=Origin.REPLICATION)
    assert log.log_end_offset == 1


def append_with_gaps(log: Log, count: int, gap: int = 5) -> None:
    """Append a leader's compacted batches of one record: between any two, some are missing."""
    for _ in range(count):
        offset = log.log_end_offset + gap
        log.append(offset.to_bytes(8) + batch([b"x"])[8:], NOW, origin=Origin.REPLICATION)
    log.high_watermark = log.log_end_offset


def test_a_followers_segment_begins_where_the_last_one_ends(tmp_path: Path) -> None:
    log = a_log(tmp_path, segment_bytes=2 * len(batch([b"x"])))
    append_with_gaps(log, 5)
    assert [offset for offset, _ in stored(log)] == [5, 11, 17, 23, 29]
    assert bases(log) == [0, 12, 24]


@pytest.mark.parametrize("cut", [17, 18, 20, 23])
def test_a_log_that_is_cut_in_a_gap_loses_nothing_after_a_crash(tmp_path: Path, cut: int) -> None:
    """The batch at 17 is cut off or kept; the next segment begins where the one before it ends."""
    log = a_log(tmp_path, segment_bytes=4 * len(batch([b"x"])))
    append_with_gaps(log, 4)
    log.truncate_to(cut)
    assert log.log_end_offset == cut
    log.roll(NOW)
    append_with_gaps(log, 2)
    assert bases(log) == [0, 12 if cut == 17 else 18]
    kept = stored(log)
    found: list[Recovered] = []
    log = open_log(log.path, log.config, found=found)
    assert [each.cut for each in found] == [None]
    assert stored(log) == kept


def test_gaps_in_a_followers_log_are_no_loss_after_a_crash(tmp_path: Path) -> None:
    log = a_log(tmp_path, segment_bytes=2 * len(batch([b"x"])))
    append_with_gaps(log, 5)
    found: list[Recovered] = []
    log = open_log(log.path, log.config, found=found)
    assert [each.cut for each in found] == [None]
    assert [offset for offset, _ in stored(log)] == [5, 11, 17, 23, 29]
