"""Protobuf of few bytes that stands for very much JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass

from pylogbroker.schemas.errors import Undecodable
from pylogbroker.schemas.framing import FramedContent
from pylogbroker.schemas.limits import JsonBudget
from pylogbroker.schemas.protobuf_codec import ProtobufCodec

FIELDS = " ".join(f"string field_{number} = {number + 100};" for number in range(200))
TREE = f"""
syntax = "proto3";
import "google/protobuf/any.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Tree {{
  repeated bool flags = 1;
  repeated Tree trees = 2;
  repeated google.protobuf.Timestamp times = 4;
  repeated google.protobuf.Value values = 5;
  map<string, Tree> by_name = 6;
  repeated Letter letters = 7;
  map<int32, double> numbers = 8;
  bytes data = 9;
  repeated string texts = 10;
  google.protobuf.Int64Value wrapped = 11;
  optional string note = 12;
  oneof choice {{ int64 number = 13; Tree tree = 14; }}
  google.protobuf.Any packed = 15;
  {FIELDS}
}}
enum Letter {{ {"X" * 1000} = 0; B = 1; }}
"""
#: Has no Any: small contents are not counted.
LEAF = """syntax = "proto3"; message Leaf { repeated Leaf leaves = 1; repeated bool flags = 2; string text = 3; }"""
MESSAGES: list[dict[str, Any]] = [
    {},
    {"flags": [True, False]},
    {"trees": [{}, {"trees": [{}]}]},
    {"times": ["1970-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z"]},
    {"values": [None, 1.7976931348623157e308, "a", {"a": [True, {"b": "\u0001"}]}]},
    {"by_name": {"a": {}, "\u0001": {"data": "AAAA"}}},
    {"letters": ["X" * 1000, "B", "X" * 1000]},
    {"numbers": {"-2147483648": -1.7976931348623157e308, "1": "NaN"}},
    {"data": "AP8=", "texts": ["", "\u0001" * 100, "é"], "wrapped": "-9223372036854775808"},
    {"note": "", "number": "-9223372036854775808"},
    {"tree": {"tree": {"number": "1"}}},
    {"packed": {"@type": "type.googleapis.com/Tree", "packed": {"@type": "type.googleapis.com/Tree", "note": "a"}}},
    {"packed": {"@type": "type.googleapis.com/google.protobuf.Timestamp", "value": "1970-01-01T00:00:00Z"}},
]


@pytest.fixture(scope="module")
def tree() -> ProtobufCodec:
    return ProtobufCodec.of(TREE, {}, "")


@pytest.fixture(scope="module")
def leaf() -> ProtobufCodec:
    return ProtobufCodec.of(LEAF, {}, "")


def field(number: int, content: bytes) -> bytes:
    """Return a field with a length, at most three bytes of it."""
    size = len(content)
    return bytes([number << 3 | 2, size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14]) + content


def packed(depth: int) -> bytes:
    content = b""
    for _ in range(depth):
        content = field(15, field(1, b"type.googleapis.com/Tree") + field(2, content))
    return content


@pytest.mark.parametrize(
    "payload",
    [
        field(2, b"") * 1000,
        field(6, b"") * 1 + b"".join(field(6, field(1, b"%d" % number)) for number in range(1000)),
        field(7, b"\0" * 5000),
        field(4, b"") * 50_000,
        field(9, b"x" * 1_000_000),
        field(10, b"\1" * 200_000),
        field(1, b"\1" * 200_000),
        packed(400),
    ],
)
def test_messages_that_would_expand_beyond_the_bound(tree: ProtobufCodec, payload: bytes) -> None:
    with pytest.raises(Undecodable, match="its JSON would have more than 1,000,000 characters"):
        tree.decode(FramedContent(1, b"\0" + payload), JsonBudget(1_000_000))


@pytest.mark.parametrize("message", MESSAGES)
def test_costs_are_at_least_the_json_and_not_much_more(tree: ProtobufCodec, message: dict[str, Any]) -> None:
    payload = ParseDict(message, GetMessageClass(tree._message)(), descriptor_pool=tree._pool).SerializeToString()
    budget = JsonBudget(10**6)
    text = tree.decode(FramedContent(1, b"\0" + payload), budget)
    spent = 10**6 - budget.left
    assert len(text) <= spent <= 3 * len(text) + 1000
    with pytest.raises(Undecodable, match="its JSON would have more"):
        tree.decode(FramedContent(1, b"\0" + payload), JsonBudget(spent - 1))


def test_small_messages_spend_what_they_have(leaf: ProtobufCodec) -> None:
    payload = field(1, field(3, b"abc")) + field(2, b"\1\0")
    budget = JsonBudget(10**6)
    text = leaf.decode(FramedContent(1, b"\0" + payload), budget)
    leaf_of_text = {"leaves": [], "flags": [], "text": "abc"}
    assert json.loads(text) == {"leaves": [leaf_of_text], "flags": [True, False], "text": ""}
    assert 10**6 - budget.left == len(text)


def test_large_messages_without_any_are_bounded_too(leaf: ProtobufCodec) -> None:
    with pytest.raises(Undecodable, match="its JSON would have more than 1,000,000 characters"):
        leaf.decode(FramedContent(1, b"\0" + field(1, b"") * 200_000), JsonBudget(1_000_000))


def test_messages_nested_too_deeply(tree: ProtobufCodec) -> None:
    with pytest.raises(Undecodable, match="nested too deeply"):
        tree.decode(FramedContent(1, b"\0" + packed(350)), JsonBudget(10**9))
