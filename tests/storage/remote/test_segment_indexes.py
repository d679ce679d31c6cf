"""Indexes of remote segments: any bytes with the right checksum are sound, or an error."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.records import crc32c
from pylogbroker.storage.log import producer_snapshots
from pylogbroker.storage.remote.manifest import DamagedObject, RemoteSegment
from pylogbroker.storage.remote.object_names import SegmentName
from pylogbroker.storage.remote.segment_indexes import SegmentIndexes, decode, encode

NAME = SegmentName(100, 200, 3, "0" * 32)
SEGMENT = RemoteSegment(NAME, "events", 4, 3 << 20, 1700, ((2, 100),), -1, 1_700_000, 1, 0)
CHUNKS = 3
ENTRY_BYTES = (8, 12, 34, 1, 12, 4)


def decoded(data: bytes) -> SegmentIndexes:
    """Indexes of a segment whose manifest has the checksum of these bytes."""
    return decode(attrs.evolve(SEGMENT, index_size=len(data), index_crc32c=crc32c(data)), data)


@given(st.binary(max_size=100))
def test_noise_has_no_indexes(noise: bytes) -> None:
    with pytest.raises(DamagedObject):
        decoded(noise)


@given(st.data())
def test_sections_of_other_sizes_are_an_error(data: st.DataObject) -> None:
    counts = st.integers(0, 3)
    sizes = [data.draw(counts) * size + data.draw(st.just(0) | st.integers(0, size)) for size in ENTRY_BYTES]
    head = b"".join(number.to_bytes(4, "big") for number in (len(sizes), *sizes))
    text = head + bytes(sum(sizes))
    if all(size % unit == 0 for size, unit in zip(sizes, ENTRY_BYTES, strict=True)) and sizes[-1] == CHUNKS * 4:
        assert list(decoded(text).chunks) == [0] * CHUNKS
    else:
        with pytest.raises(DamagedObject):
            decoded(text)


@given(st.lists(st.integers(0, 2**32 - 1), max_size=6), st.integers(0, 2**63 - 1), st.integers(0, 2**31))
def test_entries_in_any_order_lead_to_one_of_them(numbers: list[int], offset: int, position: int) -> None:
    """Results are hints: readers compare them with the batches."""
    pairs = list(zip(numbers[0::2], numbers[1::2], strict=False))
    places = b"".join(number.to_bytes(4, "big") for pair in pairs for number in pair)
    indexes = decoded(encode(places, b"", b"", producer_snapshots.encode(()), ((2, 100),), [0] * CHUNKS))
    entries = {(-1, 0), *((SEGMENT.base_offset + relative, at) for relative, at in pairs)}
    assert {indexes.position(offset), indexes.offset_at(position)} <= entries
