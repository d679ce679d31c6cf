"""Producing in transactions: whose records are taken, for which partitions, and when no more."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from pylogbroker.broker.apis import produce
from pylogbroker.broker.coordinators.transaction_service import TransactionService
from pylogbroker.errors import ErrorCode
from pylogbroker.records import Codec, Record, build
from pylogbroker.transactions import TransactionCoordinator
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.transactions import Producer, TransactionTests

NONE = ErrorCode.NONE
VERSIONS = range(3, 12)
NOT_ADDED = dict.fromkeys(VERSIONS, ErrorCode.INVALID_TXN_STATE) | {11: ErrorCode.TRANSACTION_ABORTABLE}


class VerificationTests(TransactionTests):
    def test_a_partition_must_have_been_added(self) -> None:
        for version in VERSIONS:
            producer = self.producer()
            self.assertEqual(producer.send(b"x", version=version), NOT_ADDED[version], version)
            producer.add(("t", 1))
            self.assertEqual(producer.send(b"x", version=version), NOT_ADDED[version], version)
            self.assertEqual(producer.send(b"x", index=1, version=version), NONE, version)
            self.assertEqual(producer.end(True), NONE)
        self.assertEqual((self.end_offset(0), self.end_offset(0, 1)), (0, 2 * len(VERSIONS)))

    def test_records_that_come_after_the_end_are_rejected(self) -> None:
        for committed in (True, False):
            producer = self.begun(b"x")
            producer.end(committed)
            end = self.end_offset(0)
            for version in VERSIONS:
                self.assertEqual(producer.send(b"late", version=version), NOT_ADDED[version], version)
            self.assertEqual((self.end_offset(0), self.end_offset(1)), (end, end))

    def test_a_producer_is_retried_while_its_transaction_ends(self) -> None:
        producer = self.producer()
        producer.add(("t", 0))
        with patch.object(TransactionService, "write_markers"):
            producer.end(True)
            for version in VERSIONS:
                self.assertEqual(producer.send(b"x", version=version), ErrorCode.NOT_ENOUGH_REPLICAS)

    def test_an_unavailable_coordinator_is_a_retriable_error(self) -> None:
        for reason in ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"):
            producer = self.producer()
            producer.add(("t", 0))

            def say(*_: object, reason: str = reason) -> Any:
                return {("t", 0): ErrorCode[reason]}

            with patch.object(TransactionCoordinator, "verify", say):
                self.assertEqual(producer.send(b"x"), ErrorCode.NOT_ENOUGH_REPLICAS, reason)
            self.assertEqual(producer.send(b"x"), NONE)
            producer.end(True)

    def test_the_producer_must_be_the_one_that_has_the_name(self) -> None:
        producer = self.begun(b"x")
        foreign = Producer(self.node, "p", producer.producer_id + 1, 0)
        self.assertEqual(foreign.send(b"x"), ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        nameless = Producer(self.node, "", producer.producer_id + 1, 0)
        self.assertEqual(nameless.send(b"x"), ErrorCode.INVALID_REQUEST)

    def test_only_the_first_batch_is_asked_about(self) -> None:
        producer = self.begun(b"1")
        with patch.object(TransactionCoordinator, "verify", side_effect=AssertionError):
            for _ in range(5):
                self.assertEqual(producer.send(b"x"), NONE)
        self.assertEqual(producer.end(True), NONE)
        self.assertEqual(len(self.committed()), 6)

    def test_a_batch_sent_twice_is_appended_once(self) -> None:
        producer = self.begun(b"1")
        request = producer.request([b"2"])
        offsets = set()
        for _ in range(2):
            answer = self.node.ask(produce.handle, request)
            offsets.add(answer.responses[0].partition_responses[0].base_offset)
        self.assertEqual(offsets, {1})
        producer.end(True)
        self.assertEqual(self.committed(), [b"1", b"2"])

    def test_outside_of_an_open_transaction_nothing_is_taken(self) -> None:
        producer = self.begun(b"1")
        batch = build(
            [Record(0, self.node.broker.runtime.now_ms(), None, b"x")],
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=1,
        )
        request = ProduceRequest("p", -1, 1000, [TopicProduceData("t", [PartitionProduceData(0, batch)])])
        answer = self.node.ask(produce.handle, request).responses[0].partition_responses[0]
        self.assertEqual(answer.error_code, ErrorCode.INVALID_TXN_STATE)

    def test_old_formats_have_no_transactions(self) -> None:
        self.node.create("old", message_format_version="0.10.2")
        producer = self.producer()
        producer.add(("old", 0))
        self.assertEqual(producer.send(b"x", topic="old"), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)


class UnverifiedTests(TransactionTests):
    settings = {**TransactionTests.settings, "transaction.partition.verification.enable": "false"}

    def test_verification_can_be_switched_off(self) -> None:
        producer = self.producer()
        self.assertEqual(producer.send(b"x"), NONE)
        self.assertEqual(self.end_offset(1), 0)


class ConversionTests(TransactionTests):
    """Records that a worker thread converts first: by the time they are appended, much may have happened."""

    def test_converted_records_are_verified_again_before_the_append(self) -> None:
        self.node.create("z", compression_type="gzip")
        for is_late, wanted in ((False, NONE), (True, ErrorCode.TRANSACTION_ABORTABLE)):
            producer = self.producer()
            producer.add(("z", 0))
            self.node.threads.holding = True
            later = self.node.send(produce.handle, self.large(producer), 11)
            self.assertNoResult(later)
            if is_late:
                producer.end(True)
            self.node.threads.run_one()
            self.node.threads.holding = False
            answer = self.successResultOf(later).responses[0].partition_responses[0]
            self.assertEqual(answer.error_code, wanted)
            if not is_late:
                self.assertEqual(producer.end(True), NONE)
        self.assertEqual(self.committed(topic="z"), [b"v" * 50_000])

    def large(self, producer: Producer) -> ProduceRequest:
        batch = build(
            [Record(0, self.node.broker.runtime.now_ms(), None, b"v" * 50_000)],
            codec=Codec.NONE,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=0,
            transactional=True,
        )
        return ProduceRequest("p", -1, 1000, [TopicProduceData("z", [PartitionProduceData(0, batch)])])
