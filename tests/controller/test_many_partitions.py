"""Takeovers and changes of more partitions than one request names: their order, and what the tree is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, TypeVar

import pytest

from pylogbroker.controller import controlled_cluster, requests
from pylogbroker.controller.fenced_tree import FencedTree
from pylogbroker.controller.requests import BrokerRequest, LeaderAndIsr, RequestBatch, StopReplica, UpdateMetadata
from pylogbroker.interfaces import CoordinationError, Node, Operation
from pylogbroker.long_loops import at_once
from pylogbroker.metadata.image import PartitionKey, TopicImage
from tests.controller.memory_tree import AtOnce, TreeSession
from tests.controller.small_cluster import Channels, SmallCluster, running, written

STEP = 2
T = TypeVar("T")
Event = tuple[str, str | int, Sequence[PartitionKey]]


def keys(*numbers: int) -> list[PartitionKey]:
    return [("t", number) for number in numbers]


@pytest.fixture(autouse=True)
def steps_of_two_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (requests, controlled_cluster):
        monkeypatch.setattr(module, "PARTITIONS_MAX", STEP)


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """Writes of states and orders to brokers, in their order."""
    found: list[Event] = []
    send = Channels.send

    def noted(channels: Channels, broker: int, request: BrokerRequest) -> None:
        if isinstance(request, LeaderAndIsr):
            found.append(("ordered", broker, [(each.topic, each.number) for each in request.partitions]))
        send(channels, broker, request)

    monkeypatch.setattr(Channels, "send", noted)
    return found


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Partitions in each batch of requests that is sent, and nodes in each write, in their order."""
    found: list[tuple[str, int]] = []
    rendered, write = RequestBatch.rendered, FencedTree.write

    def noted_batch(batch: RequestBatch, *arguments: Any) -> list[tuple[int, BrokerRequest]]:
        metadata, stops = len(batch._deleted), sum(map(len, batch._stops.values()))
        found.extend((kind, size) for kind, size in (("UpdateMetadata", metadata), ("StopReplica", stops)) if size)
        return rendered(batch, *arguments)

    async def noted_write(tree: FencedTree, operations: Sequence[Operation]) -> list[CoordinationError | None]:
        found.append((type(operations[0]).__name__ if operations else "", len(operations)))
        return await write(tree, operations)

    monkeypatch.setattr(RequestBatch, "rendered", noted_batch)
    monkeypatch.setattr(FencedTree, "write", noted_write)
    return found


def watch_writes(cluster: SmallCluster, events: list[Event]) -> None:
    def note(path: str) -> None:
        if path.endswith("/state"):
            events.append(("written", path, keys(int(path.split("/")[-2]))))

    cluster.tree.listeners.append(note)


def ordered(events: list[Event], broker: int) -> list[Sequence[PartitionKey]]:
    return [partitions for kind, to, partitions in events if (kind, to) == ("ordered", broker)]


def test_a_new_controller_first_replaces_dead_leaders(events: list[Event]) -> None:
    cluster = running((4, 1), (4, 1), (1, 4), (1, 4), (4, 1))
    cluster.kill(4)
    watch_writes(cluster, events)
    events.clear()
    assert cluster.elect(2)
    led, followed = keys(0, 1, 4), keys(2, 3)
    assert [partitions for kind, _, partitions in events if kind == "written"] == [
        *(keys(number) for number in (0, 1, 0, 1, 4, 4)),  # without a leader, then with one
        *(keys(number) for number in (2, 3)),
    ]
    last_of_followed = events.index(("written", "/brokers/topics/t/partitions/3/state", keys(3)))
    first_orders = [each for partitions in ordered(events[:last_of_followed], 1) for each in partitions]
    assert first_orders == led
    assert sorted({each for partitions in ordered(events, 1) for each in partitions}) == sorted([*led, *followed])
    cluster.settle()
    assert [written(cluster, key) for key in led] == [(1, (1,), 2)] * 3  # as Apache's controller writes it
    assert [written(cluster, key) for key in followed] == [(1, (1,), 1)] * 2


def test_two_dead_brokers(events: list[Event]) -> None:
    cluster = running((4, 3, 1), (3, 4, 1), (1, 3, 4))
    cluster.kill(4)
    cluster.kill(3)
    assert cluster.elect(2)
    cluster.settle()
    assert [written(cluster, key)[:2] for key in keys(0, 1, 2)] == [(1, (1,))] * 3


def test_orders_are_sent_while_the_next_states_are_written(events: list[Event]) -> None:
    cluster = running(*[(3, 1)] * 5)
    watch_writes(cluster, events)
    events.clear()
    cluster.kill(3)
    cluster.settle()
    kinds = [kind for kind, *_ in events]
    assert kinds[:6] == ["written", "written", "ordered", "written", "written", "ordered"]
    assert max(map(len, ordered(events, 1))) == STEP


def test_loops_over_all_partitions_give_way_between_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = running((1, 2))
    for number in range(5):
        cluster.create_topic(f"u{number}", [(1, 2)])
    cluster.settle()
    assert cluster.controller is not None
    controlled = cluster.controller._cluster
    pauses: list[TopicImage] = []

    async def counted(self: AtOnce, items: Iterable[T]) -> AsyncIterator[T]:
        for item in items:
            pauses.extend([item] if isinstance(item, TopicImage) else ())
            yield item

    monkeypatch.setattr(AtOnce, "over", counted)
    for work in (controlled.stored_partitions(), controlled.partitions_on([1]), controlled.elect_offline()):
        pauses.clear()
        at_once(work)
        assert len(pauses) == 6


def test_partitions_on_several_brokers_are_listed_in_one_pass() -> None:
    cluster = running((1, 2), (2, 3), (3,))
    assert cluster.controller is not None
    on = at_once(cluster.controller._cluster.partitions_on([1, 3]))
    assert on == {1: keys(0), 3: keys(1, 2)}


def test_a_takeover_reads_each_state_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = running(*[(4, 1)] * 3, *[(1, 4)] * 3)
    cluster.kill(4)
    read: list[str] = []
    get_many = TreeSession.get_many

    async def noted(session: TreeSession, paths: Sequence[str]) -> list[Node | None]:
        read.extend(path for path in paths if path.endswith("/state"))
        return await get_many(session, paths)

    monkeypatch.setattr(TreeSession, "get_many", noted)
    assert cluster.elect(2)
    assert len(read) == len(set(read)) == 6


def test_requests_name_few_partitions() -> None:
    cluster = running(*[(1, 2)] * 5)
    cluster.create_topic("u", [(1, 2)] * 5)
    cluster.settle()
    assert all(cluster.brokers[broker].replicas["u", number] for broker in (1, 2) for number in range(5))
    cluster.bounce(3)  # gets all metadata again
    cluster.settle()
    assert len(cluster.brokers[3].metadata) == 10
    cluster.mark_deleted("u")
    cluster.settle()
    assert {name for name, _ in cluster.brokers[3].metadata} == {"t"}
    assert {name for name, _ in cluster.brokers[1].replicas} == {"t"}
    requests = [request for _, request in cluster.channels.log]
    named = [each.replicas if isinstance(each, StopReplica) else each.partitions for each in requests]
    assert max(map(len, named)) == STEP


def test_brokers_hear_only_of_the_partitions_of_one_that_starts() -> None:
    cluster = running((1, 2), (2, 3), (3, 1), (1, 2))
    cluster.kill(3)
    cluster.settle()
    cluster.channels.log.clear()
    cluster.start(3)
    cluster.settle()
    heard: dict[int, set[int]] = {}
    for broker, request in cluster.channels.log:
        if isinstance(request, UpdateMetadata):
            heard.setdefault(broker, set()).update(partition.number for partition in request.partitions)
    assert heard == {1: {1, 2}, 2: {1, 2}, 3: {0, 1, 2, 3}, 4: {1, 2}}


def test_orders_leave_while_the_next_partitions_are_created(events: list[Event]) -> None:
    cluster = running((1,))
    watch_writes(cluster, events)
    events.clear()
    cluster.create_topic("u", [(1,)] * 5)
    cluster.settle()
    kinds = [kind for kind, *_ in events]
    assert kinds == ["written", "written", "ordered", "written", "written", "ordered", "written", "ordered"]


def test_requests_leave_while_a_topic_is_deleted(sizes: list[tuple[str, int]]) -> None:
    cluster = running(*[(1,)] * 5)
    sizes.clear()
    cluster.mark_deleted("t")
    cluster.settle()
    assert [size for kind, size in sizes if kind == "UpdateMetadata"] == [STEP, STEP, 1]
    assert [size for kind, size in sizes if kind == "StopReplica"] == [STEP, STEP, 1]
    assert cluster.tree.node("/brokers/topics/t") is None
    assert max(size for kind, size in sizes if kind == "Delete") == STEP
