"""Consumers that read from followers (KIP-392): where the leader sends them, and what a follower answers."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import attrs
from twisted.internet.defer import CancelledError, Deferred

from pylogbroker.broker.apis import fetch, list_offsets
from pylogbroker.broker.fetch.reader import FollowerReader
from pylogbroker.broker.fetch.session import requested_partitions
from pylogbroker.broker.partitions.purgatory import Mark
from pylogbroker.broker.runtime.slices import SLICE_SECONDS
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.security.principals import ANONYMOUS
from pylogbroker.wire.messages.fetch import EpochEndOffset, FetchPartition, FetchRequest, FetchTopic, ReplicaState
from pylogbroker.wire.messages.list_offsets import (
    LATEST,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.broker.nodes import NODE_ID
from tests.broker.replicas import OTHER, TOPIC_ID, ReplicaTests, broker
from tests.broker.test_fetch import values_in
from tests.broker.trees import now
from tests.storage.support import batch, marker

LAST = 17
FIRST_FROM_FOLLOWERS = 11


class FollowerFetchTests(ReplicaTests):
    settings = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}

    def send(self, offset: int, rack: str = "", version: int = LAST, **fields: Any) -> Deferred[Any]:
        epoch = fields.pop("epoch", -1)
        wanted = FetchPartition(0, current_leader_epoch=epoch, fetch_offset=offset, partition_max_bytes=1 << 20)
        topic = FetchTopic("t", TOPIC_ID, partitions=[wanted])
        request = FetchRequest(topics=[topic], rack_id=rack, max_bytes=1 << 20, **fields)
        return self.node.send(fetch.handle, request, version)

    def fetch(self, offset: int, rack: str = "", version: int = LAST, **fields: Any) -> Any:
        """The answer for the partition."""
        return self.partition_of(self.successResultOf(self.send(offset, rack, version, **fields)))

    def partition_of(self, answer: Any) -> Any:
        [partition] = answer.responses[0].partitions
        return partition

    def put(self, offset: int, *values: bytes, high_watermark: int = 0, **made: Any) -> None:
        """Let the follower here get a batch that begins at this offset."""
        self.leader_answers(_at(offset, batch(list(values), **made)), high_watermark)


class LeaderTests(FollowerFetchTests):
    """This node leads; the log has two records, and the follower has both."""

    def setUp(self) -> None:
        super().setUp()
        self.order(NODE_ID)
        self.node.produce("t", 0, 1, 2)
        self.follower_fetches(2)

    def test_a_consumer_is_sent_to_the_follower_in_its_rack(self) -> None:
        for version in range(FIRST_FROM_FOLLOWERS, LAST + 1):
            answer = self.fetch(1, "there", version, max_wait_ms=60_000, min_bytes=1)
            self.assertEqual((answer.error_code, answer.preferred_read_replica), (ErrorCode.NONE, OTHER))
            self.assertEqual((answer.records, answer.high_watermark, answer.log_start_offset), (b"", 2, 0))

    def assert_served_here(self, answer: Any) -> None:
        self.assertEqual((answer.error_code, answer.preferred_read_replica), (ErrorCode.NONE, -1))
        self.assertEqual(values_in(answer.records), [b"value", b"value"])

    def test_other_racks_and_old_versions_are_served_by_the_leader(self) -> None:
        for rack in ("", "here", "elsewhere"):
            self.assert_served_here(self.fetch(0, rack))
        self.assert_served_here(self.fetch(0, "there", FIRST_FROM_FOLLOWERS - 1))

    def test_a_follower_is_not_sent_away(self) -> None:
        state = ReplicaState(OTHER)
        self.assertEqual(self.fetch(0, "there", replica_state=state).preferred_read_replica, -1)

    def test_growth_is_found_beside_a_partition_with_an_error(self) -> None:
        wanted = [FetchPartition(index, fetch_offset=2, partition_max_bytes=1 << 20) for index in (9, 0)]
        topics = [FetchTopic("t", TOPIC_ID, partitions=wanted)]
        request = FetchRequest(topics=topics, replica_state=ReplicaState(OTHER), max_bytes=1 << 20)
        reader = FollowerReader(self.node.broker, self.node.context(LAST, "", ANONYMOUS), request)
        reader.begin()
        reader.read(list(requested_partitions(request, by_id=True).values()))
        self.assertEqual([answer.error_code for answer in reader.answers], [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0])
        self.assertFalse(reader.has_grown())
        self.node.produce("t", 0, 3)
        self.assertTrue(reader.has_grown())

    def test_a_follower_without_the_offset_is_not_preferred(self) -> None:
        self.node.produce("t", 0, 3)
        answer = self.fetch(3, "there")
        self.assertEqual((answer.error_code, answer.preferred_read_replica), (ErrorCode.NONE, -1))

    def test_a_follower_that_the_listener_does_not_reach_is_not_preferred(self) -> None:
        self.register(broker(OTHER, "there", "INSIDE"))
        self.assert_served_here(self.fetch(0, "there"))

    def test_a_session_names_the_replica_each_time(self) -> None:
        first = self.successResultOf(self.send(0, "there", session_epoch=0))
        request = FetchRequest(session_id=first.session_id, session_epoch=1, rack_id="there", max_bytes=1 << 20)
        again = self.successResultOf(self.node.send(fetch.handle, request))
        self.assertEqual(self.partition_of(again).preferred_read_replica, OTHER)


@attrs.define(eq=False)
class Appending:
    """A delayed operation after which a record is appended, as a coordinator appends its next decision."""

    append: Callable[[], None]

    def try_complete(self, size: int) -> bool:
        self.append()
        return True

    def fail(self, error: KafkaError) -> None:
        raise error


class AppendDuringReadTests(FollowerFetchTests):
    """While the fetch reads partition 1, a record is appended to partition 0, which it has read."""

    settings: dict[str, str] = {}
    partition_count = 2

    def setUp(self) -> None:
        super().setUp()
        self.order(NODE_ID)
        self.node.produce("t", 1, 1)

    def send_for_both(self, **fields: Any) -> Deferred[Any]:
        wanted = [
            FetchPartition(index, current_leader_epoch=0, fetch_offset=index, partition_max_bytes=1 << 20)
            for index in (0, 1)
        ]
        topic = FetchTopic("t", TOPIC_ID, partitions=wanted)
        request = FetchRequest(topics=[topic], max_bytes=1 << 20, max_wait_ms=60_000, min_bytes=1, **fields)
        return self.node.send(fetch.handle, request)

    def assert_answered_with_record(self, waiting: Deferred[Any]) -> None:
        self.node.clock.advance(SLICE_SECONDS)
        [first, _] = self.successResultOf(waiting).responses[0].partitions
        self.assertEqual(values_in(first.records), [b"value"])

    def test_a_follower_is_answered(self) -> None:
        self.partitions.led["t", 1].purgatory.add(
            Appending(lambda: self.node.produce("t", 0, 1)), Mark.HIGH_WATERMARK, 1
        )
        self.assert_answered_with_record(self.send_for_both(replica_state=ReplicaState(OTHER)))

    def test_producers_are_answered_before_the_fetch_waits(self) -> None:
        partition, actions = self.partitions.led["t", 0], self.node.broker.runtime.deferred_actions
        waits: list[bool] = []
        self.node.produce("t", 0, 1)
        acknowledged = Appending(
            lambda: actions.defer(lambda: waits.append(Mark.LOG_END in partition.purgatory.delayed))
        )
        partition.purgatory.add(acknowledged, Mark.HIGH_WATERMARK, 1)
        wanted = FetchPartition(0, current_leader_epoch=0, fetch_offset=1, partition_max_bytes=1 << 20)
        request = FetchRequest(
            topics=[FetchTopic("t", TOPIC_ID, partitions=[wanted])],
            max_bytes=1 << 20,
            max_wait_ms=60_000,
            min_bytes=1,
            replica_state=ReplicaState(OTHER),
        )
        actions.hold()
        waiting = self.node.send(fetch.handle, request)
        actions.run()
        self.assertNoResult(waiting)
        self.assertEqual(waits, [False])
        self.assertIn(Mark.LOG_END, partition.purgatory.delayed)

    def test_an_empty_fetch_waits_for_the_next_append(self) -> None:
        waiting = self.send_for_both(replica_state=ReplicaState(OTHER))
        self.node.clock.advance(SLICE_SECONDS)
        self.assertNoResult(waiting)
        self.node.produce("t", 0, 1)
        self.assert_answered_with_record(waiting)


class LeaderSelectorTests(FollowerFetchTests):
    settings: dict[str, str] = {}

    def test_without_the_selector_the_leader_serves_all(self) -> None:
        self.order(NODE_ID)
        self.node.produce("t", 0, 1, 2)
        self.follower_fetches(2)
        answer = self.fetch(0, "there")
        self.assertEqual((answer.preferred_read_replica, len(values_in(answer.records))), (-1, 2))


class FollowerTests(FollowerFetchTests):
    """Broker OTHER leads in epoch 3."""

    def setUp(self) -> None:
        super().setUp()
        self.order(OTHER, 3)

    def test_consumers_read_up_to_the_high_watermark(self) -> None:
        self.put(0, b"a", b"b")
        self.put(2, b"c", high_watermark=2)
        for version in range(FIRST_FROM_FOLLOWERS, LAST + 1):
            answer = self.fetch(0, version=version)
            self.assertEqual((answer.error_code, answer.high_watermark), (ErrorCode.NONE, 2))
            self.assertEqual(values_in(answer.records), [b"a", b"b"])

    def test_old_versions_and_followers_are_rejected(self) -> None:
        for answer in (self.fetch(0, version=FIRST_FROM_FOLLOWERS - 1), self.fetch(0, replica_state=ReplicaState(9))):
            self.assertEqual(answer.error_code, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def test_leader_epochs(self) -> None:
        codes = {epoch: self.fetch(0, epoch=epoch).error_code for epoch in (2, 3, 4)}
        self.assertEqual(
            codes, {2: ErrorCode.FENCED_LEADER_EPOCH, 3: ErrorCode.NONE, 4: ErrorCode.UNKNOWN_LEADER_EPOCH}
        )

    def test_a_consumer_waits_between_high_watermark_and_log_end(self) -> None:
        self.put(0, b"a", b"b")
        for offset in (0, 1, 2):
            with self.subTest(offset=offset):
                waiting = self.send(offset, max_wait_ms=60_000, min_bytes=1)
                self.assertNoResult(waiting)
                waiting.cancel()
                self.failureResultOf(waiting, CancelledError)
        self.assertEqual(self.fetch(3).error_code, ErrorCode.OFFSET_NOT_AVAILABLE)

    def test_a_waiting_consumer_is_answered_when_the_high_watermark_rises(self) -> None:
        waiting = self.send(0, max_wait_ms=60_000, min_bytes=100)
        self.put(0, b"a" * 200, b"b")
        self.assertNoResult(waiting)
        self.leader_answers(high_watermark=2)
        self.node.clock.advance(SLICE_SECONDS)
        self.assertEqual(len(values_in(self.partition_of(self.successResultOf(waiting)).records)), 2)

    def test_records_that_were_cut_do_not_answer_a_waiting_consumer(self) -> None:
        self.put(0, b"a", b"b", high_watermark=0)
        waiting = self.send(0, max_wait_ms=60_000, min_bytes=60)
        self.leader_answers(diverging_epoch=EpochEndOffset(-1, 0))
        self.put(0, b"c", high_watermark=0)
        self.leader_answers(high_watermark=1)
        self.node.clock.advance(SLICE_SECONDS)
        self.assertEqual(values_in(self.partition_of(self.successResultOf(waiting)).records), [b"c"])

    def test_offsets_before_the_log_start(self) -> None:
        self.put(0, b"a", b"b", high_watermark=2)
        self.leader_answers(high_watermark=2, log_start_offset=1)
        self.assertEqual(self.fetch(0).error_code, ErrorCode.OFFSET_OUT_OF_RANGE)
        self.assertEqual(self.fetch(1).log_start_offset, 1)

    def test_readers_of_committed_records(self) -> None:
        self.put(0, b"kept")
        self.put(1, b"aborted", producer=(5, 0, 0), transactional=True)
        self.leader_answers(high_watermark=2)
        open_ = self.fetch(0, isolation_level=1)
        self.assertEqual((open_.last_stable_offset, values_in(open_.records)), (1, [b"kept"]))
        self.leader_answers(_at(2, marker(False, 5)), high_watermark=3)
        ended = self.fetch(0, isolation_level=1)
        self.assertEqual(ended.last_stable_offset, 3)
        self.assertEqual([(each.producer_id, each.first_offset) for each in ended.aborted_transactions], [(5, 1)])

    def test_a_waiting_consumer_learns_of_another_leader(self) -> None:
        waiting = self.send(0, epoch=3, max_wait_ms=60_000, min_bytes=1)
        self.order(OTHER, 4)
        self.node.clock.advance(SLICE_SECONDS)
        code = self.partition_of(self.successResultOf(waiting)).error_code
        self.assertEqual(code, ErrorCode.FENCED_LEADER_EPOCH)

    def test_a_stopped_replica_serves_nobody(self) -> None:
        now(self.replicas.stop({("t", 0): (3, False)}))
        self.assertEqual(self.fetch(0).error_code, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def test_a_debugger_alone_may_ask_for_offsets(self) -> None:
        self.put(0, b"a", b"b", high_watermark=1)
        found = []
        for replica in (-1, -2, OTHER):
            topic = ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=LATEST)])
            answer = self.node.ask(list_offsets.handle, ListOffsetsRequest(replica, topics=[topic]))
            [partition] = answer.topics[0].partitions
            found.append((ErrorCode(partition.error_code), partition.offset))
        rejected = ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        self.assertEqual(found, [rejected, (ErrorCode.NONE, 2), rejected])

    def test_a_follower_that_becomes_leader_serves_all(self) -> None:
        self.put(0, b"a", high_watermark=1)
        self.order(NODE_ID, 4)
        answer = self.fetch(0, version=FIRST_FROM_FOLLOWERS - 1)
        self.assertEqual(values_in(answer.records), [b"a"])


def _at(offset: int, data: bytes) -> bytes:
    """The batch as a leader of epoch 3 stored it."""
    return struct.pack(">q", offset) + data[8:12] + struct.pack(">i", 3) + data[16:]
