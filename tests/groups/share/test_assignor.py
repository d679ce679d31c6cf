"""Simple assignor: every partition has a member, every member a partition, as evenly and as stable as it can be."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.assignors.simple import Assignment, assign_simply
from pylogbroker.interfaces import Subscription

TOPICS = ("a", "b", "c")
PARTITIONS = st.fixed_dictionaries({name: st.integers(0, 7) for name in TOPICS})
SUBSCRIPTIONS = st.lists(st.sets(st.sampled_from(TOPICS), min_size=1), min_size=1, max_size=12)


def members_of(
    subscriptions: list[set[str]], former: Assignment | None = None, absent: tuple[str, ...] = ()
) -> dict[str, Subscription]:
    return {
        name: Subscription(sorted(topics), tuple((former or {}).get(name, ())))
        for number, topics in enumerate(subscriptions)
        if (name := f"m{number:02}") not in absent
    }


def assign(partitions: dict[str, int], members: dict[str, Subscription]) -> Assignment:
    return assign_simply({name: count for name, count in partitions.items() if count}, members)


@given(partitions=PARTITIONS, subscriptions=SUBSCRIPTIONS)
def test_partitions_and_members_are_all_used(partitions: dict[str, int], subscriptions: list[set[str]]) -> None:
    members = members_of(subscriptions)
    assignment = assign(partitions, members)
    given_partitions = {partition for some in assignment.values() for partition in some}
    subscribed = set[str]().union(*subscriptions)
    assert given_partitions == {(topic, number) for topic in subscribed for number in range(partitions[topic])}
    for name, member in members.items():
        some = assignment.get(name, [])
        assert len(set(some)) == len(some)
        assert {topic for topic, _ in some} <= set(member.topics)
        assert bool(some) == any(partitions[topic] for topic in member.topics)


@given(partitions=st.integers(1, 9), members=st.integers(1, 12), leaving=st.integers(0, 11))
def test_equal_members_are_balanced_and_keep_what_they_have(partitions: int, members: int, leaving: int) -> None:
    subscriptions = [{"a"}] * members
    first = assign({"a": partitions}, members_of(subscriptions))
    check_balance(first, partitions, members)
    assert assign({"a": partitions}, members_of(subscriptions, first)) == first
    if members > 1:
        gone = f"m{leaving % members:02}"
        after = assign({"a": partitions}, members_of(subscriptions, first, (gone,)))
        check_balance(after, partitions, members - 1)
        moved = [name for name in after if set(after[name]).isdisjoint(first[name])]
        assert len(moved) <= 1


def check_balance(assignment: Assignment, partitions: int, members: int) -> None:
    """Check that nobody has two partitions more than another, and no partition two members more."""
    sizes = [len(some) for some in assignment.values()]
    shares = Counter(partition for some in assignment.values() for partition in some)
    assert len(sizes) == members
    assert len(shares) == partitions
    assert max(sizes) - min(sizes) <= 1
    assert max(shares.values()) - min(shares.values()) <= 1


def test_nobody_gets_anything_without_members_or_partitions() -> None:
    assert assign_simply({"a": 3}, {}) == {}
    assert assign_simply({}, {"m": Subscription(["a"])}).get("m", []) == []
