"""The image in the coordination tree: after each delta, the tree holds the image that the delta makes."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Iterable
from tempfile import TemporaryDirectory
from typing import TypeVar

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, multiple, rule

from pylogbroker.config.listeners import parse_endpoints
from pylogbroker.interfaces import BadVersion, Create, SetData
from pylogbroker.metadata import registration, zk_paths, zk_schema
from pylogbroker.metadata.delta import Change, ConfigChanged, Delta, PartitionsChanged, TopicCreated, TopicDeleted
from pylogbroker.metadata.image import (
    BrokerListener,
    BrokerRegistration,
    ClusterImage,
    ConfigResource,
    LeaderRecovery,
    PartitionState,
    TopicImage,
    broker_resource,
    topic_resource,
)
from pylogbroker.metadata.persistent_map import PersistentMap
from pylogbroker.metadata.zk_image import deletion, new_partition, operations, read_image
from pylogbroker.tree.embedded import EmbeddedTree
from tests.tree.conftest import now

T = TypeVar("T")
NAMES = st.sampled_from(["a", "b", "c.d", "e_f"])
REPLICAS = st.lists(st.integers(1, 3), min_size=1, max_size=3, unique=True).map(tuple)
TEXTS = st.dictionaries(st.sampled_from(["retention.ms", "x"]), st.text(max_size=3), max_size=2)


class AtOnce:
    async def over(self, items: Iterable[T]) -> AsyncIterator[T]:
        for item in items:
            yield item


def read(tree: EmbeddedTree) -> ClusterImage:
    return now(read_image(tree, AtOnce())).image


class TreeMachine(RuleBasedStateMachine):
    """Random deltas, each written and applied; then the tree is read again."""

    topics = Bundle("topics")

    def __init__(self) -> None:
        super().__init__()
        self.directory = TemporaryDirectory()
        self.tree = EmbeddedTree.open(self.directory.name)
        now(registration.create_permanent_nodes(self.tree))
        self.image = read(self.tree)
        self.count = 0

    def teardown(self) -> None:
        now(self.tree.close())
        self.directory.cleanup()

    def change(self, *changes: Change) -> None:
        delta = Delta(changes)
        now(self.tree.commit(list(operations(delta, self.image))))
        self.image = delta.apply(self.image)
        assert read(self.tree) == self.image

    @rule(target=topics, name=NAMES, replicas=st.lists(REPLICAS, min_size=1, max_size=3), texts=TEXTS)
    def create(self, name: str, replicas: list[tuple[int, ...]], texts: dict[str, str]) -> object:
        if name in self.image.topics:
            return multiple()
        self.count += 1
        partitions = PersistentMap(enumerate(map(new_partition, replicas)))
        created = TopicCreated(TopicImage(name, uuid.UUID(int=self.count), partitions))
        self.change(ConfigChanged(topic_resource(name), texts), created)
        return name

    @rule(name=topics, number=st.integers(0, 4), replicas=REPLICAS, adding=st.booleans(), data=st.data())
    def alter(self, name: str, number: int, replicas: tuple[int, ...], adding: bool, data: st.DataObject) -> None:
        topic = self.image.topics.get(name)
        if topic is None:
            return
        number = min(number, len(topic.partitions))
        before = topic.partitions.get(number)
        if before is None:
            state = new_partition(replicas)
        else:
            state = PartitionState(
                leader=data.draw(st.sampled_from([-1, *replicas])),
                replicas=replicas,
                isr=replicas[:1],
                leader_epoch=before.leader_epoch + data.draw(st.integers(0, 1)),
                partition_epoch=before.partition_epoch + 1,
                adding=replicas[1:] if adding else (),
                removing=replicas[:1] if adding else (),
                recovery=data.draw(st.sampled_from(LeaderRecovery)),
                controller_epoch=data.draw(st.integers(0, 3)),
            )
        self.change(PartitionsChanged(name, {number: state}))

    @rule(name=topics, texts=TEXTS)
    def configure(self, name: str, texts: dict[str, str]) -> None:
        if name in self.image.topics:
            self.change(ConfigChanged(topic_resource(name), texts))

    @rule(broker=st.none() | st.integers(1, 2), texts=TEXTS)
    def configure_broker(self, broker: int | None, texts: dict[str, str]) -> None:
        self.change(ConfigChanged(broker_resource(broker), texts))

    @rule(name=consumes(topics), finish=st.just(True))
    def delete(self, name: str, finish: bool) -> None:
        topic = self.image.topics.get(name)
        if topic is None:
            return
        self.change(TopicDeleted(topic))
        assert now(read_image(self.tree, AtOnce())).deleted == (topic,)
        now(self.tree.commit(list(deletion(topic))))
        assert now(read_image(self.tree, AtOnce())).deleted == ()
        assert read(self.tree) == self.image


TestTree = TreeMachine.TestCase
TestTree.settings = settings(stateful_step_count=20, deadline=None)


def test_the_second_of_two_concurrent_writers_fails(tree: EmbeddedTree) -> None:
    created = Delta.of(TopicCreated(TopicImage("t", uuid.UUID(int=1), PersistentMap({0: new_partition([1, 2])}))))
    now(tree.commit(list(operations(created, ClusterImage()))))
    image = read(tree)
    for number, expected in enumerate([None, BadVersion]):
        state = attrs.evolve(image.topics["t"].partitions[0], leader=2, partition_epoch=1)
        change = tree.commit(list(operations(Delta.of(PartitionsChanged("t", {0: state})), image)))
        if expected is None:
            now(change)
        else:
            with pytest.raises(expected):
                now(change)
        assert read(tree).topics["t"].partitions[0] == state, number


def test_nodes_of_a_topic_as_kafka_writes_them(tree: EmbeddedTree) -> None:
    topic = TopicImage("t", uuid.UUID(int=1), PersistentMap({0: new_partition([1, 2])}))
    reassigned = attrs.evolve(new_partition([3, 2, 1]), leader=2, isr=(2,), removing=(1,), adding=(3,))
    image = ClusterImage()
    delta = Delta.of(ConfigChanged(topic_resource("t"), {}), TopicCreated(topic))
    now(tree.commit(list(operations(delta, image))))
    image = delta.apply(image)
    reassignment = Delta.of(PartitionsChanged("t", {0: attrs.evolve(reassigned, partition_epoch=1)}))
    now(tree.commit(list(operations(reassignment, image))))
    assert json.loads(now(tree.get("/brokers/topics/t")).data) == {
        "partitions": {"0": [3, 2, 1]},
        "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ",
        "adding_replicas": {"0": [3]},
        "removing_replicas": {"0": [1]},
        "version": 3,
    }
    assert json.loads(now(tree.get("/config/topics/t")).data) == {"version": 1, "config": {}}
    state = now(tree.get("/brokers/topics/t/partitions/0/state"))
    assert json.loads(state.data) == {"controller_epoch": 0, "leader": 2, "version": 1, "leader_epoch": 0, "isr": [2]}
    assert state.stat.version == 1


def test_a_partition_that_the_controller_has_not_made_yet(tree: EmbeddedTree) -> None:
    data = zk_schema.encode_topic(zk_schema.TopicNode(uuid.UUID(int=1), {0: (2, 1)}))
    now(tree.commit([Create(zk_paths.topic("t"), data)]))
    assert dict(read(tree).topics["t"].partitions) == {0: PartitionState(2, (2, 1), (2, 1))}


def test_live_brokers(tree: EmbeddedTree) -> None:
    node = zk_schema.BrokerNode(
        endpoints=("CLIENT://a.example:9092", "REPLICATION://[::1]:9093"),
        protocols={"CLIENT": "SASL_SSL", "REPLICATION": "PLAINTEXT"},
        rack="r1",
    )
    epoch = now(registration.register(tree, 3, node, 1000))
    assert dict(read(tree).brokers) == {
        3: BrokerRegistration(
            id=3,
            epoch=epoch,
            listeners={
                "CLIENT": BrokerListener("a.example", 9092, "SASL_SSL"),
                "REPLICATION": BrokerListener("::1", 9093, "PLAINTEXT"),
            },
            rack="r1",
        )
    }


def test_names_of_listeners_that_settings_accept(tree: EmbeddedTree) -> None:
    for broker_id, name in enumerate(("REPLICATION-9091", "INTERNAL.TLS", "_A-1")):
        assert [each.name for each in parse_endpoints(f"{name}://host:1")] == [name]
        now(registration.register(tree, broker_id, zk_schema.BrokerNode((f"{name}://host:1",), {name: "SSL"}), 1000))
        assert read(tree).brokers[broker_id].listeners == {name: BrokerListener("host", 1, "SSL")}


def test_settings_without_a_topic(tree: EmbeddedTree) -> None:
    """A tool may write settings before the topic exists; creating it must not fail for that."""
    now(tree.commit([Create("/config/topics/t", b'{"version":1,"config":{"x":"y"}}')]))
    image = read(tree)
    assert image.configs == {ConfigResource(topic_resource("t").type, "t"): {"x": "y"}}
    topic = TopicImage("t", uuid.UUID(int=1), PersistentMap({0: new_partition([1])}))
    delta = Delta.of(ConfigChanged(topic_resource("t"), {"x": "z"}), TopicCreated(topic))
    now(tree.commit(list(operations(delta, image))))
    assert read(tree) == delta.apply(image)


def test_no_settings_at_all(tree: EmbeddedTree) -> None:
    now(tree.commit([Create("/config/brokers/<default>")]))
    assert read(tree).configs == {broker_resource(None): {}}
    now(tree.commit([SetData("/config/brokers/<default>", b"")]))
    assert read(tree).configs == {broker_resource(None): {}}


def test_partitions_with_equal_replicas_and_states_share_one() -> None:
    with TemporaryDirectory() as directory:
        tree = EmbeddedTree.open(directory)
        now(registration.create_permanent_nodes(tree))
        partitions = {number: PartitionState(1, (1, 2), (1, 2)) for number in range(3)}
        partitions[2] = attrs.evolve(partitions[2], leader=2)
        created = Delta.of(TopicCreated(TopicImage("t", uuid.uuid4(), PersistentMap(partitions))))
        now(tree.commit(list(operations(created, ClusterImage()))))
        read_back = read(tree).topics["t"].partitions
        now(tree.close())
    assert dict(read_back) == partitions
    assert read_back[0] is read_back[1]
    assert read_back[2] is not read_back[0]
