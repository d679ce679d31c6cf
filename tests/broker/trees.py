"""A coordination tree in a directory, and a way to run what never waits."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from pylogbroker.metadata.registration import create_permanent_nodes
from pylogbroker.tree.embedded import EmbeddedTree
from pylogbroker.tree.tree_file import FILE_NAME

T = TypeVar("T")


def now(work: Coroutine[Deferred[T], Any, T] | Awaitable[T]) -> T:
    """The result of a coroutine that has nothing to wait for."""
    results: list[T | Failure] = []
    Deferred.fromCoroutine(_awaited(work)).addBoth(results.append)
    [result] = results
    if isinstance(result, Failure):
        result.raiseException()
    return result


async def _awaited(work: Awaitable[T]) -> T:
    return await work


@contextmanager
def opened_tree(directory: str) -> Iterator[EmbeddedTree]:
    """The tree of a directory, laid out; a new one is a copy, which takes half of the time."""
    file = Path(directory, FILE_NAME)
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(_laid_out_file())
    tree = EmbeddedTree.open(directory)
    try:
        now(create_permanent_nodes(tree))
        yield tree
    finally:
        now(tree.close())


@cache
def _laid_out_file() -> bytes:
    """The file of a tree that was laid out and closed."""
    with TemporaryDirectory() as directory:
        tree = EmbeddedTree.open(directory)
        now(create_permanent_nodes(tree))
        now(tree.close())
        return Path(directory, FILE_NAME).read_bytes()
