"""The layouts of 0.7's requests and answers, both ways, against recorded bytes and `struct`."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.errors import ProtocolViolation
from pylogbroker.legacy07.wire import (
    Fetch,
    FetchRange,
    Legacy07ErrorCode,
    Legacy07Request,
    MultiFetch,
    MultiProduce,
    Offsets,
    Produce,
    Production,
    decode_legacy07_request,
    decode_offsets,
    decode_set,
    decode_sets,
    encode_legacy07_request,
    encode_offsets,
    encode_set,
    encode_sets,
)
from pylogbroker.long_loops import at_once
from pylogbroker.wire import EncodingError
from tests.legacy07 import message_sets

RECORDED: list[tuple[bytes, Legacy07Request]] = [
    (message_sets.PRODUCE_ONE, Produce(Production("t", 0, message_sets.ONE))),
    (message_sets.MULTIPRODUCE_TWO, MultiProduce([Production("t", 0, message_sets.TWO)])),
    (message_sets.FETCH, Fetch(FetchRange("t", 0, 0, 100_000))),
    (message_sets.LATEST, Offsets("t", 0, -1, 10)),
    (message_sets.EARLIEST, Offsets("t", 0, -2, 10)),
    (
        message_sets.multifetch((b"a", 1, 2, 3), (b"b", 4, 5, 6)),
        MultiFetch([FetchRange("a", 1, 2, 3), FetchRange("b", 4, 5, 6)]),
    ),
]


@pytest.mark.parametrize(("data", "request_"), RECORDED, ids=range(len(RECORDED)))
def test_requests_both_ways(data: bytes, request_: Legacy07Request) -> None:
    assert decode_legacy07_request(memoryview(data)[4:]) == request_
    assert encode_legacy07_request(request_) == data


@pytest.mark.parametrize(("data", "_"), RECORDED, ids=range(len(RECORDED)))
def test_a_request_that_is_cut_off_or_too_long(data: bytes, _: Legacy07Request) -> None:
    frame = data[4:]
    for length in range(len(frame)):
        with pytest.raises(ProtocolViolation):
            decode_legacy07_request(memoryview(frame[:length]))
    with pytest.raises(ProtocolViolation):
        decode_legacy07_request(memoryview(frame + b"\0"))


def frame(number: int, layout: str, *fields: int | bytes) -> memoryview:
    """A request without its length, its fields as `struct` writes them."""
    return memoryview(struct.pack(">h" + layout, number, *fields))


ABSURD = [
    memoryview(b""),  # not even a type
    memoryview(b"\0"),
    frame(-1, ""),
    frame(5, ""),
    frame(0, "hii", -1, 0, 0),  # a topic of -1 bytes
    frame(1, "h1siqi", 0x7FFF, b"t", 0, 0, 1),
    frame(0, "h1sii13s", 1, b"t", 0, -1, message_sets.ONE),  # a set of -1 bytes
    frame(0, "h1sii13s", 1, b"t", 0, 0x7FFFFFFF, message_sets.ONE),
    frame(0, "h1sii13s", 1, b"t", 0, 12, message_sets.ONE),  # one that ends before the request does
    frame(0, "h1sii13s", 1, b"t", 0, 14, message_sets.ONE),
    frame(2, "h", -1),  # -1 parts
    frame(2, "hh1siqi", 2, 1, b"t", 0, 0, 1),  # two, of which one is there
    frame(2, "hh1siqi", 0, 1, b"t", 0, 0, 1),
    frame(2, "hh1siqi", 0x7FFF, 1, b"t", 0, 0, 1),
    frame(3, "h", -0x8000),
    frame(3, "hh1sii13s", 2, 1, b"t", 0, 13, message_sets.ONE),
    frame(3, "hh1sii13s", 1, 1, b"t", 0, -13, message_sets.ONE),
    frame(1, "h2siqi", 2, b"\xff\xfe", 0, 0, 1),  # a topic that is no text
]


@pytest.mark.parametrize("absurd", ABSURD, ids=range(len(ABSURD)))
def test_lengths_and_counts_that_cannot_be(absurd: memoryview) -> None:
    with pytest.raises(ProtocolViolation):
        decode_legacy07_request(absurd)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_request_or_rejected(data: bytes) -> None:
    try:
        decoded = decode_legacy07_request(memoryview(data))
    except ProtocolViolation:
        return
    assert encode_legacy07_request(decoded)[4:] == data


def test_values_too_large_for_a_request_are_rejected() -> None:
    with pytest.raises(EncodingError):
        encode_legacy07_request(Fetch(FetchRange("t", 0, 1 << 63, 1)))
    with pytest.raises(EncodingError):
        encode_legacy07_request(Fetch(FetchRange("t" * 40_000, 0, 0, 1)))


def test_answers_both_ways() -> None:
    data = b"".join(bytes(chunk) for chunk in encode_set(Legacy07ErrorCode.NONE, message_sets.ONE + message_sets.TWO))
    assert data == message_sets.FETCHED
    assert decode_set(data[4:]) == (0, message_sets.ONE + message_sets.TWO)
    latest = b"".join(bytes(chunk) for chunk in encode_offsets(Legacy07ErrorCode.NONE, [26, 0]))
    assert latest == message_sets.LATEST_ANSWER
    assert decode_offsets(latest[4:]) == (0, [26, 0])
    failed = b"".join(bytes(chunk) for chunk in encode_set(Legacy07ErrorCode.UNKNOWN))
    assert failed == bytes.fromhex("00000002 ffff")
    parts = [(Legacy07ErrorCode.NONE, message_sets.ONE), (Legacy07ErrorCode.WRONG_PARTITION, b"")]
    both = b"".join(bytes(chunk) for chunk in at_once(encode_sets(parts)))
    assert both == message_sets.answer(0, message_sets.answer(0, message_sets.ONE) + message_sets.answer(3))
    assert decode_sets(both[4:]) == (0, parts)


def test_answers_that_are_none() -> None:
    for broken in (b"", b"\0", b"\0\0\0\0\0\2" + bytes(8)):
        with pytest.raises(ProtocolViolation):
            decode_offsets(broken)
    with pytest.raises(ProtocolViolation):
        decode_sets(b"\0\0\0\0\0\x09\0\0")
