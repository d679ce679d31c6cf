"""Lines as columns, beside lines one by one, and columns as batches."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylogbroker.cli import batch_producer
from pylogbroker.cli.batch_producer import BatchProducer, partitions_of
from pylogbroker.cli.line_records import (
    LineRecords,
    LineRejected,
    Target,
    columns_of_json,
    columns_of_lines,
    columns_of_rows,
)
from pylogbroker.partition_hash import partition_of_key
from pylogbroker.records import entries
from tests.support.examples import examples

LINES = st.lists(st.one_of(st.binary(max_size=9), st.text("ab:;", max_size=6).map(str.encode)), max_size=12).map(
    lambda lines: [line.replace(b"\n", b"") for line in lines]
)
TEXTS = st.none() | st.text(st.characters(exclude_categories=("Cs",)), max_size=6)
NAMES = st.text(st.characters(exclude_categories=("Cs",)), max_size=4)
TIMES = st.none() | st.integers(-1, 1 << 41)
FIXED = (("fixed", b"1"), ("none", None))

Row = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int | None]


@given(LINES, st.none() | st.binary(max_size=3), st.none() | st.sampled_from([b":", b"::", b"ab"]), st.booleans())
@settings(max_examples=examples(300), deadline=None)
def test_lines_become_the_records_that_each_line_is(
    lines: list[bytes], key: bytes | None, delimiter: bytes | None, nulls: bool
) -> None:
    expected = []
    for line in lines:
        own, value = key, line
        if delimiter is not None:
            own = None
            if delimiter in line:
                place = line.index(delimiter)
                own, value = line[:place], line[place + len(delimiter) :]
        expected.append((own or None, value or None, (), None) if nulls else (own, value, (), None))
    assert [*columns_of_lines(lines, key=key, delimiter=delimiter, nulls=nulls).rows()] == expected


def json_lines(form: Callable[[str | None], Any]) -> st.SearchStrategy[tuple[bytes, Row]]:
    """Lines of JSON, and the records that they are."""

    def line(parts: tuple[Any, ...]) -> tuple[bytes, Row]:
        key, value, headers, timestamp, spaces, is_ascii = parts
        members: dict[str, Any] = {"key": form(key), "value": form(value), "other": [{}]}
        if headers is not None:
            members["headers"] = [[name, form(text)] for name, text in headers]
        if timestamp is not None:
            members["timestamp"] = timestamp
        own = tuple((name, encoded(text)) for name, text in headers or ())
        time = None if timestamp == -1 else timestamp
        text = json.dumps(members, ensure_ascii=is_ascii) + spaces
        return text.encode(), (encoded(key), encoded(value), own, time)

    headers = st.none() | st.lists(st.tuples(NAMES, TEXTS), max_size=2)
    return st.tuples(TEXTS, TEXTS, headers, TIMES, st.sampled_from(["", "", " ", "\r"]), st.booleans()).map(line)


def encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def in_base64(text: str | None) -> str | None:
    return None if text is None else b64encode(text.encode()).decode()


PLAIN_LINES = json_lines(lambda text: text)
BASE64_LINES = json_lines(in_base64)


@given(st.booleans(), st.data())
@settings(max_examples=examples(300), deadline=None)
def test_json_becomes_the_records_that_each_line_is(base64: bool, data: st.DataObject) -> None:
    drawn = data.draw(st.lists(BASE64_LINES if base64 else PLAIN_LINES, max_size=8))
    columns = columns_of_json([line for line, _ in drawn], base64)
    assert [*columns.rows()] == [row for _, row in drawn]


@pytest.mark.parametrize(
    "wrong",
    [
        *(b"", b"{", b"[]", b'{"value": 1}', b'{"value": "x"} {}', b'{"value": "x"},{}', b'{"value": "\xff"}'),
        *(b'\xef\xbb\xbf{"value": "x"}', b"[" * 100_000, b'{"headers": [["a"]]}', b'{"timestamp": "1"}'),
    ],
)
def test_records_before_a_wrong_line_are_kept(wrong: bytes) -> None:
    with pytest.raises(LineRejected, match="is no record") as raised:
        columns_of_json([b'{"value": "a"}', b'{"key": "k", "value": "b"}', wrong, b'{"value": "c"}'], base64=False)
    assert [*raised.value.before.rows()] == [(None, b"a", (), None), (b"k", b"b", (), None)]


def test_an_object_is_not_joined_from_two_lines() -> None:
    for lines in ([b'{"value": "x"', b'"key": "y"}'], [b'{"value": "x', b'y"}'], [b"{}", b"", b"{}"]):
        with pytest.raises(LineRejected):
            columns_of_json(lines, base64=False)


FIELDS = st.none() | st.binary(max_size=70)
ROWS = st.lists(
    st.tuples(
        FIELDS,
        FIELDS,
        st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=3)), max_size=2).map(tuple),
        st.none() | st.integers(0, 1 << 41),
    ),
    min_size=1,
    max_size=30,
)


def sent(target: Target, rows: list[Row], partitions: int, **options: str) -> dict[int, list[Row]]:
    """Return the records that batches of a producer have, read one by one; their sizes are no larger than allowed."""
    producer = BatchProducer(target, {"bootstrap.servers": "127.0.0.1:1", **options})
    columns = columns_of_rows(rows)
    lot = batch_producer._Lot(columns, batch_producer.Future(), len(rows))
    sizes = producer._check_sizes(lot)
    written: dict[int, list[Row]] = {}
    for partition, some, own_sizes in producer._by_partition(columns, sizes, partitions):
        for batch in producer._encoded(some, own_sizes, None):
            assert len(batch) <= producer._batch_max or batch.count == 1
            [entry] = entries(batch.sealed((-1, -1, -1)))
            records = [*entry.records()]
            assert entry.max_timestamp == max(record.timestamp for record in records)
            written.setdefault(partition, []).extend(
                (record.key, record.value, record.headers, record.timestamp) for record in records
            )
    return written


@given(ROWS, st.sampled_from([(), FIXED]), st.sampled_from([1, 3, 20]), st.none() | st.integers(0, 19))
@settings(max_examples=examples(300), deadline=None)
def test_batches_have_the_records_at_their_partitions(
    rows: list[Row], headers: tuple[Any, ...], partitions: int, partition: int | None
) -> None:
    now = 1_700_000_000_000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_producer.time, "time_ns", lambda: now * 1_000_000)
        written = sent(Target("t", partition, headers), rows, partitions, **{"max.request.size": "700"})
    expected: dict[int, list[Row]] = {}
    for key, value, own, time in rows:
        place = partition
        if place is None:
            place = 1 % partitions if key is None or partitions == 1 else partition_of_key(key, partitions)
        row = (key, value, (*own, *headers), now if time is None else time)
        expected.setdefault(place, []).append(row)
    assert written == expected


@given(st.lists(st.none() | st.binary(max_size=300), min_size=1, max_size=20), st.integers(2, 50))
@settings(max_examples=examples(100), deadline=None)
def test_partitions_of_many_keys_are_those_of_each(keys: list[bytes | None], partitions: int) -> None:
    expected = [7 if key is None else partition_of_key(key, partitions) for key in keys]
    assert partitions_of(keys, partitions, 7).tolist() == expected


def test_halves_of_a_batch_keep_their_timestamps() -> None:
    rows: list[Row] = [(None, b"%d" % number, (), 1000 - 300 * number) for number in range(4)]
    columns = columns_of_rows(rows)
    whole = batch_producer.Encoded.of(None, columns.values, [row[3] or 0 for row in rows])
    times = [
        record.timestamp
        for half in whole.halves()
        for entry in entries(half.sealed((-1, -1, -1)))
        for record in entry.records()
    ]
    assert times == [1000, 700, 400, 100]


def test_columns_are_cut_and_chosen() -> None:
    columns = LineRecords([b"a", b"b", b"c"], [None, b"k", None], None, [1, 2, None])
    assert [*columns.first(1).rows()] == [(None, b"a", (), 1)]
    assert [*columns.take([2]).rows()] == [(None, b"c", (), None)]
    assert [*columns.take([2, 1]).rows()] == [(None, b"c", (), None), (b"k", b"b", (), 2)]
