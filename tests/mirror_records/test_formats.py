"""Records of MirrorMaker 2's topics. The bytes are those that MirrorMaker 3.9.2 wrote for two partitions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.errors import CorruptRecords
from pylogbroker.mirror_records.formats import Checkpoint, MirrorHeartbeat, OffsetSync

GOLDEN = [
    (
        OffsetSync("orders", 0, 149, 149),
        b"\x00\x06orders\x00\x00\x00\x00",
        b"\x00\x00\x00\x00\x00\x00\x00\x95\x00\x00\x00\x00\x00\x00\x00\x95",
    ),
    (
        Checkpoint("billing", "A.orders", 1, 5, 5),
        b"\x00\x07billing\x00\x08A.orders\x00\x00\x00\x01",
        b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00",
    ),
    (
        Checkpoint("billing", "A.orders", 0, 160, 161, "note\0"),
        b"\x00\x07billing\x00\x08A.orders\x00\x00\x00\x00",
        b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\xa0\x00\x00\x00\x00\x00\x00\x00\xa1\x00\x05note\x00",
    ),
    (
        MirrorHeartbeat("A", "B", 0x1A229C4151E),
        b"\x00\x01A\x00\x01B",
        b"\x00\x00\x00\x00\x01\xa2)\xc4\x15\x1e",
    ),
]
names = st.text(max_size=20)
partitions = st.integers(0, 2**31 - 1)
offsets = st.integers(0, 2**63 - 1)
records = st.one_of(
    st.builds(OffsetSync, names, partitions, offsets, offsets),
    st.builds(Checkpoint, names, names, partitions, offsets, offsets, names),
    st.builds(MirrorHeartbeat, names, names, offsets),
)


@pytest.mark.parametrize(("record", "key", "value"), GOLDEN)
def test_bytes_are_those_of_mirror_maker(record, key, value):
    assert (record.key(), record.value()) == (key, value)
    assert type(record).decode(key, value) == record


@given(records)
def test_decoding_reverses_encoding(record):
    assert type(record).decode(record.key(), record.value()) == record


@pytest.mark.parametrize(("record", "key", "value"), GOLDEN)
def test_each_shorter_or_longer_form_is_corrupt(record, key, value):
    decode = type(record).decode
    for size in range(len(key)):
        with pytest.raises(CorruptRecords):
            decode(key[:size], value)
    for size in range(len(value)):
        with pytest.raises(CorruptRecords):
            decode(key, value[:size])
    for damaged in [(key + b"\0", value), (key, value + b"\0"), (None, value), (key, None)]:
        with pytest.raises(CorruptRecords):
            decode(*damaged)


@pytest.mark.parametrize("kind", [Checkpoint, MirrorHeartbeat])
def test_an_unknown_version_is_corrupt(kind):
    _, key, value = next(row for row in GOLDEN if type(row[0]) is kind)
    with pytest.raises(CorruptRecords, match="version 1"):
        kind.decode(key, b"\x00\x01" + value[2:])


@pytest.mark.parametrize(
    "kind_and_bytes",
    [
        (OffsetSync, GOLDEN[0][1], b"\xff" * 16),
        (OffsetSync, b"\x00\x01t\xff\xff\xff\xff", GOLDEN[0][2]),
        (OffsetSync, b"\xff\xfft\x00\x00\x00\x00", GOLDEN[0][2]),
        (OffsetSync, b"\x00\x01\xff\x00\x00\x00\x00", GOLDEN[0][2]),
    ],
)
def test_negative_numbers_and_broken_names_are_corrupt(kind_and_bytes):
    kind, key, value = kind_and_bytes
    with pytest.raises(CorruptRecords):
        kind.decode(key, value)
