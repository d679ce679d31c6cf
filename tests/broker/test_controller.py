"""The controller: what its operations make of the image, the tree and the deltas."""

from __future__ import annotations

import json
import uuid
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from math import inf
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.broker.metadata.cluster_metadata import ClusterMetadata
from pylogbroker.broker.runtime.slices import Slices
from pylogbroker.broker.sole.controller import LocalController, PlannedTopic
from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import Create, NoRoom, SetData, Unavailable
from pylogbroker.metadata import registration
from pylogbroker.metadata.delta import ConfigChanged, Delta, NewTopic, PartitionsChanged, TopicCreated, TopicDeleted
from pylogbroker.metadata.image import (
    ClusterImage,
    PartitionState,
    TopicImage,
    broker_resource,
    topic_resource,
)
from pylogbroker.metadata.zk_schema import BrokerNode
from pylogbroker.tree.embedded import EmbeddedTree
from pylogbroker.tree.tree_file import TreeFile
from tests.broker.log_lines import logged_lines
from tests.broker.trees import now, opened_tree

BROKERS = (1, 2, 3)


class Follower:
    """Keeps the deltas that it gets."""

    def __init__(self) -> None:
        self.deltas: list[Delta] = []

    def on_delta(self, delta: Delta, before: ClusterImage, after: ClusterImage) -> None:
        self.deltas.append(delta)


def created(topic: TopicImage, settings: Mapping[str, str] | None = None) -> Delta:
    return Delta.of(ConfigChanged(topic_resource(topic.name), settings or {}), TopicCreated(topic))


class ControllerTests(SynchronousTestCase):
    """One controller over an embedded tree with three registered brokers."""

    def setUp(self) -> None:
        self.tree: EmbeddedTree = self.enterContext(opened_tree(self.enterContext(TemporaryDirectory())))
        for broker in BROKERS:
            now(registration.register(self.tree, broker, BrokerNode((), {}), 0))
        self.config = BrokerConfig({"num.partitions": "3", "default.replication.factor": "2"})
        self.metadata, self.controller = self.reopened()
        self.follower = Follower()
        self.metadata.follow(self.follower)

    def reopened(self, **named: Any) -> tuple[ClusterMetadata, LocalController]:
        """Another controller over the same tree, as after a restart."""
        metadata = ClusterMetadata()
        controller = LocalController(self.tree, self.config, 1, metadata, **named)
        now(controller.open(Slices(Clock(), inf)))
        return metadata, controller

    def stored(self) -> ClusterImage:
        """The image in the tree."""
        return self.reopened()[0].image

    def node(self, path: str) -> Any:
        """A node's JSON."""
        return json.loads(now(self.tree.get(path)).data)

    def rejected(self, code: ErrorCode, operation: Callable[..., Any], *arguments: Any, **named: Any) -> str:
        """The operation must fail with that code and leave no trace; its message."""
        before = self.metadata.image
        with self.assertRaises(KafkaError) as caught:
            made = operation(*arguments, **named)
            if not isinstance(made, PlannedTopic | PartitionsChanged | dict):
                now(made)
        self.assertIs(caught.exception.code, code)
        self.assertIs(self.metadata.image, before)
        self.assertEqual(self.stored(), before)
        return caught.exception.detail


class CreateTests(ControllerTests):
    def test_defaults(self) -> None:
        topic = now(self.controller.create_topic(NewTopic("t")))
        self.assertEqual(topic.partitions[0], PartitionState(1, (1, 2), (1, 2), 0))
        self.assertEqual(sorted(topic.partitions), [0, 1, 2])
        self.assertEqual(self.metadata.topic_settings("t"), {})
        self.assertFalse(topic.internal)
        self.assertIs(self.metadata.topics["t"], topic)
        self.assertIs(self.metadata.image.topic_by_id(topic.id), topic)
        self.assertEqual(self.follower.deltas, [created(topic)])

    def test_kafkas_layout_in_the_tree(self) -> None:
        topic = now(self.controller.create_topic(NewTopic("t", 2, 1, settings={"retention.ms": "5"})))
        node = self.node("/brokers/topics/t")
        topic_id = node.pop("topic_id")
        self.assertEqual(uuid.UUID(bytes=urlsafe_b64decode(topic_id + "==")), topic.id)
        self.assertEqual(
            node,
            {"version": 3, "partitions": {"0": [1], "1": [2]}, "adding_replicas": {}, "removing_replicas": {}},
        )
        self.assertEqual(self.node("/config/topics/t"), {"version": 1, "config": {"retention.ms": "5"}})
        state = self.node("/brokers/topics/t/partitions/1/state")
        self.assertEqual((state["leader"], state["isr"], state["leader_epoch"]), (2, [2], 0))

    def test_a_restart_finds_the_same_topics(self) -> None:
        now(self.controller.create_topic(NewTopic("a", 2, settings={"cleanup.policy": "compact"})))
        now(self.controller.create_topic(NewTopic("b", assignment={0: [3, 1], 1: [2, 3]})))
        again = self.stored()
        self.assertEqual(again, self.metadata.image)
        for topic in again.topics.values():
            self.assertIs(again.topic_by_id(topic.id), topic)
            self.assertEqual(list(topic.partitions), [0, 1])

    def test_partition_states_are_read_from_the_tree(self) -> None:
        now(self.controller.create_topic(NewTopic("t", 1, 3)))
        state = b'{"controller_epoch":4,"leader":2,"version":1,"leader_epoch":7,"isr":[2,3]}'
        now(self.tree.commit([SetData("/brokers/topics/t/partitions/0/state", state)]))
        self.assertEqual(
            dict(self.stored().topics["t"].partitions),
            {0: PartitionState(2, (1, 2, 3), (2, 3), 7, 1, controller_epoch=4)},
        )

    def test_internal_topics(self) -> None:
        self.assertTrue(now(self.controller.create_topic(NewTopic("__consumer_offsets"))).internal)
        self.assertTrue(now(self.controller.create_topic(NewTopic("__transaction_state"))).internal)
        self.assertFalse(now(self.controller.create_topic(NewTopic("__others"))).internal)

    def test_planning_changes_nothing(self) -> None:
        planned = self.controller.plans.plan_topic(NewTopic("t", 5, 3, settings={"retention.ms": "7"}))
        self.assertEqual((len(planned.topic.partitions), planned.topic.replication_factor), (5, 3))
        self.assertEqual(planned.settings, {"retention.ms": "7"})
        self.assertEqual((self.metadata.topics, self.stored().topics, self.follower.deltas), ({}, {}, []))

    def test_names(self) -> None:
        rejected = ErrorCode.INVALID_TOPIC_EXCEPTION
        for name in ("", "a b", "..", "x" * 250):
            self.rejected(rejected, self.controller.create_topic, NewTopic(name))

    def test_existing_and_colliding_names(self) -> None:
        now(self.controller.create_topic(NewTopic("a.b")))
        self.rejected(ErrorCode.TOPIC_ALREADY_EXISTS, self.controller.create_topic, NewTopic("a.b"))
        self.assertIn(
            "a.b", self.rejected(ErrorCode.INVALID_TOPIC_EXCEPTION, self.controller.create_topic, NewTopic("a_b"))
        )
        now(self.controller.delete_topic("a.b"))
        now(self.controller.create_topic(NewTopic("a_b")))

    def test_sizes(self) -> None:
        for count in (0, -2):
            self.rejected(ErrorCode.INVALID_PARTITIONS, self.controller.create_topic, NewTopic("t", count))
        for width in (0, -2, 4):
            self.rejected(ErrorCode.INVALID_REPLICATION_FACTOR, self.controller.create_topic, NewTopic("t", 1, width))

    def test_assignments(self) -> None:
        given = {0: [1, 2]}
        self.rejected(ErrorCode.INVALID_REQUEST, self.controller.create_topic, NewTopic("t", 1, -1, given))
        self.rejected(ErrorCode.INVALID_REQUEST, self.controller.create_topic, NewTopic("t", -1, 2, given))
        self.rejected(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, self.controller.create_topic, NewTopic("t", assignment={0: [9]})
        )
        topic = now(self.controller.create_topic(NewTopic("t", assignment={1: [2, 3], 0: [3, 1]})))
        self.assertEqual({n: state.replicas for n, state in topic.partitions.items()}, {0: (3, 1), 1: (2, 3)})
        self.assertEqual(topic.partitions[0].leader, 3)

    def test_settings(self) -> None:
        for bad in ({"retention.ms": "long"}, {"no.such": "1"}, {"cleanup.policy": "shred"}):
            self.rejected(ErrorCode.INVALID_CONFIG, self.controller.create_topic, NewTopic("t", settings=bad))

    def test_ids_differ_and_never_look_like_options(self) -> None:
        ids = {now(self.controller.create_topic(NewTopic(f"t{n}", 1, 1))).id for n in range(200)}
        self.assertEqual(len(ids), 200)
        texts = [self.node(f"/brokers/topics/t{n}")["topic_id"] for n in range(200)]
        self.assertFalse([text for text in texts if text.startswith("-") or len(text) != 22])


class AddPartitionsTests(ControllerTests):
    def test_round_robin(self) -> None:
        first = now(self.controller.create_topic(NewTopic("t", 2, 1)))
        topic = now(self.controller.create_partitions("t", 4))
        self.assertEqual([state.leader for state in topic.partitions.values()], [1, 2, 3, 1])
        self.assertEqual(topic.id, first.id)
        self.assertEqual(
            self.follower.deltas[1:],
            [Delta.of(PartitionsChanged("t", {2: topic.partitions[2], 3: topic.partitions[3]}))],
        )
        self.assertEqual(self.stored().topics, {"t": topic})
        self.assertIs(self.metadata.image.topic_by_id(first.id), topic)

    def test_assigned(self) -> None:
        now(self.controller.create_topic(NewTopic("t", 1, 2)))
        topic = now(self.controller.create_partitions("t", 2, [[3, 2]]))
        self.assertEqual(topic.partitions[1].replicas, (3, 2))

    def test_errors(self) -> None:
        now(self.controller.create_topic(NewTopic("t", 2, 2)))
        add = self.controller.create_partitions
        self.rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, add, "u", 3)
        for count in (2, 1, 0, -1):
            self.rejected(ErrorCode.INVALID_PARTITIONS, add, "t", count)
        for assignments in ([], [[1, 2], [2, 3]], [[1]], [[1, 1]], [[1, 9]]):
            self.rejected(ErrorCode.INVALID_REPLICA_ASSIGNMENT, add, "t", 3, assignments)
            self.rejected(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, self.controller.plans.plan_partitions, "t", 3, assignments
            )

    def test_planning_changes_nothing(self) -> None:
        now(self.controller.create_topic(NewTopic("t", 1, 1)))
        self.assertEqual(sorted(self.controller.plans.plan_partitions("t", 3).partitions), [1, 2])
        self.assertEqual(len(self.metadata.topics["t"].partitions), 1)


class ConfigTests(ControllerTests):
    def test_alter(self) -> None:
        now(self.controller.create_topic(NewTopic("t", 1, 1, settings={"retention.ms": "1"})))
        seen: list[Mapping[str, str]] = []

        def change(own: Mapping[str, str]) -> Mapping[str, str]:
            seen.append(dict(own))
            return {"segment.bytes": "1048576"}

        now(self.controller.alter_config(topic_resource("t"), change))
        self.assertEqual(seen, [{"retention.ms": "1"}])
        self.assertEqual(self.metadata.topic_settings("t"), {"segment.bytes": "1048576"})
        self.assertEqual(
            self.follower.deltas[1:], [Delta.of(ConfigChanged(topic_resource("t"), {"segment.bytes": "1048576"}))]
        )
        self.assertEqual(self.stored(), self.metadata.image)

    def test_errors(self) -> None:
        now(self.controller.create_topic(NewTopic("t", 1, 1)))
        for operation in (self.controller.alter_config, self.controller.plan_config):
            self.rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, operation, topic_resource("u"), lambda own: {})
            self.rejected(ErrorCode.INVALID_CONFIG, operation, topic_resource("t"), lambda own: {"retention.ms": "x"})
            self.rejected(ErrorCode.INVALID_REQUEST, operation, broker_resource(1), lambda own: {"broker.id": "x"})

    def test_settings_of_brokers(self) -> None:
        for resource in (broker_resource(1), broker_resource(None)):
            now(self.controller.alter_config(resource, lambda own: {**own, "log.retention.ms": "5"}))
            self.assertEqual(self.metadata.image.settings(resource), {"log.retention.ms": "5"})
            self.assertEqual(self.follower.deltas[-1], Delta.of(ConfigChanged(resource, {"log.retention.ms": "5"})))
        self.assertEqual(self.stored(), self.metadata.image)

    def test_stored_settings_that_are_no_longer_taken_are_left_out(self) -> None:
        now(self.controller.create_topic(NewTopic("t", 1, 1)))
        stored = b'{"version":1,"config":{"gone.setting":"1","retention.ms":"9","segment.bytes":"tiny"}}'
        now(self.tree.commit([SetData("/config/topics/t", stored)]))
        self.assertEqual(self.stored().settings(topic_resource("t")), {"retention.ms": "9"})


class DeleteTests(ControllerTests):
    def test_a_deleted_topic_leaves_no_nodes(self) -> None:
        topic = now(self.controller.create_topic(NewTopic("t")))
        now(self.controller.delete_topic("t"))
        self.assertEqual(self.metadata.topics, {})
        self.assertIsNone(self.metadata.image.topic_by_id(topic.id))
        self.assertEqual(self.follower.deltas[1:], [Delta.of(TopicDeleted(topic))])
        self.assertEqual(self.stored().topics, {})
        for parent in ("/brokers/topics", "/config/topics", "/admin/delete_topics"):
            self.assertEqual(now(self.tree.children(parent)), [])
        self.assertNotEqual(now(self.controller.create_topic(NewTopic("t"))).id, topic.id)

    def test_unknown(self) -> None:
        self.rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, self.controller.delete_topic, "t")

    def test_an_interrupted_deletion_is_finished_at_the_next_start(self) -> None:
        topic = now(self.controller.create_topic(NewTopic("t")))
        kept = now(self.controller.create_topic(NewTopic("u")))
        now(self.tree.commit([Create("/admin/delete_topics/t")]))
        (again, controller), follower = self.reopened(), Follower()
        again.follow(follower)
        self.assertEqual(again.topics, {"u": kept})
        now(controller.finish_deletions())
        self.assertEqual(follower.deltas, [Delta.of(TopicDeleted(topic))])
        self.assertEqual(now(self.tree.children("/brokers/topics")), ["u"])
        self.assertEqual(now(self.tree.children("/admin/delete_topics")), [])


class UnwritableTests(ControllerTests):
    """The tree's disk is full: changes fail, and nothing is stuck afterwards."""

    def unwritable(self, after: int = 0, error: Exception | None = None) -> Any:
        """The tree, for the time of a `with` block, takes only so many more transactions."""
        real, left = TreeFile.write, iter(range(after))

        def write(file: TreeFile, writes: Any, now_ms: int) -> Any:
            if next(left, None) is None:
                raise error or Unavailable("disk failed")
            return real(file, writes, now_ms)

        return patch.object(TreeFile, "write", write)

    def test_changes_are_rejected(self) -> None:
        now(self.controller.create_topic(NewTopic("t", 1, 1)))
        with self.unwritable():
            for change in (
                self.controller.create_topic(NewTopic("u")),
                self.controller.create_partitions("t", 2),
                self.controller.alter_config(topic_resource("t"), lambda own: {"retention.ms": "1"}),
                self.controller.delete_topic("t"),
            ):
                with self.assertRaises(KafkaError) as caught:
                    now(change)
                self.assertIs(caught.exception.code, ErrorCode.UNKNOWN_SERVER_ERROR)
        self.assertEqual(len(self.follower.deltas), 1)
        now(self.controller.create_topic(NewTopic("u")))

    def test_a_full_disk_has_its_own_error_code_and_rate_limited_log(self) -> None:
        due, asked = iter([True, False, False, True]), []

        def is_due(about: str) -> bool:
            asked.append(about)
            return next(due)

        _, controller = self.reopened(is_due=is_due)
        with self.unwritable(error=NoRoom("disk full")), logged_lines() as lines:
            for number in range(4):
                with self.assertRaises(KafkaError) as caught:
                    now(controller.create_topic(NewTopic(f"t{number}")))
                self.assertIs(caught.exception.code, ErrorCode.KAFKA_STORAGE_ERROR)
        self.assertEqual(lines, ["a change of topics or settings failed: NoRoom: disk full"] * 2)
        self.assertEqual(len(set(asked)), 1)

    def test_a_marked_deletion_completes_before_the_next_change(self) -> None:
        now(self.controller.create_topic(NewTopic("t", 1, 1)))
        with self.unwritable(after=1), self.assertRaises(KafkaError):
            now(self.controller.delete_topic("t"))
        self.assertEqual(self.metadata.topics, {})
        topic = now(self.controller.create_topic(NewTopic("t", 1, 1)))
        self.assertEqual(self.follower.deltas[-1], created(topic))
        self.assertEqual(self.stored().topics, {"t": topic})


class OrderTests(ControllerTests):
    def test_changes_run_one_after_the_other(self) -> None:
        gate, entered = DeferredLock(), []
        now_tree_commit = self.tree.commit
        blocked = gate.acquire()
        self.successResultOf(blocked)

        async def slow_commit(operations: Any) -> list[str]:
            entered.append(len(operations))
            await gate.acquire()
            gate.release()
            return await now_tree_commit(operations)

        self.controller._tree = _Slow(self.tree, slow_commit)  # type: ignore[assignment]
        first = Deferred.fromCoroutine(self.controller.create_topic(NewTopic("t", 1, 1)))
        second = Deferred.fromCoroutine(self.controller.create_topic(NewTopic("t", 2, 1)))
        self.assertEqual((len(entered), self.metadata.topics), (1, {}))
        gate.release()
        self.assertEqual(len(self.successResultOf(first).partitions), 1)
        self.assertIs(self.failureResultOf(second, KafkaError).value.code, ErrorCode.TOPIC_ALREADY_EXISTS)
        self.assertEqual(len(entered), 1)

    def test_a_follower_that_fails_is_logged_and_hinders_nobody(self) -> None:
        class Broken(Follower):
            def on_delta(self, delta: Delta, before: ClusterImage, after: ClusterImage) -> None:
                raise ZeroDivisionError

        late = Follower()
        self.metadata.follow(Broken())
        self.metadata.follow(late)
        topic = now(self.controller.create_topic(NewTopic("t")))
        self.assertEqual(late.deltas, [created(topic)])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)


class _Slow:
    """A tree whose transactions take their time."""

    def __init__(self, tree: EmbeddedTree, commit: Callable[..., Any]) -> None:
        self._tree = tree
        self.commit = commit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tree, name)
