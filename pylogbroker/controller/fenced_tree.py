"""Writes to the tree that only the present controller can make.

Each write is a transaction of its own: a check of the version of /controller_epoch, which every election changes, and
one operation.

| outcome of a write                        | consequence                                              |
|-------------------------------------------|----------------------------------------------------------|
| done                                      |                                                          |
| check failed                              | another controller was elected: resign                   |
| operation failed                          | its error is returned                                    |
| unknown (`Unavailable`)                   | read the node: done, failed, or not done, then try again |
| unknown after WRITE_ATTEMPTS_MAX attempts | resign                                                   |

Repeated writes are safe. If one takes effect late, the next attempt fails, because a version or the existence of a node
has changed; the node then shows why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from pylogbroker.controller.ports import ControllerTree
from pylogbroker.errors import PylogbrokerError
from pylogbroker.interfaces import (
    BadVersion,
    Check,
    CoordinationError,
    Create,
    Delete,
    Node,
    NodeExists,
    NoNode,
    Operation,
    SetData,
    Unavailable,
)
from pylogbroker.metadata import zk_paths

WRITE_ATTEMPTS_MAX: Final = 5


class ControllerResigned(PylogbrokerError):
    """This controller may no longer write: another one was elected, or its session has ended."""


@attrs.frozen
class FencedTree:
    _tree: ControllerTree
    _epoch_version: int

    async def children(self, path: str, /) -> list[str]:
        """Return the names of children, none of a missing node."""
        try:
            return await self._tree.children(path)
        except NoNode:
            return []
        except Unavailable as error:
            raise ControllerResigned(str(error)) from error

    async def children_with_data(self, path: str, /) -> dict[str, Node]:
        try:
            return await self._tree.children_with_data(path)
        except NoNode:
            return {}
        except Unavailable as error:
            raise ControllerResigned(str(error)) from error

    async def get_many(self, paths: Sequence[str], /) -> list[Node | None]:
        try:
            return await self._tree.get_many(paths)
        except Unavailable as error:
            raise ControllerResigned(str(error)) from error

    async def write(self, operations: Sequence[Operation]) -> list[CoordinationError | None]:
        """Apply each operation; return the error of each failed one. Raise ControllerResigned.

        SetData must name a version: without one an unknown outcome could not be found out.
        """
        outcomes: list[CoordinationError | None] = [None] * len(operations)
        waiting = dict.fromkeys(range(len(operations)), False)  # True: the outcome of an earlier attempt is unknown
        for _ in range(WRITE_ATTEMPTS_MAX):
            if not waiting:
                return outcomes
            errors = await self._commit([operations[index] for index in waiting])
            uncertain = []
            for (index, was_uncertain), error in zip(waiting.items(), errors, strict=True):
                if isinstance(error, Unavailable) or (error is not None and was_uncertain):
                    uncertain.append(index)
                else:
                    outcomes[index] = error
            nodes = await self.get_many([operations[index].path for index in uncertain]) if uncertain else []
            waiting = {}
            for index, node in zip(uncertain, nodes, strict=True):
                if _is_open(operations[index], node):
                    waiting[index] = True
                else:
                    outcomes[index] = _outcome(operations[index], node)
        if waiting:
            raise ControllerResigned("The outcome of writes stays unknown")
        return outcomes

    async def _commit(self, operations: Sequence[Operation]) -> Sequence[CoordinationError | None]:
        fence = Check(zk_paths.CONTROLLER_EPOCH, self._epoch_version)
        errors = await self._tree.commit_each([(fence, operation) for operation in operations])
        for error in errors:
            if isinstance(error, BadVersion | NoNode) and error.path == zk_paths.CONTROLLER_EPOCH:
                raise ControllerResigned("Another controller was elected")
        return errors


def _is_open(operation: Operation, node: Node | None) -> bool:
    """Return whether the node is as it was before the operation, so that another attempt may succeed."""
    match operation:
        case Create():
            return node is None
        case Delete():
            return node is not None
        case SetData(version=version):
            return node is not None and node.stat.version == version
        case Check():
            return False


def _outcome(operation: Operation, node: Node | None) -> CoordinationError | None:
    """Return the error of an operation that was done, or cannot be done any more."""
    if isinstance(operation, Create):
        return None if node and (node.data or b"") == (operation.data or b"") else NodeExists(operation.path)
    if isinstance(operation, SetData):
        if node is None:
            return NoNode(operation.path)
        is_own = node.stat.version == operation.version + 1 and node.data == operation.data
        return None if is_own else BadVersion(operation.path)
    return None
