"""Bytes that are no message: always `WireError`, and nothing is made as large as it claims to be."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pylogbroker.wire import Codec, WireError, codec, request_codec
from tests.support.examples import examples
from tests.wire.strategies import messages
from tests.wire.table import cases, declared

EXAMPLES = settings(max_examples=examples(4), database=None, deadline=None, phases=[Phase.generate])


@pytest.mark.parametrize(("name", "version"), list(cases()), ids=str)
def test_a_cut_off_message(name: str, version: int) -> None:
    cls = declared(name)

    @EXAMPLES
    @given(messages(cls, version), st.data())
    def refuse(message: Any, data: st.DataObject) -> None:
        encoded = codec(cls, version).encode(message)
        ends = st.integers(0, len(encoded) - 1)
        for end in data.draw(st.sets(ends, max_size=40)) if len(encoded) > 64 else range(len(encoded)):
            with pytest.raises(WireError):
                codec(cls, version).decode(encoded[:end])
        with pytest.raises(WireError):
            codec(cls, version).decode(encoded + b"\0")

    refuse()


@pytest.mark.parametrize(("name", "version"), list(cases()), ids=str)
def test_flipped_bits_and_noise(name: str, version: int) -> None:
    cls = declared(name)

    @EXAMPLES
    @given(messages(cls, version), st.randoms(use_true_random=False))
    def survive(message: Any, random: Any) -> None:
        encoded = codec(cls, version).encode(message)
        for _ in range(30 if encoded else 0):
            flipped = bytearray(encoded)
            for _ in range(random.randint(1, 3)):
                flipped[random.randrange(len(flipped))] ^= 1 << random.randrange(8)
            decode_or_refuse(codec(cls, version), flipped)
        decode_or_refuse(codec(cls, version), random.randbytes(40))

    survive()


def decode_or_refuse(ours: Codec[Any], encoded: bytes | bytearray) -> None:
    """Decode, or refuse with the one error; what is decoded is a message, which its version can encode."""
    try:
        message = ours.decode(encoded)
    except WireError:
        return
    assert ours.decode(ours.encode(message)) == message


HUGE = "7fffffff"
HUGE_COMPACT = "ffffffff0f"
CLAIMS = {
    "topics": (0, 0, f"0001 00000000 {HUGE} 0001 74"),
    "a topic's name": (0, 0, "0001 00000000 00000001 7fff 74"),
    "records": (0, 0, f"0001 00000000 00000001 0001 74 00000001 00000000 {HUGE} 00"),
    "compact topics": (0, 9, f"00 0001 00000000 {HUGE_COMPACT} 02 74"),
    "a compact name": (0, 9, f"00 0001 00000000 02 {HUGE_COMPACT} 74"),
    "compact records": (0, 9, f"00 0001 00000000 02 02 74 02 00000000 {HUGE_COMPACT} 00"),
    "tagged fields": (18, 3, f"01 01 {HUGE_COMPACT}"),
    "a tagged field": (18, 3, f"01 01 01 05 {HUGE_COMPACT}"),
    "numbers": (35, 0, f"00000001 0001 74 {HUGE} 00000001"),
    "compact numbers": (35, 2, f"02 02 74 {HUGE_COMPACT} 00000001"),
    "strings": (15, 0, f"{HUGE} 0001 74"),
    "bytes": (14, 0, f"0001 67 00000001 0001 6d 00000001 0001 6d {HUGE} 00"),
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claimed_size_costs_nothing(claim: str) -> None:
    key, version, written = CLAIMS[claim]
    ours = request_codec(key, version)
    encoded = bytes.fromhex(written)
    tracemalloc.start()
    try:
        with pytest.raises(WireError):
            ours.decode(encoded)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


FETCH_12 = "ffffffff 00000000 00000000 7fffffff 00 00000000 ffffffff 01 01 01"
"""A fetch of nothing, up to its tagged fields."""


@pytest.mark.parametrize(
    ("key", "version", "written"),
    [
        pytest.param(0, 0, "0001 00000000 ffffffff", id="null where an array must be"),
        pytest.param(0, 0, "0001 00000000 fffffffe", id="a count below -1"),
        pytest.param(3, 1, "fffffffe", id="a count below -1 where null may be"),
        pytest.param(0, 0, "0001 00000000 00000001 ffff 00000000", id="null where a string must be"),
        pytest.param(0, 3, "fffe 0001 00000000 00000000", id="a length below -1"),
        pytest.param(0, 9, "00 0001 00000000 00 00", id="compact null where an array must be"),
        pytest.param(0, 9, "00 0001 00000000 02 00 01 00 00", id="compact null where a string must be"),
        pytest.param(0, 0, "0001 00000000 00000001 0002 c328 00000000", id="not UTF-8"),
        pytest.param(0, 9, "808080808000 0001 00000000 01 00", id="a varint of six bytes"),
        pytest.param(0, 9, "ffffffff1f 0001 00000000 01 00", id="a varint of 33 bits"),
        pytest.param(18, 3, "01 01 02 05 00 05 00", id="a tagged field twice"),
        pytest.param(1, 12, FETCH_12, id="no tagged fields, not even their count"),
        pytest.param(1, 12, FETCH_12 + "01 00 03 02 63 00", id="a tagged field shorter than it claims"),
        pytest.param(1, 12, FETCH_12 + "01 00 01 02 63", id="a tagged field longer than it claims"),
    ],
)
def test_impossible_values(key: int, version: int, written: str) -> None:
    with pytest.raises(WireError):
        request_codec(key, version).decode(bytes.fromhex(written))


def test_unknown_tagged_fields_are_skipped() -> None:
    plain = request_codec(1, 12).decode(bytes.fromhex(FETCH_12 + "00"))
    tagged = request_codec(1, 12).decode(bytes.fromhex(FETCH_12 + "03 00 02 02 63 07 00 8001 03 010203"))
    assert tagged.cluster_id == "c"
    tagged.cluster_id = None
    assert tagged == plain


def test_many_tagged_fields() -> None:
    count = 300
    fields = b"".join(bytes([tag & 0x7F | 0x80, tag >> 7, 1, 0]) for tag in range(128, 128 + count))
    encoded = bytes.fromhex(FETCH_12) + bytes([count & 0x7F | 0x80, count >> 7]) + fields
    assert request_codec(1, 12).decode(encoded) == request_codec(1, 12).decode(bytes.fromhex(FETCH_12 + "00"))
