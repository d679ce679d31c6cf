"""The markers that end transactions, against a batch laid out by hand and kafka-python's reading."""

from __future__ import annotations

import struct

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecords

from pylogbroker.records import Marker, Record, build, end_marker, entries
from tests.storage.support import NOW, batch, marker

COMMIT_KEY = b"\0\0\0\1"
VALUE = b"\0\0\0\0\0\7"


def control(key: bytes | None, value: bytes | None, *more: Record) -> bytes:
    return build([Record(0, NOW, key, value), *more], producer_id=5, producer_epoch=0, control=True, transactional=True)


def said(data: bytes) -> Marker | None:
    [entry] = entries(data)
    return entry.marker


@given(st.booleans(), st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1))
def test_the_layout_of_a_marker(committed: bool, coordinator_epoch: int, producer_id: int, epoch: int) -> None:
    data = end_marker(committed, coordinator_epoch, producer_id, epoch, NOW)
    assert data == marker(committed, producer_id, epoch, coordinator_epoch)
    assert said(data) == Marker(committed, coordinator_epoch)


@pytest.mark.parametrize("committed", [False, True])
def test_a_peer_reads_the_marker(committed: bool) -> None:
    theirs = MemoryRecords(end_marker(committed, 7, 5, 3, NOW)).next_batch()
    assert theirs.validate_crc()
    assert (theirs.is_control_batch, theirs.is_transactional) == (True, True)
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == (5, 3, -1)
    [record] = theirs
    assert (record.commit, record.abort) == (committed, not committed)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\0\0\0\2", VALUE),  # a change of leader, as the quorum of a cluster writes it
        (b"\0\0", VALUE),
        (b"", VALUE),
        (None, VALUE),
        (b"\xff\xff\0\1", VALUE),  # a negative version
        (COMMIT_KEY, None),
        (COMMIT_KEY, b"\0\0\0\0\0"),
        (COMMIT_KEY, b"\xff\xff\0\0\0\7"),
    ],
)
def test_invalid_markers_are_ignored(key: bytes | None, value: bytes | None) -> None:
    assert said(control(key, value)) is None


def test_later_versions_may_say_more() -> None:
    assert said(control(b"\0\1\0\1more", b"\0\1\0\0\0\7more")) == Marker(True, 7)


def test_data_is_no_marker() -> None:
    assert said(batch([VALUE], transactional=True, producer=(5, 0, 0))) is None


def test_a_batch_emptied_by_compaction_is_no_marker() -> None:
    whole = bytearray(end_marker(True, 7, 5, 0, NOW))[:61]
    struct.pack_into(">i", whole, 8, 61 - 12)
    struct.pack_into(">i", whole, 57, 0)
    assert said(bytes(whole)) is None


def test_damage_within_is_no_marker() -> None:
    [entry] = entries(end_marker(True, 7, 5, 0, NOW))
    for length in range(61, entry.size):
        assert attrs.evolve(entry, buffer=entry.buffer[:length]).marker is None
