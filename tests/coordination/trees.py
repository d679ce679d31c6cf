"""One suite for every tree: a test is a coroutine, and runs on the embedded tree, on a real ZooKeeper, and on this
project's own server of its protocol.

    @on_every_tree
    async def test_nodes_hold_data(tree: ITree) -> None:
        await tree.commit([Create("/a", b"data")])

The embedded tree needs no reactor, so its tests are quick. All tests of a run share one ZooKeeper and one own
server; each has a chroot of its own.
"""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

import attrs
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool

from pylogbroker.coordination.embedded import EmbeddedTree
from pylogbroker.coordination.zookeeper_options import ZooKeeperOptions, parse_connect
from pylogbroker.interfaces import ITree
from tests.coordination.conftest import now
from tests.support.reactor_run import run

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
    """`address` is a connect string with a chroot that does not exist yet."""

    address: str

    def run(self, use: Use) -> None:
        async def work() -> None:
            tree = await connect(self.address)
            try:
                await use(tree)
            finally:
                await tree.close()

        run(work)


def in_thread(work: Callable[[], None]) -> Deferred[None]:
    from twisted.internet import reactor

    return deferToThreadPool(reactor, reactor.getThreadPool(), work)


async def connect(address: str, **options: Any) -> Any:
    """Return a tree of this server and chroot; the reactor runs."""
    from twisted.internet import reactor

    from pylogbroker.coordination.zookeeper import ZooKeeperTree

    chosen = ZooKeeperOptions(**{"session_timeout": SESSION_SECONDS, **options})
    return await ZooKeeperTree.connect(parse_connect(address), chosen, reactor, in_thread)


def fresh_chroot() -> str:
    return f"/tests/{uuid.uuid4().hex}"


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
