"""ZooKeeper's tree in memory, with sessions, watches and faults, for controllers and whole brokers under test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from enum import Enum, auto
from typing import Any, TypeVar

import attrs

from pylogbroker.interfaces import (
    BadVersion,
    Check,
    CoordinationError,
    Create,
    Delete,
    NoChildrenForEphemerals,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    OperationResult,
    SetData,
    Stat,
    Unavailable,
)

T = TypeVar("T")


class Fault(Enum):
    KILL_BEFORE = auto()
    KILL_AFTER = auto()
    UNKNOWN_DONE = auto()
    UNKNOWN_NOT_DONE = auto()
    EXPIRED = auto()
    """The session ends before the transaction; the process lives on."""


class Killed(BaseException):
    """The process of the controller died."""


@attrs.define
class Entry:
    data: bytes | None
    version: int
    created: int
    modified: int
    owner: int | None
    created_ms: int = 0
    children_version: int = 0
    creations: int = 0
    """Number of children created, also the number of the next sequential one."""


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _stat(entry: Entry) -> Stat:
    return Stat(
        entry.version, entry.created, entry.modified, entry.children_version, entry.created_ms, entry.owner or 0
    )


@attrs.define(eq=False)
class MemoryTree:
    entries: dict[str, Entry] = attrs.field(factory=lambda: {"/": Entry(None, 0, 0, 0, None)})
    listeners: list[Callable[[str], None]] = attrs.field(factory=list)
    """Called with each changed node, and with the parent of a created or deleted one."""
    history: list[tuple[str, bytes | None]] = attrs.field(factory=list)
    """Data written, in order."""
    now_ms: Callable[[], int] = lambda: 0
    failed: int = 0
    """Index of the operation that failed last, in its transaction."""
    transactions: int = 0
    _sessions: int = 0
    _children: dict[str, dict[str, None]] = attrs.field(factory=lambda: {"/": {}})

    def session(self) -> TreeSession:
        self._sessions += 1
        return TreeSession(self, self._sessions)

    def names(self, path: str) -> list[str]:
        return sorted(self._children[path])

    def node(self, path: str) -> Node | None:
        entry = self.entries.get(path)
        if entry is None:
            return None
        return Node(entry.data, _stat(entry))

    def apply(self, operations: Sequence[Operation], owner: int | None = None) -> list[OperationResult]:
        """Apply all operations or none."""
        may_undo = any(not isinstance(each, Check) for each in operations[:-1])
        kept = {path: attrs.evolve(entry) for path, entry in self.entries.items()} if may_undo else None
        done: list[str] = []
        results: list[OperationResult] = []
        self.transactions += 1
        for index, operation in enumerate(operations):
            try:
                result, changed = self._apply(operation, owner)
            except CoordinationError:
                self.failed = index
                if kept is not None:
                    self._restore(kept)
                raise
            results.append(result)
            done += changed
        for path in done:
            for listener in self.listeners:
                listener(path)
        return results

    def _restore(self, entries: dict[str, Entry]) -> None:
        self.entries = entries
        self._children = {path: {} for path in entries}
        for path in entries:
            if path != "/":
                self._children[parent_of(path)][path.rpartition("/")[2]] = None

    def _apply(self, operation: Operation, owner: int | None) -> tuple[OperationResult, list[str]]:
        """Return the result, and the changed nodes."""
        if isinstance(operation, Create):
            path = self._create(operation, owner)
            return OperationResult(path), [path, parent_of(path)]
        path = operation.path
        entry = self.entries.get(path)
        if entry is None:
            raise NoNode(path)
        if operation.version not in (-1, entry.version):
            raise BadVersion(path)
        if isinstance(operation, SetData):
            entry.data, entry.version, entry.modified = operation.data, entry.version + 1, self.transactions
            self.history.append((path, operation.data))
            return OperationResult(path, _stat(entry)), [path]
        if isinstance(operation, Delete):
            if self._children[path]:
                raise NotEmpty(path)
            parent = parent_of(path)
            del self.entries[path], self._children[path]
            del self._children[parent][path.rpartition("/")[2]]
            self.entries[parent].children_version += 1
            return OperationResult(path), [path, parent]
        return OperationResult(path), []

    def _create(self, create: Create, owner: int | None) -> str:
        path = create.path
        parent = self.entries.get(parent_of(path))
        if parent is None:
            raise NoNode(path)
        if parent.owner is not None:
            raise NoChildrenForEphemerals(path)
        if create.sequence:
            path += f"{parent.creations:010d}"
        if path in self.entries:
            raise NodeExists(path)
        number = self.transactions
        holder = owner if create.ephemeral else None
        self.entries[path] = Entry(create.data, 0, number, number, holder, self.now_ms())
        parent.creations += 1
        parent.children_version += 1
        self._children[path] = {}
        self._children[parent_of(path)][path.rpartition("/")[2]] = None
        self.history.append((path, create.data))
        return path

    def expire(self, session: TreeSession) -> None:
        """End a session: its ephemeral nodes go, its calls fail."""
        if not session.is_expired:
            session.is_expired = True
            for path in [path for path, entry in self.entries.items() if entry.owner == session.number]:
                self.apply([Delete(path)])


@attrs.define(eq=False)
class TreeSession:
    """One session. `fault` decides on each transaction."""

    tree: MemoryTree
    number: int
    fault: Callable[[Operation], Fault | None] = lambda operation: None
    is_expired: bool = False
    is_killed: bool = False
    """The process is dead: it sends nothing more."""

    def _kill(self) -> None:
        self.is_killed = True
        raise Killed

    def _check(self, path: str) -> None:
        if self.is_expired:
            raise Unavailable(path)

    async def children(self, path: str) -> list[str]:
        self._check(path)
        if path not in self.tree.entries:
            raise NoNode(path)
        return self.tree.names(path)

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        for path in paths:
            self._check(path)
        return [self.tree.node(path) for path in paths]

    async def children_with_data(self, path: str) -> dict[str, Node]:
        names = await self.children(path)
        found = {name: self.tree.node(f"{path}/{name}") for name in names}
        return {name: node for name, node in found.items() if node}

    async def commit_each(self, transactions: Sequence[Sequence[Operation]]) -> list[CoordinationError | None]:
        return [self._commit(transaction) for transaction in transactions]

    def _commit(self, operations: Sequence[Operation]) -> CoordinationError | None:
        path = operations[-1].path
        if self.is_expired:
            return Unavailable(path)
        fault = self.fault(operations[-1])
        if fault is Fault.KILL_BEFORE:
            self._kill()
        if fault is Fault.EXPIRED:
            self.tree.expire(self)
            return Unavailable(path)
        if fault is Fault.UNKNOWN_NOT_DONE:
            return Unavailable(path)
        error: CoordinationError | None = None
        try:
            self.tree.apply(operations, self.number)
        except CoordinationError as raised:
            error = raised
        if fault is Fault.KILL_AFTER:
            self._kill()
        return Unavailable(path) if fault is Fault.UNKNOWN_DONE else error


class AtOnce:
    """Time slices without an end."""

    async def over(self, items: Iterable[T]) -> AsyncIterator[T]:
        for item in items:
            yield item


def attempts(session: TreeSession, faults: dict[int, Fault]) -> list[Operation]:
    """Let the transactions of some numbers fail; return a list that all of them are added to."""
    seen: list[Any] = []

    def fault(operation: Operation) -> Fault | None:
        seen.append(operation)
        return faults.get(len(seen) - 1)

    session.fault = fault
    return seen
