"""The rules of topics' names."""

from __future__ import annotations

import pytest

from pylogbroker.metadata.topic_names import collision_key, name_problem


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "x" * 249, "__consumer_offsets"])
def test_legal_names(name: str) -> None:
    assert name_problem(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "é", "a\n", "a\x00", "a:b"])
def test_illegal_names(name: str) -> None:
    assert name_problem(name)


def test_dots_and_underscores_collide() -> None:
    assert collision_key("a.b_c") == collision_key("a_b.c") != collision_key("a-b-c")
