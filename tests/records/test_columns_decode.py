"""Columns hold what `LogEntry.records` finds, in every format and however damaged; and nothing but that."""

from __future__ import annotations

import importlib
import random
import struct
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylogbroker.errors import CorruptRecords, ErrorCode, InvalidRecords, KafkaError
from pylogbroker.records import Codec, Record, TimestampType, build, end_marker, entries
from pylogbroker.records.columnar import AbortedTransactions, Columns, columns_of, decode, entry_groups
from pylogbroker.records.compression import compress
from tests.records.memory_growth import peak_growth
from tests.records.reference_codecs import FORMATS, PEERS, Peer
from tests.records.strategies import alike, records_for
from tests.records.test_decompression_errors import reseal
from tests.records.test_log_entries import BAD_RECORDS, sealed
from tests.support.examples import examples

starts_module = importlib.import_module("pylogbroker.records.columnar.record_starts")
decode_module = importlib.import_module("pylogbroker.records.columnar.decode")  # the package's name is a function's
LOWEST = -(1 << 63)


def rows(columns: Columns) -> list[Record]:
    parts = (columns.offsets.tolist(), columns.timestamps.tolist(), columns.keys(), columns.values())
    kinds = map(TimestampType, columns.timestamp_types.tolist())
    return [Record(*each) for each in zip(*parts, columns.headers(), kinds, strict=True)]


def by_columns(data: bytes, limit: int = 1 << 20) -> tuple[list[Record], ErrorCode | None]:
    """Return the records, and the error that ends them."""
    found: list[Record] = []
    try:
        for columns in decode(data, LOWEST, limit=limit):
            found += rows(columns)
    except KafkaError as error:
        return found, error.code
    return found, None


def one_by_one(data: bytes, limit: int = 1 << 20) -> tuple[list[Record], ErrorCode | None]:
    """Return the records of the plain decoder, which gives all of an entry or nothing."""
    found: list[Record] = []
    try:
        for entry in entries(data, partial=True):
            entry.check()
            records = list(entry.records(limit))
            found += [] if entry.is_control else records
    except KafkaError as error:
        return found, error.code
    return found, None


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Entries of all formats, one after the other, some of them with gaps."""
    data, offset = b"", draw(st.sampled_from([0, 5, 1 << 40]))
    for magic, codec in draw(st.lists(st.sampled_from(FORMATS), min_size=1, max_size=5)):
        gap = draw(st.integers(1, 100))
        kept = [Record(offset + each.offset * gap, *fields(each)) for each in draw(records_for(magic))]
        kind = draw(st.sampled_from(TimestampType))
        data += build(kept, magic=magic, codec=codec, base_offset=None, timestamp_type=kind, append_time=1 << 41)
        offset = kept[-1].offset + draw(st.integers(1, 100))
    return data


def fields(record: Record) -> tuple[Any, ...]:
    return record.timestamp, record.key, record.value, record.headers


@given(logs())
@settings(max_examples=examples(150), deadline=None)
def test_every_format(data: bytes) -> None:
    expected = one_by_one(data)
    assert expected[1] is None
    assert by_columns(data) == expected


@given(st.lists(st.tuples(alike(), st.sampled_from(Codec)), min_size=1, max_size=3))
@settings(max_examples=examples(100), deadline=None)
def test_records_that_are_alike(batches: list[tuple[list[Record], Codec]]) -> None:
    data = b"".join(build(records, codec=codec) for records, codec in batches)
    found, error = by_columns(data)
    assert error is None
    assert [fields(each) for each in found] == [fields(each) for records, _ in batches for each in records]


@pytest.mark.parametrize("length", [1, 100, 1000, 1024])
def test_many_values_of_one_length(length: int) -> None:
    values = [each.to_bytes(8)[-length:].ljust(length, b"\0") for each in range(2000)]
    [columns] = decode(build([Record(each, 5, None, value) for each, value in enumerate(values)]))
    assert columns.values() == values
    assert [type(each) for each in columns.values()] == [bytes] * 2000
    assert columns.keys() == [None] * 2000


@given(logs(), st.data())
@settings(max_examples=examples(300), deadline=None)
def test_damaged_logs(data: bytes, draw: st.DataObject) -> None:
    damaged = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        damaged[draw.draw(st.integers(0, len(data) - 1))] ^= 1 << draw.draw(st.integers(0, 7))
    cut = bytes(damaged[: draw.draw(st.integers(0, len(data)) | st.just(len(data)))])
    assert by_columns(cut) == one_by_one(cut)


@given(records_for(2), st.data())
@settings(max_examples=examples(400), deadline=None)
def test_damage_behind_a_right_crc(records: list[Record], draw: st.DataObject) -> None:
    damaged = bytearray(build(records))
    for _ in range(draw.draw(st.integers(1, 3))):
        place = draw.draw(st.integers(21, len(damaged) - 1))
        damaged[place] = draw.draw(st.integers(0, 255))
    damaged[22] &= ~0x20  # what is a marker is passed over, damaged or not
    data = build(records) + reseal(bytes(damaged)) + build(records)
    assert by_columns(data) == one_by_one(data)


def test_every_changed_byte_behind_a_right_crc() -> None:
    headers = (("a", b"b"), ("c", None))
    plain = build([Record(each, 1500 - each, b"key"[:each], b"value" * each, headers[each:]) for each in range(3)])
    for place in range(21, len(plain)):
        for value in (0, 1, 2, 3, 7, 8, 0x7F, 0x80, 0xFF, plain[place] ^ 2, plain[place] + 2 & 0xFF):
            damaged = bytearray(plain)
            damaged[place] = value
            damaged[22] &= ~0x20
            data = plain + reseal(bytes(damaged))
            assert by_columns(data) == one_by_one(data)


@pytest.mark.parametrize("time", [-(1 << 63), 1 - (1 << 63), -(1 << 61), (1 << 63) - 1])
def test_timestamps_at_the_edge(time: int) -> None:
    payload = build([Record(0, 5, b"k", b"v")])[61:]
    for data in (sealed(payload, attributes=8, newest=time), sealed(payload, first=time)):
        assert by_columns(data) == one_by_one(data)


def test_offsets_at_the_edge() -> None:
    payload = build([Record(0, 5, b"k", b"v")] * 2)[61:]
    for base in (-(1 << 63), 1 << 61, (1 << 63) - 2):
        data = sealed(payload, count=2, base=base)
        assert by_columns(data) == one_by_one(data)
    assert by_columns(sealed(payload, count=2, base=(1 << 63) - 1)) == ([], ErrorCode.CORRUPT_MESSAGE)


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_before_one_that_contradicts_itself(magic: int) -> None:
    good = [build([Record(0, -1, b"k", b"v")], magic=magic, base_offset=each) for each in range(5)]
    key_length = len(good[3]) - 10
    bad = reseal(good[3][:key_length] + struct.pack(">i", 9) + good[3][key_length + 4 :])
    data = b"".join(good[:3]) + bad + good[4]
    found, error = by_columns(data)
    assert ([each.offset for each in found], error) == ([0, 1, 2], ErrorCode.CORRUPT_MESSAGE)
    assert (found, error) == one_by_one(data)


@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_damage_inside_of_compressed_records(draw: st.DataObject) -> None:
    plain = bytearray(build([Record(0, each, b"k", b"v" * each) for each in range(70)])[61:])
    for _ in range(draw.draw(st.integers(1, 3))):
        plain[draw.draw(st.integers(0, len(plain) - 1))] = draw.draw(st.integers(0, 255))
    data = sealed(compress(Codec.LZ4, plain), count=70, attributes=Codec.LZ4)
    assert by_columns(data) == one_by_one(data)


@pytest.mark.parametrize("name", BAD_RECORDS)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD], ids=str)
@pytest.mark.parametrize("count", [1, 300])
def test_records_that_contradict_themselves(name: str, codec: Codec, count: int) -> None:
    good = build([Record(0, 5, b"k", b"v")] * count)
    data = good + sealed(compress(codec, BAD_RECORDS[name]), attributes=int(codec), first=1000)
    with peak_growth() as growth:
        found = by_columns(data)
    assert found == ([*one_by_one(good)[0]], ErrorCode.CORRUPT_MESSAGE)
    assert growth.bytes < 4 << 20


@pytest.mark.parametrize("count", [-1, 0, 2, 1 << 20, (1 << 31) - 1])
def test_wrong_counts(count: int) -> None:
    data = sealed(build([Record(0, 5, b"k", b"v")])[61:], count=count)
    with peak_growth() as growth:
        assert by_columns(data) == ([], ErrorCode.CORRUPT_MESSAGE)
    assert growth.bytes < 4 << 20


def test_lengths_that_go_round_in_64_bits() -> None:
    """Each is beyond the batch, and together they come back into it."""
    huge = bytes([0xFE]) + bytes([0xFF] * 7) + b"\x7f"  # 2^62 - 1
    body = b"\0\0\0" + huge + huge + b"\0" * 20
    data = sealed(bytes([len(body) << 1]) + body)
    assert by_columns(data) == ([], ErrorCode.CORRUPT_MESSAGE)


def many(batches: int, count: int, shape: str) -> list[Record]:
    source = random.Random(7)
    sizes = {
        "alike": lambda: 100,
        "varied": lambda: source.randrange(300),
        "long": lambda: source.randrange(9000, 20000),
    }
    return [
        Record(offset, 1000 + source.randrange(9), None, source.randbytes(sizes[shape]()))
        for offset in range(batches * count)
    ]


@pytest.mark.parametrize("shape", ["alike", "varied", "long"])
@pytest.mark.parametrize(("batches", "count"), [(1, 1), (1, 70), (3, 9), (600, 2), (300, 1)])
def test_many_batches(shape: str, batches: int, count: int) -> None:
    records = many(batches, count, shape)
    starts = range(0, len(records), count)
    data = b"".join(build(records[start : start + count], base_offset=start) for start in starts)
    assert by_columns(data) == (records, None)


@pytest.mark.parametrize("shape", ["alike", "varied", "long"])
@pytest.mark.parametrize(("batches", "count"), [(1, 1), (1, 70), (3, 9), (600, 2), (300, 1)])
def test_regular_batches_are_decoded_together(
    shape: str, batches: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(decode_module, "_one_by_one")
    test_many_batches(shape, batches, count)
    headed = [Record(each, 5, b"k" * each, None, (("a", b"b" * each),) * (each % 4)) for each in range(200)]
    assert by_columns(build(headed)) == (headed, None)


@pytest.mark.parametrize("count", [64, 65, 8191, 8192, 8193, 20_000])
def test_long_batches(count: int) -> None:
    for size in (1, 57, 100):
        records = [Record(offset, 5, None, b"x" * size) for offset in range(count)]
        assert by_columns(build(records)) == (records, None)


def test_batches_of_uniform_records_are_not_iterated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(starts_module, "_sequential_starts")
    monkeypatch.delattr(starts_module, "find_in_parallel")
    records = [Record(offset, 5, None, b"x" * 100) for offset in range(9000)]
    assert by_columns(build(records)) == (records, None)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_batches_of_other_writers_are_decoded(peer: Peer, magic: int) -> None:
    records = [Record(each, 1500 + each if magic else -1, b"k%d" % each, b"v" * each) for each in range(100)]
    assert by_columns(peer.write(records, magic, Codec.GZIP)) == (records, None)


def offsets(found: Iterable[Columns]) -> list[int]:
    return [offset for columns in found for offset in columns.offsets.tolist()]


def test_from_an_offset_on() -> None:
    for magic in (0, 1, 2):
        data = build([Record(0, 5, None, b"v")] * 9, magic=magic, codec=Codec.GZIP, base_offset=20)
        assert offsets(decode(data, 26)) == [26, 27, 28]
        assert offsets(decode(data, 40)) == []


def transactional(producer: int, base: int, count: int = 2) -> bytes:
    records = [Record(0, 5, None, b"v")] * count
    return build(records, base_offset=base, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)


def marker(producer: int, offset: int, *, committed: bool) -> bytes:
    return struct.pack(">q", offset) + end_marker(committed, 0, producer, 0, 5)[8:]


def interleaved() -> bytes:
    return b"".join((
        transactional(1, 0), transactional(2, 2), build([Record(0, 5, None, b"v")], base_offset=4),
        marker(1, 5, committed=False), transactional(1, 6), marker(2, 8, committed=True),
        transactional(2, 9), marker(1, 11, committed=True), marker(2, 12, committed=False),
    ))  # fmt: skip


def test_markers_are_passed_over() -> None:
    found = list(decode(interleaved()))
    assert offsets(found) == [0, 1, 2, 3, 4, 6, 7, 9, 10]
    assert found[-1].next_offset == 13


def test_aborted_transactions_are_passed_over() -> None:
    found = list(decode(interleaved(), aborted=AbortedTransactions([(2, 9), (1, 0)])))
    assert offsets(found) == [2, 3, 4, 6, 7]
    assert found[-1].next_offset == 13


def test_a_batch_outside_of_any_transaction_is_seen() -> None:
    plain = build([Record(0, 5, None, b"v")], base_offset=2, producer_id=1, producer_epoch=0, base_sequence=0)
    assert offsets(decode(transactional(1, 0) + plain, aborted=AbortedTransactions([(1, 0)]))) == [2]


def test_a_marker_alone_has_no_rows() -> None:
    [columns] = decode(marker(1, 5, committed=False))
    assert (len(columns), columns.next_offset, columns.keys(), columns.headers()) == (0, 6, [], [])


def test_compacted_batches_are_decoded() -> None:
    emptied = sealed(b"", count=0, base=10, last=9)
    data = build([Record(0, 5, None, b"v")] * 70) + emptied
    found = list(decode(data))
    assert offsets(found) == list(range(70))
    assert [columns.next_offset for columns in found] == [20]
    [only] = decode(emptied)
    assert (len(only), only.next_offset) == (0, 20)


def test_the_next_offset_lies_behind_removed_records() -> None:
    data = build([Record(0, 5, None, b"v")] * 3)
    longer = reseal(data[:23] + struct.pack(">i", 9) + data[27:])
    [columns] = decode(longer)
    assert (columns.offsets.tolist(), columns.next_offset) == ([0, 1, 2], 10)


def test_the_next_offset_when_one_by_one() -> None:
    far = build([Record(0, 1 << 62, None, b"v")])
    [columns] = decode(far + marker(1, 5, committed=True))
    assert (columns.timestamps.tolist(), columns.next_offset) == ([1 << 62], 6)


def test_a_cut_off_end() -> None:
    data = build([Record(0, 5, None, b"v")] * 3)
    for length in range(len(data)):
        assert offsets(decode(data + data[:length])) == [0, 1, 2]


def test_batches_before_the_damage_are_decoded() -> None:
    good = build([Record(0, 5, None, b"v")] * 3)
    coming = decode(good + good[:-1] + b"?" + good)
    assert offsets([next(coming)]) == [0, 1, 2]
    with pytest.raises(CorruptRecords):
        next(coming)


def test_unknown_codec() -> None:
    with pytest.raises(InvalidRecords) as caught:
        list(decode(sealed(b"whatever", attributes=7)))
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_any_buffer() -> None:
    data = build([Record(0, 5, b"k", b"v")])
    for kind in (bytearray, memoryview):
        [columns] = decode(kind(data))
        assert (columns.keys(), columns.values()) == ([b"k"], [b"v"])
        assert type(columns.values()[0]) is bytes


def test_in_place() -> None:
    """Records are passed over in between; a compressed batch cannot be decoded in place."""
    records = [Record(each, 5, b"k" * each, None, (("a", b"b"),) * (each % 2)) for each in range(30)]
    lot = [build(records[:10]), marker(1, 10, committed=True), build(records[11:20], base_offset=11)]
    for codec in (Codec.NONE, Codec.LZ4):
        data = b"".join([*lot, build(records[20:], base_offset=20, codec=codec)])
        [group] = entry_groups(data)
        [columns] = columns_of(group, in_place=True)
        assert rows(columns) == records[:10] + records[11:]
        assert isinstance(columns.raw, memoryview) == (codec is Codec.NONE)


def test_bombs_are_inflated_a_piece_at_a_time() -> None:
    bomb = build([Record(0, 5, None, bytes(10 << 20))], codec=Codec.ZSTD)
    coming = entry_groups(bomb * 20)
    with peak_growth() as growth:
        found = sum(len(group.payloads) for group in coming)
    assert found == 20
    assert growth.bytes < 64 << 20
    with pytest.raises(CorruptRecords):
        list(decode(bomb, limit=1 << 20))


def test_old_bombs_are_inflated_one_at_a_time() -> None:
    bomb = build([Record(0, 5, None, bytes(10 << 20))], magic=1, codec=Codec.GZIP)
    with peak_growth() as growth:
        found = sum(len(columns) for columns in decode(bomb * 20))
    assert found == 20
    assert growth.bytes < 128 << 20
