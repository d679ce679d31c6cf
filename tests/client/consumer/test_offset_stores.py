"""Stores of offsets: the tree (embedded), the brokers (running), and both during a group's migration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from twisted.internet import reactor
from twisted.internet.defer import Deferred, fail, succeed

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.consumer.nodes import ensure
from pylogbroker.client.consumer.offset_stores import (
    BrokerOffsets,
    DualOffsets,
    NoMember,
    OffsetStore,
    TreeOffsets,
    choose_store,
)
from pylogbroker.client.coordinator_requests import CoordinatorType
from pylogbroker.client.errors import ConnectionLost
from pylogbroker.client.settings import CONSUMER, read
from pylogbroker.client.sources import StaticBrokers
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError
from pylogbroker.interfaces import Create, SetData, TopicPartition
from pylogbroker.metadata.zk_schema import BadNode
from pylogbroker.tree.embedded import EmbeddedTree
from pylogbroker.wire import UnsupportedVersion, request_codec, response_codec
from pylogbroker.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from pylogbroker.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from pylogbroker.wire.schema import Request, Response
from tests.support.brokers import Broker
from tests.tree.conftest import now

OFFSETS = {("t", 0): 5, ("t", 1): 7, ("u", 0): 2**40}


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[EmbeddedTree]:
    opened = EmbeddedTree.open(str(tmp_path / "tree"))
    yield opened
    now(opened.close())


@attrs.define
class Memory:
    """A store that remembers, unless it is broken."""

    kept: dict[TopicPartition, int] = attrs.field(factory=dict)
    broken: bool = False

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        if self.broken:
            raise ConnectionLost("gone")
        self.kept.update(offsets)

    async def fetch(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {each: self.kept[each] for each in partitions if each in self.kept}


# -- the tree


def test_the_tree_keeps_offsets_as_kafkas_old_consumers_did(tree: EmbeddedTree) -> None:
    store = TreeOffsets(tree, "g")
    now(store.commit(OFFSETS))
    now(store.commit({("t", 0): 4}))
    assert now(tree.get("/consumers/g/offsets/t/0")).data == b"4"
    assert now(tree.get("/consumers/g/offsets/u/0")).data == b"1099511627776"
    assert now(tree.get("/consumers/g/offsets/u/0")).stat.owner == 0
    assert now(store.fetch([("t", 0), ("t", 1), ("t", 2), ("v", 0)])) == {("t", 0): 4, ("t", 1): 7}
    assert now(TreeOffsets(tree, "h").fetch(OFFSETS)) == {}
    now(store.commit({}))


def test_a_node_that_holds_no_offset_is_rejected(tree: EmbeddedTree) -> None:
    now(TreeOffsets(tree, "g").commit(OFFSETS))
    now(tree.commit([SetData("/consumers/g/offsets/t/0", b"x")]))
    with pytest.raises(BadNode, match="not an offset"):
        now(TreeOffsets(tree, "g").fetch(OFFSETS))


def test_nodes_created_concurrently_are_accepted(tree: EmbeddedTree, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = EmbeddedTree.commit
    others = [Create("/consumers"), Create("/consumers/g"), Create("/consumers/g/offsets"),
              Create("/consumers/g/offsets/t"), Create("/consumers/g/offsets/t/0", b"9")]  # fmt: skip

    async def outrun(self: EmbeddedTree, operations: Any) -> list[str]:
        if others:
            await commit(self, [others.pop(0)])
        return await commit(self, operations)

    monkeypatch.setattr(EmbeddedTree, "commit", outrun)
    now(TreeOffsets(tree, "g").commit({("t", 0): 5}))
    assert now(tree.get("/consumers/g/offsets/t/0")).data == b"5"
    assert others == []
    now(ensure(tree, ["/consumers/g/offsets/t", "/consumers/g/ids"]))
    assert now(tree.children("/consumers/g")) == ["ids", "offsets"]


# -- both


@pytest.mark.parametrize("storage", ["kafka", "zookeeper"])
def test_the_larger_of_two_offsets_counts(storage: str) -> None:
    brokers, tree = Memory({("t", 0): 5, ("t", 1): 7, ("t", 2): 1}), Memory({("t", 0): 6, ("t", 1): 3, ("t", 3): 2})
    store = choose_store(storage, True, brokers, tree)
    asked = [("t", number) for number in range(5)]
    assert now(store.fetch(iter(asked))) == {("t", 0): 6, ("t", 1): 7, ("t", 2): 1, ("t", 3): 2}
    now(store.commit({("t", 0): 4}))
    assert now(store.fetch(asked))["t", 0] == 4
    assert brokers.kept["t", 0] == tree.kept["t", 0] == 4


@pytest.mark.parametrize("broken", ["brokers", "tree"])
def test_a_failing_store_does_not_block_the_other(broken: str) -> None:
    stores = {"brokers": Memory(broken=broken == "brokers"), "tree": Memory(broken=broken == "tree")}
    with pytest.raises(ConnectionLost):
        now(choose_store("kafka", True, **stores).commit(OFFSETS))
    assert {name: store.kept for name, store in stores.items()} == {
        name: {} if name == broken else OFFSETS for name in stores
    }


def test_a_collected_commit_to_both_stores_ends_quietly() -> None:
    class Waiting(Memory):
        async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
            await Deferred()

    committing: Any = DualOffsets((Waiting(), Waiting())).commit({("t", 0): 1})
    committing.send(None)
    committing.close()  # as the collector does; raises RuntimeError if the coroutine awaits again


@pytest.mark.parametrize(("storage", "place"), [("kafka", 0), ("zookeeper", 1)])
def test_without_dual_commit_one_counts(storage: str, place: int) -> None:
    stores = Memory(), Memory()
    now(choose_store(storage, False, *stores).commit(OFFSETS))
    assert [bool(store.kept) for store in stores] == [place == 0, place == 1]


@pytest.mark.parametrize(("storage", "dual"), [("zookeeper", False), ("kafka", True), ("zookeeper", True)])
def test_a_tree_is_needed(storage: str, dual: bool) -> None:
    with pytest.raises(ConfigError, match="coordination tree"):
        choose_store(storage, dual, Memory(), None)
    brokers = Memory()
    assert choose_store("kafka", False, brokers, None) is brokers


# -- the brokers, made up


@attrs.define
class MadeUp:
    """A cluster whose coordinator gives the test's answers, in its newest version."""

    answers: list[Response | Exception]
    newest: int = 9
    sent: list[Request] = attrs.field(factory=list)
    forgotten: int = 0

    async def coordinator(self, key: str, kind: CoordinatorType) -> int:
        assert (key, kind) == ("g", CoordinatorType.GROUP)
        return 3

    def forget_coordinator(self, key: str, kind: CoordinatorType) -> None:
        self.forgotten += 1

    def send(self, node_id: int, request: Request, *, version: int | None = None) -> Deferred[Any]:
        assert node_id == 3
        if version is not None and version > self.newest:
            return fail(UnsupportedVersion("newer than this broker"))
        version = self.newest if version is None else version
        sent = request_codec(request.api_key, version)
        self.sent.append(sent.decode(sent.encode(request)))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            return fail(answer)
        reported = response_codec(request.api_key, version)
        return succeed(reported.decode(reported.encode(answer)))

    def store(self, standing: NoMember | None = None, has_epochs: bool = False) -> BrokerOffsets:
        cluster: Any = self
        return BrokerOffsets(cluster, "g", standing or NoMember(), has_epochs)


def committed(code: ErrorCode) -> OffsetCommitResponse:
    partitions = [OffsetCommitResponsePartition(0), OffsetCommitResponsePartition(1, code)]
    others = OffsetCommitResponseTopic("u", [OffsetCommitResponsePartition(0)])
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic("t", partitions), others])


def fetched(offset: int, code: ErrorCode = ErrorCode.NONE, of_group: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponse:
    partitions = [OffsetFetchResponsePartition(0, offset, error_code=code), OffsetFetchResponsePartition(1, -1)]
    return OffsetFetchResponse(topics=[OffsetFetchResponseTopic("t", partitions)], error_code=of_group)


def test_a_member_commits_as_one() -> None:
    cluster = MadeUp([committed(ErrorCode.NONE)])
    now(cluster.store(NoMember(4, "m", "i")).commit(OFFSETS))
    [request] = cluster.sent
    assert isinstance(request, OffsetCommitRequest)
    reported = request.group_id, request.generation_id_or_member_epoch, request.member_id, request.group_instance_id
    assert reported == ("g", 4, "m", "i")
    assert {
        (topic.name, each.partition_index): each.committed_offset
        for topic in request.topics
        for each in topic.partitions
    } == OFFSETS


@pytest.mark.parametrize(("epoch", "member"), [(4, ("m", 4)), (-1, (None, -1))])
def test_a_member_with_an_epoch_reads_offsets_as_one(epoch: int, member: tuple[str | None, int]) -> None:
    partitions = [OffsetFetchResponsePartitions(0, 8), OffsetFetchResponsePartitions(1, -1)]
    group = OffsetFetchResponseGroup("g", [OffsetFetchResponseTopics("t", partitions)])
    cluster = MadeUp([OffsetFetchResponse(groups=[group])])
    assert now(cluster.store(NoMember(epoch, "m"), has_epochs=True).fetch([("t", 0), ("t", 1)])) == {("t", 0): 8}
    [request] = cluster.sent
    assert isinstance(request, OffsetFetchRequest)
    [asked] = request.groups
    assert (asked.group_id, asked.member_id, asked.member_epoch) == ("g", *member)
    assert [(topic.name, topic.partition_indexes) for topic in asked.topics or ()] == [("t", [0, 1])]
    assert request.require_stable


@pytest.mark.parametrize("code", [ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.NOT_COORDINATOR])
def test_offsets_of_a_member_with_an_epoch_are_rejected(code: ErrorCode) -> None:
    cluster = MadeUp([OffsetFetchResponse(groups=[OffsetFetchResponseGroup("g", error_code=code)])])
    with pytest.raises(KafkaError) as caught:
        now(cluster.store(NoMember(4, "m"), has_epochs=True).fetch([("t", 0)]))
    assert caught.value.code is code
    with pytest.raises(KafkaError, match="0 results instead of 1"):
        now(MadeUp([OffsetFetchResponse()]).store(has_epochs=True).fetch([("t", 0)]))


@pytest.mark.parametrize("newest", [1, 2, 6, 7, 9])
def test_brokers_of_every_age_are_asked(newest: int) -> None:
    cluster = MadeUp([fetched(8)], newest)
    assert now(cluster.store().fetch([("t", 0), ("t", 1)])) == {("t", 0): 8}
    [request] = cluster.sent
    assert isinstance(request, OffsetFetchRequest)
    assert request.require_stable is (newest >= 7)
    assert [(each.name, each.partition_indexes) for each in request.topics or ()] == [("t", [0, 1])]


@pytest.mark.parametrize(
    ("code", "forgotten"),
    [
        (ErrorCode.NOT_COORDINATOR, 1),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, 1),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0),
        (ErrorCode.ILLEGAL_GENERATION, 0),
    ],
)
def test_errors_are_raised_and_a_former_coordinator_is_forgotten(code: ErrorCode, forgotten: int) -> None:
    asking: list[tuple[Response, Callable[[OffsetStore], Any]]] = [
        (committed(code), lambda store: store.commit(OFFSETS)),
        (fetched(8, code), lambda store: store.fetch([("t", 0), ("t", 1)])),
        (fetched(8, of_group=code), lambda store: store.fetch(OFFSETS)),
    ]
    for answer, ask in asking:
        cluster = MadeUp([answer])
        with pytest.raises(KafkaError) as caught:
            now(ask(cluster.store()))
        assert caught.value.code is code
        assert cluster.forgotten == forgotten


def test_a_partition_that_the_coordinator_leaves_out_is_not_believed() -> None:
    """Else its records would be lost, or read from the beginning."""
    answer = committed(ErrorCode.NONE)
    answer.topics.pop()
    with pytest.raises(KafkaError, match="the coordinator of group g answered OffsetCommit with no result for u-0"):
        now(MadeUp([answer]).store().commit(OFFSETS))
    with pytest.raises(KafkaError, match="the coordinator of group g answered OffsetFetch with no result for t-2"):
        now(MadeUp([fetched(8)]).store().fetch([("t", 0), ("t", 2)]))


def test_a_coordinator_that_does_not_answer_is_forgotten() -> None:
    cluster = MadeUp([ConnectionLost("gone")])
    with pytest.raises(ConnectionLost):
        now(cluster.store().fetch(OFFSETS))
    assert cluster.forgotten == 1


# -- the brokers, running


async def test_a_group_moves_from_the_tree_to_the_brokers_and_back(
    broker: Broker, topic: str, group: str, tree: EmbeddedTree
) -> None:
    cluster = Cluster(reactor, read(CONSUMER), StaticBrokers(broker.bootstrap))
    brokers, in_tree = BrokerOffsets(cluster, group), TreeOffsets(tree, group)
    try:
        await settle(cluster, topic, group)
        old, both, new, back = (
            choose_store(storage, dual, brokers, in_tree)
            for storage, dual in [("zookeeper", False), ("kafka", True), ("kafka", False), ("zookeeper", True)]
        )
        one, two = (topic, 0), (topic, 1)
        await old.commit({one: 10, two: 20})
        assert await new.fetch([one, two]) == {}
        assert await both.fetch([one, two]) == {one: 10, two: 20}  # the first member after its bounce
        await both.commit({one: 11})
        await old.commit({two: 21})  # by one that was not bounced yet
        assert await both.fetch([one, two]) == {one: 11, two: 21}
        await both.commit({two: 22})
        assert await new.fetch([one, two]) == {one: 11, two: 22}
        await new.commit({one: 12})
        assert await back.fetch([one, two]) == {one: 12, two: 22}
        await back.commit({one: 13})
        assert await old.fetch([one, two]) == {one: 13, two: 22}
    finally:
        await cluster.close()


async def settle(cluster: Cluster, topic: str, group: str) -> None:
    """Create the topic with two partitions, and wait for the coordinator of the group."""
    request = CreateTopicsRequest([CreatableTopic(topic, num_partitions=2, replication_factor=1)], timeout_ms=10_000)
    response = await cluster.send_anywhere(request)
    assert [each.error_code for each in response.topics] == [ErrorCode.NONE]
    await cluster.find_topic(topic)
    await cluster.coordinator(group, CoordinatorType.GROUP)
