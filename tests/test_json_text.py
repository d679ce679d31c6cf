"""JSON of others that is shown or written again; Python's own parser and writer say what the value is."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylogbroker.json_text import MemberTwice, indented, is_json, named_once, tokens_of, written
from tests.support.examples import examples

LONG = 10**9
PRECISE = '{"a":12345678901234567890.12,"b":1.0000000000000000001,"c":1e400,"d":-0,"e":[1E+2,0.10],"f":"1.50"}'

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def tokens(text: str) -> list[str]:
    """Return all tokens of JSON."""
    return re.findall(r'"(?:\\.|[^"\\])*"|[{}\[\],:]|[^\s{}\[\],:"]+', text)


@settings(max_examples=examples(200), deadline=None)
@given(value=VALUES, ascii_only=st.booleans(), indent=st.sampled_from([None, 0, 1, "\t"]))
def test_the_form_is_that_of_python(value: Any, ascii_only: bool, indent: Any) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert is_json(text) is isinstance(value, list | dict)
    assert indented(text, LONG) == json.dumps(value, ensure_ascii=ascii_only, indent=2)
    assert written(tokens_of(text)) == json.dumps(value, separators=(",", ":"))


def test_each_token_stays() -> None:
    for text in (PRECISE, '{"a": 1, "a": 2, "\\u0041\\/": "\\ud83d\\ude00é"}', "[" + "9" * 5000 + "]", "[[],{},[{}]]"):
        assert is_json(text), text
        found = indented(text, LONG)
        assert found is not None
        assert tokens(found) == tokens(text)
        assert json.dumps(tokens_of(found), ensure_ascii=False) == json.dumps(tokens_of(text), ensure_ascii=False)


def test_words_of_python_are_no_json() -> None:
    for text in ("[NaN]", "[Infinity]", '{"a": -Infinity}', "[1,]", "[01]", "[1", "{'a': 1}", "[1] 2", "1", '"a"', ""):
        assert not is_json(text), text
    for text in ("[NaN]", "[-Infinity]"):
        with pytest.raises(ValueError, match="no JSON"):
            tokens_of(text)


def test_deep_nesting() -> None:
    deep = "[" * 600 + "]" * 600
    assert (is_json(deep), indented(deep, 10_000)) == (True, None)
    assert not is_json("[" * 1_000_000)


def test_numbers_are_written_as_they_were_read() -> None:
    assert written(tokens_of(PRECISE)) == PRECISE
    assert written(tokens_of('{"b": 1.50, "a": {"d": 1e400, "c": []}}'), sort_keys=True) == (
        '{"a":{"c":[],"d":1e400},"b":1.50}'
    )


def test_a_member_that_is_given_twice() -> None:
    assert tokens_of('{"a": {"b": 1}, "b": 2}', named_once) == {"a": {"b": "1"}, "b": "2"}
    with pytest.raises(MemberTwice, match="b is given twice"):
        tokens_of('{"a": {"b": 1, "c": 2, "b": 3}}', named_once)
