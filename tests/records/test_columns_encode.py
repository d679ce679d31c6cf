"""Batches from columns, byte by byte those that `build` makes, and read by other implementations."""

from __future__ import annotations

import doctest
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylogbroker.errors import InvalidRecords
from pylogbroker.records import Codec, Record, build, columnar
from pylogbroker.records.columnar import encode
from tests.records.reference_codecs import PEERS, Peer
from tests.records.strategies import BYTES, HEADERS
from tests.support.examples import examples

TIMES = st.one_of(st.integers(1000, 1080), st.integers(-1, 1 << 48))


def encoded(records: list[Record], codec: Codec = Codec.NONE, **fields: int) -> bytes:
    return encode(
        [record.key for record in records],
        [record.value for record in records],
        [record.timestamp for record in records],
        [record.headers for record in records],
        codec=codec,
        **fields,
    )


def bare(count: int, size: int, step: int = 0) -> list[Record]:
    return [Record(index, 1000 + index * step, None, bytes([index & 0xFF]) * size) for index in range(count)]


@given(
    st.lists(st.tuples(st.none() | BYTES, st.none() | BYTES, TIMES, HEADERS), min_size=1, max_size=20),
    st.booleans(),
    st.booleans(),
    st.sampled_from(Codec),
)
@settings(max_examples=examples(300), deadline=None)
def test_the_same_bytes(rows: list[tuple], keyed: bool, headed: bool, codec: Codec) -> None:
    keys, values, times, headers = (list(column) for column in zip(*rows, strict=True))
    records = [
        Record(0, time, key if keyed else None, value, each if headed else ())
        for key, value, time, each in zip(keys, values, times, headers, strict=True)
    ]
    found = encode(keys if keyed else None, values, times, headers if headed else None, codec=codec)
    assert found == build(records, codec=codec)


@pytest.mark.parametrize("count", [1, 6, 7, 63, 64, 65, 300, 8191, 8192, 8193, 9000])
@pytest.mark.parametrize("size", [0, 50, 57, 58, 59, 63, 64, 100])
def test_numbers_of_records(count: int, size: int) -> None:
    for step in (0, 1) if count < 1000 else (size % 2,):
        records = bare(count, size, step)
        assert encoded(records) == build(records)
        keyed = [Record(0, each.timestamp, b"k" * (each.offset % 70), each.value) for each in records]
        assert encoded(keyed) == build(keyed)


@pytest.mark.parametrize("size", [8000, *range(8170, 8200), 100_000])
def test_sizes_at_the_tables_end(size: int) -> None:
    for key in (None, b"", b"k" * 64, b"k" * 9000):
        records = [Record(index, 7, key, bytes(size)) for index in range(70)]
        assert encoded(records) == build(records)


def test_timestamps_around_the_first() -> None:
    for elapsed in (-65, -64, -1, 0, 1, 62, 63, 64, 8191, 8192, 1 << 40):
        records = [Record(0, 1 << 41, None, b"v")] * 9 + [Record(0, (1 << 41) + elapsed, None, b"v")]
        assert encoded(records) == build(records)


def test_a_producer_and_a_transaction() -> None:
    records = bare(20, 10)
    fields = {"producer_id": 77, "producer_epoch": 3, "base_sequence": 12, "base_offset": 5, "leader_epoch": 8}
    assert encoded(records, **fields, transactional=True) == build(records, **fields, transactional=True)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
@pytest.mark.parametrize("codec", Codec)
def test_peers_read_encoded_columns(peer: Peer, codec: Codec) -> None:
    source = random.Random(3)
    for keyed in (False, True):
        records = [
            Record(each, 1000 + each // 9, source.randbytes(each % 80) if keyed else None, source.randbytes(each))
            for each in range(300)
        ]
        assert peer.read(encoded(records, codec)) == records


def test_invalid_columns_are_rejected() -> None:
    with pytest.raises(InvalidRecords):
        encode(None, [], [])
    with pytest.raises(InvalidRecords):
        encode(None, [b"v"], [1 << 63])
    with pytest.raises(InvalidRecords, match="differ"):
        encode(None, [b"a", b"b"], [1])
    with pytest.raises(InvalidRecords, match="differ"):
        encode([b"k"], [b"a", b"b"], [1, 1])
    with pytest.raises(InvalidRecords, match="differ"):
        encode(None, [b"a", b"b"], [1, 1], [()])


def test_the_front_door() -> None:
    outcome = doctest.testmod(columnar)
    assert outcome.attempted > 2
    assert not outcome.failed
