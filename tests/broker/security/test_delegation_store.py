"""Delegation tokens in the coordination tree: two brokers' stores over one tree, nodes of others, and failures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import cast

import attrs
import pytest
from twisted.internet.task import Clock

from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.broker.security.delegation.store import TokenStore
from pylogbroker.errors import KafkaError
from pylogbroker.interfaces import Create, ITree, SessionEvent, SessionState
from pylogbroker.security.delegation.tokens import TokenTable
from tests.broker.log_lines import logged_lines
from tests.broker.membership.harness import BreakableTree
from tests.broker.nodes import Threads
from tests.broker.trees import now, opened_tree
from tests.security.test_delegation_tokens import ID, KEY, NODE, TOKEN

OTHER = "b3RoZXJvdGhlcm90aGVyMQ"


class Cluster:
    """One tree, which may break, and the stores of brokers."""

    def __init__(self, tree: BreakableTree) -> None:
        self.tree = tree
        self.clock = Clock()

    def store(self, notifies: bool = True) -> TokenStore:
        runtime = Runtime.on(self.clock, Threads(), Threads())
        runtime.slices.seconds = inf  # the test's clock does not go on by itself
        store = TokenStore(cast(ITree, self.tree), runtime, notifies, TokenTable(KEY))
        now(store.open())
        return store

    def write(self, token_id: str, data: bytes, notify: bool = True) -> None:
        """Write a node as another broker does."""
        change = Create("/delegation_token/token_changes/token_change_", token_id.encode(), sequence=True)
        node = Create(f"/delegation_token/tokens/{token_id}", data)
        now(self.tree.commit([node, *([change] if notify else [])]))

    def changes(self) -> list[bytes]:
        path = "/delegation_token/token_changes"
        return [now(self.tree.get(f"{path}/{name}")).data or b"" for name in sorted(now(self.tree.children(path)))]


@contextmanager
def cluster(directory: Path) -> Iterator[Cluster]:
    with opened_tree(str(directory)) as tree:
        yield Cluster(BreakableTree(tree))


def test_all_brokers_see_a_change(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        first, second = brokers.store(), brokers.store()
        assert now(first.change(ID, lambda before: TOKEN if before is None else before)) == TOKEN
        for store in (first, second, brokers.store()):
            assert store.in_force.tokens == [TOKEN]
            assert store.in_force.id_of(KEY.hmac(ID)) == ID
        assert json.loads(now(brokers.tree.get(f"/delegation_token/tokens/{ID}")).data or b"") == NODE
        later = attrs.evolve(TOKEN, expires_ms=25)
        assert now(second.change(ID, lambda before: later)) == later
        assert first.in_force.tokens == [later]
        now(first.change(ID, lambda before: before))  # nothing to write
        assert brokers.changes() == [ID.encode()] * 2
        now(second.change(ID, lambda before: None))
        assert first.in_force.tokens == []
        assert now(brokers.tree.children("/delegation_token/tokens")) == []


def test_a_broker_that_is_alone_writes_no_notification(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        now(brokers.store(notifies=False).change(ID, lambda before: TOKEN))
        assert brokers.changes() == []


def test_tokens_of_others_and_unreadable_ones(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        store = brokers.store()
        brokers.write(ID, json.dumps(NODE).encode())
        for token_id, data in ((OTHER, json.dumps(NODE).encode()), ("x", b"?")):  # the first has another id
            with logged_lines() as lines:
                brokers.write(token_id, data)
            assert len(lines) == 1
            assert "cannot be read, nobody can connect by it" in lines[0]
        assert store.in_force.tokens == [TOKEN]


def test_a_new_session_reads_all_again(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        store = brokers.store()
        brokers.write(ID, json.dumps(NODE).encode(), notify=False)
        brokers.tree.session_id = 2
        for listener in brokers.tree.listeners:
            listener(SessionEvent(SessionState.CONNECTED, 2))
        assert store.in_force.tokens == [TOKEN]


def test_errors_of_the_tree_change_nothing(tmp_path: Path) -> None:
    with cluster(tmp_path) as brokers:
        store = brokers.store()
        brokers.tree.is_suspended = True
        with pytest.raises(KafkaError):
            now(store.change(ID, lambda before: TOKEN))
        assert store.in_force.tokens == []
