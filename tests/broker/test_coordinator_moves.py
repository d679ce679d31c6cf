"""Coordinators move with the leaders of their topics' partitions."""

from __future__ import annotations

from pylogbroker.errors import ErrorCode
from pylogbroker.groups import Commit, CommittedOffset, Join, JoinResult
from tests.broker.nodes import NODE_ID, Node, NodeTests
from tests.broker.transactions import Producer, TransactionTests
from tests.broker.trees import now

OTHER = NODE_ID + 1
OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
NONE, NOT_HERE = ErrorCode.NONE, ErrorCode.NOT_COORDINATOR


def lead(node: Node, topic: str, leader: int, epoch: int) -> None:
    """Elect a leader for partition 0."""
    node.change_partition(topic, 0, leader=leader, replicas=(NODE_ID, OTHER), leader_epoch=epoch, partition_epoch=epoch)


class GroupMoveTests(NodeTests):
    settings = {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}

    def setUp(self) -> None:
        super().setUp()
        self.node.create("t", 1)
        now(self.node.broker.group_service.ensure_topic())
        self.assertEqual(self.commit(7), NONE)

    def commit(self, offset: int) -> ErrorCode:
        results: list[ErrorCode] = []
        commit = Commit("g", -1, "", {("t", 0): CommittedOffset(offset)})
        now_ms = self.node.broker.runtime.now_ms()
        self.node.broker.groups.commit(commit, lambda result: results.append(result["t", 0]), now_ms)
        [error] = results
        return error

    def fetched(self) -> int | ErrorCode:
        result = self.node.broker.groups.fetch("g", [("t", 0)])
        offset = result.offsets.get(("t", 0))
        return offset.offset if isinstance(offset, CommittedOffset) else result.error

    def test_groups_of_a_partition_that_another_broker_leads(self) -> None:
        lead(self.node, OFFSETS, OTHER, epoch=1)
        self.assertEqual((self.fetched(), self.commit(8)), (NOT_HERE, NOT_HERE))

    def test_waiting_members_learn_it_at_once(self) -> None:
        joins: list[JoinResult] = []
        join = Join("g", "", "client", "/host", 10_000, 60_000, "consumer", (("range", b""),))
        self.node.broker.groups.join(join, joins.append, self.node.broker.runtime.now_ms())
        lead(self.node, OFFSETS, OTHER, epoch=1)
        self.assertEqual([result.error for result in joins], [NOT_HERE])

    def test_they_are_read_again_when_this_broker_leads_again(self) -> None:
        lead(self.node, OFFSETS, OTHER, epoch=1)
        lead(self.node, OFFSETS, NODE_ID, epoch=2)
        self.assertEqual(self.fetched(), 7)
        self.assertEqual(self.commit(8), NONE)

    def test_a_change_of_other_replicas_changes_nothing(self) -> None:
        before = self.node.broker.groups.runtime.shard(0)
        self.node.change_partition(OFFSETS, 0, replicas=(NODE_ID, OTHER), isr=(NODE_ID,), partition_epoch=1)
        self.assertIs(self.node.broker.groups.runtime.shard(0), before)


class TransactionMoveTests(TransactionTests):
    def test_markers_carry_the_epoch_of_the_leader(self) -> None:
        """The partitions reject markers of former coordinators by that."""
        producer = Producer(self.node, "p")
        index = self.node.broker.transactions.partition_for("p")
        producer.init()
        self.node.change_partition(TRANSACTIONS, index, leader_epoch=3, partition_epoch=1)
        shard = self.node.broker.transactions.runtime.shard(index)
        assert shard is not None
        self.assertEqual((shard.coordinator_epoch, list(shard.transactions)), (3, ["p"]))
        self.assertEqual(producer.add(("t", 0)), [NONE])
