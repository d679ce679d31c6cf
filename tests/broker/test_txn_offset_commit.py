"""TxnOffsetCommit on a whole node: answers, log records, and the state after a restart."""

from __future__ import annotations

from typing import Any

from kafka.record import MemoryRecords

from pylogbroker.broker.apis import (
    add_offsets_to_txn,
    end_txn,
    find_coordinator,
    init_producer_id,
    offset_commit,
    offset_fetch,
    txn_offset_commit,
)
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pylogbroker.wire.messages.end_txn import EndTxnRequest
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pylogbroker.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pylogbroker.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.nodes import NodeTests

GROUP, TRANSACTION, TOPIC = 0, 1, "t"
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


class TxnOffsetCommitTests(NodeTests):
    settings = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}

    def setUp(self) -> None:
        super().setUp()
        self.node.create(TOPIC, 2)
        for kind, key in ((GROUP, "g"), (TRANSACTION, "x")):
            self.node.ask(find_coordinator.handle, FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]))
        self.producer = self.init()

    def init(self) -> tuple[int, int]:
        """Add offsets as a producer does: it asks again while the transaction of the one before is being aborted."""
        answer = self.node.ask(init_producer_id.handle, InitProducerIdRequest("x", 60_000))
        if answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            answer = self.node.ask(init_producer_id.handle, InitProducerIdRequest("x", 60_000))
        self.assertEqual(answer.error_code, 0)
        return answer.producer_id, answer.producer_epoch

    def add(self, group: str = "g") -> None:
        answer = self.node.ask(add_offsets_to_txn.handle, AddOffsetsToTxnRequest("x", *self.producer, group))
        self.assertEqual(answer.error_code, 0)

    def commit(
        self, offset: int, partition: int = 0, version: int = 4, group: str = "g", topic: str = TOPIC, **fields: Any
    ) -> int:
        wanted = TxnOffsetCommitRequestTopic(topic, [TxnOffsetCommitRequestPartition(partition, offset)])
        producer_id, epoch = fields.pop("producer", self.producer)
        name = fields.pop("transactional_id", "x")
        request = TxnOffsetCommitRequest(name, group, producer_id, epoch, topics=[wanted], **fields)
        answer = self.node.ask(txn_offset_commit.handle, request, version)
        self.assertEqual([(each.name, len(each.partitions)) for each in answer.topics], [(topic, 1)])
        self.assertEqual(answer.topics[0].partitions[0].partition_index, partition)
        return answer.topics[0].partitions[0].error_code

    def end(self, committed: bool) -> None:
        answer = self.node.ask(end_txn.handle, EndTxnRequest("x", *self.producer, committed), 4)
        self.assertEqual(answer.error_code, 0)

    def stable(self, group: str = "g") -> list[int]:
        """Return what a consumer of committed records gets for both partitions: offsets, or an error."""
        wanted = OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics(TOPIC, [0, 1])])
        answer = self.node.ask(offset_fetch.handle, OffsetFetchRequest(groups=[wanted], require_stable=True))
        partitions = answer.groups[0].topics[0].partitions
        return [each.error_code or each.committed_offset for each in partitions]

    def test_a_transaction_in_every_version(self) -> None:
        for version in range(5):
            with self.subTest(version=version):
                self.add()
                self.assertEqual(self.commit(10 + version, version=version), 0)
                self.assertEqual(self.stable()[0], UNSTABLE)
                self.end(committed=True)
                self.assertEqual(self.stable(), [10 + version, -1])

    def test_aborted_offsets_do_not_count(self) -> None:
        self.add()
        self.commit(5)
        self.end(committed=False)
        self.assertEqual(self.stable(), [-1, -1])

    def test_the_group_must_be_part_of_the_transaction(self) -> None:
        expected = ErrorCode.TRANSACTION_ABORTABLE
        self.assertEqual(self.commit(5), expected)
        self.assertEqual(self.commit(5, version=3), ErrorCode.INVALID_TXN_STATE)
        self.assertEqual(self.stable(), [-1, -1])

    def test_foreign_producers_get_kafkas_errors(self) -> None:
        self.producer = self.init()
        self.add()
        producer_id, epoch = self.producer
        self.assertEqual(self.commit(5, producer=(producer_id, epoch - 1)), ErrorCode.INVALID_PRODUCER_EPOCH)
        self.assertEqual(self.commit(5, producer=(producer_id, epoch - 1), version=0), 47)
        for foreign in ((producer_id + 77, epoch), (-1, -1)):
            self.assertEqual(self.commit(5, producer=foreign), ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        self.assertEqual(self.commit(5, transactional_id="nobody"), ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        self.assertEqual(self.commit(5, topic="nowhere"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self.assertEqual(self.commit(5, partition=9), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self.assertEqual(self.commit(5, generation_id_or_member_epoch=0, member_id="m"), ErrorCode.UNKNOWN_MEMBER_ID)
        self.assertEqual(self.stable(), [-1, -1])

    def test_a_partition_that_is_not_there_does_not_harm_the_others(self) -> None:
        self.add()
        partitions = [TxnOffsetCommitRequestPartition(index, 5) for index in (0, 9)]
        request = TxnOffsetCommitRequest(
            "x", "g", *self.producer, topics=[TxnOffsetCommitRequestTopic("t", partitions)]
        )
        (answer,) = self.node.ask(txn_offset_commit.handle, request).topics
        self.assertEqual([(each.partition_index, each.error_code) for each in answer.partitions], [(0, 0), (9, 3)])
        self.end(committed=True)
        self.assertEqual(self.stable(), [5, -1])

    def test_a_later_plain_commit_wins(self) -> None:
        self.add()
        self.commit(5)
        self.commit(6, partition=1)
        wanted = OffsetCommitRequestTopic(TOPIC, [OffsetCommitRequestPartition(0, 9)])
        self.node.ask(offset_commit.handle, OffsetCommitRequest("g", topics=[wanted]))
        self.assertEqual(self.stable(), [UNSTABLE, UNSTABLE])
        self.end(committed=True)
        self.assertEqual(self.stable(), [9, 6])

    def test_an_open_transaction_survives_a_restart(self) -> None:
        self.add()
        self.commit(5)
        self.restart()
        self.assertEqual(self.stable(), [UNSTABLE, -1])
        self.end(committed=True)
        self.assertEqual(self.stable(), [5, -1])
        self.restart()
        self.assertEqual(self.stable(), [5, -1])

    def test_a_producer_that_takes_over_aborts_the_offsets(self) -> None:
        self.add()
        self.commit(5)
        old, self.producer = self.producer, self.init()
        self.assertEqual(self.stable(), [-1, -1])
        self.assertEqual(self.commit(6, producer=old), ErrorCode.INVALID_PRODUCER_EPOCH)

    def test_log_records_match_kafkas(self) -> None:
        """The records as kafka-python reads them; 0 is the sequence number that Kafka gives."""
        self.add()
        self.commit(5)
        self.commit(6)
        self.end(committed=True)
        broker = self.node.broker
        log = broker.partitions.find("__consumer_offsets", broker.groups.partition_for("g")).log
        with open(log.segments[0].path, "rb") as segment:
            records = MemoryRecords(segment.read())
        seen = []
        while (batch := records.next_batch()) is not None:
            seen.append((batch.producer_id, batch.is_transactional, batch.is_control_batch, batch.base_sequence))
        producer_id, _ = self.producer
        data, marker = (producer_id, True, False, 0), (producer_id, True, True, -1)
        self.assertEqual(seen, [data, data, marker])


class WithoutVerificationTests(TxnOffsetCommitTests):
    """Nobody asks whether the group is part of the transaction, but the log still knows the producer's epoch."""

    settings = TxnOffsetCommitTests.settings | {"transaction.partition.verification.enable": "false"}

    def test_the_group_must_be_part_of_the_transaction(self) -> None:
        self.assertEqual(self.commit(5), 0)
        self.assertEqual(self.stable(), [UNSTABLE, -1])

    def test_foreign_producers_get_kafkas_errors(self) -> None:
        self.producer = self.init()
        self.add()
        self.commit(5)
        producer_id, epoch = self.producer
        self.assertEqual(self.commit(6, producer=(producer_id, epoch - 1)), ErrorCode.INVALID_PRODUCER_EPOCH)
        self.end(committed=True)
        self.assertEqual(self.stable(), [5, -1])
