"""A tree in a directory of its own, and a way to await without a reactor."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from pylogbroker.tree.embedded import EmbeddedTree
from tests.peers import available
from tests.support.shared_zookeeper import shared_zookeeper
from tests.tree.tree_server import shared_tree_server

if TYPE_CHECKING:
    from tests.tree.trees import Trees

T = TypeVar("T")


def result_of(deferred: Deferred[T]) -> T:
    """Return the result of a Deferred that has one, or raise its error."""
    results: list[T | Failure] = []
    deferred.addBoth(results.append)
    [result] = results
    if isinstance(result, Failure):
        result.raiseException()
    return result


def now(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("the coroutine waits for something")


@pytest.fixture
def trees(request: pytest.FixtureRequest, tmp_path: Path) -> Trees:
    """The kind of tree that `on_every_tree` chooses."""
    from tests.tree.trees import EmbeddedTrees, OwnServerTrees, ZooKeeperTrees

    if request.param == "embedded":
        return EmbeddedTrees(tmp_path / "tree")
    if request.param == "own server":
        return OwnServerTrees(tmp_path / "tree")
    return ZooKeeperTrees(_address(request.config))


@pytest.fixture(scope="session", params=["ZooKeeper", "own server"])
def zookeeper(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> str:
    """Return the address of the run's ZooKeeper, and of the run's own server of its protocol."""
    return (shared_tree_server if request.param == "own server" else _address)(pytestconfig)


def _address(config: pytest.Config) -> str:
    if not available():
        pytest.skip("needs a JDK and Maven")
    return shared_zookeeper(config)


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[EmbeddedTree]:
    opened = EmbeddedTree.open(str(tmp_path / "tree"))
    yield opened
    now(opened.close())
