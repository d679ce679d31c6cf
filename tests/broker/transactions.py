"""Transactions as a test writes them: producers that speak to a node's handlers, and readers of committed records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
from twisted.internet.defer import Deferred

from pylogbroker.broker.apis import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    produce,
    txn_offset_commit,
)
from pylogbroker.errors import ErrorCode
from pylogbroker.records import Record, build, entries
from pylogbroker.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pylogbroker.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from pylogbroker.wire.messages.describe_transactions import DescribeTransactionsRequest
from pylogbroker.wire.messages.end_txn import EndTxnRequest
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest
from pylogbroker.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pylogbroker.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.nodes import Node, NodeTests

CLIENT_VERSION = 3  # of AddPartitionsToTxn, the last that clients use
FETCH_VERSION = 11
COMMITTED = 1


@attrs.define
class Producer:
    """A producer with a transactional id; calls return error codes."""

    node: Node
    transactional_id: str
    producer_id: int = -1
    epoch: int = -1
    sequences: dict[tuple[str, int], int] = attrs.field(factory=dict)

    def init(self, timeout_ms: int = 60_000, version: int = 5, **mine: int) -> ErrorCode:
        """Ask for an id and an epoch, at most ten times."""
        for _ in range(10):
            request = InitProducerIdRequest(self.transactional_id, timeout_ms, **mine)
            answer = self.node.ask(init_producer_id.handle, request, version)
            if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                break
        if not answer.error_code:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return ErrorCode(answer.error_code)

    def add(self, *partitions: tuple[str, int], version: int = CLIENT_VERSION) -> list[ErrorCode]:
        """Add partitions to the transaction; an error for each."""
        return self.added(self.node.ask(add_partitions_to_txn.handle, self.addition(partitions), version))

    def add_later(self, *partitions: tuple[str, int]) -> Deferred[list[ErrorCode]]:
        """Like `add`, for an answer that may have to wait."""
        answer = self.node.send(add_partitions_to_txn.handle, self.addition(partitions), CLIENT_VERSION)
        return answer.addCallback(self.added)

    def addition(self, partitions: Sequence[tuple[str, int]]) -> AddPartitionsToTxnRequest:
        """Return an AddPartitionsToTxn."""
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(topic, [index]) for topic, index in partitions],
        )

    def added(self, answer: Any) -> list[ErrorCode]:
        """Return the errors in the answer to an AddPartitionsToTxn."""
        topics = answer.results_by_topic_v3_and_below
        return [ErrorCode(each.partition_error_code) for topic in topics for each in topic.results_by_partition]

    def send(self, *values: bytes, topic: str = "t", index: int = 0, version: int = 11) -> ErrorCode:
        """Produce a transactional batch."""
        answer = self.node.ask(produce.handle, self.request(values, topic, index), version)
        return self.sent(answer, len(values), topic, index)

    def send_later(self, *values: bytes, topic: str = "t", index: int = 0) -> Deferred[Any]:
        """Like `send`, for an answer that may have to wait."""
        return self.node.send(produce.handle, self.request(values, topic, index), 11)

    def sent(self, answer: Any, count: int, topic: str = "t", index: int = 0) -> ErrorCode:
        """Return the result of sent records."""
        code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
        if not code:
            self.sequences[topic, index] = self.sequences.get((topic, index), 0) + count
        return code

    def request(self, values: Sequence[bytes], topic: str = "t", index: int = 0) -> ProduceRequest:
        """A Produce of these records."""
        now_ms = self.node.broker.runtime.now_ms()
        batch = build(
            [Record(n, now_ms, None, value) for n, value in enumerate(values)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequences.get((topic, index), 0),
            transactional=True,
        )
        data = TopicProduceData(topic, [PartitionProduceData(index, batch)])
        return ProduceRequest(self.transactional_id, -1, 1000, [data])

    def add_group(self, group: str, version: int = 4) -> ErrorCode:
        """Add a group's offsets to the transaction."""
        request = AddOffsetsToTxnRequest(self.transactional_id, self.producer_id, self.epoch, group)
        return ErrorCode(self.node.ask(add_offsets_to_txn.handle, request, version).error_code)

    def commit_offset(self, group: str, offset: int, topic: str = "t", index: int = 0, version: int = 4) -> ErrorCode:
        """Commit an offset of a group as part of the transaction."""
        topics = [TxnOffsetCommitRequestTopic(topic, [TxnOffsetCommitRequestPartition(index, offset)])]
        request = TxnOffsetCommitRequest(
            self.transactional_id, group, self.producer_id, self.epoch, -1, "", None, topics
        )
        answer = self.node.ask(txn_offset_commit.handle, request, version)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    def end(self, committed: bool, version: int = 4) -> ErrorCode:
        """Commit or abort; with version 5, the next transaction has the producer id and epoch of the answer."""
        request = EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, committed)
        answer = self.node.ask(end_txn.handle, request, version)
        if version >= 5 and not answer.error_code:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return ErrorCode(answer.error_code)


class TransactionTests(NodeTests):
    """A node that has a topic `t` of two partitions and coordinates transactions and groups."""

    settings = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}

    def setUp(self) -> None:
        super().setUp()
        self.node.create("t", 2)
        for key_type in (0, 1):
            self.node.ask(find_coordinator.handle, FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"]))

    def producer(self, transactional_id: str = "p", timeout_ms: int = 60_000) -> Producer:
        """A new producer, initialized."""
        made = Producer(self.node, transactional_id)
        self.assertEqual(made.init(timeout_ms), ErrorCode.NONE)
        return made

    def begun(self, *values: bytes, transactional_id: str = "p", timeout_ms: int = 60_000) -> Producer:
        """A producer that has a transaction open, with these records in partition 0."""
        made = self.producer(transactional_id, timeout_ms)
        self.assertEqual(made.add(("t", 0)), [ErrorCode.NONE])
        self.assertEqual(made.send(*values), ErrorCode.NONE)
        return made

    def committed(self, index: int = 0, topic: str = "t") -> list[bytes | None]:
        """The values that a reader of committed records gets, who does what the protocol asks of him."""
        wanted = FetchPartition(index, fetch_offset=0, partition_max_bytes=1_000_000)
        request = FetchRequest(
            max_wait_ms=0,
            max_bytes=1_000_000,
            isolation_level=COMMITTED,
            topics=[FetchTopic(topic, partitions=[wanted])],
        )
        answer = self.node.ask(fetch.handle, request, FETCH_VERSION).responses[0].partitions[0]
        self.assertEqual(answer.error_code, 0)
        aborted = sorted((each.first_offset, each.producer_id) for each in answer.aborted_transactions or ())
        found: list[bytes | None] = []
        hidden: set[int] = set()
        for entry in entries(answer.records or b""):
            while aborted and aborted[0][0] <= entry.last_offset:
                hidden.add(aborted.pop(0)[1])
            if entry.is_control:
                hidden.discard(entry.producer_id)
            elif not (entry.is_transactional and entry.producer_id in hidden):
                found += [record.value for record in entry.records()]
        return found

    def end_offset(self, isolation_level: int, index: int = 0) -> int:
        """Return the end of a partition by ListOffsets."""
        return self.offset_at(-1, isolation_level, index)

    def offset_at(self, timestamp: int, isolation_level: int, index: int = 0) -> int:
        """Return the offset of a time by ListOffsets."""
        topics = [ListOffsetsTopic("t", [ListOffsetsPartition(index, timestamp=timestamp)])]
        request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics)
        return int(self.node.ask(list_offsets.handle, request).topics[0].partitions[0].offset)

    def state(self, transactional_id: str = "p") -> Any:
        """Return the state of a transactional id by DescribeTransactions."""
        answer = self.node.ask(describe_transactions.handle, DescribeTransactionsRequest([transactional_id]))
        return answer.transaction_states[0]
