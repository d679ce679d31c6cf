"""Values: what a kind reads, rejects, describes and writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.config.value_kinds import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    SHORT,
    TEXT,
    ConfigType,
    Value,
    ValueKind,
    any_of,
    at_least,
    between,
    one_of,
    render,
)

DOUBLE = ValueKind(ConfigType.DOUBLE)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (BOOLEAN, "TRUE", True),
        (BOOLEAN, " false ", False),
        (INT, "+12", 12),
        (INT, "-2147483648", -(2**31)),
        (LONG, "9223372036854775807", 2**63 - 1),
        (SHORT, "-1", -1),
        (DOUBLE, "1e3", 1000.0),
        (TEXT, "  a b ", "a b"),
        (LIST, "", ()),
        (LIST, "a, b ,c", ("a", "b", "c")),
        (any_of("compact", "delete"), "delete,compact", ("delete", "compact")),
        (one_of("a", "b"), "b", "b"),
        (between(1, 9, also=-1), "-1", -1),
    ],
)
def test_a_text_is_read(kind: ValueKind, text: str, value: Value) -> None:
    assert kind.parse(text) == value
    assert type(kind.parse(text)) is type(value)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (BOOLEAN, "yes"),
        (BOOLEAN, ""),
        (INT, "1.0"),
        (INT, "0x10"),
        (INT, "1_000"),
        (INT, "١٢"),
        (INT, "2147483648"),
        (SHORT, "32768"),
        (LONG, "9" * 5000),
        (at_least(0), "-1"),
        (between(1, 9, also=-1), "0"),
        (DOUBLE, "nan"),
        (DOUBLE, "half"),
        (between(0, 1, DOUBLE), "1.01"),
        (one_of("a", "b"), "A"),
        (any_of("compact", "delete"), "delete,forget"),
        (any_of("compact", "delete"), ""),
    ],
)
def test_a_text_is_rejected(kind: ValueKind, text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        kind.parse(text)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (BOOLEAN, "true or false"),
        (at_least(1), "a whole number from 1 to 2147483647"),
        (between(1, 9, also=-1), "a whole number from 1 to 9 or -1"),
        (between(0, 1, DOUBLE), "a number from 0 to 1"),
        (one_of("a", "b"), "one of a, b"),
        (any_of("a", "b"), "any of a, b"),
        (TEXT, "a text"),
    ],
)
def test_expected_words_of_a_kind(kind: ValueKind, words: str) -> None:
    assert kind.expected == words


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_number_is_written_as_it_is_read(number: int) -> None:
    text = render(number)
    assert text is not None
    assert LONG.parse(text) == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_fraction_is_written_as_it_is_read(number: float) -> None:
    text = render(number)
    assert text is not None
    assert DOUBLE.parse(text) == number
