"""Comparison of topics of two clusters."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import pytest
from zope.interface import implementer

from pylogbroker.client.metadata import PartitionInfo, TopicInfo
from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import IReplicationPolicy
from pylogbroker.mirror.topics import TopicChoice, TopicComparison, TopicPlanner
from pylogbroker.plugins.replication_policies import PrefixPolicy, SamePolicy

PARTITION = PartitionInfo(1, 0, (1,), (1,))


def topics(**counts: int) -> dict[str, TopicInfo]:
    names = {name.replace("__", "\0").replace("_", ".").replace("\0", "__"): count for name, count in counts.items()}
    return {name: TopicInfo(name, UUID(int=1), (PARTITION,) * count) for name, count in names.items()}


def compare(
    source: Mapping[str, TopicInfo],
    target: Mapping[str, TopicInfo],
    policy: IReplicationPolicy,
    expressions: tuple[str, ...] = (".*",),
) -> TopicComparison:
    return TopicPlanner("east", "offline", TopicChoice.of(expressions), policy).plan(source, target)


def test_missing_small_and_ready_topics() -> None:
    plan = compare(topics(a=2, b=3, c=1), topics(b=2, c=4), SamePolicy())
    assert (list(plan.missing), list(plan.too_small), list(plan.ready)) == (["a"], ["b"], ["c"])


def test_chosen_topics_match_as_a_whole() -> None:
    plan = compare(topics(orders=1, orders_x=1, clicks=1), {}, SamePolicy(), ("orders", "cl.*"))
    assert list(plan.missing) == ["clicks", "orders"]


def test_names_are_new_until_they_are_matched() -> None:
    choice = TopicChoice.of(("o.*",))
    assert choice.new_among(["orders", "clicks"]) == ["orders", "clicks"]
    assert (choice.matches("orders"), choice.matches("clicks")) == (True, False)
    assert choice.new_among(["orders", "bills", "clicks"]) == ["bills"]


@pytest.mark.parametrize(
    "name", ["mm2-offsets.a.internal", "east.checkpoints.internal", "__consumer_offsets", "__x", "app-replica"]
)
def test_internal_topics_are_left_out(name: str) -> None:
    info = TopicInfo(name, UUID(int=1), (PARTITION,))
    plan = compare({name: info}, {}, SamePolicy())
    assert plan == TopicComparison()


def test_topics_from_the_target_are_left_out_also_after_several_hops() -> None:
    plan = compare(topics(offline_a=1, west_offline_a=1, west_a=1, east_a=1), {}, PrefixPolicy())
    assert list(plan.missing) == ["west.a"]
    assert plan.missing["west.a"].target == "east.west.a"
    assert sorted(plan.from_target) == ["east.a", "offline.a", "west.offline.a"]


def test_heartbeats_keep_to_their_cluster() -> None:
    assert not compare(topics(heartbeats=1), {}, SamePolicy()).missing
    assert list(compare(topics(heartbeats=1), {}, PrefixPolicy()).missing) == ["heartbeats"]


@implementer(IReplicationPolicy)
class OddPolicy:
    def target_topic(self, source: str, topic: str) -> str:
        if topic == "bad":
            raise RuntimeError("odd")
        return "all" if topic != "none" else ""

    def origin(self, topic: str) -> None:
        return None

    def upstream_topic(self, topic: str) -> None:
        return None


def test_errors_of_a_policy_stop_single_topics() -> None:
    plan = compare(topics(a=1, b=1, bad=1, none=1), {}, OddPolicy())
    assert list(plan.missing) == ["a"]
    assert {name: error.why for name, error in plan.stopped.items()} == {
        "b": "the replication policy gives a the same name all",
        "bad": "the replication policy failed with RuntimeError('odd')",
        "none": "the replication policy returned '' instead of a name",
    }


def test_invalid_expression_is_an_error() -> None:
    with pytest.raises(ConfigError, match="topics: '\\(' is not a regular expression"):
        TopicChoice.of(("(",))
