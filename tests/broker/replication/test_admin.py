"""Changes that clients ask of a member: what it writes to the tree, and how long it waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import attrs
from twisted.internet.defer import Deferred, fail
from twisted.logger import LogEvent, LogLevel, formatEvent, globalLogPublisher

from pylogbroker.broker.membership.admin import ClusterAdmin
from pylogbroker.broker.membership.config_watch import decode_notification
from pylogbroker.broker.replication.controller_channel import ControllerChannel
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import Create, SessionExpired, SetData, Unavailable
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.delta import NewTopic
from pylogbroker.metadata.image import broker_resource, topic_resource
from pylogbroker.metadata.inter_broker_protocol import InterBrokerProtocol
from pylogbroker.metadata.zk_image import encode_topic_image
from pylogbroker.rpc.errors import NotConnected
from pylogbroker.tree.embedded import EmbeddedTree
from pylogbroker.wire.messages.allocate_producer_ids import AllocateProducerIdsResponse
from tests.broker.membership.harness import begin, error_of
from tests.broker.replication.cluster import TOPIC, TOPIC_ID, ClusterTests
from tests.broker.trees import now

CONFIG = zk_paths.topic_config(TOPIC)


class AdminTests(ClusterTests):
    brokers = (1,)

    @property
    def admin(self) -> ClusterAdmin:
        admin: Any = self.cluster.nodes[1].broker.controller
        return admin

    @property
    def tree(self) -> Any:
        return self.cluster.nodes[1].tree

    def stored(self, path: str = CONFIG) -> dict[str, str]:
        return zk_schema.decode_config(now(self.tree.get(path)).data)

    def alter(self, **settings: str) -> None:
        changed = {name.replace("_", "."): text for name, text in settings.items()}
        now(self.admin.alter_config(topic_resource(TOPIC), lambda own: {**own, **changed}))

    def in_force(self) -> Mapping[str, str]:
        return self.cluster.nodes[1].broker.metadata.topic_settings(TOPIC)


class SettingsTests(AdminTests):
    def test_settings_are_stored_announced_and_in_force(self) -> None:
        self.create()
        self.alter(retention_ms="5")
        self.alter(flush_ms="6")
        self.assertEqual(self.stored(), {"retention.ms": "5", "flush.ms": "6"})
        self.assertEqual(self.in_force(), self.stored())
        names = now(self.tree.children(zk_paths.CONFIG_CHANGES))
        announced = [
            decode_notification(now(self.tree.get(f"{zk_paths.CONFIG_CHANGES}/{name}")).data) for name in names
        ]
        self.assertEqual(announced, [topic_resource(TOPIC)] * 2)

    def test_settings_are_announced_also_if_zookeeper_is_lost(self) -> None:
        self.create()
        commit = EmbeddedTree.commit

        async def lost(tree: EmbeddedTree, operations: Any) -> Any:
            await commit(tree, operations)
            raise Unavailable(operations[0].path)

        with patch.object(EmbeddedTree, "commit", lost):
            error = error_of(self.admin.alter_config(topic_resource(TOPIC), lambda own: {"retention.ms": "5"}))
        self.assertIsInstance(error, KafkaError)
        self.assertEqual(self.stored(), {"retention.ms": "5"})
        self.assertEqual(len(now(self.tree.children(zk_paths.CONFIG_CHANGES))), 1)

    def test_settings_of_a_broker(self) -> None:
        resource = broker_resource(None)
        now(self.admin.alter_config(resource, lambda own: {**own, "log.cleaner.threads": "2"}))
        self.assertEqual(self.stored(zk_paths.config(*resource)), {"log.cleaner.threads": "2"})
        self.assertEqual(self.cluster.nodes[1].broker.config.integer("log.cleaner.threads"), 2)

    def test_concurrent_config_changes_of_another_broker_are_kept(self) -> None:
        """Another broker changes settings after this one has read them, and again before it reads its own change."""
        self.create()
        now(self.tree.commit([Create(CONFIG, zk_schema.encode_config({}))]))
        commit, others = EmbeddedTree.commit, [{"flush.ms": "7"}, {"retention.ms": "8"}]

        async def change(tree: EmbeddedTree) -> None:
            await commit(tree, [SetData(CONFIG, zk_schema.encode_config(others.pop(0)))])

        async def interrupted(tree: EmbeddedTree, operations: Any) -> Any:
            if len(others) == 2:
                await change(tree)
            results = await commit(tree, operations)
            if others:
                await change(tree)
            return results

        with patch.object(EmbeddedTree, "commit", interrupted):
            self.alter(retention_ms="5")
        self.assertEqual(others, [])
        self.assertEqual(self.in_force(), {"retention.ms": "8"})

    def test_settings_that_only_other_releases_accept_are_kept(self) -> None:
        foreign = {"retention.ms": "soon", "setting.of.tomorrow": "on"}
        now(self.tree.commit([Create(CONFIG, zk_schema.encode_config(foreign))]))
        self.create()
        self.alter(flush_ms="6")
        self.assertEqual(self.stored(), {**foreign, "flush.ms": "6"})
        self.assertEqual(self.in_force(), {"flush.ms": "6"})
        self.alter(retention_ms="5")
        self.assertEqual(self.in_force(), {"flush.ms": "6", "retention.ms": "5"})
        change = self.admin.alter_config(topic_resource(TOPIC), lambda own: {**own, "retention.ms": "later"})
        error = error_of(change)
        self.assertEqual((type(error), getattr(error, "code", None)), (KafkaError, ErrorCode.INVALID_CONFIG))
        now(self.admin.alter_config(topic_resource(TOPIC), lambda own: {}))
        self.assertEqual(self.stored(), {})


class TopicTests(AdminTests):
    def test_a_topic_is_awaited_for_a_time(self) -> None:
        outcome: list[Any] = []
        begin(self.admin.create_topic(NewTopic("new", 1, 1))).addBoth(outcome.append)
        self.cluster.clock.advance(29)
        self.assertEqual(outcome, [])
        self.cluster.clock.advance(1)
        self.assertEqual(outcome[0].value.code, ErrorCode.REQUEST_TIMED_OUT)
        self.assertIn("new", now(self.tree.children(zk_paths.TOPICS)))

    def test_a_stopped_broker_waits_for_nothing(self) -> None:
        outcome: list[Any] = []
        begin(self.admin.create_topic(NewTopic("new", 1, 1))).addBoth(outcome.append)
        before = len(self.cluster.clock.getDelayedCalls())
        self.admin.waits.close()
        self.assertEqual(outcome[0].value.code, ErrorCode.REQUEST_TIMED_OUT)
        self.assertEqual(len(self.cluster.clock.getDelayedCalls()), before - 1)
        error = error_of(self.admin.create_topic(NewTopic("other", 1, 1)))
        self.assertEqual(getattr(error, "code", None), ErrorCode.REQUEST_TIMED_OUT)
        self.assertEqual(len(self.cluster.clock.getDelayedCalls()), before - 1)

    def test_an_unreachable_zookeeper_is_no_error_of_the_broker(self) -> None:
        """Clients repeat what they asked for."""
        events: list[LogEvent] = []
        globalLogPublisher.addObserver(events.append)
        self.addCleanup(globalLogPublisher.removeObserver, events.append)
        with patch.object(type(self.tree), "commit", lambda tree, operations: fail(SessionExpired("/config"))):
            error = error_of(self.admin.create_topic(NewTopic("new", 1, 1)))
        self.assertEqual(getattr(error, "code", None), ErrorCode.UNKNOWN_SERVER_ERROR)
        [event] = events
        self.assertEqual(event["log_level"], LogLevel.warn)
        self.assertEqual(formatEvent(event), "a change of topics or settings failed: SessionExpired: /config")

    def test_a_topic_that_exists(self) -> None:
        waiting = begin(self.admin.create_topic(NewTopic("new", 1, 1)))
        error = error_of(self.admin.create_topic(NewTopic("new", 1, 1)))
        self.assertEqual(getattr(error, "code", None), ErrorCode.TOPIC_ALREADY_EXISTS)
        self.admin.waits.close()
        self.failureResultOf(waiting, KafkaError)

    def test_settings_of_a_topic_that_another_broker_creates_are_kept(self) -> None:
        """This broker has not heard of the topic yet; once, the topic comes while this broker creates it, too."""
        commit, settings = EmbeddedTree.commit, {"retention.ms": "5"}
        for name, comes_late in (("early", False), ("late", True)):
            topic = self.admin.plans.plan_topic(NewTopic(name, 1, 1, settings=settings)).topic
            others = [
                Create(zk_paths.topic_config(name), zk_schema.encode_config(settings)),
                Create(zk_paths.topic(name), encode_topic_image(topic)),
            ]
            if not comes_late:
                now(self.tree.commit([others.pop(0), others.pop(0)]))

            async def behind(tree: EmbeddedTree, operations: Any, others: Any = others) -> Any:
                if others:
                    await commit(tree, [others.pop(0), others.pop(0)])
                return await commit(tree, operations)

            with patch.object(EmbeddedTree, "commit", behind):
                error = error_of(self.admin.create_topic(NewTopic(name, 1, 1)))
            self.assertEqual(getattr(error, "code", None), ErrorCode.TOPIC_ALREADY_EXISTS)
            self.assertEqual(self.stored(zk_paths.topic_config(name)), settings)

    def test_a_topic_whose_deletion_has_not_ended_exists(self) -> None:
        """Its node may be gone; a controller that finds the mark would delete a new topic."""
        now(self.tree.commit([Create(zk_paths.deleted_topic("new"))]))
        error = error_of(self.admin.create_topic(NewTopic("new", 1, 1)))
        self.assertEqual(getattr(error, "code", None), ErrorCode.TOPIC_ALREADY_EXISTS)
        self.assertNotIn("new", now(self.tree.children(zk_paths.TOPICS)))

    def test_settings_that_an_interrupted_creation_has_left_are_replaced(self) -> None:
        path = zk_paths.topic_config("new")
        now(self.tree.commit([Create(path, zk_schema.encode_config({"retention.ms": "5"}))]))
        waiting = begin(self.admin.create_topic(NewTopic("new", 1, 1, settings={"flush.ms": "6"})))
        self.assertEqual(self.stored(path), {"flush.ms": "6"})
        self.admin.waits.close()
        self.failureResultOf(waiting, KafkaError)

    def test_a_topic_of_format_07_has_one_replica(self) -> None:
        self.cluster.announce(1, 2)
        settings = {"message.format.version": "0.7"}
        self.assertEqual(
            self.admin.plans.plan_topic(NewTopic("old", 1, 1, settings=settings)).topic.replication_factor, 1
        )
        for wanted in (NewTopic("old", 1, 2, settings=settings), NewTopic("old", -1, -1, {0: [2, 1]}, settings)):
            with self.assertRaises(KafkaError) as raised:
                self.admin.plans.plan_topic(wanted)
            self.assertEqual(raised.exception.code, ErrorCode.INVALID_REPLICATION_FACTOR)
            self.assertIn("ask for one, or for another message.format.version", raised.exception.detail)

    def enlarge(self, broker: int) -> Any:
        """Add partition 1; without a controller, that does not end."""
        return self.admin.create_partitions(TOPIC, 2, [[broker]])

    def store(self, **changes: Any) -> None:
        node = zk_schema.TopicNode(TOPIC_ID, {0: (1,)})
        now(self.tree.commit([Create(zk_paths.topic(TOPIC), zk_schema.encode_topic(attrs.evolve(node, **changes)))]))

    def assigned(self) -> Mapping[int, tuple[int, ...]]:
        return zk_schema.decode_topic(now(self.tree.get(zk_paths.topic(TOPIC))).data).replicas

    def test_partitions_that_another_request_has_added_keep_their_replicas(self) -> None:
        """Until the controller has created them, this broker does not know of them."""
        self.create()
        self.cluster.announce(1, 2)
        self.store()
        waiting = begin(self.enlarge(1))
        error = error_of(self.enlarge(2))
        self.assertEqual(getattr(error, "code", None), ErrorCode.INVALID_PARTITIONS)
        self.assertEqual(self.assigned(), {0: (1,), 1: (1,)})
        self.admin.waits.close()
        self.failureResultOf(waiting, KafkaError)

    def test_partitions_are_added_to_what_another_broker_writes_meanwhile(self) -> None:
        self.create()
        self.store()
        commit, path = EmbeddedTree.commit, zk_paths.topic(TOPIC)
        others = [SetData(path, zk_schema.encode_topic(zk_schema.TopicNode(TOPIC_ID, {0: (2,)})))]

        async def behind(tree: EmbeddedTree, operations: Any) -> Any:
            if others:
                await commit(tree, [others.pop()])
            return await commit(tree, operations)

        with patch.object(EmbeddedTree, "commit", behind):
            waiting = begin(self.enlarge(1))
        self.assertEqual(self.assigned(), {0: (2,), 1: (1,)})
        self.admin.waits.close()
        self.failureResultOf(waiting, KafkaError)

    def test_no_partitions_are_added_during_a_reassignment(self) -> None:
        self.create()
        self.store(replicas={0: (2, 1)}, adding={0: (2,)}, removing={0: (1,)})
        error = error_of(self.enlarge(1))
        self.assertEqual(getattr(error, "code", None), ErrorCode.REASSIGNMENT_IN_PROGRESS)

    def test_no_partitions_are_added_to_a_topic_that_is_gone(self) -> None:
        self.create()
        error = error_of(self.enlarge(1))
        self.assertEqual(getattr(error, "code", None), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def test_a_deletion_is_marked_and_awaited(self) -> None:
        self.create()
        deletion: Deferred[Any] = begin(self.admin.delete_topic(TOPIC))
        self.assertIsNotNone(now(self.tree.exists(zk_paths.deleted_topic(TOPIC))))
        self.assertNoResult(deletion)
        self.admin.waits.close()
        self.failureResultOf(deletion, KafkaError)

    def test_only_the_controller_creates_topics_for_clients(self) -> None:
        with self.assertRaises(KafkaError) as raised:
            self.admin.check_is_controller()
        self.assertEqual(raised.exception.code, ErrorCode.NOT_CONTROLLER)


class ProducerIdTests(AdminTests):
    def allocate(self, answer: Any) -> Any:
        async def request(channel: ControllerChannel, make: Any, versions: Any) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

        with patch.object(ControllerChannel, "request", request):
            return now(self.admin.allocate_producer_ids())

    def test_the_controller_gives_a_block(self) -> None:
        block = self.allocate(AllocateProducerIdsResponse(producer_id_start=3000, producer_id_len=1000))
        self.assertEqual((block.first, block.last), (3000, 3999))

    def test_errors(self) -> None:
        for answer, code in (
            (NotConnected("down"), ErrorCode.REQUEST_TIMED_OUT),
            (AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER), ErrorCode.NOT_CONTROLLER),
        ):
            with self.assertRaises(KafkaError) as raised:
                self.allocate(answer)
            self.assertEqual(raised.exception.code, code)

    def test_an_old_protocol_takes_blocks_from_the_tree(self) -> None:
        """Another broker may take one at the same time."""
        self.admin._protocol = InterBrokerProtocol.parse("2.7")
        blocks = [now(self.admin.allocate_producer_ids()) for _ in range(2)]
        self.assertEqual([(each.first, each.last) for each in blocks], [(0, 999), (1000, 1999)])
