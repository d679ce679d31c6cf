"""Fetch sessions of followers: requests read the partitions with news alone, and miss none of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import attrs
from twisted.internet.defer import Deferred

from pylogbroker.broker.apis import fetch
from pylogbroker.broker.fetch.follower_session import PASS_MS
from pylogbroker.broker.fetch.reader import FetchReader
from pylogbroker.broker.fetch.session import RequestedPartition
from pylogbroker.broker.partitions.purgatory import Mark
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.replication import LeaderReplica
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from tests.broker.nodes import NODE_ID
from tests.broker.replicas import OTHER, TOPIC_ID, ReplicaTests
from tests.broker.test_fetch import values_in

WAIT_MS = 400
LAG_MS = PASS_MS // 3


@attrs.frozen(eq=False)
class OnConfirmation:
    """Operation that waits in a purgatory."""

    action: Callable[[], None]

    def try_complete(self, size: int) -> bool:
        self.action()
        return True

    def fail(self, error: KafkaError) -> None:
        raise error


class FollowerSessionTests(ReplicaTests):
    partition_count = 3

    def setUp(self) -> None:
        super().setUp()
        self.order(NODE_ID)
        self.read: list[list[int]] = []
        original = FetchReader.read

        def read(reader: FetchReader, some: list[RequestedPartition], may_wait: bool = False) -> None:
            self.read.append([each.partition.partition for each in some])
            original(reader, some, may_wait)

        patcher = patch.object(FetchReader, "read", read)
        patcher.start()
        self.addCleanup(patcher.stop)
        self.epoch = 0
        self.session_id = 0
        first = self.successResultOf(self.send({0: 0, 1: 0, 2: 0}, max_wait_ms=0))
        self.session_id = first.session_id
        self.read.clear()

    def send(self, offsets: dict[int, int], forgotten: tuple[int, ...] = (), **fields: Any) -> Deferred[Any]:
        """Send the next request of broker OTHER's session; it names the partitions in `offsets`."""
        partitions = [
            FetchPartition(index, 0, offset, partition_max_bytes=1 << 20) for index, offset in offsets.items()
        ]
        topics = [FetchTopic("t", TOPIC_ID, partitions=partitions)] if partitions else []
        left = [ForgottenTopic("t", TOPIC_ID, list(forgotten))] if forgotten else []
        values = {"max_wait_ms": WAIT_MS, "min_bytes": 1, "max_bytes": 1 << 20, **fields}
        request = FetchRequest(
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=topics,
            forgotten_topics_data=left,
            replica_state=ReplicaState(OTHER),
            **values,
        )
        self.epoch += 1
        return self.node.send(fetch.handle, request)

    def answered(self, waiting: Deferred[Any]) -> dict[int, Any]:
        self.node.clock.advance(0)  # deferred actions
        answer = self.successResultOf(waiting)
        self.assertEqual(answer.error_code, ErrorCode.NONE)
        return {each.partition_index: each for topic in answer.responses for each in topic.partitions}

    def expire(self, waiting: Deferred[Any]) -> dict[int, Any]:
        self.node.clock.advance(WAIT_MS / 1000)
        return self.answered(waiting)

    def test_partitions_without_news_are_not_read(self) -> None:
        waiting = self.send({})
        self.assertNoResult(waiting)
        self.assertEqual(self.expire(waiting), {})
        self.assertEqual([each for each in self.read if each], [])

    def test_an_append_answers_with_its_partition(self) -> None:
        waiting = self.send({})
        self.node.produce("t", 1, 1)
        found = self.answered(waiting)
        self.assertEqual({index: values_in(each.records) for index, each in found.items()}, {1: [b"value"]})
        self.assertEqual(self.read[-1], [1])

    def test_a_partition_that_is_named_and_forgotten_is_not_read(self) -> None:
        waiting = self.send({1: 0}, forgotten=(1,))
        self.node.produce("t", 1, 1)
        self.node.produce("t", 2, 1)
        self.assertEqual(list(self.answered(waiting)), [2])

    def test_an_append_to_another_partition_while_a_request_is_read_is_found(self) -> None:
        """Confirm a record: that completes its append, whose callback appends to partition 1."""
        self.node.produce("t", 0, 1)
        self.assertEqual(list(self.answered(self.send({}))), [0])
        self.on_confirmation(lambda: self.node.produce("t", 1, 1))
        self.assertIn(1, self.answered(self.send({0: 1})))

    def test_a_leadership_that_ends_while_a_request_is_read_is_found(self) -> None:
        self.node.produce("t", 0, 1)
        self.assertEqual(list(self.answered(self.send({}))), [0])
        self.on_confirmation(lambda: self.partitions.led["t", 1].resign(KafkaError("it is over")))
        self.assertIn(1, self.answered(self.send({0: 1})))

    def on_confirmation(self, action: Callable[[], None]) -> None:
        """Call `action` when all replicas have the first record of partition 0."""
        partition = self.partitions.led["t", 0]
        partition.purgatory.add(OnConfirmation(action), Mark.HIGH_WATERMARK, 1)

    def test_an_append_between_two_requests_is_found(self) -> None:
        self.node.produce("t", 2, 1)
        self.assertEqual(list(self.answered(self.send({}))), [2])

    def test_an_answer_is_repeated_until_the_follower_confirms_it(self) -> None:
        self.node.produce("t", 2, 1)
        self.assertEqual(list(self.answered(self.send({}))), [2])
        self.assertEqual(list(self.answered(self.send({}))), [2])
        waiting = self.send({2: 1})
        self.assertNoResult(waiting)
        self.assertEqual(self.expire(waiting)[2].high_watermark, 1)
        self.read.clear()
        self.expire(self.send({}))
        self.assertEqual([each for each in self.read if each], [])

    def test_a_fetch_waits_for_its_bytes_in_all_partitions(self) -> None:
        waiting = self.send({}, min_bytes=100)
        self.node.produce("t", 1, 1)
        self.node.clock.advance(0)
        self.assertNoResult(waiting)
        self.node.produce("t", 1, 2)
        self.assertEqual(len(values_in(self.answered(waiting)[1].records)), 2)

    def test_a_forgotten_partition_answers_nothing(self) -> None:
        waiting = self.send({}, forgotten=(1,))
        self.node.produce("t", 1, 1)
        self.assertEqual(self.expire(waiting), {})
        self.assertEqual(list(self.partitions.led["t", 1].purgatory.delayed), [])

    def test_the_end_of_a_leadership_answers_soon(self) -> None:
        waiting = self.send({})
        self.order(OTHER, epoch=1)
        codes = {index: each.error_code for index, each in self.answered(waiting).items()}
        self.assertEqual(codes, dict.fromkeys(range(3), ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def test_a_later_leader_epoch_is_found(self) -> None:
        self.order(OTHER, epoch=1)
        self.order(NODE_ID, epoch=2)
        codes = {index: each.error_code for index, each in self.answered(self.send({})).items()}
        self.assertEqual(codes, dict.fromkeys(range(3), ErrorCode.FENCED_LEADER_EPOCH))

    def test_all_partitions_are_read_from_time_to_time(self) -> None:
        self.node.clock.advance(PASS_MS / 1000)
        self.expire(self.send({}))
        self.assertEqual(sorted(self.read[0]), [0, 1, 2])

    def test_a_partition_out_of_sync_is_read_by_each_request(self) -> None:
        leader = self.leader(1)
        leader.isr.committed = (NODE_ID,)
        self.node.produce("t", 1, 1)
        self.expire(self.send({1: 1}))
        self.read.clear()
        self.expire(self.send({}))
        self.assertEqual(self.read[0], [1])

    def test_a_new_session_ends_the_watches_of_the_one_that_it_names(self) -> None:
        self.assertEqual(len(self.partitions.led["t", 1].purgatory), 1)
        self.epoch = 0
        self.answered(self.send({0: 0}, max_wait_ms=0))
        self.assertEqual(len(self.partitions.led["t", 1].purgatory), 0)

    def test_a_session_that_nobody_uses_ends_its_watch_at_the_next_append(self) -> None:
        self.node.produce("t", 1, 1)
        self.assertEqual(len(self.partitions.led["t", 1].purgatory), 0)

    def test_a_waiting_follower_has_caught_up_until_its_last_request(self) -> None:
        for _ in range(2 * LAG_MS // WAIT_MS):
            self.expire(self.send({}))
        self.node.produce("t", 1, 1)
        self.assertEqual(self.shrunk(1), ())
        self.node.clock.advance(2 * LAG_MS / 1000)
        self.assertEqual(self.shrunk(1), (NODE_ID,))

    def test_a_fetch_that_goes_on_after_a_wait_counts_once(self) -> None:
        self.answered(self.send({1: 0}, max_wait_ms=0))
        with patch.object(LeaderReplica, "fetch", autospec=True, side_effect=LeaderReplica.fetch) as noted:
            waiting = self.send({1: 0})
            self.node.produce("t", 1, 1)
            self.assertEqual(list(self.answered(waiting)), [1])
        self.assertEqual(noted.call_count, 1)

    def leader(self, index: int) -> Any:
        replication: Any = self.partitions.led["t", index].replication
        leader = replication.leader
        leader.settings = attrs.evolve(leader.settings, replica_lag_time_max_ms=LAG_MS)
        return leader

    def shrunk(self, index: int) -> tuple[int, ...]:
        """Return the ISR that the leader proposes; empty if none."""
        for action in self.leader(index).tick(self.node.broker.runtime.now_ms()):
            return tuple(action.change.isr)
        return ()
