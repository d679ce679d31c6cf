"""A tree in a directory of its own, and a way to await without a reactor."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from pylogbroker.coordination.embedded import EmbeddedTree

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
def tree(tmp_path: Path) -> Iterator[EmbeddedTree]:
    opened = EmbeddedTree.open(str(tmp_path / "tree"))
    yield opened
    now(opened.close())
