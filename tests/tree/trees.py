"""One suite for every tree: a test is a coroutine, and runs on the embedded tree, on a real ZooKeeper, and on this
project's own server of its protocol.

    @on_every_tree
    async def test_nodes_hold_data(tree: ITree) -> None:
        await tree.commit([Create("/a", b"data")])

The embedded tree needs no reactor, and the own server runs on the reactor of the test, so that both are quick. All
tests of a run share one ZooKeeper; each has a chroot of its own.
"""

from __future__ import annotations

import inspect
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import attrs
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool

from pylogbroker.interfaces import ITree
from pylogbroker.tree.database import TreeDatabase, wall_clock_ms
from pylogbroker.tree.embedded import EmbeddedTree
from pylogbroker.tree.server.factory import ZooKeeperFactory
from pylogbroker.tree.tree_file import TreeFile
from pylogbroker.tree.zookeeper_options import ZooKeeperOptions, parse_connect
from tests.support.reactor_run import run
from tests.tree.conftest import now

SESSION_SECONDS = 10.0
Use = Callable[[ITree], Awaitable[None]]


class Trees(Protocol):
    """A kind of tree; `run` opens one for a test."""

    def run(self, use: Use) -> None: ...


@attrs.frozen
class EmbeddedTrees:
    directory: Path

    def run(self, use: Use) -> None:
        tree = EmbeddedTree.open(str(self.directory))
        try:
            now(use(tree))
        finally:
            now(tree.close())


@attrs.frozen
class ZooKeeperTrees:
    address: str

    def run(self, use: Use) -> None:
        run(lambda: use_tree(self.address, use))


@attrs.frozen
class OwnServerTrees:
    directory: Path

    def run(self, use: Use) -> None:
        async def work() -> None:
            async with serving_tree(self.directory) as address:
                await use_tree(address, use)

        run(work)


async def use_tree(address: str, use: Use) -> None:
    tree = await connect(address + fresh_chroot())
    try:
        await use(tree)
    finally:
        await tree.close()


@asynccontextmanager
async def serving_tree(directory: Path) -> AsyncIterator[str]:
    """Serve a directory's tree on this process's reactor, by ZooKeeper's protocol, at the address."""
    from twisted.internet import reactor

    database = TreeDatabase(TreeFile.open(str(directory), wall_clock_ms(), keeps_sessions=True))
    factory = ZooKeeperFactory(database, reactor)
    port = reactor.listenTCP(0, factory, interface="127.0.0.1")
    try:
        yield f"127.0.0.1:{port.getHost().port}"
    finally:
        await port.stopListening()
        factory.stop()
        await database.close()


def in_thread(work: Callable[[], None]) -> Deferred[None]:
    from twisted.internet import reactor

    return deferToThreadPool(reactor, reactor.getThreadPool(), work)


async def connect(address: str, **options: Any) -> Any:
    """Return a tree of this server and chroot; the reactor runs."""
    from twisted.internet import reactor

    from pylogbroker.tree.zookeeper import ZooKeeperTree

    chosen = ZooKeeperOptions(**{"session_timeout": SESSION_SECONDS, **options})
    return await ZooKeeperTree.connect(parse_connect(address), chosen, reactor, in_thread)


def fresh_chroot() -> str:
    return f"/tests-{uuid.uuid4().hex}"  # without a parent, whose ACL would depend on the first test


def on_every_tree(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a coroutine function, whose first parameter is `tree`, on each kind of tree."""

    def on_trees(trees: Trees, **arguments: object) -> None:
        trees.run(lambda tree: test(tree, **arguments))

    _tree, *others = inspect.signature(test).parameters.values()
    trees = inspect.Parameter("trees", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    on_trees.__signature__ = inspect.Signature([trees, *others])  # type: ignore[attr-defined]
    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        setattr(on_trees, name, getattr(test, name))
    on_trees.pytestmark = getattr(test, "pytestmark", [])  # type: ignore[attr-defined]
    return pytest.mark.parametrize("trees", ["embedded", "ZooKeeper", "own server"], indirect=True)(on_trees)
