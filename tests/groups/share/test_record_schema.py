"""Records of share groups, byte by byte as Kafka 4.4 has written them, and the group that they make."""

from __future__ import annotations

from uuid import UUID

import pytest

from pylogbroker.groups.share import record_schema as schema
from pylogbroker.groups.share.group import ShareGroup
from pylogbroker.groups.share.replay import ReplayedShareGroups
from pylogbroker.records import Record
from pylogbroker.wire import WireMessage
from pylogbroker.wire.versioned_messages import decode, encode

T, U = UUID("b96b80f0-b79e-4293-8e87-54d9bfa8ffe4"), UUID("52c03488-5f45-48bd-b8a4-902ad085009e")
WRITTEN: dict[str, tuple[type[WireMessage], str, str]] = {
    "member": (
        schema.ShareMemberValue,
        "000a00016700026d32",
        "000003723102630b2f3132372e302e302e3103076e6f73756368027500",
    ),
    "group": (schema.ShareGroupValue, "000b000167", "000000000005ec049a915076470100"),
    "target": (schema.ShareTargetValue, "000c000167", "000000000005010008000001a22916fbf6"),
    "target of a member": (
        schema.ShareMemberTargetValue,
        "000d00016700026d32",
        "000003b96b80f0b79e42938e8754d9bfa8ffe402000000010052c034885f4548bdb8a4902ad085009e02000000000000",
    ),
    "current assignment": (
        schema.ShareCurrentValue,
        "000e00016700026d32",
        "000000000005000000040003b96b80f0b79e42938e8754d9bfa8ffe402000000010052c034885f4548bdb8a4902ad085009e0200000000"
        "0000",
    ),
    "partitions with a state": (
        schema.StatePartitionsValue,
        "000f000167",
        "000003b96b80f0b79e42938e8754d9bfa8ffe4027402000000000052c034885f4548bdb8a4902ad085009e027502000000000003b96b80"
        "f0b79e42938e8754d9bfa8ffe40274040000000000000001000000020052c034885f4548bdb8a4902ad085009e02750200000000000100",
    ),
}


def replayed(*leave_out: str) -> list[ShareGroup]:
    groups = ReplayedShareGroups()
    for name, (_, key, value) in WRITTEN.items():
        if name not in leave_out:
            decoded = schema.decode_key(bytes.fromhex(key))
            assert decoded is not None
            groups.apply(decoded, Record(0, 7, bytes.fromhex(key), bytes.fromhex(value)))
    return list(groups.groups(0))


@pytest.mark.parametrize("name", WRITTEN)
def test_bytes_are_those_of_kafka(name: str) -> None:
    kind, key_text, value = WRITTEN[name]
    key = schema.decode_key(bytes.fromhex(key_text))
    assert key is not None
    assert encode(key, int(key_text[:4], 16)).hex() == key_text
    assert encode(decode(kind, bytes.fromhex(value)), 0).hex() == value


def test_group_that_kafka_has_written_is_loaded() -> None:
    [group] = replayed()
    assert (group.group_id, group.epoch, group.target_epoch, group.since) == ("g", 5, 5, 7)
    assert group.metadata_hash == -1439856031940851967
    [member] = group.members.values()
    assert (member.member_id, member.rack_id, member.client_id, member.client_host) == ("m2", "r1", "c", "/127.0.0.1")
    assert (member.topics, member.epoch, member.previous_epoch) == ({"nosuch", "u"}, 5, 4)
    assert member.assigned == group.target_of("m2") == {(T, 1), (U, 0)}
    assert group.states.initializing == {T: {0}, U: {0}}
    assert group.states.initialized == {T: {0, 1, 2}, U: {0}}
    assert group.states.names == {T: "t", U: "u"}


def test_group_that_was_created_by_its_offsets_has_no_record_of_an_epoch() -> None:
    [group] = replayed("group", "target", "member", "target of a member", "current assignment")
    assert (group.epoch, group.state.value) == (1, "Empty")


def test_group_whose_records_are_removed_is_gone() -> None:
    groups = ReplayedShareGroups()
    for _, key, value in WRITTEN.values():
        for content in (bytes.fromhex(value), None):
            decoded = schema.decode_key(bytes.fromhex(key))
            assert decoded is not None
            groups.apply(decoded, Record(0, 7, bytes.fromhex(key), content))
    assert list(groups.groups(0)) == []


def test_keys_of_other_records_are_none() -> None:
    assert schema.decode_key(bytes.fromhex("0003000167")) is None
