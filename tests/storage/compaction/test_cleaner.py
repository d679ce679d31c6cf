"""Single cases of cleaning, one rule each."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from aiokafka.record.memory_records import MemoryRecords

from pylogbroker.errors import StorageFailure
from pylogbroker.records import Codec, Record, TimestampType
from pylogbroker.storage.compaction.blocks import DamagedSegment
from pylogbroker.storage.compaction.cleaner import clean
from tests.storage.compaction.log_files import NOW, Files, batches_in

LONG_AFTER = NOW + 7 * 24 * 3600 * 1000


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_the_last_record_of_a_key_stays(files: Files) -> None:
    files.put((b"a", b"1"), (b"b", b"2"), (b"a", b"3"))
    files.put((b"b", b"4"), (b"c", b"5"))
    files.roll()
    files.put((b"a", b"not sealed"))
    cleaned = files.clean()
    assert files.pairs() == [(2, b"a", b"3"), (3, b"b", b"4"), (4, b"c", b"5"), (5, b"a", b"not sealed")]
    assert (cleaned.first_dirty_offset, cleaned.statistics.records_read, cleaned.statistics.records_kept) == (5, 5, 3)


def test_a_batch_keeps_its_offsets(files: Files) -> None:
    files.put((b"x", b"old"), (b"a", b"1"), (b"y", b"old"), producer_id=7, producer_epoch=3, base_sequence=40)
    files.put((b"x", b"new"), (b"y", b"new"))
    files.roll()
    files.clean()
    [first, _] = files.batches()
    assert (first.base_offset, first.last_offset, first.producer) == (0, 2, (7, 3, 40))
    assert [(record.offset, record.key, record.timestamp) for record in first.records] == [(1, b"a", NOW + 1)]
    assert first.max_timestamp == NOW + 1


def test_batches_without_dropped_records_are_copied_unchanged(files: Files) -> None:
    for number, codec in enumerate(Codec):
        files.put((b"key%d" % number, b"value" * 50), (b"other%d" % number, b"value"), codec=codec)
    files.put((b"key0", b"new"))
    files.roll()
    before = files.path(0).read_bytes()
    files.clean()
    first = files.segment(0)[1].position
    old = batches_in(before)[1].position
    assert files.path(0).read_bytes()[first:] == before[old:]


def test_a_log_without_duplicates_is_not_rewritten(files: Files) -> None:
    files.put((b"a", b"1"), (b"b", b"2"))
    files.roll()
    assert files.clean().replacements == ()
    assert list(files.directory.glob("*.cleaned")) == []
    assert files.first_dirty == 2


def test_byte_statistics_cover_the_same_segments_before_and_after(files: Files) -> None:
    files.put((b"a", b"1" * 1000), (b"b", b"2" * 1000))  # all of it stays
    files.roll()
    files.put((b"c", b"old" * 1000))
    files.put((b"c", b"new"))
    files.roll()
    before = [files.path(base).stat().st_size for base in (0, 2)]
    cleaned = files.clean()
    after = [files.path(base).stat().st_size for base in (0, 2)]
    assert [each.replaced for each in cleaned.replacements] == [(2,)]
    assert (cleaned.statistics.bytes_read, cleaned.statistics.bytes_written) == (sum(before), sum(after))
    assert after[0] == before[0]


def test_statistics_are_equal_when_no_record_is_dropped(files: Files) -> None:
    files.put((b"a", b"1"), (b"b", b"2"))
    files.roll()
    statistics = files.clean().statistics
    assert statistics.bytes_read == statistics.bytes_written == files.path(0).stat().st_size


def test_the_empty_key_is_a_key(files: Files) -> None:
    files.put((b"", b"1"), (b"", b"2"))
    files.roll()
    files.clean()
    assert files.pairs() == [(1, b"", b"2")]


def test_records_without_a_key_are_dropped_and_counted(files: Files) -> None:
    files.put((None, b"1"), (b"a", b"2"), (None, None))
    files.put((b"b", b"3"))
    files.roll()
    assert files.clean().statistics.without_key == 2
    assert files.pairs() == [(1, b"a", b"2"), (3, b"b", b"3")]


@pytest.mark.parametrize("codec", Codec)
def test_headers_and_timestamps_stay(files: Files, codec: Codec) -> None:
    headers = (("a", b"x" * 300), ("b", None), ("a", b""))
    files.add([Record(0, NOW + n * 100_000, b"k%d" % (n % 3), b"v" * n, headers) for n in range(0, 300)], codec=codec)
    files.roll()
    files.clean()
    assert [(r.offset, r.timestamp, r.headers) for r in files.records()] == [
        (n, NOW + n * 100_000, headers) for n in (297, 298, 299)
    ]


def test_keys_that_differ_in_length_or_late(files: Files) -> None:
    long = b"z" * 1500
    keys = [b"\0" * n for n in range(20)] + [long, long + b"\0", long[:-1] + b"y", b"z" * 1024, b"z" * 1023 + b"y"]
    keys += [bytes(8) + b"\x80", bytes(7) + b"\x80" + bytes(4), b"\x80" + bytes(11)]
    files.put(*((key, b"old") for key in keys))
    files.put(*((key, b"new") for key in keys))
    files.roll()
    files.clean()
    assert [(key, value) for _, key, value in files.pairs()] == [(key, b"new") for key in keys]


# Tombstones


def test_a_tombstone_stays_for_the_retention_time(files: Files) -> None:
    files.put((b"a", b"1"), (b"b", b"2"), (b"a", None))
    files.roll()
    files.clean(NOW, delete_retention_ms=1000)
    assert files.pairs() == [(1, b"b", b"2"), (2, b"a", None)]
    assert files.batches()[0].horizon == NOW + 1000
    assert [record.timestamp for record in files.records()] == [NOW + 1, NOW + 2]
    files.clean(NOW + 999, delete_retention_ms=5)
    assert [key for _, key, _ in files.pairs()] == [b"b", b"a"]
    assert files.batches()[0].horizon == NOW + 1000
    files.clean(NOW + 1000)
    assert files.pairs() == [(1, b"b", b"2")]


@pytest.mark.parametrize("codec", Codec)
def test_a_horizon_changes_no_timestamp(files: Files, codec: Codec) -> None:
    stamps = [NOW, 0, 5, NOW + 1 + (1 << 35), -1, NOW + 86_400_000, NOW + 86_400_001]
    records = [Record(0, at, b"key %d" % n, None if n == 3 else b"v" * 40 * n) for n, at in enumerate(stamps)]
    files.add(records, codec=codec)
    files.roll()
    files.clean(NOW)
    assert files.batches()[0].horizon == NOW + 86_400_000
    assert [record.timestamp for record in files.records()] == stamps
    assert [record.value for record in files.records()] == [record.value for record in records]


def test_a_horizon_and_the_append_time(files: Files) -> None:
    files.put((b"a", None), (b"b", b"1"), timestamp_type=TimestampType.LOG_APPEND_TIME, append_time=NOW + 77)
    files.roll()
    files.clean(NOW)
    assert files.batches()[0].horizon is not None
    assert [record.timestamp for record in files.records()] == [NOW + 77, NOW + 77]


@pytest.mark.parametrize("magic", [0, 1])
def test_old_tombstones_go_with_the_age_of_the_segment(files: Files, magic: int) -> None:
    files.put((b"a", None), magic=magic)
    files.put((b"b", b"1"), magic=magic)
    files.roll()
    os.utime(files.path(0), (NOW / 1000, NOW / 1000))
    files.clean(NOW)
    assert [key for _, key, _ in files.pairs()] == [b"a", b"b"]
    base = files.put((b"c", b"1"), magic=magic)
    files.roll()
    os.utime(files.path(base), (NOW / 1000 + 100, NOW / 1000 + 100))
    files.clean(NOW, delete_retention_ms=1000)
    assert [key for _, key, _ in files.pairs()] == [b"a", b"b", b"c"]
    base = files.put((b"d", b"1"), magic=magic)
    files.roll()
    files.clean(NOW, delete_retention_ms=1000)
    assert [key for _, key, _ in files.pairs()] == [b"b", b"c", b"d"]


# Old formats


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY])
def test_old_messages(files: Files, magic: int, codec: Codec) -> None:
    wanted = []
    for number in range(30):
        pairs = [(b"%d" % (n % 7), b"%d-%d" % (number, n)) for n in range(number % 5 + 1)]
        base = files.put(*pairs, magic=magic, codec=codec)
        wanted += [(base + n, key, value) for n, (key, value) in enumerate(pairs)]
    files.roll()
    stamps = {record.offset: record.timestamp for record in files.records()}
    files.clean()
    last = {key: (offset, key, value) for offset, key, value in wanted}
    assert files.pairs() == sorted(last.values())
    assert all(stamps[record.offset] == record.timestamp for record in files.records())


def test_the_last_old_message_stays_as_a_tombstone(files: Files) -> None:
    files.put((b"a", b"1"), magic=1)
    files.put((b"b", b"1"), magic=1)
    files.roll()
    files.put((b"b", b"2"))
    files.roll()
    files.clean()
    assert files.pairs() == [(0, b"a", b"1"), (1, b"b", None), (2, b"b", b"2")]
    assert files.segment(0)[-1].last_offset == 1


# Segments


def test_each_segment_still_ends_where_the_next_begins(files: Files) -> None:
    for _ in range(3):
        files.put((b"a", b"1"), (b"b", b"2"))
        files.put((b"a", b"1"), (b"b", b"2"))
        files.roll()
    files.clean()
    assert files.bases == [0, 4, 8, 12]
    assert [(batch.base_offset, batch.last_offset, len(batch.records)) for batch in files.batches()] == [
        (2, 3, 0),
        (6, 7, 0),
        (10, 11, 2),
    ]


def test_small_neighbours_become_one(files: Files) -> None:
    for number in range(6):
        files.put((b"a", b"1"), (b"key %d" % number, bytes(100)))
        files.roll()
    size = files.path(0).stat().st_size
    cleaned = files.clean(segment_bytes=3 * size + size // 2)
    assert [each.replaced for each in cleaned.replacements] == [(0, 2, 4), (6, 8, 10)]
    assert files.bases == [0, 6, 12]
    assert [key for _, key, _ in files.pairs()] == [b"key %d" % n for n in range(5)] + [b"a", b"key 5"]
    assert cleaned.replacements[0].size == files.path(0).stat().st_size


def test_segments_with_large_indexes_are_not_merged(files: Files) -> None:
    for number in range(4):
        files.put((b"a", b"1"), (b"key %d" % number, bytes(100)))
        files.roll()
        files.path(2 * number, ".timeindex").write_bytes(bytes(120))
    cleaned = files.clean(segment_bytes=1 << 20, segment_index_bytes=250)
    assert [each.replaced for each in cleaned.replacements] == [(0, 2), (4, 6)]


def test_neighbours_too_far_apart_stay_apart(files: Files) -> None:
    for base in (0, 5, (1 << 31) - 1, 1 << 31, (1 << 31) + 5):
        files.end = base
        files.roll()
        files.put((b"a", b"1"))
    files.end += 1
    files.roll()
    cleaned = files.clean(segment_bytes=1 << 20)
    assert [each.replaced for each in cleaned.replacements] == [(0, 5, (1 << 31) - 1), (1 << 31, (1 << 31) + 5)]


def test_the_new_file_is_as_old_as_the_youngest(files: Files) -> None:
    for number, modified in enumerate((1_600_000_000_123, 1_600_000_005_456)):
        files.put((b"a", b"1"), (b"b", b"%d" % number))
        os.utime(files.path(2 * number), ns=(modified * 10**6, modified * 10**6))
        files.roll()
    files.clean(segment_bytes=1 << 20)
    assert files.bases == [0, 4]
    assert files.path(0).stat().st_mtime_ns == 1_600_000_005_456 * 10**6


def test_a_map_too_small_cleans_as_far_as_it_goes(files: Files) -> None:
    for number in range(40):
        files.put(*((b"key %d" % (10 * number + n), b"1") for n in range(10)), (b"a", b"%d" % number))
        files.roll()
    reached = []
    while files.first_dirty < files.end:
        cleaned = files.clean(dedupe_bytes=24 * 64)
        assert cleaned.statistics.keys <= 64
        reached.append(files.first_dirty)
        assert [offset for offset, key, _ in files.pairs() if key == b"a" and offset < reached[-1]] == [reached[-1] - 1]
    assert 8 <= len(reached) <= 12
    assert len(files.pairs()) == 401


def test_a_map_too_small_for_a_segment(files: Files) -> None:
    for number in range(40):
        files.put(*((b"key %d" % (10 * number + n), b"1") for n in range(10)), (b"a", b"%d" % number))
    files.roll()
    before = files.pairs()
    files.clean(dedupe_bytes=24 * 64)
    reached = files.first_dirty
    assert 0 < reached < files.end
    assert reached % 11 == 0
    assert files.pairs() == [
        (offset, key, value) for offset, key, value in before if offset >= reached - 1 or key != b"a"
    ]


def test_a_segment_that_is_half_dirty(files: Files) -> None:
    files.put((b"a", b"1"), (b"b", b"1"))
    files.put((b"c", b"1"), (b"b", b"2"))
    files.first_dirty = 2
    files.roll()
    files.clean()
    assert files.pairs() == [(0, b"a", b"1"), (2, b"c", b"1"), (3, b"b", b"2")]


def test_a_map_too_small_for_a_batch(files: Files) -> None:
    files.put(*((b"%d" % n, b"1") for n in range(100)))
    files.roll()
    with pytest.raises(StorageFailure, match="cannot hold"):
        files.clean(dedupe_bytes=1)


def test_no_segments(files: Files) -> None:
    assert files.clean().replacements == ()


# Producers and transactions


def test_a_living_producers_last_batch_stays(files: Files) -> None:
    files.put((b"a", b"1"), (b"b", b"1"), producer_id=5, producer_epoch=1, base_sequence=10, codec=Codec.ZSTD)
    files.put((b"a", b"1"), producer_id=6, producer_epoch=1, base_sequence=0)
    files.put((b"a", b"2"), (b"b", b"2"))
    files.roll()
    files.clean(last_sequences={5: 1, 7: 2})
    kept, rest = files.batches()
    assert (kept.base_offset, kept.last_offset, kept.producer, kept.records) == (0, 1, (5, 1, 10), ())
    assert rest.base_offset == 3
    assert files.clean(last_sequences={5: 1}).replacements == ()
    files.clean()
    assert [batch.base_offset for batch in files.batches()] == [3]


def test_aborted_records_are_removed_and_hide_no_earlier_ones(files: Files) -> None:
    files.put((b"a", b"committed"))
    files.put((b"a", b"aborted"), (b"b", b"aborted"), producer_id=1, producer_epoch=0, transactional=True)
    files.finish(1, committed=False)
    files.put((b"c", b"1"), producer_id=1, producer_epoch=0, transactional=True)
    files.finish(1, committed=True)
    files.put((b"d", b"1"))
    files.roll()
    cleaned = files.clean(NOW, delete_retention_ms=1000)
    assert (cleaned.statistics.records_read, cleaned.statistics.records_kept) == (7, 5)
    assert files.pairs() == [(0, b"a", b"committed"), (4, b"c", b"1"), (6, b"d", b"1")]
    assert [batch.base_offset for batch in files.batches() if batch.is_control] == [3, 5]
    assert [(each.producer_id, each.first_offset, each.last_offset) for each in files.indexed_aborted()] == [(1, 1, 3)]


def test_markers_go_after_their_data_and_the_horizon(files: Files) -> None:
    files.put((b"a", b"1"), producer_id=1, producer_epoch=0, transactional=True)
    files.finish(1, committed=True, timestamp=NOW - 5)
    files.put((b"b", b"1"), producer_id=2, producer_epoch=0, transactional=True)
    files.finish(2, committed=False, timestamp=NOW - 5)
    files.put((b"a", b"2"))
    files.roll()

    def markers() -> list[tuple[int, int | None]]:
        return [(batch.base_offset, batch.horizon) for batch in files.batches() if batch.is_control]

    files.clean(NOW, delete_retention_ms=1000)
    assert markers() == [(1, None), (3, None)]
    files.clean(NOW + 1, delete_retention_ms=1000)
    assert markers() == [(1, NOW + 1001), (3, NOW + 1001)]
    assert [batch.records[0].timestamp for batch in files.batches() if batch.is_control] == [NOW - 5, NOW - 5]
    assert files.indexed_aborted() == []
    files.clean(NOW + 1000)
    assert len(markers()) == 2
    files.clean(NOW + 1001)
    assert markers() == []
    assert files.pairs() == [(4, b"a", b"2")]


def test_each_marker_is_for_its_own_transaction(files: Files) -> None:
    files.put((b"a", b"1"), producer_id=1, producer_epoch=0, transactional=True)
    files.finish(1, committed=True)
    files.put((b"b", b"1"), producer_id=1, producer_epoch=0, transactional=True)
    files.finish(1, committed=True)
    files.put((b"b", b"2"))
    files.roll()
    files.clean(NOW)
    files.clean(NOW)
    assert [(batch.base_offset, batch.horizon is None) for batch in files.batches() if batch.is_control] == [
        (1, True),
        (3, False),
    ]


def test_an_abort_before_the_dirty_part_does_not_affect_later_records(files: Files) -> None:
    files.put((b"a", b"aborted"), producer_id=1, producer_epoch=0, transactional=True)
    files.finish(1, committed=False)
    files.roll()
    files.clean()
    files.put((b"a", b"1"), producer_id=1, producer_epoch=0, transactional=True)
    files.finish(1, committed=True)
    files.put((b"a", b"2"), producer_id=1, producer_epoch=0, transactional=True)
    files.finish(1, committed=True)
    files.roll()
    files.clean()
    assert files.pairs() == [(4, b"a", b"2")]


def test_a_transaction_with_its_marker_in_the_active_segment(files: Files) -> None:
    files.put((b"a", b"committed"))
    files.put((b"a", b"aborted"), producer_id=1, producer_epoch=0, transactional=True)
    files.put((b"b", b"1"))
    files.roll()
    files.finish(1, committed=False)
    files.clean()
    assert files.pairs() == [(0, b"a", b"committed"), (2, b"b", b"1")]
    files.put((b"c", b"1"))
    files.roll()
    files.clean()
    assert files.pairs() == [(0, b"a", b"committed"), (2, b"b", b"1"), (4, b"c", b"1")]


def test_other_control_batches_stay(files: Files) -> None:
    files.add([Record(0, NOW, struct.pack(">hh", 0, 2), b"leader")], control=True)
    files.put((b"a", b"1"))
    files.roll()
    files.clean(NOW, delete_retention_ms=0)
    files.clean(LONG_AFTER, delete_retention_ms=0)
    assert [batch.is_control for batch in files.batches()] == [True, False]


# Readers


def test_aiokafka_reads_cleaned_segments(files: Files) -> None:
    for codec in Codec:
        files.put(*((b"%d" % n, b"%d" % codec) for n in range(codec, 10)), (b"gone", None), codec=codec)
    files.roll()
    files.clean()
    reader = MemoryRecords(files.path(0).read_bytes())
    found = []
    while reader.has_next():
        part = reader.next_batch()
        assert part.validate_crc()
        found += [(record.offset, record.key, record.value) for record in part]
    assert found == files.pairs()
    assert len(found) == 11


# Damage


def damaged(files: Files, position: int, flip: int = 1) -> DamagedSegment:
    path = files.path(0)
    data = bytearray(path.read_bytes())
    data[position] ^= flip
    path.write_bytes(data)
    with pytest.raises(DamagedSegment) as raised:
        clean(files.job())
    assert raised.value.path == str(path)
    assert {each.suffix for each in files.directory.iterdir()} <= {".kafka", ".cleaned"}
    return raised.value


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_flipped_bit(files: Files, magic: int) -> None:
    files.put((b"a", b"1"), magic=magic)
    size = files.path(0).stat().st_size
    files.put((b"b", b"value"), magic=magic)
    files.roll()
    assert damaged(files, files.path(0).stat().st_size - 1).position == size


def test_a_size_that_cannot_be(files: Files) -> None:
    files.put((b"a", b"1"))
    size = files.path(0).stat().st_size
    files.put((b"b", b"1"))
    files.roll()
    assert damaged(files, size + 8, 0x40).position == size


def test_an_offset_that_goes_back(files: Files) -> None:
    files.put((b"a", b"1"), (b"b", b"1"))
    size = files.path(0).stat().st_size
    files.end = 1
    files.put((b"b", b"1"))
    files.roll()
    with pytest.raises(DamagedSegment, match="not larger than the one before") as raised:
        clean(files.job())
    assert raised.value.position == size


def test_a_file_that_is_shorter_than_it_should_be(files: Files) -> None:
    files.put((b"a", b"1"))
    files.put((b"b", b"1"))
    files.roll()
    job = files.job()
    os.truncate(files.path(0), files.path(0).stat().st_size - 3)
    with pytest.raises(DamagedSegment, match="ends before"):
        clean(job)
