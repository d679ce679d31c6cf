"""A log's appends and reads: what is on disk, what a consumer gets, and errors."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords

from pylogbroker.errors import ErrorCode, KafkaError, OffsetOutOfRange, StorageFailure
from pylogbroker.storage import Log, LogConfig, Origin, Pools
from tests.storage.support import (
    NOW,
    batch,
    bytes_on_disk,
    fill,
    max_timestamp_offset,
    messages,
    open_log,
    read_all,
    records_in,
    reopen,
    stored,
)

ENDLESS = 1 << 40


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_log(tmp_path / "events_0")


def small_segments(tmp_path: Path, **settings: Any) -> Log:
    return open_log(
        tmp_path / "events_0", LogConfig(**({"segment_bytes": 1000, "index_interval_bytes": 200} | settings))
    )


# Appending


def test_batches_get_their_offsets(log: Log) -> None:
    first = log.append(batch([b"a", b"b", b"c"]), NOW, leader_epoch=4)
    second = log.append(batch([b"d"]), NOW, leader_epoch=4)
    assert (first.base_offset, first.last_offset, first.count) == (0, 2, 3)
    assert (second.base_offset, second.last_offset, second.count) == (3, 3, 1)
    assert not first.duplicate
    assert log.log_end_offset == 4
    assert stored(log) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]
    assert log.end_offset_for_epoch(4) == (4, 4)


def test_aiokafka_reads_the_same(log: Log) -> None:
    values = fill(log, 20)
    reader = AiokafkaRecords(bytes_on_disk(log.path))
    found = []
    while (part := reader.next_batch()) is not None:
        assert part.validate_crc()
        found += [(record.offset, bytes(record.value)) for record in part]
    assert found == list(enumerate(values))


@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_any_buffer_is_taken(log: Log, buffer: Any) -> None:
    log.append(buffer(batch([b"a"])), NOW)
    assert stored(log) == [(0, b"a")]


def test_the_brokers_time(log: Log) -> None:
    log.config = LogConfig(message_timestamp_type="LogAppendTime")
    appended = log.append(batch([b"a"], [5]), NOW + 7)
    assert appended.log_append_time == NOW + 7
    assert max_timestamp_offset(log) == (0, NOW + 7, 0)


def test_a_damaged_batch_is_rejected_and_leaves_nothing(log: Log) -> None:
    data = bytearray(batch([b"abc"]))
    data[-1] ^= 1
    with pytest.raises(KafkaError) as caught:
        log.append(data, NOW)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert (log.log_end_offset, log.size, bytes_on_disk(log.path)) == (0, 0, b"")


def test_a_batch_larger_than_a_segment_is_rejected(tmp_path: Path) -> None:
    log = open_log(tmp_path / "events_0", LogConfig(segment_bytes=100))
    with pytest.raises(KafkaError) as caught:
        log.append(batch([b"x" * 100]), NOW)
    assert caught.value.code is ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize("magic", [0, 1])
def test_older_formats(tmp_path: Path, magic: int) -> None:
    log = open_log(tmp_path / "events_0", LogConfig(magic=magic))
    log.append(messages([b"a", b"b", b"c"], magic), NOW)
    log.append(messages([b"d"], magic), NOW)
    log.high_watermark = log.log_end_offset
    assert stored(log) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]
    assert records_in(log.read(2, 1, upto=4).read()) == [(2, b"c")]  # type: ignore[union-attr]
    assert stored(reopen(log)) == stored(log)


def test_entries_from_a_leader_keep_their_offsets_and_gaps(tmp_path: Path) -> None:
    leader = open_log(tmp_path / "leader_0")
    for number in range(6):
        leader.append(batch([b"%d" % number]), NOW, leader_epoch=number // 2)
    size = leader.size // 6
    whole = bytes_on_disk(leader.path)
    follower = open_log(tmp_path / "follower_0")
    follower.append(whole[: 2 * size], NOW, origin=Origin.REPLICATION)
    appended = follower.append(whole[3 * size :], NOW, origin=Origin.REPLICATION)
    assert (appended.base_offset, appended.last_offset) == (3, 5)
    assert stored(follower) == [(0, b"0"), (1, b"1"), (3, b"3"), (4, b"4"), (5, b"5")]
    assert follower.epochs.entries == ((0, 0), (1, 3), (2, 4))
    assert records_in(follower.read(2, 1, upto=6).read()) == [(3, b"3")]  # type: ignore[union-attr]
    with pytest.raises(KafkaError):
        follower.append(whole[:size], NOW, origin=Origin.REPLICATION)
    assert follower.log_end_offset == 6


# Idempotent producers


def test_a_repeated_batch_is_answered_with_its_first_offset(log: Log) -> None:
    fill(log, 3)
    sent = batch([b"a", b"b"], producer=(9, 0, 0))
    first = log.append(sent, NOW)
    fill(log, 2)
    second = log.append(sent, NOW)
    assert (first.base_offset, first.duplicate) == (3, False)
    assert (second.base_offset, second.last_offset, second.count, second.duplicate) == (3, 4, 2, True)
    assert log.log_end_offset == 7


def test_a_missing_batch_is_noticed_and_nothing_appended(log: Log) -> None:
    log.append(batch([b"a"], producer=(9, 0, 0)), NOW)
    before = bytes_on_disk(log.path)
    with pytest.raises(KafkaError) as caught:
        log.append(batch([b"c"], producer=(9, 0, 2)), NOW)
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert bytes_on_disk(log.path) == before


def test_producers_survive_a_restart(log: Log) -> None:
    batches = [batch([b"%d" % n], producer=(9, 0, n)) for n in range(7)]
    for sent in batches:
        log.append(sent, NOW)
    assert [path.name for path in Path(reopen(log).path).glob("*.snapshot")] == ["00000000000000000007.snapshot"]
    again = open_log(log.path)  # not clean: snapshot, then the log behind it
    repeated = again.append(batches[6], NOW)
    assert (repeated.base_offset, repeated.duplicate) == (6, True)
    assert again.append(batch([b"7"], producer=(9, 0, 7)), NOW).base_offset == 7


@pytest.mark.parametrize("damage", [None, b"", b"\0" * 57, b"noise"])
def test_producers_without_a_sound_snapshot_come_from_the_log(tmp_path: Path, damage: bytes | None) -> None:
    log = small_segments(tmp_path)
    for number in range(40):
        log.append(batch([b"%d" % number], producer=(9, 0, number)), NOW)
    assert len(log.segments) > 2
    log.close()
    for path in Path(log.path).glob("*.snapshot"):
        path.unlink() if damage is None else path.write_bytes(damage)
    again = open_log(log.path, log.config, clean=True, recovery_point=40)
    assert again.append(batch([b"36"], producer=(9, 0, 36)), NOW).base_offset == 36
    assert again.append(batch([b"40"], producer=(9, 0, 40)), NOW).base_offset == 40


# Reading


def test_whole_batches_within_the_limit(log: Log) -> None:
    fill(log, 10)
    size = log.size // 10
    for count in range(1, 11):
        for extra in (0, 1, size - 1):
            region = log.read(0, count * size + extra, upto=10)
            assert region is not None
            assert len(region) == min(count, 10) * size


def test_the_first_batch_is_returned_even_if_it_is_larger(log: Log) -> None:
    fill(log, 3)
    assert records_in(log.read(1, 1, upto=3).read())[0][0] == 1  # type: ignore[union-attr]
    assert log.read(1, 1, upto=3, min_one=False) is None


@pytest.mark.parametrize("upto", range(10))
def test_reads_end_below_the_bound(log: Log, upto: int) -> None:
    fill(log, 10)
    for offset in range(10):
        region = log.read(offset, ENDLESS, upto=upto)
        expected = list(range(offset, upto))
        assert [o for o, _ in records_in(region.read() if region else b"")] == expected


def test_an_offset_within_a_batch_gets_the_whole_batch(log: Log) -> None:
    log.append(batch([b"a", b"b", b"c"]), NOW)
    log.append(batch([b"d"]), NOW)
    assert [o for o, _ in records_in(log.read(1, 1, upto=4).read())] == [0, 1, 2]  # type: ignore[union-attr]


def test_offsets_outside_of_the_log(log: Log) -> None:
    fill(log, 5)
    log.delete_records_before(2)
    assert log.read(5, 100, upto=5) is None
    for offset in (-1, 0, 1, 6):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 100, upto=5)


@pytest.mark.parametrize("max_bytes", [1, 200, 450, 3000, ENDLESS])
def test_reading_on_gives_every_byte_once(tmp_path: Path, max_bytes: int) -> None:
    log = small_segments(tmp_path)
    fill(log, 60)
    assert len(log.segments) > 5
    assert read_all(log, 0, max_bytes) == bytes_on_disk(log.path)


def test_many_readers_at_many_places(tmp_path: Path) -> None:
    log = small_segments(tmp_path)
    fill(log, 150)
    at = list(range(0, 150, 2))  # more than places are remembered
    for _ in range(10):
        for reader, offset in enumerate(at):
            region = log.read(offset, 300, upto=150) if offset < 150 else None
            if region is not None:
                found = records_in(region.read())
                assert found[0][0] == offset
                at[reader] = found[-1][0] + 1


def test_a_reader_at_the_end_gets_new_records(tmp_path: Path) -> None:
    log = small_segments(tmp_path)
    for number in range(50):
        assert log.read(number, ENDLESS, upto=number) is None
        fill(log, 1)
        region = log.read(number, ENDLESS, upto=number + 1)
        assert region is not None
        assert [o for o, _ in records_in(region.read())] == [number]


def test_few_descriptors_are_enough(tmp_path: Path) -> None:
    log = open_log(tmp_path / "events_0", LogConfig(segment_bytes=500), pools=Pools.of(3))
    fill(log, 60)
    regions = [log.read(offset, 1, upto=60) for offset in range(60)]
    before = len(os.listdir("/proc/self/fd"))
    assert [records_in(region.read())[0][0] for region in regions if region] == list(range(60))
    del regions
    assert before - len(os.listdir("/proc/self/fd")) >= len(log.segments) - 4


# Failing disks


class FullDisk:
    """`os.pwritev` on a file system with so much space."""

    def __init__(self, room: int, code: int = errno.ENOSPC) -> None:
        self.room = room
        self.code = code

    def __call__(self, fd: int, chunks: list[bytes], position: int) -> int:
        data = b"".join(map(bytes, chunks))[: self.room]
        if not data:
            raise OSError(self.code, os.strerror(self.code))
        self.room -= len(data)
        return os.pwrite(fd, data, position)


def test_a_full_disk_leaves_no_half_entry(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(log, 3)
    before = bytes_on_disk(log.path)
    for room in range(0, len(before) // 3, 17):
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwritev", FullDisk(room))
            with pytest.raises(StorageFailure):
                fill(log, 1)
        assert bytes_on_disk(log.path) == before
    assert not log.offline_reason
    fill(log, 1)
    assert [offset for offset, _ in stored(log)] == [0, 1, 2, 3]


def test_a_full_disk_when_rolling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = small_segments(tmp_path)
    real = os.open

    def without_new_files(path: str, flags: int, *rest: Any, **more: Any) -> int:
        if flags & os.O_CREAT and not os.path.exists(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path, flags, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", without_new_files)
        with pytest.raises(StorageFailure):
            fill(log, 20)
    rejected_at = log.log_end_offset
    assert 0 < rejected_at < 20
    assert len(log.segments) == 1
    fill(log, 20)
    assert [offset for offset, _ in stored(log)] == list(range(rejected_at + 20))
    assert read_all(reopen(log), 0) == bytes_on_disk(log.path)


def test_a_broken_disk_takes_the_log_offline(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(log, 3)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", FullDisk(10, errno.EIO))
        with pytest.raises(StorageFailure):
            fill(log, 1)
    assert "Input/output error" in log.offline_reason
    with pytest.raises(StorageFailure):
        fill(log, 1)


def test_a_file_that_is_gone_is_a_storage_failure(tmp_path: Path) -> None:
    log = open_log(tmp_path / "events_0", LogConfig(segment_bytes=500), pools=Pools.of(1))
    fill(log, 10)
    assert len(log.segments) > 1
    os.unlink(log.segments[0].path)
    with pytest.raises(StorageFailure):
        log.read(0, 100, upto=10)
    assert log.offline_reason


def test_a_repeated_batch_is_no_news_after_a_full_disk(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that could not be written is not remembered as written."""
    sent = batch([b"a"], producer=(9, 0, 0))
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", FullDisk(10))
        with pytest.raises(StorageFailure):
            log.append(sent, NOW)
    assert not log.append(sent, NOW).duplicate
    assert log.append(sent, NOW).duplicate
