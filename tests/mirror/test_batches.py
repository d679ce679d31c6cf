"""Batches for the target, compared with records that are decoded one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.errors import CorruptRecords
from pylogbroker.mirror.batches import ConvertedRecords, Producer, mirrored
from pylogbroker.records import HEADER_V2, Codec, Record, TimestampType, build, end_marker, entries
from pylogbroker.records.batch import with_last_offset

PRODUCER = Producer(77, 3, is_transactional=True)


def records(count: int, base: int = 0, step: int = 1, size: int = 10) -> list[Record]:
    return [
        Record(base + number * step, 1_000 + number * 7, b"k%d" % number, bytes([number % 251]) * size, (("h", b"x"),))
        for number in range(count)
    ]


def fetched(*parts: bytes, position: int = 0, aborted: tuple[tuple[int, int], ...] = ()) -> ConvertedRecords:
    result = mirrored(b"".join(parts), position, aborted)
    assert result is not None
    return result


def written(result: ConvertedRecords) -> list[Record]:
    """Return the records as a broker reads them that appended the sealed batches."""
    rows: list[Record] = []
    sequence = 0
    for batch in result.batches:
        [entry] = entries(batch.sealed(PRODUCER, sequence))
        entry.check()
        assert (entry.producer_id, entry.producer_epoch, entry.base_sequence) == (77, 3, sequence)
        assert entry.is_transactional
        assert not entry.is_control
        assert entry.timestamp_type is TimestampType.CREATE_TIME
        assert entry.count == entry.last_offset - entry.base_offset + 1
        decoded = list(entry.records())
        assert entry.max_timestamp == max(row.timestamp for row in decoded)
        rows += decoded
        sequence += entry.count
    return rows


def contents(rows: list[Record]) -> list[tuple[object, ...]]:
    return [(row.timestamp, row.key, row.value, row.headers) for row in rows]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_compressed_batch_keeps_its_bytes(codec: Codec) -> None:
    source = build(records(50, base=500), base_offset=None, codec=codec, leader_epoch=4)
    result = fetched(source, position=500)
    [batch] = result.batches
    assert batch.sealed(PRODUCER, 0)[HEADER_V2.size :] == source[HEADER_V2.size :]
    assert (batch.first_offset, batch.next_offset, batch.offsets) == (500, 550, None)
    assert contents(written(result)) == contents(records(50))
    assert (result.next_offset, result.leader_epoch, result.skipped) == (550, 4, 0)


def test_large_uncompressed_batch_keeps_its_bytes() -> None:
    source = build(records(300, size=1_000))
    [batch] = fetched(source).batches
    assert bytes(batch.payload) == source[HEADER_V2.size :]


def test_small_batches_become_one() -> None:
    parts = [build(records(2, base=offset), base_offset=None) for offset in range(0, 20, 2)]
    result = fetched(*parts)
    [batch] = result.batches
    assert batch.count == 20
    assert contents(written(result)) == contents(records(2)) * 10


def test_joined_batches_stay_below_the_limit() -> None:
    parts = [build(records(1, base=offset, size=9_000), base_offset=None) for offset in range(100)]
    result = fetched(*parts)
    assert all(batch.size <= 262_144 for batch in result.batches)
    assert len(result.batches) > 1
    assert contents(written(result)) == contents(records(1, size=9_000)) * 100


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_gaps_of_a_compacted_batch_are_closed(codec: Codec) -> None:
    source = with_last_offset(build(records(5, base=10, step=3), base_offset=None, codec=codec), 40)
    result = fetched(source, position=10)
    [batch] = result.batches
    assert contents(written(result)) == contents(records(5))
    assert batch.codec == codec
    assert batch.offsets == (10, 13, 16, 19, 22)
    assert (batch.next_offset, result.next_offset, result.skipped) == (41, 41, 31 - 5)


def test_batch_that_begins_before_the_position_is_cut() -> None:
    result = fetched(build(records(10, base=100), base_offset=None, codec=Codec.LZ4), position=104)
    assert contents(written(result)) == contents(records(10)[4:])
    assert [batch.first_offset for batch in result.batches] == [104]


def test_append_times_become_times_of_the_records() -> None:
    source = build(records(3), timestamp_type=TimestampType.LOG_APPEND_TIME, append_time=99_000, codec=Codec.GZIP)
    assert [row.timestamp for row in written(fetched(source))] == [99_000] * 3


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_old_messages_become_batches(magic: int, codec: Codec) -> None:
    rows = [Record(20 + n, 5_000 + n if magic else -1, None, b"v%d" % n) for n in range(6)]
    source = build(rows, magic=magic, codec=codec, base_offset=20)
    result = fetched(source, position=20)
    assert contents(written(result)) == contents(rows)
    assert [batch.codec for batch in result.batches] == [codec]
    assert result.next_offset == 26


def test_aborted_records_and_markers_are_left_out() -> None:
    parts = [
        build(records(2), base_offset=0, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True),
        build(records(3), base_offset=2, producer_id=6, producer_epoch=0, base_sequence=0, transactional=True),
        _at(end_marker(committed=False, coordinator_epoch=1, producer_id=5, producer_epoch=0, timestamp=1), 5),
        _at(end_marker(committed=True, coordinator_epoch=1, producer_id=6, producer_epoch=0, timestamp=1), 6),
        build(records(1), base_offset=7, producer_id=5, producer_epoch=0, base_sequence=2, transactional=True),
    ]
    result = fetched(*parts, aborted=((5, 0),))
    assert contents(written(result)) == contents(records(3) + records(1))
    assert [batch.first_offset for batch in result.batches] == [2, 7]
    assert (result.next_offset, result.skipped) == (8, 4)


def test_only_markers_move_the_position() -> None:
    marker = _at(end_marker(committed=True, coordinator_epoch=1, producer_id=6, producer_epoch=0, timestamp=1), 6)
    result = fetched(marker, position=6)
    assert (result.batches, result.next_offset) == ((), 7)


def test_emptied_batch_moves_the_position() -> None:
    source = with_last_offset(build(records(2, base=3), base_offset=None), 8)
    emptied = bytearray(source[: HEADER_V2.size])
    emptied[57:61] = bytes(4)
    emptied[8:12] = (HEADER_V2.size - 12).to_bytes(4, "big")
    result = fetched(bytes(emptied), position=3)
    assert (result.batches, result.next_offset) == ((), 9)


def test_cut_off_entry_is_left_for_the_next_fetch() -> None:
    first, second = build(records(2)), build(records(2, base=2), base_offset=None)
    assert fetched(first, second[:-1]).next_offset == 2
    assert mirrored(first[:-1], 0) is None


def test_damaged_batch_is_not_passed_on() -> None:
    source = bytearray(build(records(5), codec=Codec.ZSTD))
    source[-3] ^= 1
    with pytest.raises(CorruptRecords, match="CRC"):
        mirrored(bytes(source), 0)


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 3), st.sampled_from(Codec)), max_size=12), st.integers(0, 30)
)
def test_every_record_from_the_position_on_is_passed_on_once(
    layout: list[tuple[int, int, Codec]], position: int
) -> None:
    parts: list[bytes] = []
    source: list[Record] = []
    offset = 0
    for count, gap, codec in layout:
        rows = records(count, base=offset, step=1 + gap)
        parts.append(build(rows, base_offset=None, codec=codec))
        source += rows
        offset = rows[-1].offset + 1
    result = mirrored(b"".join(parts), position)
    expected = [row for row in source if row.offset >= position]
    if result is None:
        assert not expected
        return
    assert contents(written(result)) == contents(expected)
    offsets: list[int] = []
    for batch in result.batches:
        offsets += batch.offsets or range(batch.first_offset, batch.first_offset + batch.count)
    assert offsets == [row.offset for row in expected]


def _at(marker: bytes, offset: int) -> bytes:
    return offset.to_bytes(8, "big") + marker[8:]
