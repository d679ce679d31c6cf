"""Followers: they copy the leader's records, and the high watermark follows them."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any
from uuid import UUID

from pylogbroker.broker.apis import leader_and_isr
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.fetch import FetchRequest
from tests.broker.failing_disks import broken, failing
from tests.broker.replicas import OTHER, ReplicaTests
from tests.broker.replication.cluster import ClusterTests
from tests.storage.support import NOW, batch


class FollowingTests(ClusterTests):
    def test_followers_copy_records_and_learn_the_high_watermark(self) -> None:
        self.create()
        self.cluster.append(1, b"a", b"b")
        self.cluster.append(1, b"c")
        self.cluster.settle()
        self.assertEqual([self.cluster.values(broker) for broker in (1, 2, 3)], [[b"a", b"b", b"c"]] * 3)
        self.assertEqual(self.cluster.high_watermarks()[1], 3)
        self.cluster.settle(0.6)  # the leader says it with the next answer, here an empty one
        self.assertEqual(self.cluster.high_watermarks(), {1: 3, 2: 3, 3: 3})
        lags = [list(self.cluster.replicas(broker).lags()) for broker in (1, 2, 3)]
        self.assertEqual(lags, [[], [0], [0]])  # the leader follows nobody

    def test_the_high_watermark_waits_for_each_member_of_the_isr(self) -> None:
        self.cluster.cut.add((3, 1))
        self.create()
        self.cluster.append(1, b"a")
        self.cluster.settle()
        self.assertEqual(self.cluster.ends(), {1: 1, 2: 1, 3: 0})
        self.assertEqual(self.cluster.high_watermarks()[1], 0)
        self.cluster.cut.clear()
        self.cluster.settle(1.1)
        self.assertEqual(self.cluster.high_watermarks()[1], 1)

    def test_an_unreachable_leader_is_asked_again(self) -> None:
        self.create()
        self.cluster.cut |= {(2, 1), (3, 1)}
        self.cluster.append(1, b"a")
        self.cluster.settle(3)
        self.assertEqual(self.cluster.ends(), {1: 1, 2: 0, 3: 0})
        self.cluster.cut.clear()
        self.cluster.settle(1.1)
        self.assertEqual(self.cluster.ends(), {1: 1, 2: 1, 3: 1})

    def test_another_topic_is_replicated_while_fetches_wait(self) -> None:
        self.create()
        order = self.cluster.leader_and_isr(is_new=True)
        order.topic_states[0].topic_name, order.topic_states[0].topic_id = "other", UUID(int=8)
        for broker in self.brokers:
            self.cluster.nodes[broker].ask(leader_and_isr.handle, order)
        begin = self.cluster.clock.seconds()
        self.cluster.settle()
        logs = {broker: self.cluster.nodes[broker].broker.partitions.hosted["other", 0].log for broker in self.brokers}
        self.cluster.nodes[1].broker.partitions.hosted["other", 0].append(batch([b"a"]), NOW)
        self.cluster.settle()
        self.assertEqual([log.log_end_offset for log in logs.values()], [1, 1, 1])
        self.assertEqual(logs[1].high_watermark, 1)
        self.assertEqual(self.cluster.clock.seconds(), begin)


class BeginAgainTests(ReplicaTests):
    def test_a_log_that_begins_again_has_a_high_watermark_at_its_start(self) -> None:
        """The leader has deleted all that the follower lacks, and may have no record after that."""
        self.order(OTHER)
        following: Any = self.partitions.hosted["t", 0].followed
        following.request_failed(following.next_request(), ErrorCode.OFFSET_OUT_OF_RANGE)
        for _ in ("latest", "earliest"):
            following.offset_listed(following.next_request(), 5)
        self.assertEqual((self.log.log_start_offset, self.log.log_end_offset, self.log.high_watermark), (5, 5, 5))


class AcknowledgementTests(ClusterTests):
    def test_acknowledged_records_are_on_all_isr_members(self) -> None:
        self.cluster.cut.add((3, 1))
        self.create()
        produced = self.cluster.produce(1, b"a")
        self.cluster.settle(0.5)
        self.assertNoResult(produced)
        self.cluster.cut.clear()
        self.cluster.settle(1.1)
        self.assertEqual(self.successResultOf(produced), ErrorCode.NONE)

    def test_a_produce_times_out_while_a_replica_is_cut_off(self) -> None:
        self.cluster.cut.add((3, 1))
        self.create()
        produced = self.cluster.produce(1, b"a", timeout_ms=700)
        self.cluster.settle(1)
        self.assertEqual(self.successResultOf(produced), ErrorCode.REQUEST_TIMED_OUT)

    def test_with_acks_1_nobody_is_awaited(self) -> None:
        self.cluster.cut |= {(2, 1), (3, 1)}
        self.create()
        self.assertEqual(self.successResultOf(self.cluster.produce(1, b"a", acks=1)), ErrorCode.NONE)

    def test_another_leader_ends_the_wait(self) -> None:
        self.cluster.cut.add((3, 1))
        self.create()
        produced = self.cluster.produce(1, b"a")
        self.cluster.settle()
        self.cluster.elect(2)
        self.assertEqual(self.successResultOf(produced), ErrorCode.NOT_LEADER_OR_FOLLOWER)


class SessionTests(ClusterTests):
    brokers = (1, 2)

    def fetches(self) -> list[FetchRequest]:
        found = [each for each in self.cluster.requests if isinstance(each, FetchRequest)]
        self.cluster.requests.clear()
        return found

    def test_later_fetches_name_changes_alone(self) -> None:
        self.create()
        self.cluster.append(1, b"a")
        self.cluster.settle(1.2)
        first, *others = self.fetches()
        self.assertEqual((first.session_id, first.session_epoch, len(first.topics)), (0, 0, 1))
        self.assertEqual([each.session_epoch for each in others], list(range(1, len(others) + 1)))
        self.assertEqual([len(each.topics) for each in others], [1] + [0] * (len(others) - 1))
        self.assertEqual(self.cluster.high_watermarks(), {1: 1, 2: 1})

    def test_a_lost_session_is_begun_again_at_once(self) -> None:
        self.create()
        self.fetches()
        self.cluster.nodes[1].broker.fetches.sessions._sessions.clear()
        self.cluster.append(1, b"a")
        self.cluster.settle()
        self.cluster.append(1, b"b")
        self.cluster.settle()
        self.assertEqual(self.cluster.ends(), {1: 2, 2: 2})
        self.assertIn(0, [each.session_id for each in self.fetches()])


class AnnouncementTests(ClusterTests):
    """Consumers of a follower wait for its high watermark (KIP-392)."""

    settings = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}

    def test_followers_learn_of_a_high_watermark_at_once(self) -> None:
        self.create()
        self.cluster.append(1, b"a")
        self.cluster.settle()
        self.assertEqual(self.cluster.high_watermarks(), {1: 1, 2: 1, 3: 1})

    def test_fetches_wait_without_news(self) -> None:
        self.create()
        self.cluster.append(1, b"a")
        self.cluster.settle()
        self.cluster.requests.clear()
        self.cluster.settle(5)
        self.assertLessEqual(len(self.cluster.requests), 2 * 5 / 0.5)


class LeaderAddressTests(ClusterTests):
    brokers = (1, 2)

    def test_a_leader_with_another_address_is_connected_to_again(self) -> None:
        self.create()
        [channel] = self.cluster.channels
        self.cluster.announce(1, 2)
        self.assertFalse(channel.is_closed)
        self.cluster.announce(1, 2, port=9093)
        self.assertEqual([each.is_closed for each in self.cluster.channels if each.sender == 2], [True, False])
        self.cluster.append(1, b"a")
        self.cluster.settle(1.1)
        self.assertEqual(self.cluster.ends(), {1: 1, 2: 1})

    def test_a_leader_that_is_gone_is_asked_when_it_is_back(self) -> None:
        self.create()
        self.cluster.announce(2)
        self.cluster.append(1, b"a")
        self.cluster.settle(2)
        self.assertEqual(self.cluster.ends(), {1: 1, 2: 0})
        self.cluster.announce(1, 2)
        self.cluster.settle(1.1)
        self.assertEqual(self.cluster.ends(), {1: 1, 2: 1})


class SyncTests(ClusterTests):
    brokers = (1, 2)
    settings = {"log.flush.interval.messages": "1"}

    def test_a_follower_asks_again_as_soon_as_its_records_are_on_the_disk(self) -> None:
        self.create()
        threads = self.cluster.nodes[2].threads
        threads.holding = True
        self.cluster.append(1, b"a")
        self.cluster.settle()
        self.assertEqual((self.cluster.ends(), self.cluster.high_watermarks()[1]), ({1: 1, 2: 1}, 0))
        threads.run_one()
        self.cluster.settle()
        self.assertEqual(self.cluster.high_watermarks()[1], 1)


class DiskTests(ClusterTests):
    brokers = (1, 2)
    settings = {"log.flush.interval.messages": "1"}

    def append_failing(self, call: str, code: int) -> None:
        """Let a call fail on broker 2 while a record comes."""
        with broken(call, self._directories[2], failing(code)):
            self.cluster.append(1, b"a")
            self.cluster.settle(0.5)
        self.cluster.settle(1.5)

    def test_a_full_disk_is_tried_again(self) -> None:
        self.create()
        self.append_failing("pwritev", errno.ENOSPC)
        self.assertEqual(self.cluster.ends(), {1: 1, 2: 1})

    def test_a_failed_sync_is_tried_again(self) -> None:
        self.create()
        self.append_failing("fdatasync", errno.EMFILE)
        self.cluster.append(1, b"b")
        self.cluster.settle(1)
        self.assertEqual((self.cluster.ends()[2], self.cluster.high_watermarks()[1]), (2, 2))

    def test_a_failed_sync_is_not_tried_again_once_the_replica_is_stopped(self) -> None:
        self.create()
        calls = []

        def fault(real: Callable[..., Any], *arguments: Any) -> Any:
            calls.append(arguments)
            return failing(errno.EMFILE)(real, *arguments)

        with broken("fdatasync", self._directories[2], fault):
            self.cluster.append(1, b"a")
            self.cluster.settle(0.5)
            self.cluster.stop(2, self.cluster.state.leader_epoch + 1)
            before = len(calls)
            self.assertGreater(before, 0)
            self.cluster.settle(1.5)
        self.assertEqual(len(calls), before)
