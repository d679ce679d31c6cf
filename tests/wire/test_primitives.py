"""Varints, and the memory of strings and ids."""

from __future__ import annotations

import io
from collections.abc import Callable
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.schemas.fields.codecs import UnsignedVarInt32

from pylogbroker.wire import WireError, codec, encoder_compiler, primitives
from pylogbroker.wire.messages.list_groups import ListGroupsRequest
from pylogbroker.wire.primitives import compact_size, identifier, read_uvarint, text, uvarint

UINT32 = st.integers(0, (1 << 32) - 1)


@given(UINT32 | st.integers(0, 1 << 15))
def test_varints_match_a_peers(number: int) -> None:
    encoded = uvarint(number)
    assert encoded == UnsignedVarInt32.encode(number)
    assert UnsignedVarInt32.decode(io.BytesIO(encoded)) == number
    assert read_uvarint(memoryview(b"!" + encoded + b"!"), 1) == (number, 1 + len(encoded))


@given(st.integers(-1, 1 << 15) | st.integers(-1, (1 << 31) - 1))
def test_a_compact_size_is_one_more(size: int) -> None:
    assert compact_size(size) == uvarint(size + 1)


@pytest.mark.parametrize("encoded", [b"\x80" * 5 + b"\0", b"\xff\xff\xff\xff\x10", b"\xff" * 9 + b"\1"])
def test_varints_beyond_32_bits(encoded: bytes) -> None:
    with pytest.raises(WireError):
        read_uvarint(memoryview(encoded), 0)


def test_texts_and_ids_come_back_as_the_same_object() -> None:
    assert text(b"a topic") is text(b"a topic") == "a topic"
    raw = UUID(int=77).bytes
    assert identifier(raw) is identifier(raw) == UUID(int=77)


def test_a_long_text_is_not_remembered() -> None:
    raw = b"x" * 1000
    assert text(raw) is not text(raw)


@pytest.mark.parametrize(("memory", "make"), [("_texts", text), ("_ids", identifier)])
def test_memory_is_bounded(memory: str, make: Callable[[bytes], object]) -> None:
    for number in range(3 * primitives.CACHED_ENTRIES_MAX):
        make(number.to_bytes(16) if make is identifier else b"%d" % number)
        assert len(getattr(primitives, memory)) <= primitives.CACHED_ENTRIES_MAX


def test_encoded_strings_are_bounded_too() -> None:
    for number in range(3 * primitives.CACHED_ENTRIES_MAX):
        codec(ListGroupsRequest, 4).encode(ListGroupsRequest([f"a state {number}"]))
    assert all(len(known) <= primitives.CACHED_ENTRIES_MAX for known in encoder_compiler._known_strings.values())
