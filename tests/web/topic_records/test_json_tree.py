"""JSON as a tree of slices of its own text, beside Python's parser."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.json_text import NumberText, tokens_of
from pylogbroker.web.topic_records.json_tree import DEPTH_MAX, JsonNode, json_tree, scalar_text

JSON = st.recursive(
    st.one_of(
        st.text(max_size=4),
        st.integers(),
        st.booleans(),
        st.none(),
        st.floats(allow_nan=False, allow_infinity=False, width=16),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=8,
)


def value_of(node: JsonNode) -> Any:
    """Return the value that a tree stands for, with the text of each number."""
    if node.is_object:
        return [(json.loads(child.name or ""), value_of(child)) for child in node.children]
    if node.is_list:
        return {"list": [value_of(child) for child in node.children]}
    return NumberText(node.text) if node.kind == "num" else json.loads(node.text)


def with_lists(value: Any) -> Any:
    """Return a parsed value, in which objects are lists of pairs, in the form of `value_of`."""
    if isinstance(value, tuple):
        return [(name, with_lists(inner)) for name, inner in value]
    return {"list": [with_lists(inner) for inner in value]} if isinstance(value, list) else value


@given(JSON.filter(lambda value: isinstance(value, dict | list)), st.sampled_from([None, 2]), st.booleans())
def test_a_tree_has_all_values_of_its_text(value: Any, indent: int | None, is_ascii: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii)
    tree = json_tree(text)
    assert tree is not None
    assert value_of(tree) == with_lists(tokens_of(text, tuple))


def test_members_of_one_name_stay_and_the_last_one_is_found() -> None:
    tree = json_tree('{"a": 1.50, "a": 1e400, "b": [{"c d": "\\u0041"}]}')
    assert tree is not None
    assert [(child.name, child.text) for child in tree.children[:2]] == [('"a"', "1.50"), ('"a"', "1e400")]
    assert tree.part(["a"]) is tree.children[1]
    inner = tree.part(["b", 0, "c d"])
    assert inner is not None
    assert (inner.path, inner.label, scalar_text(inner)) == ('value.b[0]["c d"]', '"c d"', "A")
    for steps in (["x"], ["a", "x"], ["b", 1], ["b", "0"]):
        assert tree.part(steps) is None


def test_other_texts_have_no_tree() -> None:
    for text in ("", "1", '"a"', "{", '{"a": NaN}', "[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1)):
        assert json_tree(text) is None
