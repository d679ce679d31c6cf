"""Assignors of the broker: uniform against its rules for any members, range against Kafka's example, and plugins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from zope.interface.verify import verifyObject

from pylogbroker.assignors.group import BUILT_IN
from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ConfigError, KafkaError
from pylogbroker.groups.consumer.targets import AssignmentTask, existing_topics
from pylogbroker.interfaces import IGroupAssignor, Subscription
from pylogbroker.tap.plugins import group_assignors
from tests.groups.consumer.harness import ConsumerHarness
from tests.support.plugin_modules import plugin_modules

TOPICS = ("a", "b", "c")
PARTITIONS = st.fixed_dictionaries({name: st.integers(0, 7) for name in TOPICS})
SUBSCRIPTIONS = st.lists(st.sets(st.sampled_from(TOPICS), min_size=1), min_size=1, max_size=6)


def test_built_in_assignors_provide_the_interface() -> None:
    assert all(verifyObject(IGroupAssignor, assignor) for assignor in BUILT_IN.values())


@given(partitions=PARTITIONS, subscriptions=SUBSCRIPTIONS, name=st.sampled_from(sorted(BUILT_IN)))
def test_each_partition_has_one_subscriber(
    partitions: dict[str, int], subscriptions: list[set[str]], name: str
) -> None:
    members = {f"m{number}": Subscription(sorted(topics)) for number, topics in enumerate(subscriptions)}
    assignment = BUILT_IN[name].assign(partitions, members, {})
    given_partitions = [partition for some in assignment.values() for partition in some]
    subscribed = set[str]().union(*subscriptions)
    assert sorted(given_partitions) == [(topic, n) for topic in sorted(subscribed) for n in range(partitions[topic])]
    for member_id, some in assignment.items():
        assert {topic for topic, _ in some} <= set(members[member_id].topics)


@given(partitions=PARTITIONS, before=st.integers(1, 6), after=st.integers(1, 6))
def test_uniform_is_balanced_and_moves_no_more_than_it_must(
    partitions: dict[str, int], before: int, after: int
) -> None:
    assign = BUILT_IN["uniform"].assign
    former = assign(partitions, {f"m{number}": Subscription(TOPICS) for number in range(before)}, {})
    members = {f"m{number}": Subscription(TOPICS, tuple(former.get(f"m{number}", ()))) for number in range(after)}
    assignment = assign(partitions, members, {})
    counts = [len(some) for some in assignment.values()]
    total = sum(partitions.values())
    assert sum(counts) == total
    assert max(counts) - min(counts) <= 1
    kept = sum(len(set(some) & set(former.get(member_id, ()))) for member_id, some in assignment.items())
    share, rest = divmod(total, after)
    owned = sorted((len(former.get(f"m{number}", ())) for number in range(after)), reverse=True)
    assert kept == sum(min(count, share + (place < rest)) for place, count in enumerate(owned))


def test_range_gives_the_same_numbers_of_equal_topics() -> None:
    members = {"m0": Subscription(("a", "b")), "m1": Subscription(("a", "b"))}
    assert BUILT_IN["range"].assign({"a": 3, "b": 3}, members, {}) == {
        "m0": [("a", 0), ("a", 1), ("b", 0), ("b", 1)],
        "m1": [("a", 2), ("b", 2)],
    }


@attrs.frozen
class Fixed:
    answer: Mapping[str, Any]
    name: str = "fixed"

    def assign(self, partitions: object, members: object, racks: object) -> Mapping[str, Any]:
        return self.answer


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"a": [("t", 0)], "b": [("t", 0)]}, "to both a and b"),
        ({"a": [("t", 4)]}, "may not have it"),
        ({"a": [("u", 0)]}, "may not have it"),
        ({"x": [("t", 0)]}, "not a member"),
        (None, "it raised"),
    ],
)
def test_answer_of_a_plugin_is_checked(answer: Any, why: str) -> None:
    harness = ConsumerHarness()
    harness.topics.create("u", 1)
    harness.join_group("a")
    harness.join_group("b")
    task = AssignmentTask.of(harness.group, Fixed(answer), existing_topics(harness.group, harness.topics))
    with pytest.raises(KafkaError, match=why):
        task.run()


def test_assignor_gets_the_racks_of_partitions_and_members() -> None:
    class Near:
        """Gives each partition to a member of a rack that has a replica."""

        name = "near"

        def assign(self, partitions: Any, members: Any, racks: Any) -> Any:
            return {
                member: [
                    (topic, number)
                    for topic, count in partitions.items()
                    for number in range(count)
                    if subscription.rack in racks[topic][number]
                ]
                for member, subscription in members.items()
            }

    harness = ConsumerHarness()
    harness.topics.topics["t"] = attrs.evolve(
        harness.topics.topics["t"], partitions=2, racks=(frozenset({"x"}), frozenset({"y"}))
    )
    harness.join_group("a", rack_id="y")
    harness.join_group("b", rack_id="x")
    task = AssignmentTask.of(harness.group, Near(), existing_topics(harness.group, harness.topics))
    topic_id = harness.topics.topics["t"].topic_id
    assert task.run() == {"a": {(topic_id, 1)}, "b": {(topic_id, 0)}}


def test_group_is_assigned_again_when_replicas_move_to_other_racks() -> None:
    harness = ConsumerHarness()
    harness.join_group("a")
    epoch = harness.group.epoch
    harness.topics_changed("t")
    assert harness.group.epoch == epoch
    racks = frozenset({"x"})
    harness.topics.topics["t"] = attrs.evolve(harness.topics.topics["t"], racks=(racks,) * 4, racks_digest=b"x")
    harness.topics_changed("t")
    assert harness.group.epoch == epoch + 1


def test_setting_names_assignors_also_by_kafkas_classes() -> None:
    range_class = "org.apache.kafka.coordinator.group.assignor.RangeAssignor"
    config = BrokerConfig({"group.consumer.assignors": f"{range_class},uniform"})
    assert list(group_assignors(config)) == ["range", "uniform"]


ASSIGNORS = """
from twisted.plugin import IPlugin
from zope.interface import implementer
from pylogbroker.interfaces import IGroupAssignor

@implementer(IPlugin, IGroupAssignor)
class WithoutRacks:
    name = "without-racks"
    def assign(self, partitions, members):
        return {}

class Undeclared:
    name = "undeclared"
    def assign(self, partitions, members, racks):
        return {}

one, other = WithoutRacks(), Undeclared()
"""


@pytest.mark.parametrize(
    ("name", "why"),
    [("without-racks", "doesn't allow enough arguments"), ("undeclared", r"@implementer\(IPlugin, IGroupAssignor\)")],
)
def test_unfit_assignors_are_rejected_at_the_start(tmp_path: Path, name: str, why: str) -> None:
    with plugin_modules(tmp_path) as put:
        put("unfit_assignors", ASSIGNORS)
        with pytest.raises(ConfigError, match=why):
            group_assignors(BrokerConfig({"group.consumer.assignors": f"uniform,{name}"}))


@pytest.mark.parametrize("value", ["stars", ""])
def test_unknown_assignors_are_rejected_at_the_start(value: str) -> None:
    with pytest.raises(ConfigError, match=r"group\.consumer\.assignors"):
        group_assignors(BrokerConfig({"group.consumer.assignors": value}))
