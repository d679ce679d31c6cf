"""Every format, cut off after each byte and with each byte changed: the project's own errors and nothing else."""

from __future__ import annotations

import contextlib
import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylogbroker.errors import CorruptRecords, InvalidRecords, PylogbrokerError
from pylogbroker.records import (
    AppendRules,
    Codec,
    Record,
    SizeBudget,
    build,
    crc32c,
    down_convert,
    entries,
    prepare,
    up_convert,
)
from pylogbroker.records.compression import compress
from tests.records.reference_codecs import FORMATS
from tests.support.examples import examples

RECORDS = [
    Record(0, 1500, b"key", b"value, value, value"),
    Record(1, 1400, None, b"value, value, value"),
    Record(2, 1600, b"", None),
]
WITH_HEADERS = [
    Record(each.offset, each.timestamp, each.key, each.value, (("a", b"b"), ("c", None))) for each in RECORDS
]
RULES = [AppendRules(), AppendRules(keys_required=True), AppendRules(codec=Codec.GZIP), AppendRules(magic=1)]
in_formats = pytest.mark.parametrize(("magic", "codec"), FORMATS, ids=str)


def sample(magic: int, codec: Codec) -> bytes:
    return build(WITH_HEADERS if magic == 2 else RECORDS, magic=magic, codec=codec)


def read(data: bytes, *, partial: bool = False, check: bool = True) -> list[Record]:
    found = []
    for entry in entries(data, partial=partial):
        if check:
            entry.check()
        found += list(entry.records(limit=1 << 20))
    return found


def use_every_way(data: bytes) -> None:
    """Whatever can be done with bytes that came from elsewhere; errors must be ours."""
    attempts = [
        lambda: read(data),
        lambda: read(data, partial=True, check=False),
        lambda: up_convert(data),
        lambda: down_convert(data, 1, SizeBudget(1 << 30)),
        lambda: down_convert(data, 0, SizeBudget(1 << 30)),
        *(lambda rules=rules: prepare(data, rules, 100, 1600, 3) for rules in RULES),
    ]
    for attempt in attempts:
        with contextlib.suppress(PylogbrokerError):
            attempt()


@in_formats
def test_every_truncation(magic: int, codec: Codec) -> None:
    data = sample(magic, codec)
    whole = read(data)
    ends = [0]
    for entry in entries(data):
        ends.append(ends[-1] + entry.size)
    for length in range(len(data)):
        use_every_way(data[:length])
        assert read(data[:length], partial=True) == whole[: sum(end <= length for end in ends) - 1]
        if length not in ends:
            with pytest.raises(CorruptRecords):
                read(data[:length])


@in_formats
def test_every_changed_byte(magic: int, codec: Codec) -> None:
    data = sample(magic, codec)
    first = next(entries(data)).size
    covered = range(21 if magic == 2 else 16, first)
    for position in range(first):
        for bits in (0x01, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[position] ^= bits
            use_every_way(bytes(damaged))
            if position in covered and position != 16:
                with pytest.raises(CorruptRecords):
                    read(bytes(damaged))


def reseal(data: bytes) -> bytes:
    """The first entry with a CRC that is right again, so that what is behind the CRC gets tested."""
    if data[16] == 2:
        return data[:17] + struct.pack(">I", crc32c(data[21:])) + data[21:]
    return data[:12] + struct.pack(">I", zlib.crc32(data[16:])) + data[16:]


@in_formats
def test_every_changed_byte_behind_a_right_crc(magic: int, codec: Codec) -> None:
    data = build(WITH_HEADERS[:1] if magic == 2 else RECORDS[:1], magic=magic, codec=codec)
    for position in range(17 if magic < 2 else 21, len(data)):
        for bits in (0x01, 0x10, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[position] ^= bits
            use_every_way(reseal(bytes(damaged)))


@pytest.mark.parametrize("magic", [0, 1, 2])
@given(data=st.data())
@settings(max_examples=examples(120), deadline=None)
def test_damage_inside_of_compressed_records(magic: int, data: st.DataObject) -> None:
    plain = bytearray(sample(magic, Codec.NONE)[61 if magic == 2 else 0 :])
    for _ in range(data.draw(st.integers(1, 3))):
        plain[data.draw(st.integers(0, len(plain) - 1))] = data.draw(st.integers(0, 255))
    cut = plain[: data.draw(st.integers(0, len(plain)))]
    packed = compress(Codec.GZIP, data.draw(st.sampled_from([plain, cut])))
    if magic == 2:
        header = bytearray(sample(2, Codec.GZIP)[:61])
        header[8:12] = struct.pack(">i", 49 + len(packed))
        use_every_way(reseal(bytes(header) + packed))
    else:
        use_every_way(wrapper(magic, sized(packed)))


@given(st.binary(max_size=200), st.sampled_from([0, 1, 2]), st.booleans())
@settings(max_examples=examples(200), deadline=None)
def test_nonsense(noise: bytes, magic: int, framed: bool) -> None:
    if framed:
        noise = struct.pack(">qi4xb", 0, len(noise) + 5, magic) + noise
        if len(noise) > 26:
            use_every_way(reseal(noise))
    use_every_way(noise)


def wrapper(magic: int, value: bytes) -> bytes:
    """A message that says its value is a message set in gzip."""
    body = struct.pack(">bb", magic, 1) + bytes(8 * magic) + b"\xff\xff\xff\xff" + value
    return reseal(struct.pack(">qiI", 2, len(body) + 4, 0) + body)


def sized(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


@pytest.mark.parametrize("magic", [0, 1])
def test_a_good_set_passes_the_same_road(magic: int) -> None:
    found = read(wrapper(magic, sized(compress(Codec.GZIP, build(RECORDS, magic=magic)))))
    assert [(each.offset, each.value) for each in found] == [(each.offset, each.value) for each in RECORDS]


@pytest.mark.parametrize(("inner", "outer"), [(0, 1), (1, 0)])
def test_formats_do_not_nest_in_each_other(inner: int, outer: int) -> None:
    with pytest.raises(InvalidRecords, match="magic"):
        read(wrapper(outer, sized(compress(Codec.GZIP, build(RECORDS, magic=inner)))))


@pytest.mark.parametrize("magic", [0, 1])
def test_compressed_sets_do_not_nest(magic: int) -> None:
    twice = compress(Codec.GZIP, build(RECORDS, magic=magic, codec=Codec.GZIP))
    with pytest.raises(InvalidRecords, match="inside"):
        read(wrapper(magic, sized(twice)))


@pytest.mark.parametrize("value", [b"\xff\xff\xff\xff", sized(compress(Codec.GZIP, b""))], ids=["null", "empty"])
def test_compressed_sets_hold_something(value: bytes) -> None:
    with pytest.raises(CorruptRecords):
        read(wrapper(1, value))


def test_a_damaged_message_inside_of_a_set() -> None:
    inside = bytearray(build(RECORDS, magic=1))
    inside[-1] ^= 1
    with pytest.raises(CorruptRecords, match="CRC"):
        read(wrapper(1, sized(compress(Codec.GZIP, inside))))


@pytest.mark.parametrize("sizes", [(4, None), (3, None), (5, None), (-1, 5), (1 << 30, None), (0, 1 << 30)], ids=str)
def test_fields_that_leave_their_message(sizes: tuple[int, int | None]) -> None:
    key, value = sizes
    fields = struct.pack(">i", key) + (b"\0abc" if value is None else struct.pack(">i", value))
    body = struct.pack(">bb", 1, 0) + bytes(8) + fields
    with pytest.raises(CorruptRecords):
        read(reseal(struct.pack(">qiI", 0, len(body) + 4, 0) + body))
