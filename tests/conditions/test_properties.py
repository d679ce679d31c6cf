"""Conditions on random records, beside an evaluator that has nothing in common with the compiled one."""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pylogbroker.conditions import BadCondition, Subject, compile_condition, text_needles
from pylogbroker.conditions.needles import _FOLDING
from tests.support.examples import examples

ABSENT = object()
LETTERS = st.text('aBkKß\N{LATIN SMALL LETTER LONG S}\N{KELVIN SIGN}ﬁi/"\\ü\n c-3', max_size=4)
NUMBERS = st.sampled_from(["0", "-0", "1", "1.0", "10e-1", "0.1", "2", "1e2", "100", "0.10000000000000000001"])
NAMES = st.sampled_from(["a", "b", "ü/b", "k"])


def quoted(text: str) -> st.SearchStrategy[str]:
    """Return a text as JSON, with escapes or without."""
    plain = json.dumps(text, ensure_ascii=False)
    return st.sampled_from([plain, json.dumps(text), plain.replace("/", "\\/"), plain.replace("a", "\\u0061")])


SCALARS = st.one_of(LETTERS.flatmap(quoted), NUMBERS, st.sampled_from(["true", "false", "null"]))


def objects(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    members = st.lists(st.tuples(NAMES.flatmap(quoted), inner).map(":".join), max_size=3)
    return st.one_of(
        members.map(lambda texts: "{" + ", ".join(texts) + "}"),
        st.lists(inner, max_size=3).map(lambda texts: "[" + ",".join(texts) + "]"),
    )


JSON = st.recursive(SCALARS, objects, max_leaves=6)
PATHS = st.lists(st.one_of(NAMES, st.integers(0, 2)), max_size=2)
COMPARED = st.one_of(
    st.tuples(st.just("text"), LETTERS.filter(bool)),
    st.tuples(st.just("number"), NUMBERS),
    st.tuples(st.just("word"), st.sampled_from(["true", "false", "null"])),
)
SIMPLE = st.one_of(
    st.tuples(st.just("exists"), PATHS),
    st.tuples(st.just("compare"), st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "~"]), PATHS, COMPARED),
)
CONDITIONS = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(st.tuples(st.just("not"), inner), st.tuples(st.sampled_from(["and", "or"]), inner, inner)),
    max_leaves=5,
)


def written(tree: Any) -> str:
    match tree:
        case ("exists", steps):
            return "exists " + path_text(steps)
        case ("compare", mark, steps, (kind, text)):
            shown = json.dumps(text, ensure_ascii=False) if kind == "text" else text
            return f"{path_text(steps)} {mark} {shown}"
        case ("not", inner):
            return f"not ({written(inner)})"
    mark, left, right = tree
    return f"({written(left)}) {mark} ({written(right)})"


def path_text(steps: list[str | int]) -> str:
    return "value" + "".join(f"[{json.dumps(step, ensure_ascii=False)}]" for step in steps)


def part(value: str, steps: list[str | int]) -> Any:
    node: Any = value
    if steps:
        node = json.loads(value, parse_int=Fraction, parse_float=Fraction)
    for step in steps:
        try:
            node = node[step] if isinstance(node, dict | list) else ABSENT
        except (KeyError, IndexError, TypeError):
            return ABSENT
    return node


def expected(tree: Any, value: str) -> bool:
    match tree:
        case ("exists", steps):
            return part(value, steps) is not ABSENT
        case ("not", inner):
            return not expected(inner, value)
        case ("and", left, right):
            return expected(left, value) and expected(right, value)
        case ("or", left, right):
            return expected(left, value) or expected(right, value)
    _, mark, steps, (kind, text) = tree
    own = part(value, steps)
    other = text if kind == "text" else json.loads(text, parse_int=Fraction, parse_float=Fraction)
    same = type(own) is type(other)
    if mark == "~":
        return same and other.casefold() in own.casefold()
    if mark in ("==", "!="):
        return (same and own == other) is (mark == "==")
    if not same or isinstance(own, bool) or own is None:
        return False
    return {"<": own < other, "<=": own <= other, ">": own > other, ">=": own >= other}[mark]


@settings(max_examples=examples(1500))
@given(CONDITIONS, JSON)
def test_compiled_conditions_agree_with_the_evaluator(tree: Any, value: str) -> None:
    try:
        condition = compile_condition(written(tree))
    except BadCondition:
        assert any(sign in written(tree) for sign in ("true", "false", "null", "~"))  # no order, or no text
        return
    content = value.encode()
    answer = condition.is_met_by(Subject(0, 0, 0, None, content))
    assert answer == expected(tree, value)
    if answer and condition.needles is not None:
        assert condition.needles.are_in(content)
        assert next(condition.needles.places(content), -1) >= 0


@settings(max_examples=examples(500))
@given(st.text(max_size=8), st.text("aBkKß\N{LATIN SMALL LETTER LONG S}\N{KELVIN SIGN}ﬁ£", max_size=20))
def test_a_text_is_in_no_record_without_its_needles(text: str, record: str) -> None:
    needles = text_needles(text)
    if text.casefold() in record.casefold() and needles is not None:
        assert needles.are_in(record.encode())


@given(st.text(max_size=40))
def test_any_text_is_a_condition_or_an_error(text: str) -> None:
    try:
        compile_condition(text)
    except BadCondition as error:
        position = error.position
    else:
        position = 1
    assert 1 <= position <= len(text) + 1


def test_all_characters_that_fold_into_ascii_are_known() -> None:
    folding = {
        character: "".join(sorted({letter for letter in character.casefold() if letter < "\x80"}))
        for character in map(chr, range(128, sys.maxunicode + 1))
        if any(letter < "\x80" for letter in character.casefold())
    }
    assert folding == {character: "".join(sorted(letters)) for character, letters in _FOLDING.items()}
