"""The registry's algorithm: who reads what, from what is in the tree."""

from __future__ import annotations

import uuid
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.client.consumer.registry_plan import View, plan, streams_for
from pylogbroker.metadata.zk_schema import BadNode, ConsumerNode, TopicNode, decode_consumer, encode_consumer


def topic(*brokers: int) -> TopicNode:
    """A topic whose partitions are on these brokers."""
    return TopicNode(uuid.UUID(int=1), {number: (broker,) for number, broker in enumerate(brokers)})


def plans(view: View) -> dict[str, dict[tuple[str, int], int]]:
    return {member: plan(view, member) for member in view.members}


def test_partitions_of_one_broker_go_together() -> None:
    two = {name: ConsumerNode({"t": 1}) for name in ("c1", "c2")}
    view = View(two, {"t": topic(1, 0, 1, 0)})
    assert plans(view) == {"c1": {("t", 1): 0, ("t", 3): 0}, "c2": {("t", 0): 0, ("t", 2): 0}}


def test_with_a_consumer_of_kafka_partitions_go_by_number() -> None:
    two = {name: ConsumerNode({"t": 1}) for name in ("c1", "c2")}
    view = View(two, {"t": topic(1, 0, 1, 0)}, by_number=True)
    assert plans(view) == {"c1": {("t", 0): 0, ("t", 1): 0}, "c2": {("t", 2): 0, ("t", 3): 0}}


def test_streams_are_sorted_as_texts() -> None:
    view = View({"c1": ConsumerNode({"t": 11})}, {"t": topic(*[0] * 11)})
    assert list(plan(view, "c1").values()) == [0, 1, 10, 2, 3, 4, 5, 6, 7, 8, 9]


def test_the_first_streams_read_one_more() -> None:
    view = View({"c1": ConsumerNode({"t": 2}), "c2": ConsumerNode({"t": 1})}, {"t": topic(*[0] * 7)})
    assert plans(view) == {
        "c1": {("t", 0): 0, ("t", 1): 0, ("t", 2): 0, ("t", 3): 1, ("t", 4): 1},
        "c2": {("t", 5): 0, ("t", 6): 0},
    }


def test_excess_consumers_get_nothing() -> None:
    view = View({f"c{number}": ConsumerNode({"t": 1}) for number in range(3)}, {"t": topic(0, 0)})
    assert [len(each) for each in plans(view).values()] == [1, 1, 0]


def test_topics_are_divided_one_by_one() -> None:
    members = {"c1": ConsumerNode({"t": 1, "u": 1}), "c2": ConsumerNode({"t": 1})}
    view = View(members, {"t": topic(0, 0), "u": topic(0, 0)})
    assert plans(view)["c1"] == {("t", 0): 0, ("u", 0): 0, ("u", 1): 0}
    assert plan(View(members, {"t": topic(0, 0)}), "c2") == {("t", 1): 0}


@pytest.mark.parametrize(
    ("node", "streams"),
    [
        (ConsumerNode({"logs": 2}), 2),
        (ConsumerNode({"log": 2}), 0),
        (ConsumerNode({"log.*": 3}, "white_list"), 3),
        (ConsumerNode({"log": 3}, "white_list"), 0),  # the whole name has to match
        (ConsumerNode({"other,logs": 3}, "white_list"), 3),
        (ConsumerNode({"log.*": 3}, "black_list"), 0),
        (ConsumerNode({"other": 3}, "black_list"), 3),
        (ConsumerNode({"(": 3}, "white_list"), 0),
    ],
)
def test_subscriptions(node: ConsumerNode, streams: int) -> None:
    assert streams_for(node, "logs") == streams


@given(
    brokers=st.lists(st.integers(0, 3), max_size=12),
    streams=st.dictionaries(st.text("abc", min_size=1, max_size=2), st.integers(1, 3), min_size=1),
)
def test_partitions_are_spread_evenly_over_readers(brokers: list[int], streams: dict[str, int]) -> None:
    view = View({name: ConsumerNode({"t": count}) for name, count in streams.items()}, {"t": topic(*brokers)})
    readers = Counter((name, stream) for name, mine in plans(view).items() for stream in mine.values())
    read = [partition for mine in plans(view).values() for _, partition in mine]
    assert sorted(read) == list(range(len(brokers)))
    load = [readers[name, stream] for name, count in streams.items() for stream in range(count)]
    assert max(load) - min(load) <= 1


def test_consumers_are_written_as_kafkas() -> None:
    node = ConsumerNode({"orders": 2}, "static")
    written = b'{"version":1,"subscription":{"orders":2},"pattern":"static","timestamp":"1500"}'
    assert encode_consumer(node, 1500) == written
    assert decode_consumer(written) == node


def test_the_oldest_consumers_are_read() -> None:
    assert decode_consumer(b'{"orders": 2, "returns": 1}') == ConsumerNode({"orders": 2, "returns": 1})


@pytest.mark.parametrize("data", [b"", b"7", b'{"version": 1}', b'{"orders": "x"}'])
def test_an_invalid_consumer_node_is_rejected(data: bytes) -> None:
    with pytest.raises(BadNode):
        decode_consumer(data)
