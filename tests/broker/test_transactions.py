"""Transactions through their APIs, in every version, on a whole node."""

from __future__ import annotations

import errno
from typing import Any
from unittest.mock import patch

from pylogbroker.broker.apis import (
    add_partitions_to_txn,
    describe_transactions,
    find_coordinator,
    list_transactions,
    offset_fetch,
    write_txn_markers,
)
from pylogbroker.errors import ErrorCode, StorageFailure
from pylogbroker.groups import CommittedOffset
from pylogbroker.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from pylogbroker.wire.messages.describe_transactions import DescribeTransactionsRequest
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.list_transactions import ListTransactionsRequest
from pylogbroker.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pylogbroker.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.broker.failing_disks import broken, failing
from tests.broker.log_lines import logged_lines
from tests.broker.nodes import NODE_ID, START, NodeTests
from tests.broker.transactions import Producer, TransactionTests
from tests.broker.trees import now

NONE = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NOT_ATTEMPTED = ErrorCode.OPERATION_NOT_ATTEMPTED
TIMEOUT = 10_000


class FindCoordinatorTests(NodeTests):
    settings = {
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.segment.bytes": "1000000",
        "transaction.state.log.min.isr": "1",
    }

    def find(self, version: int) -> Any:
        request = FindCoordinatorRequest(
            key="" if version >= 4 else "p", key_type=1, coordinator_keys=["p"] if version >= 4 else []
        )
        answer = self.node.ask(find_coordinator.handle, request, version)
        return answer.coordinators[0] if version >= 4 else answer

    def test_the_topic_is_made_when_it_is_first_needed(self) -> None:
        self.assertNotIn("__transaction_state", self.node.broker.metadata.topics)
        for version in range(1, 7):
            answer = self.find(version)
            self.assertEqual((answer.error_code, answer.node_id, answer.host), (0, NODE_ID, "here"))
        topic = self.node.broker.metadata.topics["__transaction_state"]
        self.assertEqual(len(topic.partitions), 4)
        self.assertEqual(
            self.node.broker.metadata.topic_settings(topic.name),
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": "1",
                "segment.bytes": "1000000",
                "unclean.leader.election.enable": "false",
            },
        )

    def test_without_the_state_topic_there_is_no_coordinator(self) -> None:
        self.assertEqual(Producer(self.node, "p").init(), ErrorCode.NOT_COORDINATOR)
        self.find(6)
        self.assertEqual(Producer(self.node, "p").init(), NONE)

    def test_producers_in_a_deleted_state_topic_are_forgotten(self) -> None:
        self.find(6)
        first = Producer(self.node, "p")
        first.init()
        now(self.node.broker.controller.delete_topic("__transaction_state"))
        self.assertEqual(Producer(self.node, "p").init(), ErrorCode.NOT_COORDINATOR)
        self.find(6)
        again = Producer(self.node, "p")
        self.assertEqual(again.init(), NONE)
        self.assertNotEqual(again.producer_id, first.producer_id)


class LifeTests(TransactionTests):
    def test_transactions_in_every_version(self) -> None:
        wanted = []
        for version in range(6):
            with self.subTest(version=version):
                producer = Producer(self.node, "p")
                self.assertEqual(producer.init(version=version), NONE)
                for committed in (True, False):
                    self.assertEqual(producer.add(("t", 0), ("t", 1), version=min(version, 3)), [NONE, NONE])
                    value = f"{version} {committed}".encode()
                    self.assertEqual(producer.send(value, version=3 + version), NONE)
                    self.assertEqual(producer.send(value, value, index=1), NONE)
                    self.assertEqual(self.committed(), wanted)
                    self.assertEqual(producer.end(committed, min(version, 4)), NONE)
                    wanted += [value] if committed else []
                    self.assertEqual(self.committed(), wanted)
                    self.assertEqual(self.committed(1), [value for value in wanted for _ in range(2)])

    def test_the_epoch_grows_with_every_start_of_a_producer(self) -> None:
        epochs = [self.producer().epoch for _ in range(3)]
        self.assertEqual(epochs, [0, 1, 2])
        self.assertEqual(len({self.producer().producer_id for _ in range(3)}), 1)
        self.assertNotEqual(self.producer("q").producer_id, self.producer("p").producer_id)

    def test_init_with_the_current_id_and_epoch_increments_the_epoch(self) -> None:
        producer = self.producer()
        for version in (3, 4, 5):
            mine = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
            self.assertEqual(producer.init(version=version, **mine), NONE)
            self.assertEqual(producer.epoch, mine["producer_epoch"] + 1)
        fenced = {"producer_id": producer.producer_id, "producer_epoch": 0}
        self.assertEqual(Producer(self.node, "p").init(version=3, **fenced), ErrorCode.INVALID_PRODUCER_EPOCH)
        self.assertEqual(Producer(self.node, "p").init(version=4, **fenced), ErrorCode.PRODUCER_FENCED)

    def test_timeouts_have_a_bound(self) -> None:
        for timeout_ms in (0, -1, 900_001):
            code = Producer(self.node, "p").init(timeout_ms)
            self.assertEqual(code, ErrorCode.INVALID_TRANSACTION_TIMEOUT, timeout_ms)
        self.assertEqual(Producer(self.node, "p").init(900_000), NONE)

    def test_an_open_transaction_holds_back_the_last_stable_offset(self) -> None:
        self.node.produce("t", 0, int(START * 1000))
        producer = self.begun(b"inside")
        self.node.produce("t", 0, int(START * 1000))
        self.assertEqual((self.end_offset(0), self.end_offset(1)), (3, 1))
        self.assertEqual(self.committed(), [b"value"])
        producer.end(True)
        self.assertEqual((self.end_offset(0), self.end_offset(1)), (4, 4))
        self.assertEqual(self.committed(), [b"value", b"inside", b"value"])

    def test_lookups_by_time_respect_the_isolation_level(self) -> None:
        moment = int(START * 1000)
        self.node.produce("t", 0, moment)
        producer = self.begun(b"inside")
        self.node.produce("t", 0, moment + 5)
        self.assertEqual((self.offset_at(moment, 0), self.offset_at(moment, 1)), (0, 0))
        self.assertEqual((self.offset_at(moment + 5, 0), self.offset_at(moment + 5, 1)), (2, -1))
        producer.end(False)
        self.assertEqual((self.offset_at(moment + 5, 0), self.offset_at(moment + 5, 1)), (2, 2))

    def test_the_same_end_may_be_asked_for_again_and_no_other(self) -> None:
        for committed in (True, False):
            producer = self.begun(b"x", transactional_id=f"p{committed}")
            self.assertEqual(producer.end(committed), NONE)
            self.assertEqual(producer.end(committed), NONE)
            self.assertEqual(producer.end(not committed), ErrorCode.INVALID_TXN_STATE)

    def test_a_timed_out_transaction_is_aborted(self) -> None:
        producer = self.begun(b"x", timeout_ms=TIMEOUT)
        self.node.produce("t", 0, int(START * 1000))
        self.node.clock.advance(TIMEOUT / 1000)
        self.assertEqual(self.committed(), [])
        lines = self.enterContext(logged_lines())
        for _ in range(3):
            self.node.clock.advance(10)  # transaction.abort.timed.out.transaction.cleanup.interval.ms
        self.assertEqual(self.committed(), [b"value"])
        self.assertEqual(self.state().transaction_state, "CompleteAbort")
        self.assertEqual(producer.add(("t", 0), version=1), [ErrorCode.INVALID_PRODUCER_EPOCH])
        self.assertEqual(producer.add(("t", 0), version=2), [ErrorCode.PRODUCER_FENCED])
        [line] = [line for line in lines if "'p'" in line]
        self.assertRegex(
            line,
            r"^the transaction of 'p' is aborted: it was open for \d+ s in 1 partition, its "
            r"timeout is 10 s$",
        )


class FencingTests(TransactionTests):
    def test_a_second_producer_aborts_the_open_transaction_of_the_first(self) -> None:
        zombie = self.begun(b"of the zombie")
        heir = self.producer()
        self.assertEqual(heir.producer_id, zombie.producer_id)
        self.assertGreater(heir.epoch, zombie.epoch)
        self.assertEqual(self.end_offset(1), self.end_offset(0))
        self.assertEqual(self.committed(), [])

    def test_a_fenced_producer_gets_its_error_in_every_version(self) -> None:
        zombie = self.begun(b"of the zombie")
        self.producer()
        fenced, epoch = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
        self.assertEqual(
            [zombie.add(("t", 0), version=each) for each in range(4)],
            [[each] for each in (epoch, epoch, fenced, fenced)],
        )
        self.assertEqual([zombie.add_group("g", each) for each in range(5)], [epoch, epoch, fenced, fenced, fenced])
        self.assertEqual([zombie.end(True, each) for each in range(5)], [epoch, epoch, fenced, fenced, fenced])
        self.assertEqual([zombie.send(b"x", version=each) for each in range(3, 12)], [epoch] * 9)
        self.assertEqual(self.committed(), [])

    def test_a_foreign_producer_id_is_rejected(self) -> None:
        producer = self.producer()
        foreign = Producer(self.node, "p", producer.producer_id + 1, producer.epoch)
        mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        self.assertEqual(foreign.add(("t", 0)), [mapping])
        self.assertEqual(foreign.add_group("g"), mapping)
        self.assertEqual(foreign.end(True), mapping)
        self.assertEqual(Producer(self.node, "nobody", 0, 0).end(True), mapping)


class PartitionTests(TransactionTests):
    """AddPartitionsToTxn."""

    def test_partitions_are_added_all_or_none(self) -> None:
        producer = self.producer()
        self.assertEqual(producer.add(("t", 0), ("t", 2), ("u", 0)), [NOT_ATTEMPTED, UNKNOWN, UNKNOWN])
        rejected = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        self.assertEqual(producer.add(("__consumer_offsets", 0), ("t", 1)), [rejected, NOT_ATTEMPTED])
        self.assertEqual(self.state().transaction_state, "Empty")
        self.assertEqual(producer.send(b"x"), ErrorCode.TRANSACTION_ABORTABLE)

    def ask(self, version: int, *transactions: AddPartitionsToTxnTransaction) -> list[list[int]]:
        request = AddPartitionsToTxnRequest(list(transactions))
        answer = self.node.ask(add_partitions_to_txn.handle, request, version)
        self.assertEqual(answer.error_code, 0)
        return [
            [each.partition_error_code for topic in result.topic_results for each in topic.results_by_partition]
            for result in answer.results_by_transaction
        ]

    def of(self, producer: Producer, *indexes: int, verify_only: bool = False) -> AddPartitionsToTxnTransaction:
        return AddPartitionsToTxnTransaction(
            producer.transactional_id,
            producer.producer_id,
            producer.epoch,
            verify_only,
            [AddPartitionsToTxnTopic("t", list(indexes))],
        )

    def test_several_transactions_at_once(self) -> None:
        for version in (4, 5):
            p, q = self.producer(f"p{version}"), self.producer(f"q{version}")
            foreign = Producer(self.node, "nobody", 1, 1)
            answers = self.ask(version, self.of(p, 0, 1), self.of(foreign, 0), self.of(q, 1, 2))
            mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
            self.assertEqual(answers, [[NONE, NONE], [mapping], [NOT_ATTEMPTED, UNKNOWN]])
            self.assertEqual((p.send(b"x"), q.send(b"x", index=1)), (NONE, ErrorCode.TRANSACTION_ABORTABLE))

    def test_verify_only_adds_no_partitions(self) -> None:
        for version, missing in ((4, ErrorCode.INVALID_TXN_STATE), (5, ErrorCode.TRANSACTION_ABORTABLE)):
            producer = self.producer()
            self.assertEqual(self.ask(version, self.of(producer, 0, 1, verify_only=True)), [[missing, missing]])
            producer.add(("t", 0))
            self.assertEqual(self.ask(version, self.of(producer, 0, 1, verify_only=True)), [[NONE, missing]])
            producer.end(True)

    def test_brokers_ask_about_offsets_too(self) -> None:
        producer = self.producer()
        self.assertEqual(producer.add_group("g"), NONE)
        offsets = AddPartitionsToTxnTopic("__consumer_offsets", [self.node.broker.groups.partition_for("g")])
        asked = self.of(producer, verify_only=True)
        asked.topics = [offsets]
        self.assertEqual([self.ask(version, asked) for version in (4, 5)], [[[NONE]], [[NONE]]])


class OffsetTests(TransactionTests):
    def fetched(self, group: str = "g", require_stable: bool = False) -> tuple[int, int]:
        """Offset and error."""
        groups = [OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics("t", [0])])]
        request = OffsetFetchRequest(groups=groups, require_stable=require_stable)
        found = self.node.ask(offset_fetch.handle, request).groups[0].topics[0].partitions[0]
        return found.committed_offset, found.error_code

    def test_offsets_count_once_they_are_committed(self) -> None:
        producer = self.producer()
        before = -1
        for offset, committed in ((5, True), (7, False), (9, True)):
            self.assertEqual(producer.add_group("g"), NONE)
            self.assertEqual(producer.commit_offset("g", offset), NONE)
            self.assertEqual(self.fetched(), (before, NONE))
            self.assertEqual(self.fetched(require_stable=True), (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT))
            self.assertEqual(producer.end(committed), NONE)
            before = offset if committed else before
            self.assertEqual(self.fetched(), (before, NONE))
            self.assertEqual(self.fetched(require_stable=True), (before, NONE))

    def test_the_group_must_have_been_added(self) -> None:
        producer = self.begun(b"x")
        self.assertEqual(producer.commit_offset("g", 5), ErrorCode.TRANSACTION_ABORTABLE)
        self.assertEqual(self.fetched(require_stable=True), (-1, NONE))

    def test_offsets_are_aborted_with_a_timed_out_transaction(self) -> None:
        producer = self.producer(timeout_ms=TIMEOUT)
        producer.add_group("g")
        producer.commit_offset("g", 5)
        for _ in range(4):
            self.node.clock.advance(TIMEOUT / 1000)
        self.assertEqual(self.fetched(require_stable=True), (-1, NONE))

    def test_the_topic_of_offsets_is_made_when_a_transaction_needs_it(self) -> None:
        now(self.node.broker.controller.delete_topic("__consumer_offsets"))
        self.assertEqual(self.producer().add_group("g"), NONE)
        self.assertIn("__consumer_offsets", self.node.broker.metadata.topics)


class MarkerTests(TransactionTests):
    """WriteTxnMarkers."""

    def write(self, version: int, *markers: WritableTxnMarker) -> list[tuple[int, list[int]]]:
        answer = self.node.ask(write_txn_markers.handle, WriteTxnMarkersRequest(list(markers)), version)
        return [
            (marker.producer_id, [each.error_code for topic in marker.topics for each in topic.partitions])
            for marker in answer.markers
        ]

    def marker(self, producer: Producer, *indexes: int, committed: bool = False, epoch: int = 0) -> WritableTxnMarker:
        topics = [WritableTxnMarkerTopic("t", list(indexes))]
        return WritableTxnMarker(producer.producer_id, producer.epoch, committed, topics, epoch)

    def test_markers_end_hanging_transactions(self) -> None:
        for version, committed in ((0, False), (1, False), (1, True)):
            self.node.create(f"hangs{version}{committed}")
            producer = self.begun(b"x", transactional_id=f"{version}{committed}")
            answers = self.write(version, self.marker(producer, 0, 0, 7, committed=committed))
            self.assertEqual(answers, [(producer.producer_id, [NONE, NONE, UNKNOWN])])
            self.assertEqual(self.end_offset(1), self.end_offset(0))
        self.assertEqual(self.committed(), [b"x"])

    def test_several_markers_in_one_request(self) -> None:
        p, q = self.begun(b"p", transactional_id="p"), self.begun(b"q", transactional_id="q")
        answers = self.write(1, self.marker(p, 0, committed=True), self.marker(q, 0))
        self.assertEqual(answers, [(p.producer_id, [NONE]), (q.producer_id, [NONE])])
        self.assertEqual(self.committed(), [b"p"])
        self.assertEqual(self.write(1), [])
        self.assertEqual(self.write(1, WritableTxnMarker(5, 5)), [(5, [])])

    def test_old_epochs_are_rejected(self) -> None:
        producer = self.begun(b"x")
        self.write(1, self.marker(producer, 0, epoch=3))
        end = self.end_offset(0)
        fenced = ErrorCode.TRANSACTION_COORDINATOR_FENCED
        self.assertEqual(self.write(1, self.marker(producer, 0, epoch=2)), [(producer.producer_id, [fenced])])
        old = Producer(self.node, "p", producer.producer_id, producer.epoch - 1)
        stale = ErrorCode.INVALID_PRODUCER_EPOCH
        self.assertEqual(self.write(1, self.marker(old, 0, epoch=4)), [(producer.producer_id, [stale])])
        self.assertEqual(self.end_offset(0), end)

    def test_markers_decide_pending_group_offsets(self) -> None:
        coordinator = self.node.broker.groups
        topics = [WritableTxnMarkerTopic("__consumer_offsets", [coordinator.partition_for("g")])]
        for committed, offset in ((False, None), (True, 5)):
            producer = self.producer()
            producer.add_group("g")
            producer.commit_offset("g", 5)
            self.assertEqual(self.offset(), ErrorCode.UNSTABLE_OFFSET_COMMIT)
            marker = WritableTxnMarker(producer.producer_id, producer.epoch, committed, topics)
            self.assertEqual(self.write(1, marker), [(producer.producer_id, [NONE])])
            self.assertEqual(self.offset(), offset)

    def offset(self) -> object:
        found = self.node.broker.groups.fetch("g", [("t", 0)], require_stable=True).offsets["t", 0]
        return found.offset if isinstance(found, CommittedOffset) else found

    def test_old_formats_hold_none(self) -> None:
        self.node.create("old", message_format_version="0.10.2")
        marker = WritableTxnMarker(5, 5, False, [WritableTxnMarkerTopic("old", [0])])
        self.assertEqual(self.write(1, marker), [(5, [ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT])])

    def test_a_disk_that_fails(self) -> None:
        producer = self.begun(b"x")
        with logged_lines() as lines, broken("pwritev", self.directories[0], failing(errno.ENOSPC)):
            answers = self.write(1, self.marker(producer, 0))
        self.assertEqual(answers, [(producer.producer_id, [ErrorCode.KAFKA_STORAGE_ERROR])])
        self.assertEqual(len(lines), 1)
        self.assertIn("No space left", lines[0])
        self.assertEqual(self.write(1, self.marker(producer, 0)), [(producer.producer_id, [NONE])])


class ListTests(TransactionTests):
    def test_a_transaction_is_described(self) -> None:
        producer = self.producer(timeout_ms=TIMEOUT)
        found = self.state()
        self.assertEqual((found.error_code, found.transactional_id, found.transaction_state), (0, "p", "Empty"))
        self.assertEqual((found.producer_id, found.producer_epoch), (producer.producer_id, producer.epoch))
        self.assertEqual((found.transaction_timeout_ms, found.transaction_start_time_ms), (TIMEOUT, -1))
        self.assertEqual(found.topics, [])
        self.node.create("s")
        producer.add(("t", 1), ("s", 0), ("t", 0))
        found = self.state()
        self.assertEqual((found.transaction_state, found.transaction_start_time_ms), ("Ongoing", int(START * 1000)))
        self.assertEqual([(each.topic, each.partitions) for each in found.topics], [("s", [0]), ("t", [0, 1])])
        producer.end(True)
        found = self.state()
        self.assertEqual((found.transaction_state, found.topics), ("CompleteCommit", []))

    def test_each_is_described_for_itself(self) -> None:
        self.producer("p")
        request = DescribeTransactionsRequest(["nobody", "p", ""])
        found = self.node.ask(describe_transactions.handle, request).transaction_states
        unknown, invalid = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.INVALID_REQUEST
        self.assertEqual(
            [(each.transactional_id, each.error_code) for each in found], [("nobody", unknown), ("p", 0), ("", invalid)]
        )

    def listed(self, version: int = 1, **filters: Any) -> tuple[dict[str, str], list[str]]:
        answer = self.node.ask(list_transactions.handle, ListTransactionsRequest(**filters), version)
        self.assertEqual(answer.error_code, 0)
        states = {each.transactional_id: each.transaction_state for each in answer.transaction_states}
        return states, answer.unknown_state_filters

    def test_transactions_are_listed_by_a_regular_expression_of_the_whole_id(self) -> None:
        for name in ("orders-1", "orders-22", "more orders-1", "Ω"):
            self.producer(name)
        for pattern, ids in {
            "orders-[0-9]+": {"orders-1", "orders-22"},
            "orders": set(),
            "": {"orders-1", "orders-22", "more orders-1", "Ω"},
            r"\p{Greek}": {"Ω"},
            "(?i).*ORDERS.*": {"orders-1", "orders-22", "more orders-1"},
        }.items():
            self.assertEqual(self.listed(2, transactional_id_pattern=pattern)[0].keys(), ids, pattern)
        for pattern in ("(", "(?<!a)b", "a{1001}", "((a{1000}){1000}){1000}"):
            request = ListTransactionsRequest(transactional_id_pattern=pattern)
            answer = self.node.ask(list_transactions.handle, request, 2)
            self.assertEqual((answer.error_code, answer.transaction_states), (128, []))

    def test_transactions_are_listed_by_state_producer_and_age(self) -> None:
        empty, old, done = (
            self.producer("empty"),
            self.begun(b"x", transactional_id="old"),
            self.begun(b"x", transactional_id="done"),
        )
        done.end(False)
        self.node.clock.advance(5)
        self.begun(b"x", transactional_id="young")
        for version in (0, 1):
            everything = {"empty": "Empty", "old": "Ongoing", "done": "CompleteAbort", "young": "Ongoing"}
            self.assertEqual(self.listed(version), (everything, []))
            ongoing = {"old": "Ongoing", "young": "Ongoing"}
            self.assertEqual(self.listed(version, state_filters=["Ongoing", "Nonsense"]), (ongoing, ["Nonsense"]))
            mine = [empty.producer_id, old.producer_id]
            self.assertEqual(self.listed(version, producer_id_filters=mine)[0], {"empty": "Empty", "old": "Ongoing"})
        self.assertEqual(self.listed(duration_filter=1000, state_filters=["Ongoing"])[0], {"old": "Ongoing"})


class FailureTests(TransactionTests):
    def test_no_producer_id_can_be_had(self) -> None:
        with patch.object(type(self.node.broker.producer_ids), "take", side_effect=StorageFailure("full")):
            self.assertEqual(Producer(self.node, "p").init(), ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.flushLoggedErrors(StorageFailure)
        self.assertEqual(Producer(self.node, "p").init(), NONE)
