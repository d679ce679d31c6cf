"""Random operations of several clients, whose sessions end: this project's server answers as ZooKeeper does.

kazoo is the client. Its events are handled in the thread that reads answers, so that each precedes later answers.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, KazooException

from pylogbroker.tree.kazoo_session import _Handler
from tests.peers import available
from tests.support.examples import examples
from tests.support.shared_zookeeper import shared_zookeeper
from tests.tree.tree_server import shared_tree_server

CLIENTS = 3
SECONDS_MAX = 60.0
PATHS = ("/a", "/b", "/a/c", "/b/e")
CHANGES = ("create", "create", "set", "delete", "multi")
READS = ("get", "exists", "children")
STAT_FIELDS = ("version", "cversion", "aversion", "dataLength", "numChildren")


@attrs.frozen
class Step:
    """One client's operation; `number` is a version, or bits: ephemeral, sequence."""

    client: int
    kind: str
    path: str
    number: int


def steps() -> st.SearchStrategy[list[Step]]:
    made = st.builds(
        Step,
        client=st.integers(0, CLIENTS - 1),
        kind=st.sampled_from([*CHANGES, *CHANGES, *READS, *READS, *READS, "end", "take over"]),
        path=st.sampled_from(PATHS),
        number=st.integers(0, 3),
    )
    return st.lists(made, min_size=20, max_size=60)


class Clients:
    """Clients of one server below an empty node; `heard` has their events."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._chroot = f"/differential/{uuid.uuid4().hex}"
        self._clients: list[Any] = []
        self._sessions: list[int] = []
        self.heard: list[tuple[int, str, str, str]] = []

    def __enter__(self) -> Clients:
        admin = self._connect("")
        admin.create(self._chroot, makepath=True)
        self._end(admin)
        for _ in range(CLIENTS):
            self._clients.append(self._connect(self._chroot))
            self._sessions.append(self._clients[-1].client_id[0])
        return self

    def __exit__(self, *exc_info: object) -> None:
        for client in self._clients:
            self._end(client)

    def _connect(self, chroot: str, client_id: tuple[int, bytes] | None = None) -> Any:
        client = KazooClient(self._address + chroot, timeout=10.0, handler=_Handler(), client_id=client_id)
        try:
            client.start(SECONDS_MAX)
        except ConnectionLoss:
            self._end(client)
            raise
        return client

    @staticmethod
    def _end(client: Any) -> None:
        client.stop()
        client.close()

    def do(self, step: Step) -> object:
        """Return what the client sees, then the events that all clients have heard, then the tree."""
        try:
            seen = self._do(step)
        except KazooException as error:
            seen = type(error).__name__
        for client in self._clients:
            client.exists("/")  # events of earlier changes come before the answer
        heard, self.heard = sorted(self.heard), []
        return seen, heard, self._tree("/")

    def _do(self, step: Step) -> object:
        client, path = self._clients[step.client], step.path
        match step.kind:
            case "create":
                return client.create(path, b"new", ephemeral=bool(step.number & 1), sequence=bool(step.number & 2))
            case "set":
                return self._stat(client.set(path, b"set", step.number - 1))
            case "delete":
                return client.delete(path, step.number - 1)
            case "get":
                data, stat = client.get(path, self._watch(step))
                return data, self._stat(stat)
            case "exists":
                stat = client.exists(path, self._watch(step))
                return stat and self._stat(stat)
            case "children":
                return sorted(client.get_children(path, self._watch(step)))
            case "multi":
                transaction = client.transaction()
                transaction.create(path, b"multi", ephemeral=bool(step.number & 1))
                transaction.set_data("/a", b"multi", step.number - 1)
                transaction.create("/b/e")
                return [each if isinstance(each, str) else type(each).__name__ for each in transaction.commit()]
            case _:
                return self._end_session(step)

    def _end_session(self, step: Step) -> None:
        """Close a session; or let another connection take it over, which closes it."""
        client = self._clients[step.client]
        if step.kind == "take over":
            with suppress(ConnectionLoss):  # if the client has connected again meanwhile, and taken its session back
                self._end(self._connect(self._chroot, client.client_id))
        self._end(client)
        renewed = self._clients[step.client] = self._connect(self._chroot)
        self._sessions[step.client] = renewed.client_id[0]

    def _watch(self, step: Step) -> Any:
        def called(event: Any) -> None:
            if event.type != "NONE":
                self.heard.append((step.client, step.kind, event.type, event.path))

        return called

    def _stat(self, stat: Any) -> object:
        owner = self._sessions.index(stat.ephemeralOwner) if stat.ephemeralOwner else None
        return [getattr(stat, name) for name in STAT_FIELDS], owner

    def _tree(self, path: str) -> list[object]:
        client = self._clients[0]
        data, stat = client.get(path)
        found: list[object] = [(path, data, self._stat(stat))]
        for name in sorted(client.get_children(path)):
            found += self._tree(f"{path.rstrip('/')}/{name}")
        return found


def outcomes(address: str, wanted: Sequence[Step]) -> list[object]:
    with Clients(address) as clients:
        return [clients.do(step) for step in wanted]


@pytest.fixture(scope="module")
def addresses(pytestconfig: pytest.Config) -> tuple[str, str]:
    if not available():
        pytest.skip("needs a JDK and Maven")
    return shared_tree_server(pytestconfig), shared_zookeeper(pytestconfig)


@settings(max_examples=examples(60), deadline=None)
@given(wanted=steps())
def test_clients_see_the_same(addresses: tuple[str, str], wanted: list[Step]) -> None:
    ours, theirs = (outcomes(address, wanted) for address in addresses)
    for step, own, other in zip(wanted, ours, theirs, strict=True):
        assert own == other, step
