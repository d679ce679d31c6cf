"""PersistentMap against a dict, and the share of its structure that a change copies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.metadata.persistent_map import CHUNK_ENTRIES_MAX, PersistentMap

CHANGES = st.dictionaries(st.integers(0, 400), st.none() | st.integers(), max_size=300)


@given(st.dictionaries(st.integers(0, 400), st.integers()), st.lists(CHANGES, max_size=4))
def test_a_changed_copy_is_a_changed_dict(first: dict[int, int], rounds: list[dict[int, int | None]]) -> None:
    found, expected = PersistentMap(first), dict(first)
    for changes in rounds:
        before, frozen = found, dict(found)
        found = found.changed(changes)
        expected |= {key: value for key, value in changes.items() if value is not None}
        expected = {key: value for key, value in expected.items() if changes.get(key, value) is not None}
        assert dict(before) == frozen
    assert list(found.items()) == sorted(expected.items())
    assert list(found.values()) == [expected[key] for key in found]
    assert len(found) == len(expected)
    assert found == PersistentMap(expected)
    for key in range(401):
        assert found.get(key) == expected.get(key)
        assert (key in found) == (key in expected)


def test_lookups() -> None:
    found = PersistentMap({"b": 2, "a": 1})
    assert found["a"] == 1
    assert (found.get("b"), found.get("c"), found.get("c", 7)) == (2, None, 7)
    with pytest.raises(KeyError):
        found["c"]
    empty: PersistentMap[str, int] = PersistentMap()
    assert (len(empty), list(empty), empty.get("a"), "a" in empty) == (0, [], None, False)


def test_a_change_copies_one_chunk() -> None:
    before = PersistentMap((number, number) for number in range(10_000))
    after = before.changed({5000: -1})
    shared = {id(chunk) for chunk in before.chunks()} & {id(chunk) for chunk in after.chunks()}
    assert len(after.chunks()) - len(shared) == 1
    assert max(map(len, after.chunks())) <= CHUNK_ENTRIES_MAX


def test_no_change_makes_no_copy() -> None:
    before = PersistentMap({1: 1})
    assert before.changed({}) is before


def test_growing_one_by_one_keeps_chunks_small_and_few() -> None:
    grown: PersistentMap[int, int] = PersistentMap()
    for number in range(3000):
        grown = grown.changed({number * 7919 % 3000: number})
    assert list(grown) == list(range(3000))
    assert max(map(len, grown.chunks())) <= CHUNK_ENTRIES_MAX
    assert len(grown.chunks()) <= 3000 / (CHUNK_ENTRIES_MAX / 4)
