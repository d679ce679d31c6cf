"""The layouts of keys and values, against bytes written down by hand from Kafka's schemas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.errors import CorruptRecords
from pylogbroker.groups import CommittedOffset, record_schema
from pylogbroker.partition_hash import java_hash, partition_for

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)


def test_keys() -> None:
    key = bytes.fromhex("0001 0001 67 0002 7431 00000003")
    assert record_schema.encode_offset_key("g", "t1", 3) == key
    assert record_schema.decode_key(key) == record_schema.OffsetCommitKey("g", "t1", 3)
    assert record_schema.decode_key(b"\0\0" + key[2:]) == record_schema.OffsetCommitKey("g", "t1", 3)
    key = bytes.fromhex("0002 0003 c3a974")
    assert record_schema.encode_group_key("ét") == key
    assert record_schema.decode_key(key) == record_schema.GroupMetadataKey("ét")


def test_offsets_are_written_in_version_3() -> None:
    value = bytes.fromhex("0003 0000000000000007 00000002 0004 6d657461 0000018bcfe56800")
    offset = CommittedOffset(7, 2, "meta", 1_700_000_000_000)
    assert record_schema.encode_offset_value(offset) == value
    assert record_schema.decode_offset_value(value) == offset


def test_offsets_with_an_expiry_are_written_in_version_1() -> None:
    value = bytes.fromhex("0001 0000000000000007 0000 0000000000000005 0000000000000009")
    assert record_schema.encode_offset_value(CommittedOffset(7, 2, "", 5, 9)) == value
    assert record_schema.decode_offset_value(value) == CommittedOffset(7, -1, "", 5, 9)


@pytest.mark.parametrize(
    ("value", "offset"),
    [
        ("0000 0000000000000007 0001 6d 0000000000000005", CommittedOffset(7, -1, "m", 5)),
        ("0001 0000000000000007 0001 6d 0000000000000005 ffffffffffffffff", CommittedOffset(7, -1, "m", 5)),
        ("0002 0000000000000007 0001 6d 0000000000000005", CommittedOffset(7, -1, "m", 5)),
        ("0004 0000000000000007 00000002 02 6d 0000000000000005 00", CommittedOffset(7, 2, "m", 5)),
        ("0004 0000000000000007 00000002 02 6d 0000000000000005 01 00 02 abcd", CommittedOffset(7, 2, "m", 5)),
    ],
)
def test_offsets_of_other_versions(value: str, offset: CommittedOffset) -> None:
    assert record_schema.decode_offset_value(bytes.fromhex(value)) == offset


GROUP = record_schema.GroupMetadataValue(
    "consumer",
    2,
    "range",
    "m",
    9,
    [record_schema.MemberMetadata("m", "i", "c", "/h", 60, 10, b"\1", b"\2\3")],
)
GROUP_BYTES = (
    "0003 0008 636f6e73756d6572 00000002 0005 72616e6765 0001 6d 0000000000000009 00000001"
    "0001 6d 0001 69 0001 63 0002 2f68 0000003c 0000000a 00000001 01 00000002 0203"
)


def test_groups_are_written_in_version_3() -> None:
    assert record_schema.encode_group_value(GROUP) == bytes.fromhex(GROUP_BYTES)
    assert record_schema.decode_group_value(bytes.fromhex(GROUP_BYTES)) == GROUP


@pytest.mark.parametrize(
    ("value", "since", "instance", "rebalance"),
    [
        (
            "0000 0008 636f6e73756d6572 00000002 0005 72616e6765 0001 6d 00000001"
            "0001 6d 0001 63 0002 2f68 0000000a 00000001 01 00000002 0203",
            -1,
            None,
            10,
        ),
        (
            "0001 0008 636f6e73756d6572 00000002 0005 72616e6765 0001 6d 00000001"
            "0001 6d 0001 63 0002 2f68 0000003c 0000000a 00000001 01 00000002 0203",
            -1,
            None,
            60,
        ),
        (
            "0002 0008 636f6e73756d6572 00000002 0005 72616e6765 0001 6d 0000000000000009 00000001"
            "0001 6d 0001 63 0002 2f68 0000003c 0000000a 00000001 01 00000002 0203",
            9,
            None,
            60,
        ),
        (
            "0004 09 636f6e73756d6572 00000002 06 72616e6765 02 6d 0000000000000009 02"
            "02 6d 02 69 02 63 03 2f68 0000003c 0000000a 02 01 03 0203 00 00",
            9,
            "i",
            60,
        ),
    ],
)
def test_groups_of_other_versions(value: str, since: int, instance: str | None, rebalance: int) -> None:
    group = record_schema.decode_group_value(bytes.fromhex(value))
    assert (group.current_state_timestamp, group.leader, group.protocol) == (since, "m", "range")
    (member,) = group.members
    assert member == record_schema.MemberMetadata("m", instance, "c", "/h", rebalance, 10, b"\1", b"\2\3")


def test_an_empty_group_has_neither_protocol_nor_leader() -> None:
    value = bytes.fromhex("0003 0000 00000005 ffff ffff ffffffffffffffff 00000000")
    group = record_schema.GroupMetadataValue("", 5)
    assert record_schema.encode_group_value(group) == value
    assert record_schema.decode_group_value(value) == group


@given(st.builds(CommittedOffset, INT64, INT32, TEXT, INT64))
def test_offsets_come_back(offset: CommittedOffset) -> None:
    assert record_schema.decode_offset_value(record_schema.encode_offset_value(offset)) == offset


MEMBERS = st.builds(
    record_schema.MemberMetadata,
    TEXT,
    st.none() | TEXT,
    TEXT,
    TEXT,
    INT32,
    INT32,
    st.binary(max_size=9),
    st.binary(max_size=9),
)


@given(
    st.builds(
        record_schema.GroupMetadataValue,
        TEXT,
        INT32,
        st.none() | TEXT,
        st.none() | TEXT,
        INT64,
        st.lists(MEMBERS, max_size=3),
    )
)
def test_groups_come_back(group: record_schema.GroupMetadataValue) -> None:
    assert record_schema.decode_group_value(record_schema.encode_group_value(group)) == group


@given(st.binary(max_size=60))
def test_nonsense_is_corrupt_and_nothing_else(value: bytes) -> None:
    for decode in (record_schema.decode_key, record_schema.decode_offset_value, record_schema.decode_group_value):
        try:
            decode(value)
        except CorruptRecords:
            continue


@pytest.mark.parametrize("cut", range(len(bytes.fromhex(GROUP_BYTES))))
def test_a_truncated_value_is_corrupt(cut: int) -> None:
    with pytest.raises(CorruptRecords):
        record_schema.decode_group_value(bytes.fromhex(GROUP_BYTES)[:cut])


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", 0x80000000),
        ("é", 0xE9),
        ("\U0001f600", 0xD83D * 31 + 0xDE00),
    ],
)
def test_hashes_are_javas(text: str, hashed: int) -> None:
    assert java_hash(text) == hashed


@pytest.mark.parametrize(
    ("name", "partition"), [("hello", 22), ("analytics", 10), ("billing", 9), ("polygenelubricants", 0)]
)
def test_a_group_is_in_the_partition_that_kafka_puts_it_in(name: str, partition: int) -> None:
    """Partitions of Kafka 3.9, with its Utils.abs: the hashes of the last three are negative."""
    assert partition_for(name, 50) == partition
