"""Arrow columns as record batches, read back by kafka-python and by the ordinary decoder."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecords

from pylogbroker.errors import InvalidRecords
from pylogbroker.records import Codec, entries
from pylogbroker.spark.writing.encoder import BinaryColumns, Encoded, Packing, as_binary, encode, header_bytes

NOW = 1_700_000_000_123
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
FIELD = st.one_of(st.none(), st.binary(max_size=8), st.binary(min_size=60, max_size=70), st.just(b"v" * 9000))
HEADER = st.tuples(st.text(max_size=3), st.one_of(st.none(), st.binary(max_size=5)))
ROW = st.tuples(FIELD, FIELD, st.one_of(st.none(), st.lists(HEADER, max_size=3)))

Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]] | None]


@given(st.lists(ROW, min_size=1, max_size=150), st.sampled_from(Codec), st.integers(200, 20_000))
def test_rows_come_back(rows: list[Row], codec: Codec, largest: int) -> None:
    batches = [batch for _, batch in encode(_columns(rows), [0], Packing(largest, codec), NOW)]
    assert [record for batch in batches for record in _read(batch)] == [
        (key, value, list(headers or []), NOW) for key, value, headers in rows
    ]


@given(st.lists(ROW, min_size=1, max_size=100), st.integers(0, 50), st.integers(0, 50))
def test_slices_of_columns_come_back(rows: list[Row], start: int, count: int) -> None:
    headers = _headers(rows).slice(start, count)
    keys, values = (pa.array([row[field] for row in rows], pa.binary()).slice(start, count) for field in (0, 1))
    if not len(values):
        return
    [(_, batch)] = encode(BinaryColumns(values, keys, header_bytes(headers)), [0], Packing(10_000_000), NOW)
    expected = [(key, value, list(each or []), NOW) for key, value, each in rows[start : start + count]]
    assert _read(batch) == expected


@given(st.lists(st.integers(0, 300), min_size=1, max_size=60), st.integers(100, 700), st.data())
def test_batches_are_no_larger_than_asked_for(sizes: list[int], largest: int, data: st.DataObject) -> None:
    runs = [0, *sorted(data.draw(st.sets(st.integers(1, len(sizes)), max_size=4)) - {len(sizes)})]
    rows = BinaryColumns(pa.array([b"x" * size for size in sizes], pa.binary()))
    found = list(encode(rows, runs, Packing(largest), NOW))
    starts = [first for first, _ in found]
    assert set(runs) <= set(starts)
    assert [first + batch.count for first, batch in found] == [*starts[1:], len(sizes)]
    assert all(len(batch.sealed((7, 0, 0))) == len(batch) for _, batch in found)
    assert all(len(batch) <= largest or batch.count == 1 for _, batch in found)


def test_a_batch_has_as_many_records_as_fit() -> None:
    rows = BinaryColumns(pa.array([b"x" * 90] * 1000, pa.binary()))
    counts = [batch.count for _, batch in encode(rows, [0], Packing(10_000), NOW)]
    assert min(counts[:-1]) >= 93  # of about 100 bytes each


def test_a_sealed_batch_carries_its_producer() -> None:
    [(_, batch)] = encode(BinaryColumns(pa.array([b"1", b"2"], pa.binary())), [0], Packing(1000), NOW)
    [entry] = entries(batch.sealed((17, 3, 40), transactional=True))
    assert (entry.producer_id, entry.producer_epoch, entry.base_sequence) == (17, 3, 40)
    assert entry.is_transactional
    assert (entry.count, entry.first_timestamp, entry.max_timestamp) == (2, NOW, NOW)


@pytest.mark.parametrize("codec", Codec)
def test_halves_have_the_same_records(codec: Codec) -> None:
    rows: list[Row] = [(b"k%d" % n, None if n == 3 else b"v%d" % n, [("h", b"%d" % n)]) for n in range(7)]
    [(_, batch)] = encode(_columns(rows), [0], Packing(1000, codec), NOW)
    first, second = batch.halves()
    assert (first.count, second.count) == (3, 4)
    assert _read(first) + _read(second) == _read(batch)


def test_a_header_without_a_key_is_rejected() -> None:
    column = pa.array([[{"key": None, "value": b"1"}]], HEADERS)
    with pytest.raises(InvalidRecords, match="no key"):
        header_bytes(column)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_strings_and_bytes_however_arrow_keeps_them(kind: pa.DataType) -> None:
    column = as_binary(
        pa.array(["a", None, "\u00e4"], kind) if "string" in str(kind) else pa.array([b"a", None, b"\xc3\xa4"], kind)
    )
    assert column.type == pa.binary()
    assert column.to_pylist() == [b"a", None, b"\xc3\xa4"]


def _columns(rows: list[Row]) -> BinaryColumns:
    keys, values = (pa.array([row[field] for row in rows], pa.binary()) for field in (0, 1))
    return BinaryColumns(values, None if keys.null_count == len(keys) else keys, header_bytes(_headers(rows)))


def _headers(rows: list[Row]) -> pa.ListArray:
    lists = [None if row[2] is None else [{"key": key, "value": value} for key, value in row[2]] for row in rows]
    return pa.array(lists, HEADERS)


def _read(batch: Encoded) -> list[tuple[Any, ...]]:
    """Read records by kafka-python."""
    found = MemoryRecords(batch.sealed((1, 0, 0))).next_batch()
    assert found is not None
    assert found.validate_crc()
    records = list(found)
    assert [record.offset for record in records] == list(range(batch.count))
    return [(record.key, record.value, list(record.headers), record.timestamp) for record in records]
