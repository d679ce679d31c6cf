"""Transactions v2 (KIP-890): records and offsets add their partition to the transaction, and its end gives an epoch."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import attrs

from pylogbroker.broker.apis import produce, txn_offset_commit, write_txn_markers
from pylogbroker.broker.coordinators.transaction_service import TransactionService
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.feature_levels import ChangeKind, LevelChange
from pylogbroker.records import entries
from pylogbroker.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from pylogbroker.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pylogbroker.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.broker.member_transactions import MemberTests
from tests.broker.test_completed_transactions import HeldMarkers
from tests.broker.transactions import Producer, TransactionTests
from tests.broker.trees import now

NONE, CONCURRENT = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS
V2 = 12
"""Produce that adds partitions."""
TIMEOUT = 10_000
WAIT_SECONDS = 0.1


class ImplicitPartitionTests(TransactionTests):
    def send(self, producer: Producer, value: bytes, index: int = 0) -> ErrorCode:
        return producer.send(value, index=index, version=V2)

    def test_records_add_their_partition(self) -> None:
        producer = self.producer()
        for number, committed in enumerate((True, False, True)):
            value = str(number).encode()
            self.assertEqual((self.send(producer, value), self.send(producer, value, 1)), (NONE, NONE))
            self.assertEqual(self.send(producer, value), NONE)
            self.assertEqual([each.partitions for each in self.state().topics], [[0, 1]])
            self.assertEqual(producer.end(committed, 5), NONE)
        self.assertEqual(producer.epoch, 3)
        self.assertEqual((self.committed(), self.committed(1)), ([b"0", b"0", b"2", b"2"], [b"0", b"2"]))

    def test_several_partitions_of_one_request(self) -> None:
        producer = self.producer()
        request = producer.request([b"x"])
        request.topic_data[0].partition_data += producer.request([b"y"], index=1).topic_data[0].partition_data
        answer = self.node.ask(produce.handle, request, V2)
        self.assertEqual([each.error_code for each in answer.responses[0].partition_responses], [NONE, NONE])
        producer.end(True, 5)
        self.assertEqual((self.committed(), self.committed(1)), ([b"x"], [b"y"]))

    def test_offsets_add_their_partition(self) -> None:
        for version in (5, 6):
            producer = self.producer()
            topic = TxnOffsetCommitRequestTopic(
                "t", [TxnOffsetCommitRequestPartition(0, version)], self.node.broker.metadata.topics["t"].id
            )
            request = TxnOffsetCommitRequest("p", "g", producer.producer_id, producer.epoch, topics=[topic])
            answer = self.node.ask(txn_offset_commit.handle, request, version)
            self.assertEqual([each.error_code for each in answer.topics[0].partitions], [NONE])
            self.assertEqual([each.topic for each in self.state().topics], ["__consumer_offsets"])
            self.assertEqual(producer.end(True, 5), NONE)
            fetched = self.node.broker.groups.fetch("g", [("t", 0)], require_stable=True).offsets
            self.assertEqual(fetched["t", 0].offset, version)

    def test_an_unknown_topic_id(self) -> None:
        producer = self.producer()
        topic = TxnOffsetCommitRequestTopic(partitions=[TxnOffsetCommitRequestPartition(0, 1)])
        request = TxnOffsetCommitRequest("p", "g", producer.producer_id, producer.epoch, topics=[topic])
        answer = self.node.ask(txn_offset_commit.handle, request, 6)
        self.assertEqual([each.error_code for each in answer.topics[0].partitions], [ErrorCode.UNKNOWN_TOPIC_ID])
        self.assertEqual(self.state().transaction_state, "Empty")

    def test_records_of_an_ended_transaction_do_not_reach_the_next(self) -> None:
        """A request that was delayed on its way, as Jepsen found it in other brokers."""
        producer = self.producer()
        self.send(producer, b"1")
        late = attrs.evolve(producer, sequences=dict(producer.sequences))
        never_sent = attrs.evolve(producer, sequences={})
        self.assertEqual(producer.end(True, 5), NONE)
        for committed in (True, False):
            self.assertEqual(self.send(late, b"late"), ErrorCode.INVALID_PRODUCER_EPOCH)
            self.assertEqual(self.send(never_sent, b"late", 1), ErrorCode.INVALID_PRODUCER_EPOCH)
            self.assertEqual(late.commit_offset("g", 5, version=5), ErrorCode.INVALID_PRODUCER_EPOCH)
            self.send(producer, b"2")
            self.assertEqual(self.send(late, b"late"), ErrorCode.INVALID_PRODUCER_EPOCH)
            self.assertEqual(self.send(never_sent, b"late", 1), ErrorCode.INVALID_PRODUCER_EPOCH)
            self.assertEqual(attrs.evolve(late).end(True, 5), ErrorCode.PRODUCER_FENCED)
            self.assertEqual(producer.end(committed, 5), NONE)
        self.assertEqual((self.committed(), self.committed(1)), ([b"1", b"2"], []))

    def test_the_first_batch_must_not_be_missing(self) -> None:
        producer = self.producer()
        producer.sequences["t", 0] = 3
        self.assertEqual(self.send(producer, b"x"), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        producer.sequences["t", 0] = 0
        self.assertEqual(self.send(producer, b"x"), NONE)

    def test_a_transaction_that_was_aborted_by_its_timeout_can_go_on(self) -> None:
        """Apache Kafka has no way on for the producer (KAFKA-20785)."""
        producer = self.producer(timeout_ms=TIMEOUT)
        self.send(producer, b"1")
        for _ in range(4):
            self.node.clock.advance(TIMEOUT / 1000)
        abortable = ErrorCode.TRANSACTION_ABORTABLE
        self.assertEqual(self.send(producer, b"1", 1), abortable)
        self.assertEqual(producer.commit_offset("g", 1, version=5), abortable)
        self.assertEqual(producer.end(True, 5), abortable)
        self.assertEqual(producer.end(False, 5), NONE)
        self.assertEqual(self.send(producer, b"2"), NONE)
        self.assertEqual(producer.end(True, 5), NONE)
        self.assertEqual(self.committed(), [b"2"])

    def test_a_producer_of_the_same_name_fences_the_older_one(self) -> None:
        producer = self.producer()
        self.send(producer, b"1")
        other = self.producer()
        self.assertEqual(self.send(producer, b"1"), ErrorCode.INVALID_PRODUCER_EPOCH)
        self.assertEqual(self.send(producer, b"1", 1), ErrorCode.INVALID_PRODUCER_EPOCH)
        self.assertEqual(producer.end(True, 5), ErrorCode.PRODUCER_FENCED)
        self.assertEqual((self.send(other, b"2"), other.end(True, 5)), (NONE, NONE))
        self.assertEqual(self.committed(), [b"2"])

    def test_old_and_new_requests_of_one_producer(self) -> None:
        """Some clients know the versions, and not the feature."""
        producer = self.producer()
        for number, (adds, end_version) in enumerate([(True, 4), (False, 5), (True, 5), (False, 4), (True, 4)]):
            if adds:
                self.assertEqual(self.send(producer, b"%d" % number), NONE)
            else:
                self.assertEqual(producer.add(("t", 0)), [NONE])
                self.assertEqual(producer.send(b"%d" % number, version=11), NONE)
            self.assertEqual(producer.end(True, end_version), NONE)
            self.assertEqual(self.end_offset(1), self.end_offset(0))
        self.assertEqual(self.committed(), [b"0", b"1", b"2", b"3", b"4"])

    def test_an_open_transaction_survives_a_restart(self) -> None:
        producer = self.producer()
        self.send(producer, b"1")
        self.restart()
        producer = attrs.evolve(producer, node=self.node)
        self.assertEqual((self.send(producer, b"2"), self.send(producer, b"3", 1)), (NONE, NONE))
        retry = attrs.evolve(producer)
        self.assertEqual(producer.end(True, 5), NONE)
        self.restart()
        retry.node = self.node
        self.assertEqual(retry.end(True, 5), NONE)
        self.assertEqual((retry.producer_id, retry.epoch), (producer.producer_id, producer.epoch))
        self.assertEqual((self.committed(), self.committed(1)), ([b"1", b"2"], [b"3"]))


class LevelTests(TransactionTests):
    """Levels of transaction.version."""

    def change(self, level: int) -> None:
        now(self.node.broker.features.change([LevelChange("transaction.version", level, ChangeKind.UNSAFE_DOWNGRADE)]))

    def record_versions(self) -> list[int]:
        """Return the versions of the states that are stored."""
        broker = self.node.broker
        log = broker.partitions.find("__transaction_state", broker.transactions.partition_for("p")).log
        region = log.read(0, 1_000_000, upto=log.log_end_offset)
        assert region is not None
        values = [record.value for entry in entries(region.read()) for record in entry.records()]
        return [int.from_bytes(value[:2]) for value in values if value is not None]

    def test_the_level_decides_the_version_of_records(self) -> None:
        versions = []
        for level, version in ((2, 1), (1, 1), (0, 0), (2, 1)):
            self.change(level)
            producer = self.producer()
            self.send(producer)
            versions += [version] * (len(self.record_versions()) - len(versions))
            self.assertEqual(self.record_versions(), versions)
            self.assertEqual(producer.end(True, 5), NONE)
            versions += [version] * 2

    def send(self, producer: Producer) -> None:
        self.assertEqual(producer.send(b"x", version=V2), NONE)

    def test_open_transactions_survive_changes_of_the_level(self) -> None:
        """Their producers heard of the level when they began, and go on by it."""
        for before, after in ((2, 0), (2, 1), (0, 2), (1, 2)):
            for end_version in (4, 5):
                for restarts in (False, True):
                    self.change(before)
                    producer = self.producer()
                    self.send(producer)
                    self.change(after)
                    if restarts:
                        self.restart()
                        producer.node = self.node
                    self.assertEqual(producer.send(b"y", index=1, version=V2), NONE)
                    self.assertEqual(producer.end(True, end_version), NONE)
                    self.send(producer)
                    self.assertEqual(producer.end(False, end_version), NONE)
        self.assertEqual(len(self.committed()), 16)
        self.assertEqual(len(self.committed(1)), 16)
        self.assertEqual(self.end_offset(1), self.end_offset(0))

    def test_a_new_cluster_has_the_newest_level(self) -> None:
        self.assertEqual(self.node.broker.features.level("transaction.version"), 2)


class ReleaseTests(TransactionTests):
    settings = {**TransactionTests.settings, "api.versions.release": "3.9"}

    def test_a_cluster_with_kafka_3_9_has_no_transactions_v2(self) -> None:
        self.assertEqual(self.node.broker.transaction_service.transaction_version, 0)
        last = {api.name: api.versions.last for api in self.node.broker.apis}
        apis = ("Produce", "EndTxn", "TxnOffsetCommit", "WriteTxnMarkers")
        self.assertEqual([last[name] for name in apis], [11, 4, 4, 1])


class UnverifiedPartitionTests(TransactionTests):
    settings = {**TransactionTests.settings, "transaction.partition.verification.enable": "false"}

    def test_partitions_are_added_without_verification(self) -> None:
        producer = self.producer()
        self.assertEqual(producer.send(b"x", version=V2), NONE)
        self.assertEqual(producer.commit_offset("g", 1, version=5), NONE)
        self.assertEqual({each.topic for each in self.state().topics}, {"t", "__consumer_offsets"})


class WaitingTests(TransactionTests):
    """Records whose producer's last transaction has no markers yet."""

    def setUp(self) -> None:
        super().setUp()
        markers = self.markers = HeldMarkers()
        self.enterContext(
            patch.object(TransactionService, "write_markers", lambda service, *call: markers.write(service, *call))
        )

    def waiting(self) -> tuple[Producer, Any]:
        """Return a producer, and its answer to the first records of its second transaction."""
        producer = self.producer()
        self.assertEqual(producer.send(b"1", version=V2), NONE)
        self.assertEqual(producer.end(True, 5), NONE)
        return producer, self.node.send(produce.handle, producer.request([b"2"]), V2)

    def test_records_wait_for_the_markers(self) -> None:
        """The marker has the epoch of the records that wait, and does not end their transaction."""
        producer, answer = self.waiting()
        self.assertNoResult(answer)
        self.markers.release()
        self.assertEqual(producer.sent(self.successResultOf(answer), 1), NONE)
        self.assertEqual(producer.end(True, 5), NONE)
        self.markers.release()
        self.assertEqual(self.committed(), [b"1", b"2"])

    def test_the_producer_tries_again_after_some_time(self) -> None:
        producer, answer = self.waiting()
        self.node.clock.advance(WAIT_SECONDS)
        self.assertEqual(producer.sent(self.successResultOf(answer), 1), CONCURRENT)
        self.markers.release()
        self.assertEqual(producer.send(b"2", version=V2), NONE)

    def test_offsets_wait_for_the_markers(self) -> None:
        producer, _ = self.waiting()
        topics = [TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, 1)])]
        request = TxnOffsetCommitRequest("p", "g", producer.producer_id, producer.epoch, topics=topics)
        answer = self.node.send(txn_offset_commit.handle, request, 5)
        self.assertNoResult(answer)
        self.markers.release()
        self.assertEqual(self.successResultOf(answer).topics[0].partitions[0].error_code, NONE)

    def test_the_end_that_is_asked_for_again_waits_for_the_markers(self) -> None:
        producer = self.producer()
        producer.send(b"1", version=V2)
        retry = attrs.evolve(producer)
        self.assertEqual(producer.end(True, 5), NONE)
        self.node.clock.callLater(0, self.markers.release)
        self.node.clock.advance(0)
        self.assertEqual(retry.end(True, 5), NONE)
        self.assertEqual(retry.epoch, producer.epoch)


class StrictMarkerTests(TransactionTests):
    """WriteTxnMarkers 2 (KIP-1228)."""

    def write(self, producer: Producer, epoch: int, version: int = 2, transaction_version: int = 2) -> ErrorCode:
        topics = [WritableTxnMarkerTopic("t", [0])]
        marker = WritableTxnMarker(producer.producer_id, epoch, True, topics, 0, transaction_version)
        answer = self.node.ask(write_txn_markers.handle, WriteTxnMarkersRequest([marker]), version)
        return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)

    def test_a_late_marker_does_not_end_the_open_transaction(self) -> None:
        producer = self.producer()
        producer.send(b"x", version=V2)
        end = self.end_offset(0)
        self.assertEqual(self.write(producer, producer.epoch), ErrorCode.INVALID_PRODUCER_EPOCH)
        self.assertEqual(self.write(producer, producer.epoch - 1), ErrorCode.INVALID_PRODUCER_EPOCH)
        self.assertEqual((self.end_offset(0), self.end_offset(1)), (end, 0))
        self.assertEqual(self.write(producer, producer.epoch + 1), NONE)
        self.assertEqual((self.end_offset(0), self.end_offset(1)), (end + 1, end + 1))

    def test_a_marker_that_is_repeated_is_written_again(self) -> None:
        """The answer to the first one may be lost, or its replicas."""
        producer = self.producer()
        producer.send(b"x", version=V2)
        for _ in range(2):
            self.assertEqual(self.write(producer, producer.epoch + 1), NONE)
        self.assertEqual(self.write(producer, producer.epoch), ErrorCode.INVALID_PRODUCER_EPOCH)

    def test_old_markers_have_the_epoch_of_the_records(self) -> None:
        for version, transaction_version in ((1, 0), (2, 0), (2, 1)):
            producer = self.producer(f"{version}{transaction_version}")
            producer.send(b"x", version=V2)
            self.assertEqual(self.write(producer, producer.epoch, version, transaction_version), NONE)
            self.assertEqual(self.end_offset(1), self.end_offset(0))


class RemoteCoordinatorTests(MemberTests):
    """Partitions whose leader is not the coordinator."""

    settings = {"api.versions.release": "4.4"}

    def questions(self) -> list[Any]:
        return [request for _, _, request in self.cluster.sent(AddPartitionsToTxnRequest)]

    def end(self, one: Producer, two: Producer, committed: bool = True) -> ErrorCode:
        error = one.end(committed, 5)
        two.epoch = one.epoch
        two.sequences.clear()
        return error

    def test_records_and_offsets_add_their_partition(self) -> None:
        one, two = self.producer()
        for number in range(2):
            self.assertEqual(one.send(b"x", index=0, version=V2), NONE)
            self.assertEqual(two.send(b"x", index=1, version=V2), NONE)
            self.assertEqual(two.send(b"x", index=1, version=V2), NONE)
            self.assertEqual(two.commit_offset("g", number, version=5), NONE)
            self.assertEqual(self.end(one, two), NONE)
            self.cluster.run()
            self.assertEqual((self.state(), self.undecided(1, 0), self.undecided(2, 1)), ("CompleteCommit", None, None))
            self.assertIsNone(self.undecided(2, 0, "__consumer_offsets"))
        asked = [transaction for request in self.questions() for transaction in request.transactions]
        self.assertEqual([each.verify_only for each in asked], [False] * 4)
        self.assertEqual([topic.name for each in asked for topic in each.topics], ["t", "__consumer_offsets"] * 2)

    def test_records_of_old_and_new_producers_share_a_request(self) -> None:
        (one, two), (_, other) = self.producer("p"), self.producer("q")
        one.add(("t", 1))
        answers = [
            two.send_later(b"x", index=1),
            self.cluster[2].send(produce.handle, other.request([b"y"], index=1), V2),
        ]
        codes = [self.cluster.result(each).responses[0].partition_responses[0].error_code for each in answers]
        self.assertEqual(codes, [NONE, NONE])
        [request] = self.questions()
        self.assertEqual([each.verify_only for each in request.transactions], [True, False])

    def test_records_are_tried_again_until_the_markers_are_written(self) -> None:
        """The marker in their partition is of the transaction before, and does not end theirs."""
        one, two = self.producer()
        two.send(b"x", index=1, version=V2)
        markers = HeldMarkers()
        with patch.object(TransactionService, "write_markers", lambda service, *call: markers.write(service, *call)):
            self.end(one, two)
            asked = len(self.questions())
            self.assertEqual(two.send(b"y", index=1, version=V2), CONCURRENT)
            self.assertEqual(len(self.questions()) - asked, 6)  # at once, and each 20 ms up to 100
        self.cluster.clock.callLater(0.05, markers.release)
        self.assertEqual(two.send(b"y", index=1, version=V2), NONE)

    def test_a_coordinator_that_does_not_answer(self) -> None:
        _, two = self.producer()
        self.cluster.down.add(1)
        self.assertEqual(two.send(b"x", index=1, version=V2), ErrorCode.NOT_ENOUGH_REPLICAS)
        self.assertEqual(two.commit_offset("g", 1, version=5), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self.cluster.lead("__transaction_state", 0, -1)
        self.assertEqual(two.send(b"x", index=1, version=V2), ErrorCode.NOT_ENOUGH_REPLICAS)

    def test_a_coordinator_that_is_older_than_the_request(self) -> None:
        _, two = self.producer()
        self.cluster.newest[AddPartitionsToTxnRequest.api_key] = 3
        self.assertEqual(two.send(b"x", index=1, version=V2), ErrorCode.NOT_ENOUGH_REPLICAS)

    def test_the_transaction_ends_while_the_answer_is_on_its_way(self) -> None:
        one, two = self.producer()
        one.send(b"x", index=0, version=V2)
        answers: list[Any] = []
        self.cluster.hold(AddPartitionsToTxnRequest.api_key)
        self.cluster[2].send(produce.handle, two.request([b"late"], index=1), V2).addCallback(answers.append)
        self.cluster.run(0.1)
        self.assertEqual(one.end(True, 5), NONE)
        self.cluster.run()
        self.assertEqual((self.state(), answers), ("CompleteCommit", []))
        self.cluster.release()
        self.cluster.run()
        [error] = [each.responses[0].partition_responses[0].error_code for each in answers]
        self.assertEqual(error, ErrorCode.TRANSACTION_ABORTABLE)
        self.assertIsNone(self.undecided(2, 1))

    def test_markers_say_their_version(self) -> None:
        one, two = self.producer()
        two.send(b"x", index=1, version=V2)
        self.end(one, two)
        self.cluster.run()
        [marker] = [marker for _, _, request in self.cluster.sent(WriteTxnMarkersRequest) for marker in request.markers]
        self.assertEqual((marker.producer_epoch, marker.transaction_version), (one.epoch, 2))
        self.assertIsNone(self.undecided(2, 1))

    def test_a_leader_that_is_older_gets_its_markers(self) -> None:
        self.cluster.newest[WriteTxnMarkersRequest.api_key] = 1
        one, two = self.producer()
        two.send(b"x", index=1, version=V2)
        self.end(one, two)
        self.cluster.run()
        self.assertEqual((self.state(), self.undecided(2, 1)), ("CompleteCommit", None))
