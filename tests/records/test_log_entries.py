from __future__ import annotations

import struct

import pytest

from pylogbroker.errors import CorruptRecords, ErrorCode, InvalidRecords
from pylogbroker.records import (
    ENTRY_PREFIX,
    HEADER_V2,
    Codec,
    Record,
    TimestampType,
    build,
    complete_entries,
    crc32c,
    decode_varint,
    encode_varint,
    entries,
)
from pylogbroker.records.batch import read_records
from pylogbroker.records.log_entry import last_entry
from tests.records.memory_growth import peak_growth

RECORDS = [Record(0, 10, b"k", b"first"), Record(1, 30, None, b"second"), Record(2, 20, b"", None)]


def sealed(payload: bytes, count: int = 1, attributes: int = 0, **header: int) -> bytes:
    """A v2 batch around `payload` whose CRC is right, whatever it says."""
    fields = {"base": 0, "epoch": 0, "last": count - 1, "first": 0, "newest": 0} | header
    rest = struct.pack(
        ">hiqqqhii", attributes, fields["last"], fields["first"], fields["newest"], -1, -1, -1, count
    ) + payload  # fmt: skip
    return struct.pack(">qiibI", fields["base"], len(rest) + 9, fields["epoch"], 2, crc32c(rest)) + rest


def test_headers_of_several_entries_in_a_row() -> None:
    data = build(RECORDS, base_offset=5) + build(RECORDS[:1], base_offset=8, codec=Codec.SNAPPY)
    first, second = entries(bytearray(data))
    assert (first.base_offset, first.last_offset, first.next_offset, first.count) == (5, 7, 8, 3)
    assert (first.first_timestamp, first.max_timestamp, first.codec) == (10, 30, Codec.NONE)
    assert (first.producer_id, first.producer_epoch, first.base_sequence, first.last_sequence) == (-1, -1, -1, -1)
    assert (second.base_offset, second.last_offset, second.codec) == (8, 8, Codec.SNAPPY)
    assert first.size + second.size == len(data)
    assert bytes(first.buffer) + bytes(second.buffer) == data


def test_last_entry_of_complete_ones() -> None:
    first, second = build(RECORDS, base_offset=5), build(RECORDS[:1], base_offset=8)
    for data in (first + second, bytearray(first + second), first + second + first[:-1], first + second + first[:5]):
        last = last_entry(data)
        assert last is not None
        assert (last.base_offset, last.next_offset, bytes(last.buffer)) == (8, 9, second)


def test_truncated_entry_alone_is_no_last_entry() -> None:
    assert last_entry(b"") is None
    assert last_entry(build(RECORDS)[:-1]) is None


def test_complete_entries_of_a_buffer_that_ends_anywhere() -> None:
    one, two = build(RECORDS, base_offset=5), build(RECORDS[:1], base_offset=8)
    whole = one + two
    for size in range(len(whole) + 1):
        complete = whole if size == len(whole) else one if size >= len(one) else b""
        assert complete_entries(whole[:size]) == complete


def test_damage_before_the_last_entry_is_found() -> None:
    damaged = bytearray(build(RECORDS))
    damaged[16] = 9
    with pytest.raises(CorruptRecords, match="magic 9"):
        last_entry(bytes(damaged) + build(RECORDS, base_offset=3))


def test_messages_of_v1() -> None:
    data = build(RECORDS, magic=1, base_offset=5)
    assert [(entry.base_offset, entry.last_offset, entry.count, entry.max_timestamp) for entry in entries(data)] == [
        (5, 5, 1, 10),
        (6, 6, 1, 30),
        (7, 7, 1, 20),
    ]


def test_a_compressed_set_shows_its_last_offset() -> None:
    [entry] = entries(build(RECORDS, magic=1, base_offset=5, codec=Codec.GZIP))
    assert (entry.base_offset, entry.last_offset, entry.count, entry.max_timestamp) == (7, 7, -1, 30)
    assert [each.offset for each in entry.records()] == [5, 6, 7]


def test_offsets_inside_of_compressed_sets() -> None:
    """v0 keeps absolute offsets inside, v1 relative ones."""
    import gzip

    for magic, inside in ((0, [5, 6, 7]), (1, [0, 1, 2])):
        [entry] = entries(build(RECORDS, magic=magic, base_offset=5, codec=Codec.GZIP))
        body = gzip.decompress(bytes(entry.buffer[26 if magic == 0 else 34 :]))
        assert [inner.base_offset for inner in entries(body)] == inside


def test_sequences_go_round() -> None:
    [entry] = entries(build(RECORDS, producer_id=1, producer_epoch=0, base_sequence=(1 << 31) - 2))
    assert entry.last_sequence == 0


def test_prefix_and_header_sizes() -> None:
    assert (ENTRY_PREFIX, HEADER_V2.size) == (12, 61)
    assert len(build([Record(0, 0, None, None)])) == 61 + 7


def test_cut_off_entries() -> None:
    data = build(RECORDS) + build(RECORDS, base_offset=3)
    half = len(data) // 2
    for length in range(half, 2 * half):
        assert [entry.last_offset for entry in entries(data[:length], partial=True)] == [2]
        if length > half:
            with pytest.raises(CorruptRecords):
                list(entries(data[:length]))
    assert list(entries(b"")) == []


@pytest.mark.parametrize(("magic", "size"), [(3, 100), (-1, 100), (0, 13), (1, 21), (2, 48), (2, -1), (0, -5)])
def test_invalid_entry_headers_are_corrupt(magic: int, size: int) -> None:
    data = struct.pack(">qi4xb", 7, size, magic) + bytes(200)
    for partial in (True, False):
        with pytest.raises(CorruptRecords):
            list(entries(data, partial=partial))


def test_the_claimed_size_of_an_entry_allocates_nothing() -> None:
    data = struct.pack(">qi4xb", 7, (1 << 31) - 1, 2) + bytes(200)
    with peak_growth() as growth, pytest.raises(CorruptRecords):
        list(entries(data))
    assert growth.bytes < 1 << 20


def test_a_claimed_count_of_records_allocates_nothing() -> None:
    [entry] = entries(sealed(b"\x0c\0\0\0\1\1\0", count=(1 << 31) - 1))
    entry.check()
    found: list[Record] = []
    with peak_growth() as growth, pytest.raises(CorruptRecords):
        found.extend(entry.records())
    assert [(record.key, record.value) for record in found] == [(None, None)]
    assert growth.bytes < 1 << 20


def record_bytes(*fields: bytes, length: int | None = None) -> bytes:
    body = b"\0" + b"".join(fields)
    return encode_varint(len(body) if length is None else length) + body


HUGE = encode_varint((1 << 31) - 1)
NULL = encode_varint(-1)
ZERO = b"\0"
BAD_RECORDS = {
    "nothing": b"",
    "negative length": record_bytes(ZERO, ZERO, NULL, NULL, ZERO, length=-7),
    "length beyond the batch": record_bytes(ZERO, ZERO, NULL, NULL, ZERO, length=7),
    "length of 2^31-1": record_bytes(ZERO, ZERO, NULL, NULL, ZERO, length=(1 << 31) - 1),
    "length below the fields": record_bytes(ZERO, ZERO, NULL, NULL, ZERO, length=5) + ZERO,
    "length above the fields": record_bytes(ZERO, ZERO, NULL, NULL, ZERO, b"rest"),
    "key of 2^31-1": record_bytes(ZERO, ZERO, HUGE, NULL, ZERO),
    "value of 2^31-1": record_bytes(ZERO, ZERO, NULL, HUGE, ZERO),
    "2^31-1 headers": record_bytes(ZERO, ZERO, NULL, NULL, HUGE),
    "-1 headers": record_bytes(ZERO, ZERO, NULL, NULL, NULL),
    "header without a key": record_bytes(ZERO, ZERO, NULL, NULL, encode_varint(1), NULL, NULL),
    "header key of 2^31-1": record_bytes(ZERO, ZERO, NULL, NULL, encode_varint(1), HUGE, NULL),
    "header value of 2^31-1": record_bytes(ZERO, ZERO, NULL, NULL, encode_varint(1), ZERO, HUGE),
    "endless varint": record_bytes(b"\xff" * 40),
    "timestamp beyond 64 bits": record_bytes(encode_varint((1 << 63) - 1), ZERO, NULL, NULL, ZERO),
    "offset delta beyond 32 bits": record_bytes(ZERO, encode_varint(1 << 40), NULL, NULL, ZERO),
    "bytes behind the records": record_bytes(ZERO, ZERO, NULL, NULL, ZERO) + b"more",
    "half a record": record_bytes(ZERO, ZERO, NULL, NULL),
}


@pytest.mark.parametrize("name", BAD_RECORDS)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD], ids=str)
def test_records_that_contradict_themselves(name: str, codec: Codec) -> None:
    import zstandard

    payload = zstandard.compress(BAD_RECORDS[name]) if codec else BAD_RECORDS[name]
    [entry] = entries(sealed(payload, attributes=int(codec), first=1000))
    entry.check()
    with peak_growth() as growth, pytest.raises(CorruptRecords):
        list(entry.records())
    assert growth.bytes < 1 << 20


def test_a_good_record_passes_the_same_road() -> None:
    [entry] = entries(sealed(record_bytes(ZERO, ZERO, NULL, encode_varint(1) + b"v", ZERO), first=1000))
    entry.check()
    assert list(entry.records()) == [Record(0, 1000, None, b"v")]


def test_an_empty_batch_as_compaction_leaves_it() -> None:
    [entry] = entries(sealed(b"", count=0, last=9, base=20))
    entry.check()
    assert (entry.base_offset, entry.last_offset, list(entry.records())) == (20, 29, [])


def test_header_keys_that_are_not_utf8_pass_through() -> None:
    field = encode_varint(2) + b"\xff\xfe"
    payload = record_bytes(ZERO, ZERO, NULL, NULL, encode_varint(1), field, encode_varint(1) + b"v")
    records = list(read_records(payload, 1, 0, 0, None))
    assert bytes(next(entries(build(records))).buffer[61:]) == payload


def test_codecs_that_do_not_exist() -> None:
    [entry] = entries(sealed(b"", attributes=6))
    with pytest.raises(InvalidRecords) as caught:
        entry.records()
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize(
    ("records", "options", "code"),
    [
        ([], {}, ErrorCode.INVALID_RECORD),
        ([], {"magic": 1, "codec": Codec.GZIP}, ErrorCode.INVALID_RECORD),
        ([Record(3, 0, None, None), Record(3, 0, None, None)], {"base_offset": None}, ErrorCode.INVALID_RECORD),
        (
            [Record(3, 0, None, None), Record(2, 0, None, None)],
            {"base_offset": None, "magic": 0},
            ErrorCode.INVALID_RECORD,
        ),
        ([Record(0, 1 << 63, None, None)], {}, ErrorCode.INVALID_RECORD),
        ([Record(0, 1 << 63, None, None)], {"magic": 1}, ErrorCode.INVALID_RECORD),
        ([Record(0, 0, None, None), Record(1 << 40, 0, None, None)], {"base_offset": None}, ErrorCode.INVALID_RECORD),
        ([Record(0, 0, None, None)], {"magic": 1, "producer_id": 3}, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        ([Record(0, 0, None, None)], {"magic": 1, "codec": Codec.ZSTD}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ([Record(0, 0, None, None, (("h", b""),))], {"magic": 0}, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
    ],
)
def test_invalid_batches_are_not_built(records: list[Record], options: dict[str, object], code: ErrorCode) -> None:
    with pytest.raises(InvalidRecords) as caught:
        build(records, **options)  # type: ignore[arg-type]
    assert caught.value.code is code


def test_append_time_replaces_every_timestamp() -> None:
    [entry] = entries(build(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME, append_time=99))
    assert entry.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [(each.timestamp, each.timestamp_type) for each in entry.records()] == [
        (99, TimestampType.LOG_APPEND_TIME)
    ] * 3


def test_varints_in_the_wild_use_the_same_numbers() -> None:
    payload = bytes(next(entries(build(RECORDS[:1]))).buffer[61:])
    length, start = decode_varint(payload, 0)
    assert length == len(payload) - start
