"""Conditions on records: which records fulfil them, and what their errors say."""

from __future__ import annotations

import pytest

from pylogbroker.conditions import JSON_BYTES_MAX, BadCondition, Subject, compile_condition

ORDER = (
    b'{"order":9007199254740993,"customer":"c-3","amount":129.90,"paid":true,"note":null,"items":[{"price":10.5},7],'
    b'"a b":{"x":"Stra\\u00dfe"},"twice":1,"twice":2,"\\u0063ity":"Z\xc3\xbcrich"}'
)
RECORD = Subject(4, 402338, 1700000000000, b"c-3:0993", ORDER, (("trace", b"1"), ("trace", b"5f1c"), ("none", None)))


def is_met(condition: str, record: Subject = RECORD) -> bool:
    """Return the answer, after a check that the needles agree with it."""
    compiled = compile_condition(condition)
    answer = compiled.is_met_by(record)
    parts = (record.key or b"", record.value or b"", *(name.encode() + (text or b"") for name, text in record.headers))
    if answer and compiled.needles is not None:
        assert compiled.needles.are_in(b"|".join(parts)), condition
    return answer


@pytest.mark.parametrize(
    "condition",
    [
        'value.customer == "c-3"',
        "value.customer == 'c-3' and value.amount == 129.9",
        "value.amount > 129.899999999999999999999999999999",
        "value.order == 9007199254740993 and value.order != 9007199254740992",
        "value.items[0].price >= 10.5 and value.items[1] < 7.01",
        "value.paid == true and not value.paid == 1",
        "value.note == null and exists value.note and not value.missing == null",
        'value["a b"].x ~ "STRASSE"',
        "value.twice == 2",
        'value.city == "Zürich" and value.city ~ "ZÜR"',
        'headers["trace"] == "5f1c" and headers["none"] == null',
        'exists headers["none"] and not exists headers["other"]',
        'key ~ "C-3" and key == "c-3:0993" and exists key',
        "partition == 4 and offset >= 402338 and size == 186 or offset < 0",
        'time > "2023-11-14T22:13:19" and time <= 1700000000000 and time < "2023-11-15T00:00+01:00"',
        '10 < value.amount and "c-2" < value.customer and value.customer <= "c-3"',
        "value.twice < value.amount and value.customer != value.order and value.paid == value.paid",
        'value ~ "\\"amount\\":129.90"',
        'not (value.customer == "c-4" or value.customer == "c-5")',
        'value.customer != 3 and value.missing != "x"',
        'value.customer=="c-3"and(exists value.order)',
    ],
)
def test_a_condition_that_the_record_fulfils(condition: str) -> None:
    assert is_met(condition)
    assert not is_met(f"not ({condition})")


@pytest.mark.parametrize(
    "condition",
    [
        'value.order == 9007199254740992 or value.amount == "129.90"',
        "value.items[2] == 7 or value.items.price == 10.5 or value.customer[0] == 'c'",
        "value.missing < 1 or value.missing > 1 or value.customer < 5 or value.paid < 5",
        'value.items == "x" or value.items == value.items',
        "value.note < value.note or value.missing == value.missing",
        'key.a == "c-3" or exists key.a',
    ],
)
def test_a_condition_that_the_record_does_not_fulfil(condition: str) -> None:
    assert not is_met(condition)


def test_contents_that_are_no_json() -> None:
    for value in (None, b"", b"{", b'{"a": NaN}', b"\xff", b"[" * 100_000, b'{"a": 1} x', b"not json"):
        record = Subject(0, 0, 0, None, value)
        assert not is_met("exists value.a", record)
        assert is_met('value.a != "x" and key == null and not exists key', record)
    assert is_met("value == null", Subject(0, 0, 0, None, None))
    assert is_met("value.a == 1", Subject(0, 0, 0, None, b' \n{"a": 1}\r\n'))
    assert is_met("key.a == 1", Subject(0, 0, 0, b'{"a":1}', None))
    too_long = b'{"a":1,"b":"' + b"x" * JSON_BYTES_MAX + b'"}'
    assert not is_met("value.a == 1", Subject(0, 0, 0, None, too_long))


def test_numbers_beyond_those_of_the_processor() -> None:
    long = b'{"a":' + b"9" * 5000 + b"}"
    assert is_met("value.a > 1e4999 and value.a < 1e5000", Subject(0, 0, 0, None, long))
    huge = b'{"a":1e%s,"b":-1e%s,"c":1e-%s,"d":0e%s}' % ((b"9" * 20,) * 4)
    assert is_met("value.a > 1e1000 and value.b < 0 and value.c < 1 and value.d == 0", Subject(0, 0, 0, None, huge))


def test_a_time_that_is_none() -> None:
    with pytest.raises(BadCondition, match=r'character 8: "noon" is no time. Write a time like "2026-11-28T07:00".'):
        compile_condition("time > 'noon'")
