"""A producer's next transaction begins when its last one is complete, which takes the markers some milliseconds."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from twisted.internet.defer import Deferred

from pylogbroker.broker.apis import add_offsets_to_txn, init_producer_id
from pylogbroker.broker.coordinators.transaction_service import TransactionService
from pylogbroker.broker.requests.completed_transactions import COMPLETION_WAIT_MS
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.topic_names import TRANSACTIONS_TOPIC
from pylogbroker.transactions import MarkersCallback, TransactionMarker
from pylogbroker.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest
from tests.broker.nodes import NODE_ID
from tests.broker.transactions import Producer, TransactionTests

NONE, CONCURRENT = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS


class HeldMarkers:
    """Markers that are on their way until `release`."""

    def __init__(self) -> None:
        self.held: list[tuple[TransactionService, TransactionMarker, MarkersCallback]] = []
        self._write = TransactionService.write_markers

    def write(self, service: TransactionService, marker: TransactionMarker, done: MarkersCallback) -> None:
        self.held.append((service, marker, done))

    def release(self) -> None:
        held, self.held = self.held, []
        for service, marker, done in held:
            self._write(service, marker, done)


class CompletionTests(TransactionTests):
    def setUp(self) -> None:
        super().setUp()
        self.markers = HeldMarkers()
        markers = self.markers
        self.enterContext(
            patch.object(TransactionService, "write_markers", lambda service, *call: markers.write(service, *call))
        )

    def ended(self) -> Producer:
        """Return a producer whose transaction is decided, but not complete."""
        producer = self.begun(b"x")
        self.assertEqual(producer.end(True), NONE)
        return producer

    def waiting(self, producer: Producer) -> int:
        """Return how many requests wait for the end of the transaction."""
        shards = self.node.broker.transactions.runtime.shards()
        found = [shard.transactions.get(producer.transactional_id) for shard in shards]
        return sum(len(each.waiting) for each in found if each is not None)

    def test_partitions_are_added_when_the_last_transaction_is_complete(self) -> None:
        producer = self.ended()
        added = producer.add_later(("t", 1))
        self.assertNoResult(added)
        self.markers.release()
        self.assertEqual(self.successResultOf(added), [NONE])
        self.assertEqual([each.partitions for each in self.state().topics], [[1]])

    def test_a_group_is_added_when_the_last_transaction_is_complete(self) -> None:
        producer = self.ended()
        request = AddOffsetsToTxnRequest("p", producer.producer_id, producer.epoch, "g")
        added: Deferred[Any] = self.node.send(add_offsets_to_txn.handle, request)
        self.assertNoResult(added)
        self.markers.release()
        self.assertEqual(self.successResultOf(added).error_code, NONE)

    def test_a_new_producer_gets_its_epoch_when_the_open_transaction_is_aborted(self) -> None:
        producer = self.begun(b"x")
        initialized = self.node.send(init_producer_id.handle, InitProducerIdRequest("p", 60_000))
        self.assertNoResult(initialized)
        self.markers.release()
        answer = self.successResultOf(initialized)
        self.assertEqual((answer.error_code, answer.producer_id), (NONE, producer.producer_id))
        self.assertGreater(answer.producer_epoch, producer.epoch)
        self.assertEqual(self.state().transaction_state, "Empty")

    def test_markers_that_take_long_are_not_waited_for(self) -> None:
        producer = self.ended()
        added = producer.add_later(("t", 1))
        self.node.clock.advance(COMPLETION_WAIT_MS / 1000)
        self.assertEqual((self.successResultOf(added), self.waiting(producer)), ([CONCURRENT], 0))

    def test_a_coordinator_that_moves_meanwhile(self) -> None:
        producer = self.ended()
        added = producer.add_later(("t", 1))
        for index in range(3):
            self.node.change_partition(
                TRANSACTIONS_TOPIC, index, leader=NODE_ID + 1, replicas=(NODE_ID, NODE_ID + 1), leader_epoch=1
            )
        self.assertEqual(self.successResultOf(added), [ErrorCode.NOT_COORDINATOR])

    def test_nothing_is_added_for_a_connection_that_is_gone(self) -> None:
        producer = self.ended()
        contexts: list[RequestContext] = []
        made = self.node.context

        def context(*arguments: Any) -> RequestContext:
            contexts.append(made(*arguments))
            return contexts[-1]

        with patch.object(type(self.node), "context", lambda node, *arguments: context(*arguments)):
            added = producer.add_later(("t", 1))
        contexts[-1].caller.leave()
        self.markers.release()
        self.assertEqual(self.successResultOf(added), [CONCURRENT])
        self.assertEqual(self.state().transaction_state, "CompleteCommit")
