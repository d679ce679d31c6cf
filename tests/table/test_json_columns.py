"""JSON as columns: inferred and given types, and texts that are not what is expected."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylogbroker.arrow_nesting import is_nested_too_deeply
from pylogbroker.errors import ConfigError
from pylogbroker.table import UndecodableRecord, read_batches, read_table
from pylogbroker.table.contents import Failures
from pylogbroker.table.json_columns import JsonForm, inferred_type, json_column
from pylogbroker.table.json_types import unified
from tests.spark.topics import Rec, Topics
from tests.support.examples import examples

#: Integers as JSON has them in 64 bits, and floats that are not whole numbers.
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
)
#: What may stand where JSON is expected, in the bytes of one record.
ODD_TEXTS = (
    b"",
    b" ",
    b'{"a":1}{"a":2}',
    b'{"a":1',
    b'1}\n{"v":2',
    b'{"a":1}}\n{"v":{"a":2}',
    b'{"a":1,}',
    b'{"a":NaN}',
    b'\xff{"a":1}',
    b'{"a":"\xff"}',
    b'{"a": 1 /* c */}',
    b"{'a': 1}",
    b'"abc',
    b'abc"',
    b"[" * 100_000,
)


def failures(on_error: Any = "raise", count: int = 100) -> Failures:
    return Failures(on_error, "value", "orders", 3, pa.array(range(50, 50 + count)))


def binary(*texts: bytes | None) -> pa.Array:
    return pa.array(texts, pa.binary())


def decoded(*values: Any) -> list[Any]:
    """Return values by way of JSON and an inferred type."""
    texts = binary(*(json.dumps(value).encode() for value in values))
    form = JsonForm()
    form.learn(texts, None)
    column = form.decoded(texts, None, failures())
    column.validate(full=True)
    assert column.type == form.type
    rows: list[Any] = column.to_pylist()
    return rows


PRICED = pa.struct([("price", pa.decimal128(9, 2)), ("other", pa.string())])


def test_members_of_all_records_become_one_type() -> None:
    assert decoded({"a": 1}, {"b": "x"}, {"a": None, "c": [{"d": 1.5}]}, None) == [
        {"a": 1, "b": None, "c": None},
        {"a": None, "b": "x", "c": None},
        {"a": None, "b": None, "c": [{"d": 1.5}]},
        None,
    ]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2.5], [1.0, 2.5]),
        ([1, "x"], ["1", "x"]),
        ([{"a": 1}, [2]], ['{"a": 1}', "[2]"]),
        ([[1], ["x", None]], [["1"], ["x", None]]),
        ([2**63, 1], [2.0**63, 1.0]),
        (["2026-01-02T03:04:05Z", "2026-01-02"], ["2026-01-02T03:04:05Z", "2026-01-02"]),
        ([None, None], [None, None]),
        ([{"a": None}, {"a": {}}], [{"a": None}, {"a": "{}"}]),
        ([{}, {}], ["{}", "{}"]),
        ([[], []], [[], []]),
        ([True, 1], ["true", "1"]),
    ],
    ids=str,
)
def test_values_of_different_types_are_unified(values: list[Any], expected: list[Any]) -> None:
    assert decoded(*values) == expected


@given(st.lists(VALUES, max_size=5))
@settings(max_examples=examples(200), deadline=None)
def test_no_value_is_lost(values: list[Any]) -> None:
    for value, row in zip(values, decoded(*values), strict=True):
        assert same(value, row), (value, row)


def same(value: Any, row: Any) -> bool:
    """Return whether a row has a value: absent members are null, and text has what no common type has."""
    if isinstance(row, str) and not isinstance(value, str):
        return bool(json.loads(row) == value)
    if isinstance(value, dict):
        members = {**dict.fromkeys(row), **value}
        return members.keys() == row.keys() and all(same(members[name], row[name]) for name in row)
    if isinstance(value, list):
        return len(value) == len(row) and all(same(*pair) for pair in zip(value, row, strict=True))
    return bool(value == row and isinstance(value, bool) == isinstance(row, bool)) or float(value) == row


@pytest.mark.parametrize("text", ODD_TEXTS, ids=lambda text: repr(text)[:30])
def test_a_text_that_is_no_json_is_named_and_changes_no_other(text: bytes) -> None:
    texts = binary(b'{"a":1}', text, b'{"a":3}')
    kind = inferred_type(binary(b'{"a":1}', b'{"a":3}'))
    with pytest.raises(UndecodableRecord, match=r"orders/3, offset 51: the value cannot be decoded: .*on_error"):
        json_column(texts, kind, failures())
    column = json_column(texts, kind, failures("null"))
    assert column.to_pylist() == [{"a": 1}, None, {"a": 3}]


@given(st.lists(st.sampled_from([*ODD_TEXTS[:-1], b'{"a":1}', b"null"]), min_size=1, max_size=6))
@settings(max_examples=examples(200), deadline=None)
def test_odd_texts_side_by_side_stay_apart(texts: list[bytes]) -> None:
    kind = pa.struct([("a", pa.int64())])
    rows = json_column(binary(*texts), kind, failures("null")).to_pylist()
    assert rows == [{"a": 1} if text == b'{"a":1}' else None for text in texts]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (pa.int8(), b"5", 5),
        (pa.int64(), b"1e2", 100),
        (pa.int64(), b'"9223372036854775807"', 2**63 - 1),
        (pa.uint64(), b'"18446744073709551615"', 2**64 - 1),
        (pa.float32(), b'"Infinity"', float("inf")),
        (pa.decimal128(20, 2), b"123456789012345678.25", Decimal("123456789012345678.25")),
        (pa.binary(), b'"AAH/"', b"\x00\x01\xff"),
        (pa.date32(), b'"2026-01-02"', date(2026, 1, 2)),
        (pa.date32(), b"1", date(1970, 1, 2)),
        (pa.time64("us"), b'"01:02:03.000004"', time(1, 2, 3, 4)),
        (pa.time32("ms"), b"1000", time(0, 0, 1)),
        (pa.timestamp("us", tz="UTC"), b'"2026-01-02T03:04:05.000006Z"', datetime(2026, 1, 2, 3, 4, 5, 6, UTC)),
        (pa.timestamp("ms", tz="UTC"), b'"2026-01-02T05:04:05+02:00"', datetime(2026, 1, 2, 3, 4, 5, 0, UTC)),
        (pa.timestamp("ms"), b"1000", datetime(1970, 1, 1, 0, 0, 1)),
        (pa.map_(pa.string(), pa.int64()), b'{"x":1,"y":null}', [("x", 1), ("y", None)]),
        (pa.string(), b'{"x":[1]}', '{"x": [1]}'),
        (
            PRICED,
            b'{"price":2.50,"other":{"a":[1.10,1e99,"1.1"]}}',
            {"price": 2.5, "other": '{"a": [1.10, 1E+99, "1.1"]}'},
        ),
        (PRICED, b'{"price":0e-9999999999,"other":1.0}', {"price": 0, "other": "1.0"}),
    ],
    ids=str,
)
def test_given_types(kind: pa.DataType, text: bytes, value: Any) -> None:
    assert json_column(binary(text, b"null", None), kind, failures()).to_pylist() == [value, None, None]


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (pa.int64(), b"1.5", "1.5 is no whole number"),
        (pa.int8(), b"300", "300"),
        (pa.int64(), b"true", "true is no whole number"),
        (pa.struct([("a", pa.int64())]), b'{"a":1,"b":2}', "it has a member 'b', which the type"),
        (pa.struct([("a", pa.int64())]), b'{"a":"x"}', "a: 'x' is no whole number"),
        (pa.struct([("a", pa.int64())]), b"[1]", r"\[1\] is not an object"),
        (pa.timestamp("ms", tz="UTC"), b'"2026-01-02T03:04:05.000006Z"', "more digits than the column's type"),
        (pa.timestamp("ms", tz="UTC"), b'"yesterday"', "yesterday"),
        (pa.binary(), b'"a"', "is not Base64"),
        (pa.bool_(), b"1", "1 is not true or false"),
        (PRICED, b'{"price":1e999999999}', r"price: 1E\+999999999 has too many digits"),
        (PRICED, b'{"price":1e-999999999}', "price: 1E-999999999 has too many digits"),
        (PRICED, b'{"price":"-1e-999999999"}', "price: '-1e-999999999' has too many digits"),
        (pa.struct([*PRICED, ("n", pa.int64())]), b'{"n":1e999999999}', r"n: 1E\+999999999 is too large"),
    ],
    ids=str,
)
def test_values_that_a_type_does_not_have_are_named(kind: pa.DataType, text: bytes, reason: str) -> None:
    with pytest.raises(UndecodableRecord, match=reason):
        json_column(binary(text), kind, failures())
    assert json_column(binary(text), kind, failures("null")).to_pylist() == [None]


def nested(opening: bytes, closing: bytes, levels: int) -> bytes:
    return opening * levels + b"1" + closing * levels


@pytest.mark.parametrize("text", [
    nested(b"[", b"]", 300_000),
    nested(b'{"a":', b"}", 300_000),
    nested(b'["]",', b"]", 300_000),
    nested(b'["\\"]",', b"]", 300_000),
    b"[" * 300_000,
    b'["' + b"[" * 300_000,
])  # fmt: skip
def test_a_value_of_too_many_levels_is_named(text: bytes) -> None:
    """Arrow's reader would crash."""
    texts = binary(b"1", text)
    assert inferred_type(texts) == pa.int64()
    for kind in (pa.int64(), pa.struct([("a", pa.string())])):
        with pytest.raises(UndecodableRecord, match="orders/3, offset 50"):
            json_column(texts.slice(1), kind, failures())
    assert json_column(texts, pa.int64(), failures("null")).to_pylist() == [1, None]


@pytest.mark.parametrize("levels", [3, 59, 70, 450, 501])
def test_deep_levels_of_a_value_are_text(levels: int) -> None:
    text = nested(b'{"a":', b"}", levels)
    kind = inferred_type(binary(text))
    [value] = json_column(binary(text), kind, failures()).to_pylist()
    depth = 0
    while isinstance(value, dict):
        value, depth = value["a"], depth + 1
    assert depth == min(levels, 61)
    rest = json.loads(value) if isinstance(value, str) else value
    assert rest == json.loads(nested(b'{"a":', b"}", levels - depth))


def test_many_brackets_within_strings_and_side_by_side_are_no_levels() -> None:
    values = [{"text": "[{" * 2000, "list": [[index] for index in range(2000)]}]
    texts = binary(*(json.dumps(value).encode() for value in values))
    assert not is_nested_too_deeply(texts)
    assert json_column(texts, inferred_type(texts), failures()).to_pylist() == values


def test_types_that_json_has_no_form_for_are_rejected() -> None:
    with pytest.raises(ConfigError, match="JSON cannot be read as"):
        json_column(binary(b"1"), pa.duration("s"), failures())


@given(st.lists(st.lists(VALUES, max_size=3), min_size=3, max_size=3))
@settings(max_examples=examples(100), deadline=None)
def test_the_order_of_a_sample_does_not_matter(parts: list[list[Any]]) -> None:
    kinds = [inferred_type(binary(*(json.dumps(value).encode() for value in part))) for part in parts]
    first = unified(unified(kinds[0], kinds[1]), kinds[2])
    second = unified(kinds[2], unified(kinds[1], kinds[0]))
    assert sorted_type(first) == sorted_type(second)


def sorted_type(kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        return sorted((field.name, str(sorted_type(field.type))) for field in kind)
    return [sorted_type(kind.value_type)] if pa.types.is_list(kind) else kind


def test_json_of_a_topic(topics: Topics, place: dict[str, Any]) -> None:
    topic = topics.make(partitions=2)
    topics.fill(topic, [Rec(b'{"user": "a", "amount": 3}', b'{"id": 1}', 0), Rec(b'{"user": "b"}', None, 1), Rec(None)])
    forms: dict[str, Any] = {"key": "json", "value": "json"}
    columns = ["partition", "key.id", "value.user", "value.amount"]
    expected = [
        {"partition": 0, "key.id": 1, "value.user": "a", "value.amount": 3},
        {"partition": 0, "key.id": None, "value.user": None, "value.amount": None},
        {"partition": 1, "key.id": None, "value.user": "b", "value.amount": None},
    ]
    assert read_table(topic, **place, **forms, columns=columns).to_pylist() == expected
    assert read_batches(topic, **place, **forms, columns=columns).read_all().to_pylist() == expected
    given = {"user": pa.string(), "amount": pa.decimal128(5, 2)}
    table = read_table(topic, **place, value="json", value_schema=given, columns=["value.amount"])
    assert table.column("value.amount").to_pylist() == [Decimal(3), None, None]
    for read in (read_table, read_batches):
        with pytest.raises(ConfigError, match=r"there is no 'value\.usr': value has user, amount"):
            read(topic, **place, value="json", columns=["value.usr"])


def test_a_stream_names_a_record_with_members_that_the_sample_does_not_have(
    topics: Topics, place: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pylogbroker.table.reading._SAMPLE_RECORDS", 4)
    topic = topics.make()
    topics.fill(topic, [Rec(b'{"a": 1}'), Rec(b'{"b": 1}'), Rec(b'{"late": 1}'), Rec(b'{"b": 1}'), Rec(b'{"c": 1}')])
    with pytest.raises(UndecodableRecord, match=f"{topic}/0, offset 2: .*it has a member 'late'"):
        read_batches(topic, **place, value="json").read_all()
    table = read_table(topic, **place, value="json")
    assert [field.name for field in table.schema.field("value").type] == ["a", "b", "late", "c"]
