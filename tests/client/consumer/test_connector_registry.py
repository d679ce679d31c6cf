"""Consumers of a group that agree in a coordination tree, and move their offsets from there to the brokers and back."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylogbroker.client import ConsumerConnector, Whitelist
from pylogbroker.client.consumer.nodes import ensure, parent
from pylogbroker.client.consumer.registry import RebalanceFailed
from pylogbroker.interfaces import Create, Delete, TopicPartition
from pylogbroker.metadata import registration, zk_paths, zk_schema
from pylogbroker.tree.embedded import EmbeddedTree
from tests.client.consumer_harness import Collector, committed, create, write
from tests.support.brokers import Broker
from tests.support.reactor_run import wait_for
from tests.tree.conftest import now

WAIT_SECONDS_MAX = 120.0  # seconds


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[EmbeddedTree]:
    opened = EmbeddedTree.open(str(tmp_path / "tree"))
    now(registration.create_permanent_nodes(opened))
    yield opened
    now(opened.close())


def announce(tree: EmbeddedTree, topic: str, partitions: int) -> None:
    """Write the topic into the tree, as brokers do."""
    node = zk_schema.TopicNode(uuid.uuid4(), dict.fromkeys(range(partitions), (0,)))
    now(tree.commit([Create(zk_paths.topic(topic), zk_schema.encode_topic(node))]))


def shares(*consumers: ConsumerConnector) -> list[list[TopicPartition]]:
    return [sorted(each.assignment) for each in consumers]


async def test_members_come_and_go(broker: Broker, tree: EmbeddedTree, topic: str, group: str) -> None:
    create(broker.bootstrap, topic, 4)
    announce(tree, topic, 4)
    named = {"group": group, "coordination": tree, "auto_offset_reset": "earliest"}
    first = ConsumerConnector(broker.bootstrap, **named)
    assigned = [Collector(*(await first.create_message_streams({topic: 2}))[topic])]
    assert shares(first) == [[(topic, number) for number in range(4)]]
    write(broker.bootstrap, topic, map(str, range(40)), 4)
    await wait_for(lambda: len(assigned[0].messages) == 40)

    second = ConsumerConnector(broker.bootstrap, **named)
    assigned.append(Collector(*await second.create_message_streams_by_filter(Whitelist(f"{topic}.*"), 1)))
    # of the three streams, the first one in the order of the ids reads two partitions
    await wait_for(lambda: sorted(map(len, shares(first, second))) in ([1, 3], [2, 2]))
    assert not {*first.assignment} & {*second.assignment}
    await first.shutdown()
    await wait_for(lambda: len(second.assignment) == 4)
    write(broker.bootstrap, topic, map(str, range(40, 80)), 4)
    await wait_for(lambda: len(assigned[1].messages) >= 40)
    await second.shutdown()
    values = sorted(int(message.value) for each in assigned for message in each.messages)
    assert values == list(range(80))
    assert now(tree.children(zk_paths.consumers(group))) == []


async def test_offsets_move_from_the_tree_to_the_brokers_and_back(
    broker: Broker, tree: EmbeddedTree, topic: str, group: str
) -> None:
    create(broker.bootstrap, topic, 2)
    announce(tree, topic, 2)
    readers: list[Collector] = []

    async def started(storage: str, dual: bool) -> ConsumerConnector:
        consumer = ConsumerConnector(
            broker.bootstrap,
            group=group,
            coordination=tree,
            auto_offset_reset="earliest",
            offsets_storage=storage,
            dual_commit_enabled=dual,
        )
        readers.append(Collector(*(await consumer.create_message_streams({topic: 1}))[topic]))
        return consumer

    written = 0

    async def write_and_read() -> None:
        """Ten records more, of which every one is read once."""
        nonlocal written
        write(broker.bootstrap, topic, map(str, range(written, written + 10)), 2)
        written += 10
        await wait_for(lambda: sum(len(each.messages) for each in readers) >= written)
        values = sorted(int(message.value) for each in readers for message in each.messages)
        assert values == list(range(written))

    members = [await started("zookeeper", False) for _ in range(2)]
    await write_and_read()
    for storage, dual in [("kafka", True), ("kafka", False), ("zookeeper", True), ("zookeeper", False)]:
        for place, member in enumerate(members):  # a rolling bounce
            await member.shutdown()
            members[place] = await started(storage, dual)
            await write_and_read()
        await wait_for(lambda: sorted(each for share in shares(*members) for each in share) == [(topic, 0), (topic, 1)])
        in_brokers = committed(broker.bootstrap, group, topic, 2)
        in_tree = [int(now(tree.get(zk_paths.committed_offset(group, topic, number))).data) for number in range(2)]
        stale = {("kafka", False): in_tree, ("zookeeper", False): in_brokers}.get((storage, dual))
        assert stale is None or sum(stale) < written
    for member in members:
        await member.shutdown()
    assert (
        sum(int(now(tree.get(zk_paths.committed_offset(group, topic, number))).data) for number in range(2)) == written
    )


async def test_readers_learn_when_the_group_does_not_settle(
    broker: Broker, tree: EmbeddedTree, topic: str, group: str
) -> None:
    create(broker.bootstrap, topic, 2)
    announce(tree, topic, 2)
    now(ensure(tree, [parent(zk_paths.owner(group, topic, 0))]))
    now(tree.commit([Create(zk_paths.owner(group, topic, 0), b"somebody-0")]))
    named = {"coordination": tree, "rebalance_backoff_ms": 10, "rebalance_max_retries": 2}
    connector = ConsumerConnector(broker.bootstrap, group=group, auto_offset_reset="earliest", **named)
    streams = (await connector.create_message_streams({topic: 2}))[topic]
    for stream in streams:
        with pytest.raises(RebalanceFailed, match=topic):
            await stream.get_many(timeout=WAIT_SECONDS_MAX)
    now(tree.commit([Delete(zk_paths.owner(group, topic, 0))]))
    await wait_for(lambda: len(connector.assignment) == 2)
    write(broker.bootstrap, topic, ["a", "b"], 2)
    for stream in streams:
        assert len(await stream.get_many(timeout=WAIT_SECONDS_MAX)) == 1
    await connector.shutdown()
