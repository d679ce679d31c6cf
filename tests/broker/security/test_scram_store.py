"""Users of SCRAM in the coordination tree: two brokers' stores over one tree, nodes that others write, and failures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import cast

import pytest
from twisted.internet.task import Clock

from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.broker.security.scram_store import ScramStore, changed_user
from pylogbroker.config.mechanisms import SCRAM_SHA_256
from pylogbroker.errors import KafkaError
from pylogbroker.interfaces import Create, ITree, SessionEvent, SessionState, SetData
from pylogbroker.metadata.config_changes import encode_change
from tests.broker.log_lines import logged_lines
from tests.broker.membership.harness import BreakableTree
from tests.broker.nodes import Threads
from tests.broker.trees import now, opened_tree
from tests.security.test_stored_credentials import TEXT

QUOTA = {"producer_byte_rate": "1000"}
SCRAM = {SCRAM_SHA_256: TEXT}


class Cluster:
    """One tree, which may break, and the stores of brokers."""

    def __init__(self, tree: BreakableTree) -> None:
        self.tree = tree
        self.clock = Clock()

    def store(self, notifies: bool = True) -> ScramStore:
        runtime = Runtime.on(self.clock, Threads(), Threads())
        runtime.slices.seconds = inf  # the test's clock does not go on by itself
        store = ScramStore(cast(ITree, self.tree), runtime, notifies)
        now(store.open())
        return store

    def write(self, node: str, config: dict[str, str] | None, notify: bool = True) -> None:
        """Write a node as another broker does; None writes what no broker can read."""
        data = b"?" if config is None else json.dumps({"version": 1, "config": config}).encode()
        path = f"/config/users/{node}"
        exists = now(self.tree.exists(path)) is not None
        notification = json.dumps({"version": 2, "entity_path": f"users/{node}"}).encode()
        operations = [SetData(path, data) if exists else Create(path, data)]
        sequence = Create("/config/changes/config_change_", notification, sequence=True)
        now(self.tree.commit([*operations, *([sequence] if notify else [])]))

    def config(self, node: str) -> dict[str, str]:
        found: dict[str, str] = json.loads(now(self.tree.get(f"/config/users/{node}")).data or b"")["config"]
        return found

    def changes(self) -> list[bytes]:
        return [
            now(self.tree.get(f"/config/changes/{name}")).data or b""
            for name in sorted(now(self.tree.children("/config/changes")))
        ]


@contextmanager
def cluster(directory: Path) -> Iterator[Cluster]:
    with opened_tree(str(directory)) as tree:
        yield Cluster(BreakableTree(tree))


def test_all_brokers_see_a_change(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        first, second = brokers.store(), brokers.store()
        now(first.alter("a b", lambda before: {**before, **SCRAM}))
        for store in (first, second, brokers.store()):
            keys = store.in_force.get(SCRAM_SHA_256, "a b")
            assert keys is not None
            assert keys.is_of("pencil")
            assert now(store.names()) == ["a b"]
        assert brokers.changes() == [b'{"version":2,"entity_path":"users/a%20b"}']
        now(second.alter("a b", lambda before: {}))
        assert first.in_force.get(SCRAM_SHA_256, "a b") is None
        assert brokers.config("a%20b") == {}


def test_a_broker_that_is_alone_writes_no_notification(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        store = brokers.store(notifies=False)
        now(store.alter("alice", lambda before: SCRAM))
        assert store.in_force.get(SCRAM_SHA_256, "alice") is not None
        assert brokers.changes() == []


def test_quotas_of_the_user_stay(tmp_path: Path) -> None:
    """A change is made on what another broker has written without a notification."""
    with cluster(tmp_path) as brokers:
        store = brokers.store()
        brokers.write("alice", QUOTA, notify=False)
        now(store.alter("alice", lambda before: {**before, **SCRAM}))
        assert brokers.config("alice") == QUOTA | SCRAM
        now(store.alter("alice", lambda before: {name: before[name] for name in QUOTA}))
        assert brokers.config("alice") == QUOTA


@pytest.mark.parametrize("before", [None, {"consumer_byte_rate": "1"}])
def test_a_concurrent_change_of_the_node_is_kept(tmp_path: Path, before: dict[str, str] | None) -> None:
    with cluster(tmp_path) as brokers:
        store = brokers.store()
        if before is not None:
            brokers.write("alice", before)
        calls = []

        def change(settings: Mapping[str, str]) -> Mapping[str, str]:
            calls.append(settings)
            if len(calls) == 1:
                brokers.write("alice", QUOTA)
            return {**settings, **SCRAM}

        now(store.alter("alice", change))
        assert calls == [before or {}, QUOTA]
        assert brokers.config("alice") == QUOTA | SCRAM


def test_changes_of_others_take_effect(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        brokers.write("before", SCRAM)
        brokers.write("<default>", QUOTA)
        store = brokers.store()
        assert store.in_force.names == {"before"}
        brokers.write("later", SCRAM)
        assert store.in_force.names == {"before", "later"}
        with logged_lines() as lines:
            brokers.write("later", None)
        assert len(lines) == 1
        assert "the credentials of user later cannot be read" in lines[0]
        assert store.in_force.names == {"before"}


def test_notifications_about_other_entities_are_ignored() -> None:
    for path in ("topics/t", "users/<default>", "users/a/clients/c", "users"):
        assert changed_user(encode_change(path)) is None
    assert changed_user(None) is None


def test_a_new_session_reads_all_again(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        brokers.write("gone", SCRAM)
        store = brokers.store()
        brokers.write("gone", {}, notify=False)
        brokers.write("new", SCRAM, notify=False)
        brokers.tree.session_id = 2
        for listener in brokers.tree.listeners:
            listener(SessionEvent(SessionState.CONNECTED, 2))
        assert store.in_force.names == {"new"}


def test_errors_of_the_tree(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        store = brokers.store()
        brokers.tree.is_suspended = True
        with pytest.raises(KafkaError):
            now(store.alter("alice", lambda before: SCRAM))
        with pytest.raises(KafkaError):
            now(store.names())
        with pytest.raises(KafkaError):
            now(store.read(["alice"]))
        brokers.tree.is_suspended = False
        assert now(store.read(["alice"])) == [{}]


def test_brokers_share_the_secret(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        first, second = brokers.store(), brokers.store()
        assert first.secret == second.secret
        assert len(first.secret) == 32
