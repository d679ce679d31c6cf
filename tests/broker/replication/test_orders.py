"""Orders of the controller: epochs, stops, metadata; settings that other brokers change."""

from __future__ import annotations

import os
from typing import Any
from unittest.mock import patch
from uuid import UUID

import attrs
from twisted.internet.defer import fail

from pylogbroker.broker.apis import leader_and_isr, stop_replica, update_metadata
from pylogbroker.broker.metadata.notifications import NOTIFICATION_MS_MAX
from pylogbroker.broker.partitions.topic_settings import TopicSettings
from pylogbroker.broker.replication.leadership import Leadership
from pylogbroker.broker.replication.replicas import Replicas
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import Create, NoNode, SessionExpired, SetData, Unavailable
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.config_changes import notification
from pylogbroker.metadata.image import NO_TOPIC_ID, PartitionState, TopicImage
from pylogbroker.metadata.persistent_map import PersistentMap
from pylogbroker.metadata.topic_names import OFFSETS_TOPIC
from pylogbroker.metadata.zk_image import encode_topic_image, new_partitions
from pylogbroker.replication import FollowerFetch
from pylogbroker.wire.messages.fetch import FetchRequest
from pylogbroker.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from pylogbroker.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from pylogbroker.wire.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from tests.broker.log_lines import logged_lines
from tests.broker.replication.cluster import CONTROLLER, KEY, TOPIC, TOPIC_ID, ClusterTests
from tests.broker.trees import now


class EpochTests(ClusterTests):
    brokers = (1, 2)

    def error(self, **fields: Any) -> ErrorCode:
        request = attrs.evolve(self.cluster.leader_and_isr(), **fields)
        return ErrorCode(self.cluster.nodes[1].ask(leader_and_isr.handle, request).error_code)

    def test_an_earlier_controller_is_not_obeyed(self) -> None:
        self.create()
        self.assertEqual(self.error(controller_epoch=5), ErrorCode.NONE)
        self.assertEqual(self.error(controller_epoch=4), ErrorCode.STALE_CONTROLLER_EPOCH)

    def test_orders_with_a_stale_broker_epoch_are_rejected(self) -> None:
        self.create()
        self.cluster.nodes[1].broker.membership.set_broker_epoch(10)  # type: ignore[attr-defined]
        for epoch, error in ((9, ErrorCode.STALE_BROKER_EPOCH), (-1, ErrorCode.NONE), (10, ErrorCode.NONE)):
            self.assertEqual(self.error(broker_epoch=epoch), error)

    def test_orders_wait_for_the_first_registration(self) -> None:
        """Until then nobody knows which are for an earlier life: a stopped broker might lead again."""
        orders: Any = self.cluster.nodes[1].broker.membership
        self.cluster.state = PartitionState(1, (1, 2), (1, 2))
        sent = [attrs.evolve(self.cluster.leader_and_isr(), broker_epoch=epoch) for epoch in (9, 10)]
        answers = [self.cluster.nodes[1].send(leader_and_isr.handle, request) for request in sent]
        for answer in answers:
            self.assertNoResult(answer)
        self.assertNotIn(KEY, self.cluster.nodes[1].broker.partitions.led)
        orders.set_broker_epoch(10)
        codes = [self.successResultOf(answer).error_code for answer in answers]
        self.assertEqual(codes, [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.NONE])
        self.assertIn(KEY, self.cluster.nodes[1].broker.partitions.led)

    def test_orders_of_an_earlier_life_delete_nothing(self) -> None:
        self.create()
        states = [StopReplicaTopicState(TOPIC, [StopReplicaPartitionState(0, 0, True)])]
        stop = StopReplicaRequest(CONTROLLER, controller_epoch=1, broker_epoch=9, topic_states=states)
        stopped = self.cluster.nodes[1].send(stop_replica.handle, stop)
        orders: Any = self.cluster.nodes[1].broker.membership
        orders.set_broker_epoch(10)
        self.assertEqual(self.successResultOf(stopped).error_code, ErrorCode.STALE_BROKER_EPOCH)
        self.assertIn(KEY, self.cluster.nodes[1].broker.partitions.hosted)

    def test_a_broker_that_stops_before_its_registration_rejects_orders(self) -> None:
        request = attrs.evolve(self.cluster.leader_and_isr(), broker_epoch=9)
        waiting = self.cluster.nodes[1].send(leader_and_isr.handle, request)
        self.cluster.nodes[1].broker.role.close()  # type: ignore[attr-defined]
        for answer in (waiting, self.cluster.nodes[1].send(leader_and_isr.handle, request)):
            self.assertEqual(self.successResultOf(answer).error_code, ErrorCode.STALE_BROKER_EPOCH)

    def test_after_a_crash_orders_are_not_obeyed_until_the_isrs_are_left(self) -> None:
        self.create()
        orders = self.cluster.nodes[1].broker.membership
        orders.is_departing = True  # type: ignore[attr-defined]
        self.assertEqual(self.error(), ErrorCode.STALE_BROKER_EPOCH)
        orders.departed()  # type: ignore[attr-defined]
        self.assertEqual(self.error(), ErrorCode.NONE)

    def test_an_earlier_leader_epoch_changes_nothing(self) -> None:
        self.create()
        before = self.cluster.state
        self.cluster.elect(2)
        self.cluster.state = before
        self.cluster.order()
        led = [KEY in self.cluster.nodes[broker].broker.partitions.led for broker in (1, 2)]
        self.assertEqual(led, [False, True])

    def test_a_closed_broker_fetches_no_more(self) -> None:
        self.create()
        self.cluster.replicas(2).close()
        self.cluster.channels.clear()
        self.cluster.elect(1)
        self.assertEqual(self.cluster.channels, [])


class StopTests(ClusterTests):
    brokers = (1, 2)

    def test_a_stopped_replica_keeps_its_log_unless_it_is_deleted(self) -> None:
        self.create()
        path = self.cluster.partition(2).log.path
        self.cluster.elect(1)
        self.assertEqual(self.cluster.stop(2, 0, delete=True), ErrorCode.FENCED_LEADER_EPOCH)
        self.assertEqual(self.cluster.stop(2, 1), ErrorCode.NONE)
        self.cluster.append(1, b"a")
        self.cluster.settle(2)
        self.assertEqual((self.cluster.ends()[2], os.path.exists(path)), (0, True))
        self.assertEqual(self.cluster.stop(2, 1, delete=True), ErrorCode.NONE)
        self.assertEqual((KEY in self.cluster.nodes[2].broker.partitions.hosted, os.path.exists(path)), (False, False))

    def test_a_replica_is_deleted_before_its_first_order(self) -> None:
        self.create()
        path = self.cluster.partition(2).log.path
        self.restart(2)
        self.assertTrue(os.path.exists(path))
        self.assertEqual(self.cluster.stop(2, 0, delete=True), ErrorCode.NONE)
        self.assertFalse(os.path.exists(path))

    def test_the_high_watermark_of_a_stopped_replica_stays(self) -> None:
        """Its last leadership knows of followers that another leader may have cut."""
        self.cluster.cut.add((2, 1))
        self.create()
        self.cluster.append(1, b"a")
        replication = self.cluster.partition(1).replication
        assert replication is not None
        self.cluster.stop(1, 0)
        replication.follower_fetched(FollowerFetch(2, 0, 1))
        self.cluster.partition(1).on_synced()
        self.assertEqual(self.cluster.high_watermarks()[1], 0)


class ReplacedTopicTests(ClusterTests):
    """A topic was deleted and created again, and broker 1 has not heard of the deletion."""

    brokers = (1, 2)

    def replace(self, state: PartitionState) -> None:
        self.cluster.topic_id = UUID(int=8)
        self.cluster.state = state

    def test_a_replica_that_was_moved_away_is_not_the_new_topics(self) -> None:
        """Its log would give old records to the new topic, and its id would prevent changes of the ISR."""
        self.create()
        self.cluster.elect(1)
        self.cluster.append(1, b"old")
        directory = os.path.dirname(self.cluster.partition(1).log.path)
        self.cluster.stop(1, 1)
        self.replace(PartitionState(1, (1, 2), (1,), 0, 0))
        self.assertEqual(self.cluster.order(1, is_new=True), {1: ErrorCode.NONE})
        self.cluster.append(1, b"new")
        self.assertEqual(self.cluster.values(1), [b"new"])
        self.assertTrue(any(name.endswith("-stray") for name in os.listdir(directory)))
        replication = self.cluster.partition(1).replication
        assert isinstance(replication, Leadership)
        self.assertEqual((replication.topic_id, replication.leader.leader_epoch), (UUID(int=8), 0))

    def test_the_old_topics_id_finds_nothing(self) -> None:
        """A consumer that knows it would read records of the new topic."""
        self.create()
        self.replace(PartitionState(1, (1, 2), (1, 2), 0, 0))
        self.cluster.order(is_new=True)
        self.cluster.announce(1, 2)
        partitions = self.cluster.nodes[1].broker.partitions
        self.assertIs(partitions.find(UUID(int=8), 0), self.cluster.partition(1))
        with self.assertRaises(KafkaError) as raised:
            partitions.find(TOPIC_ID, 0)
        self.assertEqual(raised.exception.code, ErrorCode.UNKNOWN_TOPIC_ID)

    def test_a_leader_of_the_old_topic_follows_in_the_new_one(self) -> None:
        """Records that it has acknowledged last are gone; those who wait for others ask again."""
        self.create()
        self.cluster.cut.add((2, 1))
        waiting = self.cluster.produce(1, b"old")
        self.replace(PartitionState(2, (2, 1), (2, 1), 0, 0))
        self.cluster.order(2, 1, is_new=True)
        self.assertEqual(self.successResultOf(waiting), ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.cluster.append(2, b"new")
        self.cluster.settle(2)
        self.assertEqual((self.cluster.values(1), self.cluster.values(2)), ([b"new"], [b"new"]))

    def test_a_leader_of_the_old_topic_stops_if_others_have_the_new_one(self) -> None:
        """The leader epochs of the new topic begin at 0: they do not show which is newer."""
        self.create()
        self.cluster.elect(1)
        self.replace(PartitionState(2, (2,), (2,), 0, 0))
        self.cluster.announce(1, 2)
        partitions = self.cluster.nodes[1].broker.partitions
        self.assertEqual((list(partitions.led), list(partitions.hosted)), ([], [KEY]))


class OpeningTests(ClusterTests):
    brokers = (1, 2)

    def test_the_high_watermark_waits_for_the_first_role(self) -> None:
        self.create()
        self.cluster.append(1, b"a")
        self.cluster.settle(1.2)
        self.cluster.cut.add((2, 1))
        self.cluster.append(1, b"b")
        self.restart(1)
        found = []

        async def apply(settings: TopicSettings, topic: TopicImage) -> None:
            partition = settings._hosted[KEY]
            partition.on_synced()
            found.append((partition.log.high_watermark, partition.log.log_end_offset))

        with patch.object(TopicSettings, "apply", apply):
            self.cluster.order(1)
        self.assertEqual(found, [(1, 2)])

    def test_the_image_alone_makes_no_leader(self) -> None:
        self.cluster.state = PartitionState(1, (1, 2), (1, 2), 0, 0)
        self.cluster.announce(1, 2)
        self.cluster.settle(11)
        self.assertEqual(list(self.cluster.nodes[1].broker.partitions.led), [])


class MetadataTests(ClusterTests):
    brokers = (1, 2)

    def update(self, leader: int, topic_id: UUID = TOPIC_ID, version: int = 3) -> None:
        partition = UpdateMetadataPartitionState(
            partition_index=0, leader=leader, leader_epoch=1, isr=[1], zk_version=version, replicas=[1, 2]
        )
        states = [UpdateMetadataTopicState(TOPIC, topic_id, [partition])]
        request = UpdateMetadataRequest(CONTROLLER, controller_epoch=1, topic_states=states)
        self.assertEqual(self.cluster.nodes[1].ask(update_metadata.handle, request).error_code, 0)

    def topic_id(self) -> UUID | None:
        topic = self.cluster.nodes[1].broker.metadata.topics.get(TOPIC)
        return None if topic is None else topic.id

    def test_brokers_and_the_controller(self) -> None:
        self.cluster.announce(2, port=9099, to=(1,))
        image = self.cluster.nodes[1].broker.metadata.image
        self.assertEqual((list(image.brokers), image.controller_id), ([2], CONTROLLER))
        self.assertEqual(image.brokers[2].listeners["PLAINTEXT"].port, 9099)

    def test_replicas_are_looked_at_for_changes_of_brokers_alone(self) -> None:
        self.create()
        with patch.object(Replicas, "brokers_changed", autospec=True) as called:
            self.cluster.elect(2)
            self.cluster.announce(1, 2)
            self.assertEqual(self.cluster.nodes[1].broker.metadata.topics[TOPIC].partitions[0].leader, 2)
            self.assertEqual(called.call_count, 0)
            self.cluster.announce(1, to=(1,))
            [(_, brokers)] = [call.args for call in called.call_args_list]
            self.assertEqual(list(brokers), [1])

    def test_the_first_update_of_brokers_applies_even_if_unchanged(self) -> None:
        self.create()
        self.cluster.nodes[1].broker.membership._brokers = None  # type: ignore[attr-defined]
        with patch.object(Replicas, "brokers_changed", autospec=True) as called:
            self.cluster.announce(1, 2, to=(1,), topics=False)
            self.assertEqual(called.call_count, 1)

    def test_a_replica_moved_while_its_broker_was_away_is_stopped(self) -> None:
        self.create()
        self.cluster.elect(1)
        led = self.cluster.nodes[1].broker.partitions.led
        self.cluster.announce(1, 2)
        self.assertEqual(list(led), [KEY])
        state = self.cluster.state
        self.cluster.state = attrs.evolve(state, leader=2, replicas=(2,), isr=(2,), leader_epoch=state.leader_epoch + 1)
        self.cluster.announce(1, 2, to=(1,))
        self.assertEqual(list(led), [])
        self.assertEqual(list(self.cluster.nodes[1].broker.partitions.hosted), [KEY])

    def test_a_topic_deleted_before_the_registration_is_forgotten(self) -> None:
        """Its name is not in the tree, and no order says so; its log is kept."""
        self.create()
        self.cluster.announce(1, 2)
        self.cluster.announce(1, 2, topics=False)
        self.assertEqual(self.topic_id(), TOPIC_ID)
        broker = self.cluster.nodes[1].broker
        broker.membership.set_broker_epoch(10)  # type: ignore[attr-defined]
        self.cluster.announce(1, 2, topics=False)
        self.assertIsNone(self.topic_id())
        self.assertEqual((list(broker.partitions.led), list(broker.partitions.hosted)), ([], [KEY]))

    def test_a_topic_that_a_former_controller_deleted_is_forgotten(self) -> None:
        self.create()
        self.cluster.announce(1, 2)
        request = UpdateMetadataRequest(CONTROLLER, controller_epoch=2)
        self.assertEqual(self.cluster.nodes[1].ask(update_metadata.handle, request).error_code, 0)
        self.assertIsNone(self.topic_id())

    def test_metadata_updates_out_of_order_are_ignored(self) -> None:
        """A broker that was paused finds a request in each connection of the controller, in any order."""
        self.create()

        def leader() -> int:
            return self.cluster.nodes[1].broker.metadata.topics[TOPIC].partitions[0].leader

        self.update(leader=2, version=7)
        self.update(leader=1, version=6)
        self.assertEqual(leader(), 2)
        self.update(leader=1, version=7)
        self.assertEqual(leader(), 1)
        self.update(leader=2, topic_id=UUID(int=8), version=0)  # of another topic of that name
        self.assertEqual(leader(), 2)

    def test_a_topic_is_deleted_or_another_has_its_name(self) -> None:
        self.create()
        self.update(leader=1, topic_id=UUID(int=8))
        self.assertEqual(self.topic_id(), UUID(int=8))
        self.update(leader=-2, topic_id=UUID(int=8))
        self.assertIsNone(self.topic_id())

    def test_a_topic_without_id_is_not_another_one(self) -> None:
        """Otherwise the offsets that groups have committed would be deleted."""
        self.create()
        self.update(leader=2, topic_id=UUID(int=0))
        self.assertEqual(self.topic_id(), TOPIC_ID)
        self.assertEqual(self.cluster.nodes[1].broker.metadata.topics[TOPIC].partitions[0].leader, 2)


class LateTopicIdTests(ClusterTests):
    """The topic has no id before all brokers have protocol version 2.8; then the same epochs come with one."""

    brokers = (1, 2)

    def setUp(self) -> None:
        super().setUp()
        self.cluster.topic_id = NO_TOPIC_ID
        self.create()
        self.cluster.announce(1, 2)
        self.cluster.topic_id = TOPIC_ID

    def test_replicas_take_a_late_topic_id_with_equal_epochs(self) -> None:
        self.cluster.order()
        replication = self.cluster.partition(1).replication
        assert isinstance(replication, Leadership)
        self.assertEqual(replication.topic_id, TOPIC_ID)
        self.assertEqual([self.cluster.partition(broker).log.topic_id for broker in (1, 2)], [TOPIC_ID, TOPIC_ID])
        self.cluster.requests.clear()
        self.cluster.append(1, b"a")
        self.cluster.settle(2)
        self.assertEqual((self.cluster.ends(), self.cluster.values(2)), ({1: 1, 2: 1}, [b"a"]))
        fetches = [each for each in self.cluster.requests if isinstance(each, FetchRequest)]
        self.assertEqual({topic.topic_id for each in fetches for topic in each.topics}, {TOPIC_ID})

    def test_the_next_leader_has_the_late_topic_id(self) -> None:
        self.cluster.order()
        self.cluster.elect(2)
        replication = self.cluster.partition(2).replication
        assert isinstance(replication, Leadership)
        self.assertEqual(replication.topic_id, TOPIC_ID)

    def test_a_late_topic_id_is_in_the_metadata(self) -> None:
        self.cluster.announce(1, 2)
        image = self.cluster.nodes[1].broker.metadata.image
        self.assertEqual((image.topics[TOPIC].id, image.topic_by_id(TOPIC_ID)), (TOPIC_ID, image.topics[TOPIC]))
        self.assertEqual(image.partition_count, 1)


class ConfigWatchTests(ClusterTests):
    settings = {"controlled.shutdown.enable": "false"}
    brokers = (1,)

    def write(self, data: bytes) -> None:
        """Store a topic's settings."""
        path, tree = zk_paths.topic_config(TOPIC), self.cluster.nodes[1].tree
        try:
            now(tree.commit([SetData(path, data)]))
        except NoNode:
            now(tree.commit([Create(path, data)]))

    def store(self, **settings: str) -> None:
        self.write(zk_schema.encode_config({name.replace("_", "."): text for name, text in settings.items()}))

    def notify(self, **settings: str) -> None:
        """Write a topic's settings and a notification, as another broker does."""
        self.store(**settings)
        now(self.cluster.nodes[1].tree.commit([notification(f"topics/{TOPIC}")]))

    def stored(self) -> dict[str, str]:
        return dict(self.cluster.nodes[1].broker.metadata.topic_settings(TOPIC))

    def test_a_notification_makes_settings_be_read(self) -> None:
        self.create()
        self.notify(retention_ms="5")
        self.assertEqual(self.stored(), {"retention.ms": "5"})

    def test_unreadable_settings_are_read_later(self) -> None:
        self.create()
        tree = self.cluster.nodes[1].tree
        with patch.object(type(tree), "get_many", lambda self, paths: fail(Unavailable("/config"))):
            self.notify_blindly()
        self.assertEqual(self.stored(), {})
        prefix = zk_paths.CONFIG_CHANGE_PREFIX
        now(tree.commit([Create(prefix, b"{}", sequence=True)]))
        self.assertEqual(self.stored(), {"retention.ms": "5"})

    def notify_blindly(self) -> None:
        self.notify(retention_ms="5")

    def test_old_notifications_are_deleted(self) -> None:
        self.create()
        self.notify(retention_ms="5")
        tree = self.cluster.nodes[1].tree
        [name] = now(tree.children(zk_paths.CONFIG_CHANGES))
        created_ms = now(tree.get(f"{zk_paths.CONFIG_CHANGES}/{name}")).stat.created_ms
        self.cluster.clock.rightNow = (created_ms + NOTIFICATION_MS_MAX + 1000) / 1000
        now(tree.commit([Create(zk_paths.CONFIG_CHANGE_PREFIX, b"{}", sequence=True)]))
        self.assertNotIn(name, now(tree.children(zk_paths.CONFIG_CHANGES)))

    def unreachable(self, error: type[Unavailable] = Unavailable) -> Any:
        """Let reads fail."""
        tree = type(self.cluster.nodes[1].tree)
        return patch.object(tree, "get_many", lambda self, paths: fail(error("/config")))

    def test_settings_of_a_new_topic_are_in_force(self) -> None:
        """The creator of a topic notifies nobody of its settings."""
        self.store(min_insync_replicas="2", segment_ms="5")
        self.cluster.elect(1, (1, 2), (1,), is_new=True, replicas=(1, 2))
        partition = self.cluster.partition(1)
        self.assertEqual((partition.wanted_insync_replicas, partition.log.config.segment_ms), (2, 5))

    def test_a_topic_that_is_created_again_has_its_own_settings(self) -> None:
        self.store(retention_ms="5")
        self.create()
        self.store(retention_ms="6")
        update = UpdateMetadataPartitionState(leader=1, leader_epoch=0, isr=[1], zk_version=0, replicas=[1])
        states = [UpdateMetadataTopicState(TOPIC, UUID(int=8), [update])]
        request = UpdateMetadataRequest(CONTROLLER, controller_epoch=1, topic_states=states)
        self.cluster.nodes[1].ask(update_metadata.handle, request)
        self.assertEqual(self.stored(), {"retention.ms": "6"})

    def test_an_internal_topic_is_known_with_all_partitions(self) -> None:
        """Coordinators find a group's partition by their number, and the first order may name one of them."""
        states = new_partitions({number: [1] for number in range(3)})
        topic = TopicImage(OFFSETS_TOPIC, TOPIC_ID, PersistentMap(states))
        node = self.cluster.nodes[1]
        now(node.tree.commit([Create(zk_paths.topic(OFFSETS_TOPIC), encode_topic_image(topic))]))
        update = UpdateMetadataPartitionState(partition_index=1, leader=1, leader_epoch=4, isr=[1], replicas=[1])
        announced = [UpdateMetadataTopicState(OFFSETS_TOPIC, TOPIC_ID, [update])]
        request = UpdateMetadataRequest(CONTROLLER, controller_epoch=1, topic_states=announced)
        self.assertEqual(node.ask(update_metadata.handle, request).error_code, 0)
        partitions = node.broker.metadata.topics[OFFSETS_TOPIC].partitions
        self.assertEqual({each: state.leader_epoch for each, state in partitions.items()}, {0: -1, 1: 4, 2: -1})
        self.assertEqual(node.broker.groups.runtime.partitions, 3)

    def test_an_internal_topic_without_id_that_was_made_again(self) -> None:
        """Before protocol version 2.8 nothing but the number of partitions shows it."""
        node = self.cluster.nodes[1]

        def stored(count: int) -> bytes:
            states = PersistentMap(new_partitions({number: [1] for number in range(count)}))
            return encode_topic_image(TopicImage(OFFSETS_TOPIC, NO_TOPIC_ID, states))

        def order(count: int, epoch: int) -> None:
            fields = {"leader": 1, "leader_epoch": epoch, "isr": [1], "replicas": [1]}
            announced = [UpdateMetadataPartitionState(partition_index=each, **fields) for each in range(count)]
            ordered = [LeaderAndIsrPartitionState(partition_index=each, **fields) for each in range(count)]
            update = [UpdateMetadataTopicState(OFFSETS_TOPIC, NO_TOPIC_ID, announced)]
            lead = [LeaderAndIsrTopicState(OFFSETS_TOPIC, NO_TOPIC_ID, ordered)]
            node.ask(update_metadata.handle, UpdateMetadataRequest(CONTROLLER, controller_epoch=1, topic_states=update))
            node.ask(leader_and_isr.handle, LeaderAndIsrRequest(CONTROLLER, controller_epoch=1, topic_states=lead))

        now(node.tree.commit([Create(zk_paths.topic(OFFSETS_TOPIC), stored(3))]))
        order(3, epoch=4)
        self.assertEqual(node.broker.groups.runtime.partitions, 3)
        now(node.tree.commit([SetData(zk_paths.topic(OFFSETS_TOPIC), stored(2))]))
        node.broker.membership.set_broker_epoch(10)  # type: ignore[attr-defined]
        order(2, epoch=0)
        self.assertEqual(node.broker.groups.runtime.partitions, 2)
        self.assertEqual(sorted(node.broker.partitions.led), [(OFFSETS_TOPIC, 0), (OFFSETS_TOPIC, 1)])
        self.assertEqual({each.leader_epoch for each in node.broker.partitions.led.values()}, {0})

    def test_orders_for_a_new_topic_wait_for_its_settings(self) -> None:
        self.store(segment_ms="5")
        node = self.cluster.nodes[1]
        self.cluster.state = PartitionState(1, (1,), (1,))
        with self.unreachable():
            answer = node.send(leader_and_isr.handle, self.cluster.leader_and_isr(is_new=True))
            self.cluster.settle(3)
            self.assertNoResult(answer)
        self.cluster.settle(1)
        self.assertEqual(self.successResultOf(answer).error_code, ErrorCode.NONE)
        self.assertEqual(self.cluster.partition(1).log.config.segment_ms, 5)

    def test_orders_of_an_ended_session_are_not_obeyed(self) -> None:
        with self.unreachable(SessionExpired):
            request = self.cluster.leader_and_isr(is_new=True)
            answer = self.cluster.nodes[1].ask(leader_and_isr.handle, request)
        self.assertEqual(answer.error_code, ErrorCode.STALE_BROKER_EPOCH)

    def test_orders_that_waited_beyond_their_session_are_not_obeyed(self) -> None:
        node = self.cluster.nodes[1]
        with self.unreachable():
            request = attrs.evolve(self.cluster.leader_and_isr(is_new=True), broker_epoch=9)
            answer = node.send(leader_and_isr.handle, request)
            node.broker.membership.set_broker_epoch(10)  # type: ignore[attr-defined]
        self.cluster.settle(1.1)
        self.assertEqual(self.successResultOf(answer).error_code, ErrorCode.STALE_BROKER_EPOCH)

    def test_a_stopped_broker_waits_for_no_settings(self) -> None:
        node = self.cluster.nodes[1]
        with self.unreachable():
            answer = node.send(leader_and_isr.handle, self.cluster.leader_and_isr(is_new=True))
            now(node.broker.role.leave())
            self.assertEqual(self.successResultOf(answer).error_code, ErrorCode.STALE_BROKER_EPOCH)

    def test_a_rejected_setting_is_logged_once_and_the_default_applies(self) -> None:
        bad = {"segment_ms": "soon", "segment_bytes": "1007"}
        with logged_lines() as lines:
            self.store(**bad)
            self.create()
            self.notify(**bad, flush_ms="8")
            self.cluster.elect(1)
        [line] = [line for line in lines if "segment.ms" in line]
        self.assertRegex(line, "^topic t does without a setting: segment.ms: .*soon")
        config = self.cluster.partition(1).log.config
        self.assertEqual((config.segment_ms, config.segment_bytes), (7 * 24 * 3600 * 1000, 1007))
        self.notify(segment_ms="5")
        self.assertEqual(self.cluster.partition(1).log.config.segment_ms, 5)

    def test_settings_that_cannot_be_decoded_change_nothing(self) -> None:
        self.create()
        self.notify(retention_ms="5")
        self.write(b"{")
        now(self.cluster.nodes[1].tree.commit([notification(f"topics/{TOPIC}")]))
        self.assertEqual(self.stored(), {"retention.ms": "5"})
        self.notify(retention_ms="6")
        self.assertEqual(self.stored(), {"retention.ms": "6"})

    def test_a_topic_of_format_07_has_one_replica(self) -> None:
        self.store(message_format_version="0.7")
        with logged_lines() as lines:
            self.cluster.state = PartitionState(1, (1, 2), (1, 2))
            self.assertEqual(self.cluster.order(1, is_new=True), {1: ErrorCode.KAFKA_STORAGE_ERROR})
        [line] = [line for line in lines if "0.7" in line]
        self.assertIn("topic t is of format 0.7, which has one replica: partitions [0] have several", line)
        self.assertNotIn(KEY, self.cluster.nodes[1].broker.partitions.hosted)
        self.cluster.state = PartitionState(1, (1,), (1,))
        self.assertEqual(self.cluster.order(1, is_new=True), {1: ErrorCode.NONE})
        self.assertIn(KEY, self.cluster.nodes[1].broker.partitions.led)
