"""Manifests: what is written comes back, and nothing else is believed."""

from __future__ import annotations

import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.records import crc32c
from pylogbroker.storage.remote.manifest import DamagedObject, RemoteSegment, decode, encode
from pylogbroker.storage.remote.object_names import SegmentName, parse

NAME = SegmentName(100, 200, 3, "0" * 32)
SEGMENT = RemoteSegment(NAME, "events", 4, 12345, 1700, ((2, 100), (3, 150)), -1, 1_700_000, 77, 0xDEADBEEF)
FIELDS: dict[str, object] = json.loads(encode(SEGMENT).splitlines()[0])


def text_of(**changes: object) -> bytes:
    """A manifest with other fields, and the checksum that belongs to them."""
    return checked(json.dumps(FIELDS | changes).encode())


def checked(text: bytes) -> bytes:
    """A line with its checksum."""
    line = text + b"\n"
    return line + b"crc32c %08x\n" % crc32c(line)


def test_a_manifest_comes_back() -> None:
    assert decode(NAME, 4, encode(SEGMENT)) == SEGMENT


@given(st.data())
def test_no_damaged_manifest_is_taken(data: st.DataObject) -> None:
    text = bytearray(encode(SEGMENT))
    position = data.draw(st.integers(0, len(text) - 1))
    text[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(DamagedObject):
        decode(NAME, 4, bytes(text))


@given(st.integers(0, len(encode(SEGMENT)) - 1))
def test_no_cut_manifest_is_taken(size: int) -> None:
    with pytest.raises(DamagedObject):
        decode(NAME, 4, encode(SEGMENT)[:size])


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"partition": 5},
        {"base_offset": 101},
        {"size": 0},
        {"size": 1 << 40},
        {"size": "12345"},
        {"size": True},
        {"index_size": 1 << 40},
        {"epochs": []},
        {"epochs": [[2, 101]]},
        {"epochs": [[2, 100], [2, 150]]},
        {"epochs": [[2, 100], [3, 200]]},
        {"epochs": [[2, 100], [3]]},
        {"epochs": 7},
        {"epochs": {"2": 100}},
        {"epochs": [[2, 100], [1 << 31, 150]]},
        {"epochs": [[number, 100 + number] for number in range(100_001)]},
        {"max_timestamp": -2},
    ],
)
def test_fields_out_of_bounds_are_not_taken(changes: dict[str, object]) -> None:
    with pytest.raises(DamagedObject):
        decode(NAME, 4, text_of(**changes))


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text() | st.sampled_from(list(FIELDS.values())),
    lambda values: st.lists(values) | st.dictionaries(st.text() | st.sampled_from(list(FIELDS)), values),
    max_leaves=10,
)


@given(_JSON | st.dictionaries(st.sampled_from(list(FIELDS)), _JSON).map(FIELDS.__or__))
def test_any_text_with_its_checksum_is_a_sound_manifest_or_an_error(value: object) -> None:
    try:
        segment = decode(NAME, 4, checked(json.dumps(value).encode()))
    except DamagedObject:
        return
    assert (segment.name, segment.partition, segment.epochs[0][1]) == (NAME, 4, NAME.base_offset)
    assert decode(NAME, 4, encode(segment)) == segment


@given(st.binary())
def test_noise_with_its_checksum_is_no_manifest(noise: bytes) -> None:
    with pytest.raises(DamagedObject):
        decode(NAME, 4, checked(noise))


def test_deeply_nested_text_is_no_manifest() -> None:
    with pytest.raises(DamagedObject):
        decode(NAME, 4, checked(b"[" * 100_000))


def test_a_manifest_of_another_segment_is_not_taken() -> None:
    with pytest.raises(DamagedObject):
        decode(attrs.evolve(NAME, end_offset=201), 4, encode(SEGMENT))


def test_names_come_back_and_foreign_ones_are_left() -> None:
    assert parse(f"{NAME}.log") == (NAME, ".log")
    assert str(NAME) == f"{'100':0>20}-{'200':0>20}-3-{'0' * 32}"
    for name in ("notes.txt", f"{NAME}", f"{NAME}.tmp", f"x{NAME}.log", f"{NAME}.log/x", str(NAME)[1:] + ".log"):
        assert parse(name) is None
    assert parse(f"{attrs.evolve(NAME, end_offset=100)}.log") is None
    assert parse(f"{attrs.evolve(NAME, end_offset=1 << 63)}.log") is None
