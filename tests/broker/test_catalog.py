"""The catalog: what it makes of its operations, in memory, in the tree and for its listeners."""

from __future__ import annotations

import json
import uuid
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping, Sequence
from math import inf
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.broker.catalog import Catalog
from pylogbroker.broker.slices import Slices
from pylogbroker.broker.topic_store import TopicStore
from pylogbroker.config import BrokerConfig
from pylogbroker.coordination.embedded import EmbeddedTree
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import Create, NoRoom, SetData, Unavailable
from pylogbroker.metadata.topic_names import PartitionState, Topic
from tests.broker.log_lines import logged_lines
from tests.broker.trees import now, opened_tree

BROKERS = (1, 2, 3)


class Listener:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def on_topic_created(self, topic: Topic) -> None:
        self.told.append(("created", topic))

    def on_topic_deleted(self, topic: Topic) -> None:
        self.told.append(("deleted", topic))

    def on_partitions_added(self, topic: Topic, partitions: Sequence[int]) -> None:
        self.told.append(("added", topic, list(partitions)))

    def on_config_changed(self, topic: Topic) -> None:
        self.told.append(("configured", topic))


class CatalogTests(SynchronousTestCase):
    """One catalog over an embedded tree."""

    def setUp(self) -> None:
        self.tree: EmbeddedTree = self.enterContext(opened_tree(self.enterContext(TemporaryDirectory())))
        self.config = BrokerConfig({"num.partitions": "3", "default.replication.factor": "2"})
        self.catalog = self.reopened()
        self.listener = Listener()
        self.catalog.subscribe(self.listener)

    def reopened(self) -> Catalog:
        """Another catalog over the same tree, as after a restart."""
        catalog = Catalog(TopicStore(self.tree), self.config, lambda: BROKERS)
        now(catalog.open(Slices(Clock(), inf)))
        return catalog

    def node(self, path: str) -> Any:
        """A node's JSON."""
        return json.loads(now(self.tree.get(path)).data)

    def refused(self, code: ErrorCode, operation: Callable[..., Any], *arguments: Any, **named: Any) -> str:
        """The operation must be refused with that code and leave no trace; what it says."""
        before = dict(self.catalog.topics), self.reopened().topics
        with self.assertRaises(KafkaError) as caught:
            made = operation(*arguments, **named)
            if not isinstance(made, Topic):
                now(made)
        self.assertIs(caught.exception.code, code)
        self.assertEqual((self.catalog.topics, self.reopened().topics), before)
        return caught.exception.detail


class CreateTests(CatalogTests):
    def test_defaults(self) -> None:
        topic = now(self.catalog.create("t"))
        self.assertEqual(topic.partitions[0], PartitionState(1, (1, 2), (1, 2), 0))
        self.assertEqual(sorted(topic.partitions), [0, 1, 2])
        self.assertEqual(topic.overrides, {})
        self.assertFalse(topic.internal)
        self.assertIs(self.catalog.topics["t"], topic)
        self.assertIs(self.catalog.by_id(topic.id), topic)
        self.assertEqual(self.listener.told, [("created", topic)])

    def test_kafkas_layout_in_the_tree(self) -> None:
        topic = now(self.catalog.create("t", 2, 1, overrides={"retention.ms": "5"}))
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
        now(self.catalog.create("a", 2, overrides={"cleanup.policy": "compact"}))
        now(self.catalog.create("b", assignment={0: [3, 1], 1: [2, 3]}))
        again = self.reopened()
        self.assertEqual(again.topics, self.catalog.topics)
        for topic in again.topics.values():
            self.assertEqual(again.by_id(topic.id), topic)
            self.assertEqual(list(topic.partitions), [0, 1])

    def test_partition_states_are_those_of_the_tree(self) -> None:
        now(self.catalog.create("t", 1, 3))
        state = b'{"controller_epoch":4,"leader":2,"version":1,"leader_epoch":7,"isr":[2,3]}'
        now(self.tree.commit([SetData("/brokers/topics/t/partitions/0/state", state)]))
        self.assertEqual(self.reopened().topics["t"].partitions, {0: PartitionState(2, (1, 2, 3), (2, 3), 7)})

    def test_internal_topics(self) -> None:
        self.assertTrue(now(self.catalog.create("__consumer_offsets")).internal)
        self.assertTrue(now(self.catalog.create("__transaction_state")).internal)
        self.assertFalse(now(self.catalog.create("__others")).internal)

    def test_planning_changes_nothing(self) -> None:
        planned = self.catalog.plan_topic("t", 5, 3, overrides={"retention.ms": "7"})
        self.assertEqual((len(planned.partitions), planned.replication_factor), (5, 3))
        self.assertEqual(planned.overrides, {"retention.ms": "7"})
        self.assertEqual((self.catalog.topics, self.reopened().topics, self.listener.told), ({}, {}, []))

    def test_names(self) -> None:
        refused = ErrorCode.INVALID_TOPIC_EXCEPTION
        for name in ("", "a b", "..", "x" * 250):
            self.refused(refused, self.catalog.create, name)

    def test_existing_and_colliding_names(self) -> None:
        now(self.catalog.create("a.b"))
        self.refused(ErrorCode.TOPIC_ALREADY_EXISTS, self.catalog.create, "a.b")
        self.assertIn("a.b", self.refused(ErrorCode.INVALID_TOPIC_EXCEPTION, self.catalog.create, "a_b"))
        now(self.catalog.delete("a.b"))
        now(self.catalog.create("a_b"))

    def test_sizes(self) -> None:
        for count in (0, -2):
            self.refused(ErrorCode.INVALID_PARTITIONS, self.catalog.create, "t", count)
        for width in (0, -2, 4):
            self.refused(ErrorCode.INVALID_REPLICATION_FACTOR, self.catalog.create, "t", 1, width)

    def test_assignments(self) -> None:
        given = {0: [1, 2]}
        self.refused(ErrorCode.INVALID_REQUEST, self.catalog.create, "t", 1, -1, given)
        self.refused(ErrorCode.INVALID_REQUEST, self.catalog.create, "t", -1, 2, given)
        self.refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, self.catalog.create, "t", assignment={0: [9]})
        topic = now(self.catalog.create("t", assignment={1: [2, 3], 0: [3, 1]}))
        self.assertEqual({n: state.replicas for n, state in topic.partitions.items()}, {0: (3, 1), 1: (2, 3)})
        self.assertEqual(topic.partitions[0].leader, 3)

    def test_settings(self) -> None:
        for bad in ({"retention.ms": "long"}, {"no.such": "1"}, {"cleanup.policy": "shred"}):
            self.refused(ErrorCode.INVALID_CONFIG, self.catalog.create, "t", overrides=bad)

    def test_ids_differ_and_never_look_like_options(self) -> None:
        ids = {now(self.catalog.create(f"t{n}", 1, 1)).id for n in range(200)}
        self.assertEqual(len(ids), 200)
        texts = [self.node(f"/brokers/topics/t{n}")["topic_id"] for n in range(200)]
        self.assertFalse([text for text in texts if text.startswith("-") or len(text) != 22])


class AddPartitionsTests(CatalogTests):
    def test_round_robin(self) -> None:
        first = now(self.catalog.create("t", 2, 1))
        topic = now(self.catalog.add_partitions("t", 4))
        self.assertEqual([state.leader for state in topic.partitions.values()], [1, 2, 3, 1])
        self.assertEqual(topic.id, first.id)
        self.assertEqual(self.listener.told[1:], [("added", topic, [2, 3])])
        self.assertEqual(self.reopened().topics, {"t": topic})
        self.assertIs(self.catalog.by_id(first.id), topic)

    def test_assigned(self) -> None:
        now(self.catalog.create("t", 1, 2))
        topic = now(self.catalog.add_partitions("t", 2, [[3, 2]]))
        self.assertEqual(topic.partitions[1].replicas, (3, 2))

    def test_errors(self) -> None:
        now(self.catalog.create("t", 2, 2))
        add = self.catalog.add_partitions
        self.refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, add, "u", 3)
        for count in (2, 1, 0, -1):
            self.refused(ErrorCode.INVALID_PARTITIONS, add, "t", count)
        for assignments in ([], [[1, 2], [2, 3]], [[1]], [[1, 1]], [[1, 9]]):
            self.refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, add, "t", 3, assignments)
            self.refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, self.catalog.plan_partitions, "t", 3, assignments)

    def test_planning_changes_nothing(self) -> None:
        now(self.catalog.create("t", 1, 1))
        self.assertEqual(len(self.catalog.plan_partitions("t", 3).partitions), 3)
        self.assertEqual(len(self.catalog.topics["t"].partitions), 1)


class ConfigTests(CatalogTests):
    def test_alter(self) -> None:
        now(self.catalog.create("t", 1, 1, overrides={"retention.ms": "1"}))
        seen: list[Mapping[str, str]] = []

        def change(own: Mapping[str, str]) -> Mapping[str, str]:
            seen.append(dict(own))
            return {"segment.bytes": "1048576"}

        topic = now(self.catalog.alter_configs("t", change))
        self.assertEqual(seen, [{"retention.ms": "1"}])
        self.assertEqual(topic.overrides, {"segment.bytes": "1048576"})
        self.assertEqual(self.listener.told[1:], [("configured", topic)])
        self.assertEqual(self.reopened().topics["t"].overrides, topic.overrides)

    def test_errors(self) -> None:
        now(self.catalog.create("t", 1, 1))
        alter, plan = self.catalog.alter_configs, self.catalog.plan_configs
        self.refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, alter, "u", lambda own: {})
        for operation in (alter, plan):
            self.refused(ErrorCode.INVALID_CONFIG, operation, "t", lambda own: {"retention.ms": "x"})

    def test_stored_settings_that_are_no_longer_taken_are_left_out(self) -> None:
        now(self.catalog.create("t", 1, 1))
        stored = b'{"version":1,"config":{"gone.setting":"1","retention.ms":"9","segment.bytes":"tiny"}}'
        now(self.tree.commit([SetData("/config/topics/t", stored)]))
        self.assertEqual(self.reopened().topics["t"].overrides, {"retention.ms": "9"})


class DeleteTests(CatalogTests):
    def test_nothing_is_left(self) -> None:
        topic = now(self.catalog.create("t"))
        now(self.catalog.delete("t"))
        self.assertEqual(self.catalog.topics, {})
        self.assertIsNone(self.catalog.by_id(topic.id))
        self.assertEqual(self.listener.told[1:], [("deleted", topic)])
        self.assertEqual(self.reopened().topics, {})
        for parent in ("/brokers/topics", "/config/topics", "/admin/delete_topics"):
            self.assertEqual(now(self.tree.children(parent)), [])
        self.assertNotEqual(now(self.catalog.create("t")).id, topic.id)

    def test_unknown(self) -> None:
        self.refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, self.catalog.delete, "t")

    def test_an_interrupted_deletion_is_finished_at_the_next_start(self) -> None:
        topic = now(self.catalog.create("t"))
        kept = now(self.catalog.create("u"))
        now(self.tree.commit([Create("/admin/delete_topics/t")]))
        again, listener = self.reopened(), Listener()
        again.subscribe(listener)
        self.assertEqual(again.topics, {"u": kept})
        now(again.finish_deletions())
        self.assertEqual(listener.told, [("deleted", topic)])
        self.assertEqual(now(self.tree.children("/brokers/topics")), ["u"])
        self.assertEqual(now(self.tree.children("/admin/delete_topics")), [])


class UnwritableTests(CatalogTests):
    """The tree's disk is full: whoever asks is told, and nothing is stuck afterwards."""

    def unwritable(self, after: int = 0, error: Exception | None = None) -> Any:
        """The tree, for the time of a `with` block, takes only so many more transactions."""
        real, left = EmbeddedTree._write, iter(range(after))

        def write(tree: EmbeddedTree, operations: Any) -> Any:
            if next(left, None) is None:
                raise error or Unavailable("disk failed")
            return real(tree, operations)

        return patch.object(EmbeddedTree, "_write", write)

    def test_changes_are_rejected(self) -> None:
        now(self.catalog.create("t", 1, 1))
        with self.unwritable():
            for change in (
                self.catalog.create("u"),
                self.catalog.add_partitions("t", 2),
                self.catalog.alter_configs("t", lambda own: {"retention.ms": "1"}),
                self.catalog.delete("t"),
            ):
                with self.assertRaises(KafkaError) as caught:
                    now(change)
                self.assertIs(caught.exception.code, ErrorCode.UNKNOWN_SERVER_ERROR)
        self.assertEqual(len(self.listener.told), 1)
        now(self.catalog.create("u"))

    def test_a_full_disk_has_a_code_of_its_own_and_is_reported_when_it_is_due(self) -> None:
        due, asked = iter([True, False, False, True]), []

        def is_due(about: str) -> bool:
            asked.append(about)
            return next(due)

        catalog = Catalog(TopicStore(self.tree), self.config, lambda: BROKERS, is_due)
        with self.unwritable(error=NoRoom("disk full")), logged_lines() as lines:
            for number in range(4):
                with self.assertRaises(KafkaError) as caught:
                    now(catalog.create(f"t{number}"))
                self.assertIs(caught.exception.code, ErrorCode.KAFKA_STORAGE_ERROR)
        self.assertEqual(lines, ["a change of topics failed: NoRoom: disk full"] * 2)
        self.assertEqual(len(set(asked)), 1)

    def test_a_deletion_that_was_marked_is_finished_before_the_next_change(self) -> None:
        now(self.catalog.create("t", 1, 1))
        with self.unwritable(after=1), self.assertRaises(KafkaError):
            now(self.catalog.delete("t"))
        self.assertEqual(self.catalog.topics, {})
        topic = now(self.catalog.create("t", 1, 1))
        self.assertEqual(self.listener.told[-1], ("created", topic))
        self.assertEqual(self.reopened().topics, {"t": topic})


class OrderTests(CatalogTests):
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

        self.catalog._store = TopicStore(_Slow(self.tree, slow_commit))  # type: ignore[arg-type]
        first = Deferred.fromCoroutine(self.catalog.create("t", 1, 1))
        second = Deferred.fromCoroutine(self.catalog.create("t", 2, 1))
        self.assertEqual((len(entered), self.catalog.topics), (1, {}))
        gate.release()
        self.assertEqual(len(self.successResultOf(first).partitions), 1)
        self.assertIs(self.failureResultOf(second, KafkaError).value.code, ErrorCode.TOPIC_ALREADY_EXISTS)
        self.assertEqual(len(entered), 1)

    def test_a_listener_that_fails_is_logged_and_hinders_nobody(self) -> None:
        class Broken(Listener):
            def on_topic_created(self, topic: Topic) -> None:
                raise ZeroDivisionError

        late = Listener()
        self.catalog.subscribe(Broken())
        self.catalog.subscribe(late)
        topic = now(self.catalog.create("t"))
        self.assertEqual(late.told, [("created", topic)])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)


class _Slow:
    """A tree whose transactions take their time."""

    def __init__(self, tree: EmbeddedTree, commit: Callable[..., Any]) -> None:
        self._tree = tree
        self.commit = commit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tree, name)
