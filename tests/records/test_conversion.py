from __future__ import annotations

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylogbroker.errors import ErrorCode, InvalidRecords
from pylogbroker.records import Codec, Record, TimestampType, build, down_convert, entries, up_convert
from tests.records.peers import FORMATS, PEER_FORMATS, PEERS
from tests.records.strategies import records, records_for

OLD_FORMATS = [each for each in PEER_FORMATS if each[0] < 2]
OLD_CODECS = [codec for codec in Codec if codec is not Codec.ZSTD]
KAFKA_PYTHON = PEERS[0]


def read(data: bytes) -> list[Record]:
    return [record for entry in entries(data) for record in entry.records()]


def plain(record: Record, magic: int) -> Record:
    """What format `magic` keeps of a record."""
    return attrs.evolve(record, headers=(), timestamp=record.timestamp if magic else -1)


@pytest.mark.parametrize(("magic", "codec"), OLD_FORMATS, ids=str)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_up_conversion_keeps_what_old_producers_wrote(magic: int, codec: Codec, data: st.DataObject) -> None:
    written = data.draw(records_for(magic))
    converted = up_convert(KAFKA_PYTHON.write(written, magic, codec), leader_epoch=4)
    assert {(entry.magic, entry.codec, entry.leader_epoch) for entry in entries(converted)} == {(2, codec, 4)}
    assert KAFKA_PYTHON.read(converted) == written


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS, ids=lambda codec: codec.name)
@given(written=records(), base=st.integers(0, 1 << 40))
@settings(max_examples=15, deadline=None)
def test_down_conversion_drops_headers_only(magic: int, codec: Codec, written: list[Record], base: int) -> None:
    converted = down_convert(build(written, codec=codec, base_offset=base), magic)
    assert {(entry.magic, entry.codec) for entry in entries(converted)} == {(magic, codec)}
    expected = [attrs.evolve(plain(each, magic), offset=base + each.offset) for each in written]
    assert read(converted) == expected
    if (magic, codec) in PEER_FORMATS:
        assert KAFKA_PYTHON.read(converted) == expected


def test_v1_goes_down_to_v0_but_not_to_itself() -> None:
    packed = build([Record(0, 5, b"k", b"v" * 999)], magic=1, codec=Codec.GZIP, level=0)
    assert down_convert(packed, 1) == packed
    old = build([Record(0, 5, b"k", b"v")], magic=1, base_offset=9)
    assert read(down_convert(old, 0)) == [Record(9, -1, b"k", b"v")]


@pytest.mark.parametrize(("magic", "codec"), FORMATS, ids=str)
def test_gaps_stay(magic: int, codec: Codec) -> None:
    gappy = [Record(offset, -1 if magic == 0 else offset, None, b"v") for offset in (10, 12, 19)]
    data = build(gappy, magic=magic, codec=codec, base_offset=None)
    assert read(up_convert(data)) == gappy
    if codec is not Codec.ZSTD:
        assert [each.offset for each in read(down_convert(data, 0))] == [10, 12, 19]


def test_control_batches_are_left_out() -> None:
    marker = build([Record(0, 5, b"\0\0\0\1", b"\0\0\0\0\0\7")], base_offset=1, producer_id=4, control=True)
    data = build([Record(0, 5, b"a", None)], producer_id=4, producer_epoch=0, base_sequence=0, transactional=True)
    assert [
        each.key for each in read(down_convert(data + marker + build([Record(0, 6, b"b", None)], base_offset=2), 1))
    ] == [
        b"a",
        b"b",
    ]
    assert down_convert(marker, 0) == b""


@pytest.mark.parametrize(("codec", "offsets"), [(Codec.NONE, [6, 7]), (Codec.GZIP, [5, 6, 7])])
def test_readers_begin_at_their_offset_unless_compressed(codec: Codec, offsets: list[int]) -> None:
    data = build([Record(0, 5, None, b"v")] * 3, codec=codec, base_offset=5)
    assert [each.offset for each in read(down_convert(data, 1, first_offset=6))] == offsets


def test_a_batch_wholly_below_the_offset_disappears() -> None:
    assert down_convert(build([Record(0, 5, None, b"v")] * 3), 1, first_offset=3) == b""


@pytest.mark.parametrize("codec", OLD_CODECS, ids=lambda codec: codec.name)
def test_append_times_stay(codec: Codec) -> None:
    late = {"codec": codec, "timestamp_type": TimestampType.LOG_APPEND_TIME, "append_time": 77}
    for converted in (
        down_convert(build([Record(0, 5, None, b"v")], **late), 1),
        up_convert(build([Record(0, 5, None, b"v")], magic=1, **late)),
    ):
        [record] = KAFKA_PYTHON.read(converted)
        assert (record.timestamp, record.timestamp_type) == (77, TimestampType.LOG_APPEND_TIME)
    [entry] = entries(down_convert(build([Record(0, 5, None, b"v")], **late), 0))
    assert entry.timestamp_type is TimestampType.CREATE_TIME


def test_zstd_cannot_go_down() -> None:
    with pytest.raises(InvalidRecords) as caught:
        down_convert(build([Record(0, 5, None, b"v")], codec=Codec.ZSTD), 1)
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_a_cut_off_tail_is_not_converted() -> None:
    data = build([Record(0, 5, None, b"v")])
    assert down_convert(data + data[:-1], 1) == down_convert(data, 1)
