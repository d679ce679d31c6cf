"""Leaders: the ISR, min.insync.replicas, later leaders, deletion of records."""

from __future__ import annotations

from unittest.mock import patch

from twisted.internet.defer import Deferred

from pylogbroker.broker.apis import delete_records
from pylogbroker.broker.replication.leadership import Leadership
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.delta import ConfigChanged, Delta, TopicCreated
from pylogbroker.metadata.image import PartitionState, TopicImage, topic_resource
from pylogbroker.metadata.persistent_map import PersistentMap
from pylogbroker.storage import names
from pylogbroker.storage.checkpoints import read_offsets
from pylogbroker.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tests.broker.replication.cluster import KEY, TOPIC, TOPIC_ID, ClusterTests
from tests.broker.trees import now


class IsrTests(ClusterTests):
    """A follower lags behind after 10 seconds."""

    def test_a_follower_that_lags_behind_leaves_the_isr(self) -> None:
        self.create()
        self.cluster.cut.add((3, 1))
        self.cluster.append(1, b"a")
        self.cluster.settle(9)
        self.assertEqual(self.cluster.proposals, [])
        self.cluster.settle(7)
        self.assertEqual(self.cluster.high_watermarks()[1], 0)
        self.assertEqual(self.cluster.commit_isr(), (1, 2))
        self.assertEqual(self.cluster.high_watermarks()[1], 1)

    def test_a_check_that_fails_does_not_end_the_checks(self) -> None:
        self.create()
        self.cluster.cut.add((3, 1))
        self.cluster.append(1, b"a")
        with patch.object(Leadership, "tick", side_effect=ValueError("broken")):
            self.cluster.settle(6)
        self.assertNotEqual(self.flushLoggedErrors(ValueError), [])
        self.cluster.settle(10)
        self.assertEqual(self.cluster.commit_isr(), (1, 2))

    def test_a_follower_that_has_caught_up_joins_the_isr(self) -> None:
        self.create(isr=(1, 2))
        self.cluster.append(1, b"a")
        self.cluster.settle()
        self.assertEqual(self.cluster.commit_isr(), (1, 2, 3))

    def test_a_dead_broker_does_not_join_the_isr(self) -> None:
        self.create(isr=(1, 2))
        self.cluster.proposals.clear()
        self.cluster.elect(1)
        self.cluster.announce(1, 2)
        self.cluster.append(1, b"a")
        self.cluster.settle(1)
        self.assertEqual(self.cluster.proposals, [])

    def test_an_unknown_broker_epoch_in_a_fetch_is_accepted(self) -> None:
        """UpdateMetadata has none, so a follower that has registered again is taken at its word."""
        self.create(isr=(1, 2))
        self.cluster.proposals.clear()
        self.cluster.replicas(3).set_broker_epoch(77)
        self.cluster.elect(1)
        self.cluster.settle(1)
        self.assertEqual(self.cluster.commit_isr(), (1, 2, 3))


class MinInsyncTests(ClusterTests):
    settings = {"min.insync.replicas": "2"}

    def test_a_small_isr_takes_no_records(self) -> None:
        self.cluster.cut |= {(2, 1), (3, 1)}
        self.create(isr=(1,))
        self.assertEqual(self.successResultOf(self.cluster.produce(1, b"a")), ErrorCode.NOT_ENOUGH_REPLICAS)
        self.assertEqual(self.successResultOf(self.cluster.produce(1, b"b", acks=1)), ErrorCode.NONE)
        self.assertEqual(self.cluster.values(1), [b"b"])
        self.assertEqual(self.cluster.high_watermarks()[1], 0)
        self.cluster.elect(1)  # a new leader hides them too
        self.assertEqual(self.cluster.high_watermarks()[1], 0)

    def test_a_setting_that_has_changed_holds_for_the_next_leader(self) -> None:
        self.cluster.cut |= {(2, 1), (3, 1)}
        self.create(isr=(1, 2))
        self.cluster.append(1, b"a")
        changed = ConfigChanged(topic_resource(TOPIC), {"min.insync.replicas": "3"})
        now(self.cluster.nodes[1].broker.metadata.publish(Delta.of(changed)))
        self.cluster.cut.clear()
        self.cluster.settle(1.1)
        self.cluster.proposals.clear()
        self.cluster.elect(1, isr=(1,))
        self.assertEqual(self.cluster.high_watermarks()[1], 0)

    def test_partitions_that_the_image_lacks_yet_are_configured(self) -> None:
        state = PartitionState(1, self.brokers, self.brokers)
        topic = TopicImage(TOPIC, TOPIC_ID, PersistentMap({1: state}))
        now(self.cluster.nodes[1].broker.metadata.publish(Delta.of(TopicCreated(topic))))
        self.cluster.elect(1, (1,), replicas=self.brokers, is_new=True)
        self.assertEqual(self.successResultOf(self.cluster.produce(1, b"a")), ErrorCode.NOT_ENOUGH_REPLICAS)

    def test_an_isr_that_shrinks_after_the_append(self) -> None:
        self.create(isr=(1, 2))
        self.cluster.proposals.clear()
        self.cluster.elect(1)
        self.cluster.cut |= {(2, 1), (3, 1)}
        produced = self.cluster.produce(1, b"a", timeout_ms=60_000)
        self.cluster.settle(16)
        self.assertEqual(self.cluster.commit_isr(), (1,))
        self.assertNoResult(produced)
        self.cluster.settle(60)
        self.assertEqual(self.successResultOf(produced), ErrorCode.REQUEST_TIMED_OUT)

    def test_a_change_of_the_setting_counts_at_once(self) -> None:
        self.cluster.cut |= {(2, 1), (3, 1)}
        self.create(isr=(1,))
        self.cluster.partition(1).set_min_insync_replicas(1, 3)
        self.assertEqual(self.successResultOf(self.cluster.produce(1, b"a")), ErrorCode.NONE)

    def test_records_that_too_few_replicas_have_are_reported(self) -> None:
        self.create(isr=(1, 2))
        replication = self.cluster.partition(1).replication
        assert replication is not None
        replication.check_replicated()
        self.cluster.partition(1).set_min_insync_replicas(4, 3)
        self.cluster.elect(1, isr=(1,))
        replication = self.cluster.partition(1).replication
        assert replication is not None
        with self.assertRaises(KafkaError) as caught:
            replication.check_replicated()
        self.assertEqual(caught.exception.code, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


class FlushTests(ClusterTests):
    settings = {"log.flush.interval.messages": "1"}

    def test_a_new_leader_syncs_its_log(self) -> None:
        """A crash leaves records in the log that may not be on the disk, and nobody may append others."""
        self.create()
        self.cluster.append(1, b"a")
        self.restart(1)
        log = self.cluster.nodes[1].broker.logs.logs[KEY]
        log.recovery_point = log.high_watermark = 0
        self.cluster.elect(1, isr=(1,), to=(1,))
        self.assertEqual((log.recovery_point, log.high_watermark), (1, 1))


class LaterLeaderTests(ClusterTests):
    def append_one_that_followers_lack(self) -> None:
        """Let all brokers have a record, and the leader alone another one."""
        self.create()
        self.cluster.append(1, b"a")
        self.cluster.settle()
        self.cluster.cut |= {(2, 1), (3, 1)}
        self.cluster.append(1, b"lost")

    def test_records_that_the_new_leader_lacks_are_cut_off(self) -> None:
        self.append_one_that_followers_lack()
        self.cluster.elect(2, to=(2, 3))
        self.cluster.append(2, b"b")
        self.cluster.append(2, b"c")
        self.cluster.order(1)
        self.cluster.settle(1.1)
        self.assertEqual([self.cluster.values(broker) for broker in (1, 2, 3)], [[b"a", b"b", b"c"]] * 3)
        self.assertEqual(self.cluster.high_watermarks()[2], 3)

    def test_a_cut_waits_for_a_worker_and_for_no_later_leader(self) -> None:
        self.create()
        self.cluster.cut |= {(2, 1), (3, 1)}
        self.cluster.append(1, b"lost")
        self.cluster.elect(2, to=(2, 3))
        threads = self.cluster.nodes[1].threads
        threads.holding = True
        self.cluster.order(1)
        self.cluster.settle(1.1)
        self.assertEqual((self.cluster.ends()[1], len(threads.held)), (1, 1))
        self.cluster.elect(1, isr=(1, 2, 3))
        threads.run_one()
        self.assertEqual(self.cluster.values(1), [b"lost"])

    def test_the_recovery_point_on_the_disk_is_lowered_before_a_cut(self) -> None:
        self.append_one_that_followers_lack()
        node = self.cluster.nodes[1]
        node.broker.partitions.hosted[KEY].log.sync()
        node.broker.logs.checkpoints.save_recovery_points()
        checkpoint = f"{node.directories[0]}/{names.RECOVERY_POINTS}"
        self.assertEqual(read_offsets(checkpoint), {KEY: 2})
        self.cluster.elect(2, to=(2, 3))
        node.threads.holding = True
        self.cluster.order(1)
        self.cluster.settle(1.1)
        _, plan = node.threads.held[0]
        plan()
        self.assertEqual((self.cluster.ends()[1], read_offsets(checkpoint)), (2, {KEY: 1}))

    def test_a_sync_between_that_and_the_cut_is_undone_on_the_disk(self) -> None:
        self.append_one_that_followers_lack()
        node = self.cluster.nodes[1]
        log = node.broker.partitions.hosted[KEY].log
        log.sync()
        self.cluster.elect(2, to=(2, 3))
        node.threads.holding = True
        self.cluster.order(1)
        self.cluster.settle(1.1)
        node.threads.run_one()  # writes the lower recovery point
        log.sync()
        node.broker.logs.checkpoints.save_recovery_points()
        node.threads.run_one()  # plans the cut
        self.assertEqual(self.cluster.ends()[1], 2)
        node.threads.holding = False
        while node.threads.held:
            node.threads.run_one()
        checkpoint = f"{node.directories[0]}/{names.RECOVERY_POINTS}"
        self.assertEqual((self.cluster.ends()[1], read_offsets(checkpoint)), (1, {KEY: 1}))

    def test_an_old_leader_acknowledges_nothing_and_followers_leave_it(self) -> None:
        self.create()
        self.cluster.elect(2, to=(2, 3))
        produced = self.cluster.produce(1, b"a", timeout_ms=2000)
        self.cluster.settle(3)
        self.assertEqual(self.successResultOf(produced), ErrorCode.REQUEST_TIMED_OUT)
        self.assertEqual(self.cluster.ends(), {1: 1, 2: 0, 3: 0})

    def test_a_restarted_broker_follows_with_its_stored_high_watermark(self) -> None:
        self.create()
        self.cluster.append(1, b"a")
        self.cluster.settle(1.2)
        self.cluster.cut.add((3, 1))
        self.cluster.append(1, b"b")
        self.cluster.settle()
        self.assertEqual(self.cluster.high_watermarks(), {1: 1, 2: 1, 3: 1})
        self.restart(2)
        self.cluster.announce(1, 2, 3, to=(2,))
        self.cluster.cut.add((2, 1))
        self.cluster.order(2)
        self.assertEqual((self.cluster.ends()[2], self.cluster.high_watermarks()[2]), (2, 1))

    def test_a_partition_without_leader_is_not_led(self) -> None:
        self.create()
        self.cluster.elect(-1)
        led = [KEY in self.cluster.nodes[broker].broker.partitions.led for broker in (1, 2, 3)]
        self.assertEqual(led, [False] * 3)
        self.cluster.elect(3)
        self.cluster.append(3, b"a")
        self.cluster.settle()
        self.assertEqual(self.cluster.ends(), {1: 1, 2: 1, 3: 1})


class DeleteRecordsTests(ClusterTests):
    def delete(self, offset: int) -> Deferred[DeleteRecordsResponse]:
        topics = [DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, offset)])]
        request = DeleteRecordsRequest(topics, timeout_ms=5000)
        return self.cluster.nodes[1].send(delete_records.handle, request)

    def test_the_answer_waits_until_all_replicas_have_deleted(self) -> None:
        self.create()
        self.cluster.append(1, b"a")
        self.cluster.append(1, b"b")
        self.cluster.settle(0.6)
        self.cluster.cut.add((3, 1))
        deleted = self.delete(1)
        self.cluster.settle(2)
        self.assertNoResult(deleted)
        self.cluster.cut.clear()
        self.cluster.settle(2)
        [[answer]] = [topic.partitions for topic in self.successResultOf(deleted).topics]
        self.assertEqual((answer.error_code, answer.low_watermark), (0, 1))
        self.assertEqual([self.cluster.values(broker) for broker in (1, 2, 3)], [[b"b"]] * 3)

    def test_a_follower_that_dies_is_not_waited_for(self) -> None:
        self.create()
        self.cluster.append(1, b"a")
        self.cluster.settle(0.6)
        self.cluster.cut.add((3, 1))
        deleted = self.delete(1)
        self.cluster.settle(2)
        self.assertNoResult(deleted)
        self.cluster.announce(1, 2)
        [[answer]] = [topic.partitions for topic in self.successResultOf(deleted).topics]
        self.assertEqual((answer.error_code, answer.low_watermark), (0, 1))
