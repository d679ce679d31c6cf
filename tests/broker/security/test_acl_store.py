"""ACLs in the coordination tree: two brokers' stores over one tree, nodes that others write, and failures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import cast

import pytest
from twisted.internet.task import Clock

from pylogbroker.broker.metadata.notifications import NOTIFICATION_MS_MAX
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.broker.security.acl_store import AclStore
from pylogbroker.errors import KafkaError, StartupError
from pylogbroker.interfaces import Create, ITree, SessionEvent, SessionState, SetData
from pylogbroker.security.acls import tree_layout
from pylogbroker.security.acls.bindings import (
    AccessControlEntry,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from tests.broker.log_lines import logged_lines
from tests.broker.membership.harness import BreakableTree
from tests.broker.nodes import Threads
from tests.broker.trees import now, opened_tree

TOPIC = ResourcePattern(AclResourceType.TOPIC, "orders")
PREFIX = ResourcePattern(AclResourceType.GROUP, "app-", PatternType.PREFIXED)
ALICE, BOB = (
    AccessControlEntry(f"User:{name}", "*", AclOperation.READ, AclPermission.ALLOW) for name in ("alice", "bob")
)

ADMIN = "User:admin"


class Cluster:
    """One tree, which may break, and the stores of brokers."""

    def __init__(self, tree: BreakableTree) -> None:
        self.tree = tree
        self.clock = Clock()
        self.changes = 0

    def store(self) -> AclStore:
        threads = Threads()
        runtime = Runtime.on(self.clock, threads, threads)
        runtime.slices.seconds = inf  # the test's clock does not go on by itself
        store = AclStore(cast(ITree, self.tree), runtime, self._changed)
        now(store.open())
        return store

    def _changed(self, _: object) -> None:
        self.changes += 1

    def write(self, resource: ResourcePattern, data: bytes) -> None:
        """Write a node as another broker does, and notify."""
        notification = Create(
            tree_layout.new_change_path(resource.pattern), tree_layout.encode_change(resource), sequence=True
        )
        path = tree_layout.path(resource)
        exists = now(self.tree.exists(path)) is not None
        now(self.tree.commit([SetData(path, data) if exists else Create(path, data), notification]))


@contextmanager
def cluster(directory: Path) -> Iterator[Cluster]:
    with opened_tree(str(directory)) as tree:
        yield Cluster(BreakableTree(tree))


def entries(store: AclStore, resource: ResourcePattern) -> set[AccessControlEntry]:
    return set(store.index.entries(resource))


def test_all_brokers_see_a_change(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        first, second = brokers.store(), brokers.store()
        for resource in (TOPIC, PREFIX):
            now(first.add(resource, frozenset({ALICE}), ADMIN))
            now(second.add(resource, frozenset({BOB, ALICE}), ADMIN))
            for store in (first, second, brokers.store()):
                assert entries(store, resource) == {ALICE, BOB}
            assert tree_layout.decode_entries(now(brokers.tree.get(tree_layout.path(resource))).data) == {ALICE, BOB}


def test_acls_are_removed_everywhere(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        first, second = brokers.store(), brokers.store()
        now(first.add(TOPIC, frozenset({ALICE, BOB}), ADMIN))
        now(first.add(PREFIX, frozenset({ALICE}), ADMIN))
        removed = now(second.remove(second.index.select(AclFilter(principal="User:alice")), ADMIN))
        assert removed == {AclBinding(TOPIC, ALICE): None, AclBinding(PREFIX, ALICE): None}
        assert entries(first, TOPIC) == {BOB}
        assert not list(first.index.of_type(AclResourceType.GROUP))
        assert now(brokers.tree.exists(tree_layout.path(PREFIX))) is None
        assert now(second.remove([AclBinding(TOPIC, ALICE)], ADMIN)) == {}


def test_adding_an_existing_acl_changes_nothing(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        store = brokers.store()
        now(store.add(TOPIC, frozenset({ALICE}), ADMIN))
        changes, version = brokers.changes, now(brokers.tree.get(tree_layout.path(TOPIC))).stat.version
        now(store.add(TOPIC, frozenset({ALICE}), ADMIN))
        assert (brokers.changes, now(brokers.tree.get(tree_layout.path(TOPIC))).stat.version) == (changes, version)


def test_a_change_keeps_the_acls_written_by_another_broker(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        store = brokers.store()
        now(brokers.tree.commit([Create(tree_layout.path(TOPIC), tree_layout.encode_entries([BOB]))]))  # not notified
        now(store.add(TOPIC, frozenset({ALICE}), ADMIN))
        assert entries(store, TOPIC) == {ALICE, BOB}


def test_failed_changes_leave_the_acls_unchanged(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        store = brokers.store()
        now(store.add(TOPIC, frozenset({ALICE}), ADMIN))
        brokers.tree.is_suspended = True
        with pytest.raises(KafkaError):
            now(store.add(TOPIC, frozenset({BOB}), ADMIN))
        [(binding, error)] = now(store.remove([AclBinding(TOPIC, ALICE)], ADMIN)).items()
        assert binding == AclBinding(TOPIC, ALICE)
        assert isinstance(error, KafkaError)
        assert entries(store, TOPIC) == {ALICE}


def test_acls_that_cannot_be_read_stay_in_force(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        store = brokers.store()
        now(store.add(TOPIC, frozenset({ALICE}), ADMIN))
        with logged_lines() as lines:
            brokers.write(TOPIC, b"{")
        assert entries(store, TOPIC) == {ALICE}
        assert [line for line in lines if "/kafka-acl/Topic/orders" in line]
        with pytest.raises(KafkaError):
            now(store.add(TOPIC, frozenset({BOB}), ADMIN))
        with pytest.raises(StartupError, match="/kafka-acl/Topic/orders"):
            brokers.store()


def test_after_a_notification_that_cannot_be_read_all_acls_are_read(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        store = brokers.store()
        now(brokers.tree.commit([Create(tree_layout.path(TOPIC), tree_layout.encode_entries([BOB]))]))
        now(brokers.tree.commit([Create(tree_layout.new_change_path(PatternType.LITERAL), b"?", sequence=True)]))
        assert entries(store, TOPIC) == {BOB}


def test_a_closed_store_follows_no_more(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        store = brokers.store()
        store.close()
        brokers.write(TOPIC, tree_layout.encode_entries([BOB]))
        assert entries(store, TOPIC) == set()


def test_old_notifications_are_deleted(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        store = brokers.store()
        now(store.add(TOPIC, frozenset({ALICE}), ADMIN))
        [name] = now(brokers.tree.children("/kafka-acl-changes"))
        created_ms = now(brokers.tree.get(f"/kafka-acl-changes/{name}")).stat.created_ms
        brokers.clock.rightNow = (created_ms + NOTIFICATION_MS_MAX + 1) / 1000
        now(store.add(TOPIC, frozenset({BOB}), ADMIN))
        assert name not in now(brokers.tree.children("/kafka-acl-changes"))


def test_a_change_with_a_lost_answer_takes_effect(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        store = brokers.store()
        brokers.tree.loses_answers = 1
        with pytest.raises(KafkaError):
            now(store.add(TOPIC, frozenset({ALICE}), ADMIN))
        assert entries(store, TOPIC) == {ALICE}


def test_all_acls_are_read_in_a_new_session(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        store = brokers.store()
        now(store.add(TOPIC, frozenset({ALICE}), ADMIN))
        now(brokers.tree.tree.commit([SetData(tree_layout.path(TOPIC), tree_layout.encode_entries([BOB]))]))
        assert entries(store, TOPIC) == {ALICE}  # nobody notified
        brokers.tree.new_session()
        brokers.tree.is_suspended = True
        for listener in brokers.tree.listeners:
            listener(SessionEvent(SessionState.CONNECTED, brokers.tree.session_id))
        brokers.tree.is_suspended = False
        brokers.clock.advance(1)
        assert entries(store, TOPIC) == {BOB}


def test_each_acl_that_is_added_or_removed_is_a_line(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        store, other = brokers.store(), brokers.store()
        with logged_lines() as lines:
            now(store.add(TOPIC, frozenset({ALICE}), ADMIN))
            now(store.add(TOPIC, frozenset({ALICE}), ADMIN))  # changes nothing
            now(other.add(TOPIC, frozenset({ALICE, BOB}), "User:eve\nforged line"))
            now(store.remove([AclBinding(TOPIC, BOB), AclBinding(PREFIX, ALICE)], ADMIN))
        assert lines == [
            "User:admin added the ACL ALLOW READ for User:alice from host * on Topic:LITERAL:orders",
            "User:eve\\nforged line added the ACL ALLOW READ for User:bob from host * on Topic:LITERAL:orders",
            "User:admin removed the ACL ALLOW READ for User:bob from host * on Topic:LITERAL:orders",
        ]


def test_a_change_that_fails_is_no_line(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        store = brokers.store()
        brokers.tree.is_suspended = True
        with logged_lines() as lines, pytest.raises(KafkaError):
            now(store.add(TOPIC, frozenset({ALICE}), ADMIN))
        assert not [line for line in lines if "ACL ALLOW" in line]
