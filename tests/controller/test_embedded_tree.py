"""The controller on the embedded tree: its port asks for nothing that `ITree` does not have."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import attrs
import pytest

from pylogbroker.controller.controller import ClusterController, ControllerPhase
from pylogbroker.controller.isr_changes import WantedIsr
from pylogbroker.controller.ports import ControllerSettings
from pylogbroker.controller.term import elect
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import CoordinationError, Create, Node, Operation, SetData
from pylogbroker.metadata import registration, zk_paths, zk_schema
from pylogbroker.metadata.zk_schema import BrokerNode, TopicNode
from pylogbroker.tree.embedded import EmbeddedTree
from tests.controller.memory_tree import AtOnce
from tests.controller.small_cluster import Channels
from tests.tree.conftest import now, tree

__all__ = ["tree"]


@attrs.frozen
class ControllerPort:
    """`ITree` with many transactions in one call."""

    _tree: EmbeddedTree

    async def children(self, path: str, /) -> list[str]:
        return await self._tree.children(path)

    async def get_many(self, paths: Sequence[str], /) -> list[Node | None]:
        return await self._tree.get_many(paths)

    async def children_with_data(self, path: str, /) -> dict[str, Node]:
        return await self._tree.children_with_data(path)

    async def commit_each(self, transactions: Sequence[Sequence[Operation]], /) -> list[CoordinationError | None]:
        return [await self._commit(transaction) for transaction in transactions]

    async def _commit(self, transaction: Sequence[Operation]) -> CoordinationError | None:
        try:
            await self._tree.commit(transaction)
        except CoordinationError as error:
            return error
        return None


def test_a_term(tree: EmbeddedTree) -> None:
    now(registration.create_permanent_nodes(tree))
    broker = BrokerNode(("PLAINTEXT://a:1",), {"PLAINTEXT": "PLAINTEXT"})
    epochs = {number: now(registration.register(tree, number, broker, 5)) for number in (1, 2)}
    port, channels = ControllerPort(tree), Channels()
    term = now(elect(port, 1, 5))
    assert term
    assert term.epoch == 1
    controller = ClusterController.of(term, port, channels, ControllerSettings(), AtOnce())
    now(controller.take_over())
    assert sorted(channels.queues) == [1, 2]

    topic = TopicNode(uuid.UUID(int=1), {0: (1, 2)})
    now(tree.commit([Create(zk_paths.topic("t"), zk_schema.encode_topic(topic))]))
    now(controller.on_node_changed(zk_paths.TOPICS))
    change = WantedIsr(leader_epoch=0, partition_epoch=0, isr=(1,))
    now(controller.alter_partitions(1, epochs[1], {("t", 0): change}))
    node = now(tree.get(zk_paths.partition_state("t", 0)))
    assert node.data == b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
    assert node.stat.version == controller.image.topics["t"].partitions[0].partition_epoch == 1

    now(tree.commit([SetData(zk_paths.CONTROLLER_EPOCH, b"2")]))
    with pytest.raises(KafkaError) as raised:
        now(controller.allocate_producer_ids(2, epochs[2]))
    assert raised.value.code is ErrorCode.NOT_CONTROLLER
    assert controller.phase is ControllerPhase.RESIGNED
    assert not now(tree.get(zk_paths.PRODUCER_ID_BLOCK)).data
