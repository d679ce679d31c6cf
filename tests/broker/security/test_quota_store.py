"""Quotas in the coordination tree: two brokers' stores over one tree, nodes that others write, and failures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import cast

import pytest
from twisted.internet.task import Clock

from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.broker.security.quota_store import QuotaStore
from pylogbroker.errors import KafkaError
from pylogbroker.interfaces import Create, ITree, SessionEvent, SessionState, SetData
from pylogbroker.metadata import zk_paths
from pylogbroker.security.quotas.entities import DEFAULT, QuotaEntity, Quotas
from pylogbroker.security.quotas.keys import QuotaKey
from tests.broker.log_lines import logged_lines
from tests.broker.membership.harness import BreakableTree
from tests.broker.nodes import Threads
from tests.broker.trees import now, opened_tree

ALICE, ALICES_APP = QuotaEntity("alice"), QuotaEntity("alice", "app 1")
IN, OUT = QuotaKey.PRODUCER_BYTE_RATE, QuotaKey.CONSUMER_BYTE_RATE


class Cluster:
    """One tree, which may break, and the stores of brokers."""

    def __init__(self, tree: BreakableTree) -> None:
        self.tree = tree
        self.clock = Clock()

    def store(self) -> QuotaStore:
        threads = Threads()
        runtime = Runtime.on(self.clock, threads, threads)
        runtime.slices.seconds = inf  # the test's clock does not go on by itself
        store = QuotaStore(cast(ITree, self.tree), runtime, lambda table: None)
        now(store.open())
        return store

    def write(self, path: str, data: bytes | None) -> None:
        """Write a node below /config as another broker does, with its parents, and notify."""
        parts = path.split("/")
        for count in range(2, len(parts) + 1):
            node = "/config/" + "/".join(parts[:count])
            if now(self.tree.exists(node)) is None:
                now(self.tree.commit([Create(node)]))
        notification = b'{"version":2,"entity_path":"%s"}' % path.encode()
        change = Create(zk_paths.CONFIG_CHANGE_PREFIX, notification, sequence=True)
        now(self.tree.commit([SetData(f"/config/{path}", data), change]))

    def data(self, path: str) -> bytes | None:
        return now(self.tree.get(f"/config/{path}")).data

    def children(self, path: str) -> list[str]:
        return sorted(now(self.tree.children(f"/config/{path}")))


@contextmanager
def cluster(directory: Path) -> Iterator[Cluster]:
    with opened_tree(str(directory)) as tree:
        yield Cluster(BreakableTree(tree))


def set_quotas(store: QuotaStore, entity: QuotaEntity, quotas: Quotas) -> None:
    now(store.alter(entity, lambda before: quotas))


def test_changes_reach_other_brokers_and_new_ones(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        first, second = brokers.store(), brokers.store()
        set_quotas(first, ALICE, {IN: 1024.0})
        set_quotas(second, ALICES_APP, {OUT: 2048.0})
        set_quotas(first, QuotaEntity(ip=DEFAULT), {QuotaKey.CONNECTION_CREATION_RATE: 5.0})
        third = brokers.store()
        wanted = {
            ALICE: {IN: 1024.0},
            ALICES_APP: {OUT: 2048.0},
            QuotaEntity(ip=DEFAULT): {QuotaKey.CONNECTION_CREATION_RATE: 5.0},
        }
        for store in (first, second, third):
            assert store.table.entities == wanted
        assert brokers.data("users/alice") == b'{"version":1,"config":{"producer_byte_rate":"1024"}}'
        assert brokers.data("users/alice/clients/app%201") == b'{"version":1,"config":{"consumer_byte_rate":"2048"}}'
        assert brokers.data("ips/<default>") == b'{"version":1,"config":{"connection_creation_rate":"5"}}'


def test_removal_deletes_nodes_that_nothing_else_needs(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        store, other = brokers.store(), brokers.store()
        set_quotas(store, ALICE, {IN: 1024.0})
        set_quotas(store, ALICES_APP, {IN: 2048.0})
        set_quotas(store, ALICE, {})
        assert brokers.data("users/alice") == b'{"version":1,"config":{}}'
        set_quotas(store, ALICES_APP, {})
        assert brokers.children("users/alice/clients") == []
        assert store.table.entities == other.table.entities == {}


def test_keys_of_scram_stay(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        store = brokers.store()
        brokers.write("users/alice", b'{"version":1,"config":{"SCRAM-SHA-256":"salt=x"}}')
        assert store.table.entities == {}
        set_quotas(store, ALICE, {IN: 1024.0})
        data = brokers.data("users/alice")
        assert data == b'{"version":1,"config":{"SCRAM-SHA-256":"salt=x","producer_byte_rate":"1024"}}'
        set_quotas(store, ALICE, {})
        assert brokers.data("users/alice") == b'{"version":1,"config":{"SCRAM-SHA-256":"salt=x"}}'


def test_nodes_of_apache_kafka(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        store = brokers.store()
        data = b'{"version":1,"config":{"request_percentage":"200.0","consumer_byte_rate":"512"}}'
        brokers.write("users/CN%3Dbob/clients/<default>", data)
        bob = QuotaEntity("CN=bob", DEFAULT)
        assert store.table.entities == {bob: {QuotaKey.REQUEST_PERCENTAGE: 200.0, OUT: 512.0}}
        brokers.write("users/CN%3Dbob/clients/<default>", b'{"version":1,"config":{}}')
        assert store.table.entities == {}


def test_unreadable_nodes_do_not_count(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        store = brokers.store()
        set_quotas(store, ALICE, {IN: 1024.0})
        with logged_lines() as lines:
            brokers.write("users/alice", b'{"version":1,"config":{"producer_byte_rate":"much"}}')
            brokers.write("users/bob", b"[]")
        assert [line.partition(" cannot be read")[0] for line in lines] == [
            "the stored quotas in /config/users/alice",
            "the stored quotas in /config/users/bob",
        ]
        assert store.table.entities == {ALICE: {IN: 1024.0}}
        assert brokers.store().table.entities == {}
        with pytest.raises(KafkaError, match="cannot be read"):
            set_quotas(store, ALICE, {IN: 2048.0})


def test_changes_in_a_lost_session_are_read_in_the_next_one(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        store = brokers.store()
        set_quotas(store, ALICE, {IN: 1024.0})
        brokers.tree.is_suspended = True
        with pytest.raises(KafkaError):
            set_quotas(store, ALICE, {IN: 2048.0})
        brokers.tree.is_suspended = False
        now(brokers.tree.tree.commit([SetData("/config/users/alice", b'{"config":{"producer_byte_rate":"7"}}')]))
        assert store.table.entities == {ALICE: {IN: 1024.0}}
        for listener in brokers.tree.listeners:
            listener(SessionEvent(SessionState.CONNECTED, brokers.tree.session_id + 1))
        assert store.table.entities == {ALICE: {IN: 7.0}}


def test_each_change_is_one_line(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        store = brokers.store()
        with logged_lines() as lines:
            set_quotas(store, ALICES_APP, {IN: 1024.0})
            set_quotas(store, ALICES_APP, {IN: 1024.0})
        assert lines == ["quotas of users/alice/clients/app%201 are now producer_byte_rate=1024"]
