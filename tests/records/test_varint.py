from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.util import decode_varint as peer_decode
from kafka.record.util import encode_varint as peer_encode

from pylogbroker.errors import CorruptRecords
from pylogbroker.records import decode_varint, encode_varint, varint

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


@given(INT64 | st.integers(-20000, 20000))
def test_varints_match_a_peers_both_ways(value: int) -> None:
    theirs = bytearray()
    peer_encode(value, theirs.append)
    assert encode_varint(value) == theirs
    assert decode_varint(b"%b!" % encode_varint(value), 0) == (value, len(theirs))
    assert peer_decode(encode_varint(value), 0)[0] == value


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, b"\0"),
        (-1, b"\1"),
        (1, b"\2"),
        (63, b"\x7e"),
        (-64, b"\x7f"),
        (64, b"\x80\1"),
        (-(1 << 63), b"\xff" * 9 + b"\1"),
    ],
)
def test_known_values(value: int, encoded: bytes) -> None:
    assert encode_varint(value) == encoded


@pytest.mark.parametrize(
    "data", [b"", b"\x80", b"\xff" * 9, b"\x80" * 10 + b"\0", b"\xff" * 30, b"\xff" * 9 + b"\2"], ids=bytes.hex
)
def test_invalid_varints_are_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptRecords):
        decode_varint(data, 0)


def test_the_table_of_two_bytes_is_made_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(varint, "_short", varint._short[:128])
    monkeypatch.setattr(varint, "_short_limit", 128)
    assert [encode_varint(value) for value in (63, -64, 8192)] == [b"\x7e", b"\x7f", b"\x80\x80\1"]
    assert len(varint._short) == 128
    assert [encode_varint(value) for value in (64, 64, -65, 8191)] == [b"\x80\1", b"\x80\1", b"\x81\1", b"\xfe\x7f"]
    assert len(varint._short) == 1 << 14
