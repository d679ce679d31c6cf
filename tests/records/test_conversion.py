from __future__ import annotations

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylogbroker.errors import CorruptRecords, ErrorCode, InvalidRecords
from pylogbroker.records import Codec, Record, SizeBudget, TimestampType, build, down_convert, entries, up_convert
from pylogbroker.records.columnar import encode
from tests.records.memory_growth import peak_growth
from tests.records.reference_codecs import FORMATS, PEER_FORMATS, PEERS
from tests.records.strategies import records, records_for
from tests.support.examples import examples

OLD_FORMATS = [each for each in PEER_FORMATS if each[0] < 2]
OLD_CODECS = [codec for codec in Codec if codec is not Codec.ZSTD]
KAFKA_PYTHON = PEERS[0]


def down(data: bytes, magic: int, first_offset: int = 0, limit: int = 1 << 30) -> bytes:
    return down_convert(data, magic, SizeBudget(limit), first_offset)


def up(data: bytes) -> bytes:
    converted, size, _ = up_convert(data)
    assert size == len(data)
    return converted


def read(data: bytes) -> list[Record]:
    return [record for entry in entries(data) for record in entry.records()]


def plain(record: Record, magic: int) -> Record:
    """Return the fields of a record that format `magic` keeps."""
    return attrs.evolve(record, headers=(), timestamp=record.timestamp if magic else -1)


@pytest.mark.parametrize(("magic", "codec"), OLD_FORMATS, ids=str)
@given(data=st.data())
@settings(max_examples=examples(15), deadline=None)
def test_up_conversion_keeps_records_of_old_producers(magic: int, codec: Codec, data: st.DataObject) -> None:
    written = data.draw(records_for(magic))
    converted = up(KAFKA_PYTHON.write(written, magic, codec))
    assert {(entry.magic, entry.codec, entry.leader_epoch) for entry in entries(converted)} == {(2, codec, -1)}
    assert KAFKA_PYTHON.read(converted) == written


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS, ids=lambda codec: codec.name)
@given(written=records(), base=st.integers(0, 1 << 40))
@settings(max_examples=examples(15), deadline=None)
def test_down_conversion_drops_headers_only(magic: int, codec: Codec, written: list[Record], base: int) -> None:
    converted = down(build(written, codec=codec, base_offset=base), magic)
    assert {(entry.magic, entry.codec) for entry in entries(converted)} == {(magic, codec)}
    expected = [attrs.evolve(plain(each, magic), offset=base + each.offset) for each in written]
    assert read(converted) == expected
    if (magic, codec) in PEER_FORMATS:
        assert KAFKA_PYTHON.read(converted) == expected


def test_v1_goes_down_to_v0_but_not_to_itself() -> None:
    packed = build([Record(0, 5, b"k", b"v" * 999)], magic=1, codec=Codec.GZIP, level=0)
    assert down(packed, 1) == packed
    old = build([Record(0, 5, b"k", b"v")], magic=1, base_offset=9)
    assert read(down(old, 0)) == [Record(9, -1, b"k", b"v")]


@pytest.mark.parametrize(("magic", "codec"), FORMATS, ids=str)
def test_offset_gaps_are_kept(magic: int, codec: Codec) -> None:
    gappy = [Record(offset, -1 if magic == 0 else offset, None, b"v") for offset in (10, 12, 19)]
    data = build(gappy, magic=magic, codec=codec, base_offset=None)
    assert read(up(data)) == gappy
    if codec is not Codec.ZSTD:
        assert [each.offset for each in read(down(data, 0))] == [10, 12, 19]


def test_messages_one_after_the_other_become_one_batch() -> None:
    v2 = build([Record(0, 9, None, b"v2")], base_offset=4)
    late = {"magic": 1, "timestamp_type": TimestampType.LOG_APPEND_TIME}
    data = b"".join(
        [
            build([Record(0, 5, None, b"a"), Record(1, 6, None, None)], magic=1),
            build([Record(0, 0, b"k", b"c")], base_offset=2, append_time=70, **late),
            build([Record(0, 0, b"k", b"d")], base_offset=3, append_time=71, **late),
            v2,
            build([Record(0, -1, None, b"e")], magic=0, base_offset=7),
        ]
    )
    converted = list(entries(up(data)))
    assert [(entry.base_offset, entry.count, entry.max_timestamp) for entry in converted] == [
        (0, 2, 6), (2, 1, 70), (3, 1, 71), (4, 1, 9), (7, 1, -1)
    ]  # fmt: skip
    assert bytes(converted[3].buffer) == v2
    many = build([Record(n, n, None, b"v") for n in range(1700)], magic=1)
    assert len(list(entries(up(many)))) == 4
    assert len(up(many)) < len(many)


def test_up_conversion_ends_before_damaged_or_truncated_messages() -> None:
    sound = build([Record(0, 5, None, b"v")], magic=1)
    whole = build([Record(0, 5, None, b"w")], magic=1, base_offset=1)
    damaged = whole[:-1] + b"x"
    for data in (sound + damaged, sound + whole[:-1]):
        converted, size, _ = up_convert(data)
        assert (read(converted), size) == (read(sound), len(sound))
    with pytest.raises(CorruptRecords):
        up_convert(damaged)
    assert up_convert(whole[:-1]) == (b"", 0, 0)


def test_control_batches_are_left_out() -> None:
    marker = build([Record(0, 5, b"\0\0\0\1", b"\0\0\0\0\0\7")], base_offset=1, producer_id=4, control=True)
    data = build([Record(0, 5, b"a", None)], producer_id=4, producer_epoch=0, base_sequence=0, transactional=True)
    assert [each.key for each in read(down(data + marker + build([Record(0, 6, b"b", None)], base_offset=2), 1))] == [
        b"a",
        b"b",
    ]
    assert down(marker, 0) == b""


@pytest.mark.parametrize("codec", OLD_CODECS, ids=lambda codec: codec.name)
def test_readers_begin_at_their_offset(codec: Codec) -> None:
    data = build([Record(0, 5, None, b"v")] * 3, codec=codec, base_offset=5)
    assert [each.offset for each in read(down(data, 1, first_offset=6))] == [6, 7]


@pytest.mark.parametrize(("magic", "overhead"), [(0, 26), (1, 34)])
@pytest.mark.parametrize("codec", OLD_CODECS, ids=lambda codec: codec.name)
@given(written=st.lists(st.lists(st.binary(max_size=90), min_size=1), min_size=1), limit=st.integers(0, 500))
@settings(max_examples=examples(15), deadline=None)
def test_repeated_down_conversion_within_a_limit_returns_all_records(
    magic: int, overhead: int, codec: Codec, written: list[list[bytes]], limit: int
) -> None:
    data, end = b"", 0
    for values in written:
        data += build([Record(0, 5, None, value) for value in values], codec=codec, base_offset=end)
        end += len(values)
    found: list[Record] = []
    while len(found) < end:
        part = read(down(data, magic, len(found), limit))
        assert part[0].offset == len(found)
        assert len(part) == 1 or sum(overhead + len(record.value or b"") for record in part) <= limit
        found += part
    assert [record.value for record in found] == [value for values in written for value in values]


def test_unconverted_messages_count_towards_the_limit() -> None:
    old = build([Record(0, 5, None, b"v" * 66)] * 3, magic=1)
    new = build([Record(0, 5, None, b"v" * 66)], base_offset=3)
    sizes = [len(down(old + new, 1, limit=limit)) for limit in (0, 199, 200, 299, 300, 399, 400)]
    assert sizes == [100, 100, 200, 200, 300, 300, 400]


@pytest.mark.parametrize("first_offset", [0, 199_000])
def test_a_small_batch_of_very_many_records_takes_little_memory(first_offset: int) -> None:
    count = 200_000
    packed = encode(None, [None] * count, [5] * count, None, codec=Codec.GZIP)
    assert len(packed) < 1 << 20
    with peak_growth() as growth:
        converted = down(packed, 1, first_offset, 34 * 1000)
    assert [record.offset for record in KAFKA_PYTHON.read(converted)] == [first_offset + n for n in range(1000)]
    assert growth.bytes < 24 << 20


def test_batches_beyond_the_limit_are_not_decoded() -> None:
    damaged = bytearray(build([Record(0, 5, None, b"v")], codec=Codec.GZIP, base_offset=1))
    damaged[61:] = bytes(len(damaged) - 61)
    data = build([Record(0, 5, None, b"v")]) + damaged
    assert [record.offset for record in read(down(data, 1, limit=35))] == [0]
    with pytest.raises(CorruptRecords):
        down(data, 1)


def test_down_conversion_of_a_huge_message_set_is_bounded() -> None:
    count = 150_000
    packed = build((Record(0, 5, None, None) for _ in range(count)), magic=1, codec=Codec.GZIP, level=1)
    with peak_growth() as growth:
        converted = down(packed, 0, 0, 1 << 20)
    assert len(converted) < 1 << 20
    assert read(converted)[0].offset == 0
    assert growth.bytes < 40 << 20


def test_a_batch_wholly_below_the_offset_disappears() -> None:
    assert down(build([Record(0, 5, None, b"v")] * 3), 1, first_offset=3) == b""


@pytest.mark.parametrize("codec", OLD_CODECS, ids=lambda codec: codec.name)
def test_append_times_are_kept(codec: Codec) -> None:
    late = {"codec": codec, "timestamp_type": TimestampType.LOG_APPEND_TIME, "append_time": 77}
    for converted in (
        down(build([Record(0, 5, None, b"v")], **late), 1),
        up(build([Record(0, 5, None, b"v")], magic=1, **late)),
    ):
        [record] = KAFKA_PYTHON.read(converted)
        assert (record.timestamp, record.timestamp_type) == (77, TimestampType.LOG_APPEND_TIME)
    [entry] = entries(down(build([Record(0, 5, None, b"v")], **late), 0))
    assert entry.timestamp_type is TimestampType.CREATE_TIME


def test_zstd_cannot_be_down_converted() -> None:
    with pytest.raises(InvalidRecords) as caught:
        down(build([Record(0, 5, None, b"v")], codec=Codec.ZSTD), 1)
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_a_cut_off_tail_is_not_converted() -> None:
    data = build([Record(0, 5, None, b"v")])
    assert down(data + data[:-1], 1) == down(data, 1)
