"""The parser of conditions: its errors name a character, and what to write."""

from __future__ import annotations

import pytest

from pylogbroker.conditions.scanner import BadCondition
from pylogbroker.conditions.syntax import parse, parse_path


@pytest.mark.parametrize(
    ("condition", "position", "remedy"),
    [
        ('value.customer = "c-3"', 16, "To compare, write ==."),
        ('value.customer === "c-3"', 16, "To compare, write ==."),
        ("value.customer", 15, "To compare, write ==; for records that have it, exists value.customer."),
        ("value.customer == paid", 19, 'For a text, write "paid".'),
        ("value.a == 1 && key == 'x'", 14, 'Between two conditions, write "and".'),
        ("value.a == 1 || key == 'x'", 14, 'Between two conditions, write "or".'),
        ("!exists value.a", 1, 'Before a condition, write "not"; to compare, write !=.'),
        ("value.a == 1 AND key == 'x'", 14, "Write and in small letters."),
        ("value.a == True", 12, "Write true in small letters."),
        ("value.a == 1 key == 'x'", 14, 'Between two conditions, write "and" or "or".'),
        ("value.a <> 1", 9, "To compare, write !=."),
        ("value.a =~ 'x'", 9, "To look for a text, write ~."),
        ("value.a ~ /x/", 11, 'To look for a text, write ~ "text".'),
        ("value.a ~ 5", 9, 'Write a text behind it: ~ "text".'),
        ("value.a ~ ''", 9, 'Write a text behind it: ~ "text".'),
        ("customer == 1", 1, "For a member of the value, write value.customer."),
        ("vale.a == 1", 1, "Write value."),
        ('header["a"] == "b"', 1, 'Write headers["name"].'),
        ('headers == "b"', 1, 'Write headers["name"].'),
        ('headers.a.b == "b"', 1, 'Write headers["name"].'),
        ("(value.a == 1", 14, "Write ) behind the condition."),
        ("value.a == 1)", 13, "Remove it, or write ( before."),
        ('value.a == "x', 12, 'A text ends with ".'),
        (r'value.a == "\q"', 12, r"For a backslash, write \\."),
        ("value.a == 1.2.3", 12, "Write digits, or a text in quotes."),
        ("value.a == 1e99999999999999999999", 12, "Write another number."),
        ("value.items[*] == 1", 13, "A path names one member or element: value.items[0]."),
        ("value.items[-1] == 1", 13, 'Write a number from 0 on, or a name in quotes: ["name"].'),
        ("value.items[0 == 1", 15, "Write ]."),
        ("value. == 1", 8, 'Write a name behind the dot, or ["a name"].'),
        ('offset == "7"', 11, "Write a number, without quotes."),
        ("offset.a == 7", 1, "Write offset."),
        ("offset ~ 'x'", 8, "Write ==, !=, <, <=, > or >=."),
        ("time > null", 8, 'Write a time like "2026-11-28T07:00".'),
        ("value.a < true", 11, "Write == or !=."),
        ("1 == 1", 1, 'Write a condition like value.status == "paid".'),
        ("", 1, 'Write a condition like value.status == "paid".'),
        ("not", 4, 'Write a condition like value.status == "paid".'),
        ("§", 1, 'Write a condition like value.status == "paid".'),
        ("value.a == " + "1" * 2000, 2001, "Write at most 2,000."),
        ("(" * 40 + "value.a == 1" + ")" * 40, 33, "Write fewer parentheses."),
        ("not " * 40 + "value.a == 1", 129, "Write fewer parentheses."),
    ],
)
def test_an_error_names_the_character_and_the_remedy(condition: str, position: int, remedy: str) -> None:
    with pytest.raises(BadCondition) as raised:
        parse(condition)
    message = str(raised.value)
    assert message.startswith(f"The condition is not understood at character {position}: ")
    assert message.endswith(remedy), message
    assert raised.value.position == position


@pytest.mark.parametrize("path", ["value", "key.a", 'value["a b"][0].c-d', r'headers["\"x\\"]'])
def test_a_path_is_written_as_it_was_read(path: str) -> None:
    assert str(parse_path(path)).replace("headers.x", 'headers["x"]') == path


def test_a_path_stands_alone() -> None:
    with pytest.raises(BadCondition, match="character 9"):
        parse_path("value.a == 1")
