"""The built-in assignors: beside kafka-python's where there is one right answer, else by what they promise."""

from __future__ import annotations

from collections import Counter

import attrs
import pytest
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AiokafkaRange
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as AiokafkaRoundRobin
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as AiokafkaSticky
from hypothesis import given
from hypothesis import strategies as st
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.coordinator.assignors.sticky.user_data import StickyAssignorUserData
from twisted.plugin import IPlugin, getPlugins
from zope.interface.verify import verifyObject

from pylogbroker import plugins
from pylogbroker.assignors import Claim, decode_user_data, encode_user_data
from pylogbroker.interfaces import IAssignor, Subscription
from pylogbroker.plugins.assignors import cooperative_sticky, range_, round_robin, sticky
from tests.client.consumer.sample_groups import (
    Assignment,
    Group,
    check,
    counts,
    groups,
    identical,
    of_aiokafka,
    of_kafka_python,
    unevenness,
)

STICKY = [sticky, cooperative_sticky]
ALL = [range_, round_robin, *STICKY]


def ask(assignor: IAssignor, group: Group) -> Assignment:
    return assignor.assign(group.partitions, group.members)


@pytest.mark.parametrize("assignor", ALL, ids=lambda each: each.name)
def test_built_in_assignors_are_plugins(assignor: IAssignor) -> None:
    assert assignor in list(getPlugins(IAssignor, plugins))
    assert verifyObject(IAssignor, assignor)
    assert verifyObject(IPlugin, assignor)


@pytest.mark.parametrize("assignor", ALL, ids=lambda each: each.name)
@given(group=groups())
def test_every_partition_goes_to_one_subscriber(assignor: IAssignor, group: Group) -> None:
    check(group, ask(assignor, group))


@given(group=groups())
def test_ranges_are_kafka_pythons(group: Group) -> None:
    assert ask(range_, group) == of_kafka_python(RangePartitionAssignor(), group)


@given(group=groups(identical))
def test_round_robin_is_kafka_pythons(group: Group) -> None:
    assert ask(round_robin, group) == of_kafka_python(RoundRobinPartitionAssignor(), group)


@given(group=groups(with_static=False))
def test_balanced_assignments_match_aiokafkas(group: Group) -> None:
    assert ask(range_, group) == of_aiokafka(AiokafkaRange, group)
    assert ask(round_robin, group) == of_aiokafka(AiokafkaRoundRobin, group)


@given(group=groups(most=4), data=st.data())
def test_no_assignment_is_more_even_than_a_sticky_one(group: Group, data: st.DataObject) -> None:
    small = Group({topic: min(2, number) for topic, number in group.partitions.items()}, group.members)
    had = data.draw(st.dictionaries(st.sampled_from(sorted(small.members)), st.just(sorted(small.to_assign()))))
    assignment = ask(sticky, small.with_last(sticky, had))
    check(small, assignment)
    assert unevenness(counts(assignment)) == most_even(small)


def most_even(group: Group) -> int:
    """Find the best by trying every assignment there is."""
    names = list(group.members)
    reached = {(0,) * len(names)}
    for topic, _ in group.to_assign():
        places = [place for place, name in enumerate(names) if topic in group.members[name].topics]
        reached = {
            tuple(number + (place == place_of) for place_of, number in enumerate(numbers))
            for numbers in reached
            for place in places
        }
    return min(map(unevenness, reached))


@given(group=groups())
def test_sticky_is_at_least_as_balanced_as_kafka_pythons(group: Group) -> None:
    theirs = of_kafka_python(StickyPartitionAssignor(), group)
    assert unevenness(counts(ask(sticky, group))) <= unevenness(counts(theirs))


def drawn_last(data: st.DataObject, group: Group) -> Assignment:
    """Possible earlier assignments, as others see them: each partition with one member, or none."""
    names = st.sampled_from([*sorted(group.members), None])
    owners = {partition: data.draw(names) for partition in sorted(group.to_assign())}
    return {member: [each for each, owner in owners.items() if owner == member] for member in group.members}


@given(group=groups(identical), data=st.data())
def test_sticky_moves_no_more_partitions_than_needed(group: Group, data: st.DataObject) -> None:
    last = drawn_last(data, group)
    assignment = ask(sticky, group.with_last(sticky, last))
    check(group, assignment)
    share, more = divmod(len(group.to_assign()), len(group.members))
    had = sorted(map(len, last.values()), reverse=True)
    can_stay = sum(min(number, share + (place < more)) for place, number in enumerate(had))
    stayed = sum(len({*assignment[member]} & {*last[member]}) for member in group.members)
    assert stayed == can_stay


@given(group=groups())
def test_a_settled_assignment_stays(group: Group) -> None:
    assignment = ask(sticky, group)
    for assignor in STICKY:
        assert ask(assignor, group.with_last(assignor, assignment)) == assignment


@given(group=groups(), data=st.data())
def test_the_order_of_events_does_not_matter(group: Group, data: st.DataObject) -> None:
    reported = group.with_last(sticky, drawn_last(data, group))
    members = data.draw(st.permutations(list(reported.members.items())))
    turned = Group(
        dict(reversed(reported.partitions.items())),
        {name: attrs.evolve(each, topics=each.topics[::-1], owned=each.owned[::-1]) for name, each in members},
    )
    for assignor in ALL:
        assert ask(assignor, turned) == ask(assignor, reported)


def claims(*generations: int, size: int = 3) -> Group:
    """Members that all had all of one topic, in different generations."""
    had = [("a", number) for number in range(size)]
    members = {
        f"m{place}": Subscription(
            ("a",), owned=had, generation=each, user_data=sticky.subscription_user_data(("a",), had, each)
        )
        for place, each in enumerate(generations)
    }
    return Group({"a": size}, members)


@pytest.mark.parametrize("assignor", STICKY, ids=lambda each: each.name)
def test_the_youngest_claim_counts(assignor: IAssignor) -> None:
    group = claims(3, 5, 4, size=1)
    assert ask(assignor, group) == {"m0": [], "m1": [("a", 0)], "m2": []}


def test_two_equal_claims_are_both_ignored() -> None:
    claimed = ask(sticky, claims(5, 5, 4, size=6))
    assert counts(claimed) == [2, 2, 2]
    assert claimed == ask(sticky, Group({"a": 6}, {name: Subscription(("a",)) for name in ("m0", "m1", "m2")}))


@pytest.mark.parametrize("partition", [("a", 7), ("a", -1), ("gone", 0), ("b", 0)])
def test_a_claim_to_an_unavailable_partition_is_ignored(partition: tuple[str, int]) -> None:
    for assignor in STICKY:
        member = Subscription(("a",), (partition,), assignor.subscription_user_data(("a",), (partition,), 3), 3)
        other = Subscription(("a", "b"))
        assert ask(assignor, Group({"a": 2, "b": 1}, {"m": member, "n": other})) in (
            {"m": [("a", 0)], "n": [("a", 1), ("b", 0)]},
            {"m": [("a", 0), ("a", 1)], "n": [("b", 0)]},
            {"m": [("a", 0), ("a", 1)], "n": []},  # cooperative: `b` is first given back
        )


@given(group=groups(), data=st.data())
def test_a_cooperative_group_settles_without_two_readers_of_anything(group: Group, data: st.DataObject) -> None:
    last = drawn_last(data, group)
    for generation in range(3):
        joined = group.with_last(cooperative_sticky, last, generation)
        following = ask(cooperative_sticky, joined)
        readers = Counter(each for member in group.members for each in {*last[member], *following[member]})
        assert set(readers.values()) <= {1}
        last = following
    check(group, last)
    assert unevenness(counts(last)) == unevenness(counts(ask(sticky, group)))


def test_only_moved_partitions_are_revoked() -> None:
    two = Group({"a": 6}, {"m": Subscription(("a",)), "n": Subscription(("a",))})
    before = ask(cooperative_sticky, two)
    three = Group({"a": 6}, {**two.with_last(cooperative_sticky, before).members, "o": Subscription(("a",))})
    between = ask(cooperative_sticky, three)
    assert counts(between) == [0, 2, 2]
    assert all({*between[member]} <= {*before[member]} for member in "mn")
    settled = ask(cooperative_sticky, three.with_last(cooperative_sticky, between))
    assert counts(settled) == [2, 2, 2]
    assert all(settled[member] == between[member] for member in "mn")


@given(group=groups(identical))
def test_other_sticky_assignors_read_our_user_data(group: Group) -> None:
    settled = ask(sticky, group)
    assert of_aiokafka(AiokafkaSticky, group.with_last(sticky, settled)) == settled
    joined = group.with_last(cooperative_sticky, settled)
    assert of_kafka_python(CooperativeStickyAssignor(), joined) == settled


USER_DATA = st.dictionaries(st.text(min_size=1, max_size=4), st.sets(st.integers(0, 9), min_size=1), min_size=1)


@given(topics=USER_DATA, generation=st.integers(-1, 2**31 - 1))
def test_user_data_is_laid_out_as_kafka_pythons(topics: dict[str, set[int]], generation: int) -> None:
    owned = [(topic, number) for topic, numbers in topics.items() for number in sorted(numbers)]
    expected = StickyAssignorUserData([(topic, sorted(some)) for topic, some in topics.items()], generation).encode()
    assert encode_user_data(owned, generation) == expected[2:]  # Java and aiokafka have no version there
    assert decode_user_data(expected) == decode_user_data(expected[2:]) == Claim(tuple(owned), generation)


def test_user_data_without_generation_is_read() -> None:
    data = bytes.fromhex("00000001 0001 74 00000002 00000003 00000004")
    assert decode_user_data(data) == Claim((("t", 3), ("t", 4)))


@given(user_data=st.binary(max_size=40))
def test_user_data_of_others_is_passed_over(user_data: bytes) -> None:
    group = Group({"a": 2}, {"m": Subscription(("a",), user_data=user_data), "n": Subscription(("a",))})
    assert counts(ask(sticky, group)) == [1, 1]


@pytest.mark.parametrize(
    "user_data",
    ["7fffffff00010000", "00000001 0001 74 7fffffff", "00000001 0001 ff 00000000", "00"],
)
def test_user_data_with_impossible_lengths_is_ignored(user_data: str) -> None:
    assert decode_user_data(bytes.fromhex(user_data)) is None


def test_a_negative_length_leads_nowhere() -> None:
    assert decode_user_data(bytes.fromhex("7fffffff fffe 00000000 00000000")) is None


def test_an_old_cooperative_member_sends_its_generation_as_user_data() -> None:
    assert cooperative_sticky.subscription_user_data(("a",), [("a", 0)], 5) == b"\0\0\0\x05"
    reported = claims(4, 5, size=1)
    old = {name: attrs.evolve(each, generation=-1, user_data=b"\0\0\0" + bytes([each.generation]))
           for name, each in reported.members.items()}  # fmt: skip
    for group in reported, Group(reported.partitions, old):
        assert ask(cooperative_sticky, group) == {"m0": [], "m1": [("a", 0)]}


def test_a_member_without_partitions_sends_no_user_data() -> None:
    assert sticky.subscription_user_data(("a",), (), 4) == b""
