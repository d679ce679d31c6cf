"""Transactions over a restart of the broker: each state goes on from where it was, whenever the broker went away."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from twisted.internet.defer import Deferred

from pylogbroker.broker.apis import end_txn, init_producer_id, offset_fetch
from pylogbroker.broker.coordinators.internal_topic import InternalTopic
from pylogbroker.broker.coordinators.transaction_service import TransactionService
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.requests.completed_transactions import COMPLETION_WAIT_MS
from pylogbroker.errors import ErrorCode, StorageFailure
from pylogbroker.records import Buffer, end_marker
from pylogbroker.records.batch import CONTROL
from pylogbroker.storage import Log, Origin
from pylogbroker.wire.messages.end_txn import EndTxnRequest
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest
from pylogbroker.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.broker.failing_disks import broken, failing
from tests.broker.log_lines import logged_lines
from tests.broker.transactions import Producer, TransactionTests
from tests.broker.trees import now

NONE = ErrorCode.NONE
TIMEOUT = 10_000
ATTRIBUTES_AT = 22


@contextmanager
def no_markers(*topics: str) -> Iterator[None]:
    """No marker gets into these topics: what the broker has decided is not carried out while the block runs."""
    real = Partition.append

    def perhaps(partition: Partition, records: Buffer, *arguments: Any) -> Any:
        if partition.topic in topics and records[ATTRIBUTES_AT] & CONTROL:
            raise StorageFailure("not now")
        return real(partition, records, *arguments)

    with patch.object(Partition, "append", perhaps), logged_lines():
        yield


class RestartTests(TransactionTests):
    def again(self, producer: Producer) -> Producer:
        """The broker starts again; the producer as it was, for it noticed nothing."""
        self.restart()
        producer.node = self.node
        return producer

    def test_a_producer_without_open_transaction_continues(self) -> None:
        producer = self.again(self.producer(timeout_ms=TIMEOUT))
        self.assertEqual((self.state().transaction_state, self.state().transaction_timeout_ms), ("Empty", TIMEOUT))
        self.assertEqual(producer.add(("t", 0)), [NONE])
        self.assertEqual(producer.send(b"x"), NONE)
        self.assertEqual(producer.end(True), NONE)
        self.assertEqual(self.committed(), [b"x"])
        self.assertEqual(self.producer().epoch, producer.epoch + 1)

    def test_an_open_transaction_goes_on(self) -> None:
        for committed, wanted in ((True, [b"before", b"after", b"other"]), (False, [b"other"])):
            with self.subTest(committed=committed):
                self.node.create(f"u{committed}")
                topic = f"u{committed}"
                producer = self.producer()
                producer.add((topic, 0))
                producer.send(b"before", topic=topic)
                self.again(producer)
                self.assertEqual(self.committed(topic=topic), [])
                self.assertEqual(producer.send(b"after", topic=topic), NONE)
                self.assertEqual(producer.end(committed), NONE)
                other = self.producer("other")
                other.add((topic, 0))
                other.send(b"other", topic=topic)
                other.end(True)
                self.assertEqual(self.committed(topic=topic), wanted)

    def test_an_open_transaction_is_still_aborted_when_its_time_is_over(self) -> None:
        self.again(self.begun(b"x", timeout_ms=TIMEOUT))
        self.assertEqual(self.state().transaction_state, "Ongoing")
        for _ in range(3):
            self.node.clock.advance(TIMEOUT / 1000)
        self.assertEqual(self.state().transaction_state, "CompleteAbort")
        self.assertEqual(self.end_offset(1), self.end_offset(0))
        self.assertEqual(self.committed(), [])

    def test_a_decided_transaction_is_completed(self) -> None:
        for committed, prepared, complete, wanted in (
            (True, "PrepareCommit", "CompleteCommit", [b"x"]),
            (False, "PrepareAbort", "CompleteAbort", [b"x"]),
        ):
            with self.subTest(committed=committed):
                producer = self.begun(b"x")
                producer.add(("t", 1))
                producer.send(b"y", index=1)
                with patch.object(TransactionService, "write_markers"):
                    self.assertEqual(producer.end(committed), NONE)
                    self.assertEqual(self.state().transaction_state, prepared)
                    self.assertEqual(len(self.state().topics[0].partitions), 2)
                    added = producer.add_later(("t", 0))
                    self.node.clock.advance(COMPLETION_WAIT_MS / 1000)
                    self.assertEqual(self.successResultOf(added), [ErrorCode.CONCURRENT_TRANSACTIONS])
                self.again(producer)
                self.assertEqual(self.state().transaction_state, complete)
                self.assertEqual(self.committed(), wanted)
                self.assertEqual(producer.end(committed), NONE)

    def test_markers_of_which_some_are_written(self) -> None:
        self.node.create("u")
        producer = self.begun(b"in t")
        producer.add(("u", 0))
        producer.send(b"in u", topic="u")
        with no_markers("u"):
            producer.end(True)
            self.assertEqual((self.committed(), self.committed(topic="u")), ([b"in t"], []))
            self.assertEqual([each.topic for each in self.state().topics], ["u"])
            self.restart()
            self.assertEqual(self.state().transaction_state, "PrepareCommit")
            self.assertEqual(self.committed(topic="u"), [])
        self.restart()
        self.assertEqual(self.state().transaction_state, "CompleteCommit")
        self.assertEqual((self.committed(), self.committed(topic="u")), ([b"in t"], [b"in u"]))

    def test_offsets_that_are_undecided(self) -> None:
        for committed, offset in ((True, 5), (False, 5), (True, 7)):
            producer = self.producer()
            producer.add_group("g")
            producer.commit_offset("g", offset if committed else 99)
            self.again(producer)
            self.assertEqual(self.fetched(require_stable=True)[1], ErrorCode.UNSTABLE_OFFSET_COMMIT)
            self.assertEqual(producer.end(committed), NONE)
            self.assertEqual(self.fetched(require_stable=True), (offset, NONE))

    def test_offsets_that_are_decided(self) -> None:
        for committed, offset in ((True, 5), (False, 5), (True, 7)):
            producer = self.producer()
            producer.add_group("g")
            producer.commit_offset("g", offset if committed else 99)
            with patch.object(TransactionService, "write_markers"):
                producer.end(committed)
            self.again(producer)
            self.assertEqual(self.fetched(require_stable=True), (offset, NONE))
            self.restart()
            self.assertEqual(self.fetched(require_stable=True), (offset, NONE))

    def fetched(self, require_stable: bool) -> tuple[int, int]:
        groups = [OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", [0])])]
        request = OffsetFetchRequest(groups=groups, require_stable=require_stable)
        found = self.node.ask(offset_fetch.handle, request).groups[0].topics[0].partitions[0]
        return found.committed_offset, found.error_code

    def test_a_log_that_cannot_be_read_is_not_served(self) -> None:
        self.begun(b"x")
        real = Log.read

        def read(found: Log, *arguments: Any, **named: Any) -> Any:
            if found.topic == "__transaction_state":
                raise StorageFailure("unreadable")
            return real(found, *arguments, **named)

        with patch.object(Log, "read", read):
            self.restart()
        self.assertEqual(len(self.flushLoggedErrors(StorageFailure)), 1)
        self.assertEqual(Producer(self.node, "p").init(), ErrorCode.NOT_COORDINATOR)
        self.restart()
        self.assertEqual(self.state().transaction_state, "Ongoing")

    def test_a_log_of_a_topic_that_was_deleted_meanwhile(self) -> None:
        """That it cannot be read is no matter to the topic of the same name that was made after it."""
        self.begun(b"x")
        store, gate = self.node.broker.transaction_service, Deferred[None]()

        async def replay(*_: object) -> None:
            await gate

        with patch.object(InternalTopic, "replay", replay):
            store.driver.on_partition_led("__transaction_state", 0)
        now(self.node.broker.controller.delete_topic("__transaction_state"))
        now(store.ensure_topic())
        gate.errback(StorageFailure("gone"))
        self.assertEqual(len(self.flushLoggedErrors(StorageFailure)), 1)
        names = {store.coordinator.partition_for(name): name for name in "abcdefgh"}
        self.assertEqual([Producer(self.node, names[index]).init() for index in range(3)], [NONE] * 3)


class RetryTests(TransactionTests):
    def test_markers_that_could_not_be_written_are_written_later(self) -> None:
        producer = self.begun(b"x")
        with no_markers("t"):
            self.assertEqual(producer.end(True), NONE)
            self.node.clock.advance(1)
            self.assertEqual(self.committed(), [])
        added = producer.add_later(("t", 0))
        self.node.clock.advance(COMPLETION_WAIT_MS / 1000)
        self.assertEqual(self.successResultOf(added), [ErrorCode.CONCURRENT_TRANSACTIONS])
        self.until(lambda: self.state().transaction_state == "CompleteCommit")
        self.assertEqual(self.committed(), [b"x"])
        self.assertEqual(producer.add(("t", 0)), [NONE])

    def test_a_topic_that_is_deleted_keeps_nobody_waiting(self) -> None:
        self.node.create("u")
        producer = self.begun(b"x")
        producer.add(("u", 0))
        now(self.node.broker.controller.delete_topic("u"))
        self.assertEqual(producer.end(True), NONE)
        self.assertEqual(self.state().transaction_state, "CompleteCommit")
        self.assertEqual(self.committed(), [b"x"])

    def test_a_full_disk_and_then_space_again(self) -> None:
        producer = self.begun(b"x")
        with logged_lines(), broken("pwritev", self.directories[0], failing(errno.ENOSPC)):
            self.assertNotEqual(producer.end(True), NONE)
        self.assertEqual(self.state().transaction_state, "Ongoing")
        self.assertEqual(producer.end(True), NONE)
        self.assertEqual(self.committed(), [b"x"])

    def until(self, so: Callable[[], bool]) -> None:
        for _ in range(100):
            if so():
                return
            self.node.clock.advance(1)
        self.fail("it never is")


class LossOfPowerTests(TransactionTests):
    """The end of a log may be lost with the machine's power by default, and of each log another end."""

    def test_an_epoch_is_given_when_it_is_on_the_disk(self) -> None:
        log = self.node.broker.partitions.find(
            "__transaction_state", self.node.broker.transactions.partition_for("p")
        ).log
        for _ in range(2):
            self.node.threads.holding = True
            answer = self.node.send(init_producer_id.handle, InitProducerIdRequest("p", TIMEOUT))
            self.assertNoResult(answer)
            self.node.threads.run_one()
            self.assertEqual(self.successResultOf(answer).error_code, NONE)
            self.assertEqual(log.recovery_point, log.log_end_offset)
            self.node.threads.holding = False
        self.assertEqual(self.begun(b"x").end(True), NONE)
        self.assertEqual(self.committed(), [b"x"])

    def test_no_producer_id_is_given_without_a_sync(self) -> None:
        with patch.object(Log, "sync", side_effect=StorageFailure("not now")), logged_lines():
            self.assertEqual(Producer(self.node, "p").init(), ErrorCode.NOT_COORDINATOR)
        self.assertEqual(self.producer().epoch, 0)

    def test_a_partition_that_knows_a_later_epoch(self) -> None:
        producer = self.begun(b"x")
        later = end_marker(False, 0, producer.producer_id, producer.epoch + 3, self.node.broker.runtime.now_ms())
        self.node.broker.partitions.find("t", 0).append(later, self.node.broker.runtime.now_ms(), Origin.COORDINATOR)
        self.assertEqual(producer.send(b"y"), ErrorCode.INVALID_PRODUCER_EPOCH)
        for _ in range(3):
            self.assertEqual((producer.end(False), producer.init(), producer.add(("t", 0))), (NONE, NONE, [NONE]))
            error = producer.send(b"z")
        self.assertEqual((error, producer.end(True)), (NONE, NONE))
        self.assertEqual(self.committed(), [b"z"])


class FlushTests(TransactionTests):
    """Acknowledged transactions are on the disk where the settings ask for it."""

    settings = {**TransactionTests.settings, "log.flush.interval.messages": "1"}

    def test_a_decision_is_answered_and_visible_only_once_synced(self) -> None:
        producer = self.begun(b"x")
        threads = self.node.threads
        threads.holding = True
        request = EndTxnRequest("p", producer.producer_id, producer.epoch, True)
        answer = self.node.send(end_txn.handle, request)
        self.assertNoResult(answer)
        self.assertEqual(self.state().transaction_state, "Ongoing")
        threads.run_one()  # the sync of the decision
        self.assertEqual(self.successResultOf(answer).error_code, NONE)
        self.assertEqual(self.state().transaction_state, "PrepareCommit")
        self.assertEqual((self.end_offset(1), self.end_offset(0)), (0, 1))
        threads.run_one()  # that of the marker
        self.assertEqual((self.end_offset(1), self.end_offset(0)), (2, 2))
        while threads.held:
            threads.run_one()
        self.assertEqual(self.state().transaction_state, "CompleteCommit")
        threads.holding = False
        self.assertEqual(self.committed(), [b"x"])
