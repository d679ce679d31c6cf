"""Records that other clients write are read here, and the other way round."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylogbroker.records import Codec, Record, TimestampType, build, entries
from tests.records.reference_codecs import PEER_FORMATS, PEERS, Peer
from tests.records.strategies import records_for
from tests.support.examples import examples

parametrized = pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
in_formats = pytest.mark.parametrize(("magic", "codec"), PEER_FORMATS, ids=lambda value: str(value))


def read(data: bytes) -> list[Record]:
    found = []
    for entry in entries(data):
        entry.check()
        found += list(entry.records())
    return found


@parametrized
@in_formats
@given(data=st.data())
@settings(max_examples=examples(15), deadline=None)
def test_peers_records_are_read(peer: Peer, magic: int, codec: Codec, data: st.DataObject) -> None:
    records = data.draw(records_for(magic))
    assert read(peer.write(records, magic, codec)) == records


@parametrized
@in_formats
@given(data=st.data(), base=st.integers(0, 1 << 40))
@settings(max_examples=examples(15), deadline=None)
def test_peers_read_our_records(peer: Peer, magic: int, codec: Codec, data: st.DataObject, base: int) -> None:
    records = data.draw(records_for(magic))
    numbered = [attrs.evolve(each, offset=base + each.offset) for each in records]
    assert peer.read(build(records, magic=magic, codec=codec, base_offset=base)) == numbered
    assert peer.read(build(numbered, magic=magic, codec=codec, base_offset=None)) == numbered


@parametrized
@pytest.mark.parametrize(("magic", "codec"), [each for each in PEER_FORMATS if each[0]], ids=str)
def test_peers_read_append_times(peer: Peer, magic: int, codec: Codec) -> None:
    records = [Record(offset, 1000 + offset, None, b"value") for offset in range(3)]
    data = build(records, magic=magic, codec=codec, timestamp_type=TimestampType.LOG_APPEND_TIME, append_time=7777)
    assert {(each.timestamp, each.timestamp_type) for each in peer.read(data)} == {
        (7777, TimestampType.LOG_APPEND_TIME)
    }


@parametrized
@in_formats
def test_gaps_between_offsets_survive(peer: Peer, magic: int, codec: Codec) -> None:
    records = [Record(offset, -1 if magic == 0 else 5, b"k", b"v" * 100) for offset in (17, 18, 40, 1041)]
    assert peer.read(build(records, magic=magic, codec=codec, base_offset=None)) == records


@parametrized
def test_large_values_cross_every_codecs_block_size(peer: Peer) -> None:
    value = bytes(range(256)) * 1200
    for magic, codec in PEER_FORMATS:
        records = [
            Record(0, -1 if magic == 0 else 1, b"a", value),
            Record(1, -1 if magic == 0 else 2, None, value[:-1]),
        ]
        assert peer.read(build(records, magic=magic, codec=codec)) == records
        assert read(peer.write(records, magic, codec)) == records


@parametrized
def test_a_batchs_header(peer: Peer) -> None:
    data = build(
        [Record(0, 1000, None, b"a"), Record(1, 900, None, b"b")],
        codec=Codec.GZIP,
        base_offset=1 << 33,
        producer_id=1 << 40,
        producer_epoch=3,
        base_sequence=77,
        transactional=True,
        leader_epoch=9,
    )
    [theirs] = peer.batches(data)
    [ours] = entries(data)
    for field in ("base_offset", "first_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence"):
        assert getattr(ours, field) == getattr(theirs, field), field
    assert (ours.first_timestamp, ours.max_timestamp) == (1000, 1000)
    assert ours.next_offset == theirs.next_offset
    assert (
        (ours.is_transactional, ours.is_control) == (True, False) == (theirs.is_transactional, theirs.is_control_batch)
    )
    assert (ours.codec, ours.timestamp_type) == (theirs.compression_type, theirs.timestamp_type)
    assert (ours.leader_epoch, ours.last_sequence, ours.count, ours.size) == (9, 78, 2, len(data))


def test_control_batches_are_seen_as_such() -> None:
    data = build([Record(0, 5, b"\0\0\0\1", b"\0\0\0\0\0\7")], producer_id=4, base_sequence=-1, control=True)
    [ours] = entries(data)
    assert ours.is_control
    for peer in PEERS:
        [theirs] = peer.batches(data)
        assert theirs.is_control_batch, peer.name
