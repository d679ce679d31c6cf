"""Appends of coordinators: their order behind a batch that a worker thread builds, and what may happen meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from unittest.mock import Mock, patch

from twisted.internet.defer import ensureDeferred
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.broker.coordinators.internal_topic import replication_factor
from pylogbroker.broker.coordinators.marker_writer import MarkerWriter
from pylogbroker.broker.coordinators.partition_writer import PartitionWriter
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ErrorCode
from pylogbroker.groups import Commit, CommitResult, CommittedOffset
from pylogbroker.records import Buffer, Record, build, entries
from pylogbroker.transactions import TransactionMarker
from pylogbroker.wire import EncodingError
from tests.broker.log_lines import logged_lines
from tests.broker.nodes import NodeTests
from tests.broker.trees import now
from tests.storage.support import NOW

OFFSETS = "__consumer_offsets"
READ_INLINE_BYTES_MAX, OTHER = (build([Record(0, NOW, b"key", value)]) for value in (b"small", b"other"))


def too_long() -> Buffer:
    raise EncodingError("a string of 40000 bytes")


class BuiltInThreadTests(NodeTests):
    settings = {"offsets.topic.num.partitions": "1", "offsets.topic.segment.bytes": "1000000"}

    def setUp(self) -> None:
        super().setUp()
        self.done: list[tuple[str, ErrorCode]] = []
        now(self.node.broker.group_service.ensure_topic())
        self.node.threads.holding = True

    def append(self, name: str, records: Buffer | Callable[[], Buffer]) -> None:
        writer = PartitionWriter(self.node.broker)
        writer.append((OFFSETS, 0), records, lambda error, now_ms: self.done.append((name, error)))

    def run_threads(self) -> None:
        while self.node.threads.held:
            self.node.threads.run_one()

    def delete_topic(self) -> None:
        """Delete the topic; its files are removed as soon as threads run."""
        deletion = ensureDeferred(self.node.broker.controller.delete_topic(OFFSETS))
        self.node.threads.held.insert(0, self.node.threads.held.pop())
        self.addCleanup(lambda: self.successResultOf(deletion))

    def values(self) -> list[bytes | None]:
        log = self.node.broker.partitions.find(OFFSETS, 0).log
        region = log.read(0, 1 << 20, upto=log.log_end_offset)
        return [record.value for entry in entries(region.read()) for record in entry.records()] if region else []

    def test_a_later_append_waits_for_the_batch(self) -> None:
        self.append("built", lambda: READ_INLINE_BYTES_MAX)
        self.append("later", OTHER)
        self.assertEqual((self.done, self.values()), ([], []))
        self.run_threads()
        self.assertEqual(self.done, [("built", ErrorCode.NONE), ("later", ErrorCode.NONE)])
        self.assertEqual(self.values(), [b"small", b"other"])

    def test_an_append_after_the_built_batch_does_not_wait(self) -> None:
        self.append("built", lambda: READ_INLINE_BYTES_MAX)
        self.run_threads()
        self.append("later", OTHER)
        self.assertEqual(self.done[1:], [("later", ErrorCode.NONE)])

    def test_an_append_for_which_no_replica_counts(self) -> None:
        """The batch keeps its place in the order."""
        self.node.broker.partitions.led[OFFSETS, 0].min_insync_replicas = 2
        writer = PartitionWriter(self.node.broker)
        writer.append_unreplicated((OFFSETS, 0), lambda: READ_INLINE_BYTES_MAX)
        writer.append_unreplicated((OFFSETS, 0), OTHER)
        self.append("later", lambda: OTHER)
        self.run_threads()
        self.assertEqual(self.done, [("later", ErrorCode.NOT_ENOUGH_REPLICAS)])
        self.assertEqual(self.values(), [b"small", b"other"])

    def test_unencodable_records_are_rejected_and_block_nothing(self) -> None:
        self.append("built", too_long)
        self.append("later", OTHER)
        self.run_threads()
        self.assertEqual(self.done, [("built", ErrorCode.MESSAGE_TOO_LARGE), ("later", ErrorCode.NONE)])
        self.assertEqual(self.values(), [b"other"])

    def test_the_partition_is_deleted_meanwhile(self) -> None:
        self.append("built", lambda: READ_INLINE_BYTES_MAX)
        self.append("later", OTHER)
        self.delete_topic()
        self.run_threads()
        self.assertEqual([name for name, _ in self.done], ["built", "later"])
        self.assertNotIn(ErrorCode.NONE, [error for _, error in self.done])

    def test_another_broker_leads_meanwhile(self) -> None:
        """The log is a follower's by then."""
        self.append("built", lambda: READ_INLINE_BYTES_MAX)
        self.node.broker.partitions.find(OFFSETS, 0).leader_epoch += 1
        self.run_threads()
        self.assertEqual((self.done, self.values()), ([("built", ErrorCode.NOT_LEADER_OR_FOLLOWER)], []))

    def test_too_few_replicas_are_in_sync(self) -> None:
        self.node.broker.partitions.find(OFFSETS, 0).min_insync_replicas = 2
        self.append("now", OTHER)
        self.append("built", lambda: READ_INLINE_BYTES_MAX)
        self.run_threads()
        too_few = ErrorCode.NOT_ENOUGH_REPLICAS
        self.assertEqual((self.done, self.values()), ([("now", too_few), ("built", too_few)], []))
        answers = self.commit(1)
        self.assertEqual([set(answer.values()) for answer in answers], [{ErrorCode.COORDINATOR_NOT_AVAILABLE}])

    def commit(self, count: int) -> list[CommitResult]:
        answers: list[CommitResult] = []
        offsets = {("t", index): CommittedOffset(1) for index in range(count)}
        self.node.broker.groups.commit(Commit("g", -1, "", offsets), answers.append, self.node.broker.runtime.now_ms())
        return answers

    def test_the_coordinator_gives_the_partition_up_meanwhile(self) -> None:
        answers = self.commit(600)
        self.node.broker.groups.runtime.unload(0, self.node.broker.runtime.now_ms())
        self.assertEqual(answers, [])
        self.run_threads()
        self.assertEqual([set(answer.values()) for answer in answers], [{ErrorCode.NONE}])  # they are in the log

    def test_the_broker_stops_meanwhile(self) -> None:
        answers = self.commit(600)
        self.node.broker.release()
        self.run_threads()
        self.assertEqual(len(answers), 1)


class ReplicationFactorTests(SynchronousTestCase):
    def test_a_broker_alone_has_one_replica_of_everything(self) -> None:
        alone = BrokerConfig({})
        joined = BrokerConfig({"zookeeper.connect": "localhost:2181", "offsets.topic.replication.factor": "2"})
        names = "offsets.topic.replication.factor", "transaction.state.log.replication.factor"
        self.assertEqual([replication_factor(alone, name) for name in names], [1, 1])
        self.assertEqual([replication_factor(joined, name) for name in names], [2, 3])


class UnexpectedErrorTests(NodeTests):
    """Errors of programming, in coroutines that nobody waits for: they are logged at once, and once."""

    def test_a_marker_that_is_not_appended(self) -> None:
        writer = Mock(append=Mock(side_effect=ZeroDivisionError))
        marker, done = TransactionMarker(7, 0, 0, True, ((OFFSETS, 0),)), Mock()
        with logged_lines() as lines:
            MarkerWriter(self.node.broker, writer, Mock()).append(marker, done)
        self.assertEqual(len([line for line in lines if "a marker of producer id 7 was not appended" in line]), 1)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        [[errors, _]] = [call.args for call in done.call_args_list]
        self.assertEqual(errors, {(OFFSETS, 0): ErrorCode.UNKNOWN_SERVER_ERROR})

    def test_records_that_cannot_be_appended(self) -> None:
        done = Mock()
        now(self.node.broker.group_service.ensure_topic())
        with patch.object(Partition, "append_now", Mock(side_effect=ZeroDivisionError)), logged_lines() as lines:
            PartitionWriter(self.node.broker).append((OFFSETS, 0), OTHER, done)
        self.assertEqual([call.args[0] for call in done.call_args_list], [ErrorCode.UNKNOWN_SERVER_ERROR])
        self.assertEqual(len([line for line in lines if f"an append to {OFFSETS}-0 failed" in line]), 1)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_replies_that_are_not_given(self) -> None:
        def replies() -> Iterator[Callable[[], None]]:
            raise ZeroDivisionError
            yield

        with logged_lines() as lines:
            self.node.broker.group_service._deliver(replies())
        self.assertEqual(len([line for line in lines if "members of groups were not answered" in line]), 1)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
