"""Transactions on a tree's file. They wait for the disk, so they run on a worker thread.

Writes that wait at the same time share one transaction of SQLite, and its sync. Each is a savepoint in it, so that the
failure of one leaves the others alone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any

import attrs

from pylogbroker.interfaces import (
    Acl,
    BadVersion,
    Check,
    CoordinationError,
    Create,
    Delete,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    OperationResult,
    Permission,
    SetData,
)
from pylogbroker.tree import acls
from pylogbroker.tree.acls import Identity
from pylogbroker.tree.rows import COLUMNS, NodeChanges, Row, join, split


class EventType(IntEnum):
    """Change of a watched node, by ZooKeeper's numbers."""

    CREATED = 1
    DELETED = 2
    CHANGED = 3
    CHILDREN = 4


_OF_CHILDREN = (EventType.DELETED, EventType.CHILDREN)


@attrs.frozen
class TreeEvent:
    type: EventType
    path: str


@attrs.frozen
class SetAcl:
    """Replace a node's ACL at this ACL version; -1 matches any."""

    path: str
    acl: Sequence[Acl]
    version: int = -1


@attrs.frozen
class Session:
    """A session as the file keeps it: who shows its password within its time limit goes on with it."""

    id: int
    password: bytes
    timeout_ms: int


@attrs.frozen
class BeginSession:
    session: Session


@attrs.frozen
class EndSession:
    """Delete a session with its ephemeral nodes."""

    session_id: int


@attrs.frozen
class Write:
    """Operations to be done in order, or not at all, in the name of a session."""

    operations: Sequence[Operation | SetAcl] | BeginSession | EndSession
    session_id: int = 0
    identities: frozenset[Identity] | None = None  # None: no ACL is checked

    @property
    def path(self) -> str:
        return self.operations[0].path if isinstance(self.operations, Sequence) else "/"


_NodeResult = tuple[OperationResult, Row | None]


@attrs.frozen
class WriteResult:
    """Results of a write by operation, or the error of the operation at `position`."""

    number: int  # of the transaction, or of the last one before the failure
    results: list[OperationResult] = attrs.field(factory=list)
    rows: list[Row | None] = attrs.field(factory=list)  # of the nodes of Create, SetData and SetAcl then
    changes: NodeChanges = attrs.field(factory=NodeChanges)
    events: list[TreeEvent] = attrs.field(factory=list)
    changed_nodes: dict[str, None] = attrs.field(factory=dict)  # paths of events, each once
    changed_parents: dict[str, None] = attrs.field(factory=dict)
    error: CoordinationError | None = None
    position: int = 0


def write_all(connection: sqlite3.Connection, writes: Sequence[Write], now_ms: int) -> list[WriteResult]:
    """Do the writes that do not fail, and sync; raise sqlite3.Error if nothing could be written."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        results = [_Transaction(connection, write, now_ms).run() for write in writes]
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return results


@attrs.define
class _Transaction:
    _connection: sqlite3.Connection
    _write: Write
    _now_ms: int
    _number: int = attrs.field(init=False, default=0)
    _position: int = attrs.field(init=False, default=0)
    _touched: dict[str, None] = attrs.field(init=False, factory=dict)
    _events: list[TreeEvent] = attrs.field(init=False, factory=list)

    def run(self) -> WriteResult:
        self._execute("SAVEPOINT one")
        try:
            [(self._number,)] = self._execute("UPDATE counter SET transactions = transactions + 1 RETURNING *")
            results = self._do_all()
        except CoordinationError as error:
            self._execute("ROLLBACK TO one")
            self._execute("RELEASE one")
            return WriteResult(self._number - 1, error=error, position=self._position)
        self._execute("RELEASE one")
        return self._result(results)

    def _result(self, results: list[_NodeResult]) -> WriteResult:
        created = {event.path for event in self._events if event.type is EventType.CREATED}
        return WriteResult(
            self._number,
            [result for result, _ in results],
            [row for _, row in results],
            NodeChanges.of(self._touched_rows(), created),
            self._events,
            dict.fromkeys(event.path for event in self._events if event.type is not EventType.CHILDREN),
            dict.fromkeys(event.path for event in self._events if event.type in _OF_CHILDREN),
        )

    def _touched_rows(self) -> Iterator[tuple[str, Row | None]]:
        for path in self._touched:
            rows = self._execute(f"SELECT {COLUMNS} FROM node WHERE path = ?", path)
            yield path, Row(*rows[0]) if rows else None

    def _do_all(self) -> list[_NodeResult]:
        match self._write.operations:
            case BeginSession(session):
                self._execute("INSERT INTO session VALUES (?, ?, ?)", *attrs.astuple(session))
            case EndSession(session_id):
                self._end_session(session_id)
            case operations:
                results = []
                for self._position, operation in enumerate(operations):
                    results.append(self._do(operation))
                return results
        return []

    def _end_session(self, session_id: int) -> None:
        self._execute("DELETE FROM session WHERE id = ?", session_id)
        for (path,) in self._execute("SELECT path FROM node WHERE owner = ? ORDER BY path", session_id):
            self._remove(str(path))

    def _do(self, operation: Operation | SetAcl) -> _NodeResult:
        match operation:
            case Create():
                return self._create(operation)
            case SetData():
                return self._set(operation)
            case SetAcl():
                return self._set_acl(operation)
            case Delete():
                return self._delete(operation)
            case Check():
                self._check_version(operation.path, operation.version, Permission.READ)
                return OperationResult(operation.path), None

    def _create(self, create: Create) -> _NodeResult:
        parent, name = split(create.path)
        above = self._require(parent)
        self._check_acl(parent, above, Permission.CREATE)
        if above.owner:
            raise NoChildrenForEphemerals(parent)
        if create.sequence:
            name += f"{above.creations:010d}"
        path = join(parent, name)
        owner = self._write.session_id if create.ephemeral else 0
        acl = acls.stored(create.path, create.acl, self._write.identities or ())
        now_ms, number = self._now_ms, self._number
        row = Row(create.data, 0, number, number, 0, now_ms, owner, 0, acl, now_ms, 0, number)
        marks = ", ".join("?" * len(row))
        try:
            self._execute(f"INSERT INTO node (path, parent, {COLUMNS}) VALUES (?, ?, {marks})", path, parent, *row)
        except sqlite3.IntegrityError:
            raise NodeExists(path) from None
        self._count_child_change(parent, 1)
        self._note(path, EventType.CREATED, parent)
        return OperationResult(path), row

    def _count_child_change(self, parent: str, creations: int) -> None:
        self._execute(
            "UPDATE node SET children_version = children_version + 1, creations = creations + ?, children_modified = ? "
            "WHERE path = ?",
            creations, self._number, parent,
        )  # fmt: skip

    def _set(self, change: SetData) -> _NodeResult:
        self._check_version(change.path, change.version, Permission.WRITE)
        return self._update(
            change.path, "data = ?, version = version + 1, modified = ?, modified_ms = ?",
            change.data, self._number, self._now_ms,
        )  # fmt: skip

    def _set_acl(self, change: SetAcl) -> _NodeResult:
        row = self._require(change.path)
        self._check_acl(change.path, row, Permission.ADMIN)
        if change.version not in (-1, row.acl_version):
            raise BadVersion(change.path)
        acl = acls.stored(change.path, change.acl, self._write.identities or ())
        return self._update(change.path, "acl = ?, acl_version = acl_version + 1", acl, is_seen=False)

    def _update(self, path: str, columns: str, *parameters: object, is_seen: bool = True) -> _NodeResult:
        rows = self._execute(f"UPDATE node SET {columns} WHERE path = ? RETURNING {COLUMNS}", *parameters, path)
        self._touched[path] = None
        if is_seen:
            self._events.append(TreeEvent(EventType.CHANGED, path))
        row = Row(*rows[0])
        return OperationResult(path, row.stat), row

    def _delete(self, delete: Delete) -> _NodeResult:
        path = delete.path
        row, parent = self._require(path), split(path)[0]
        if path != "/":
            self._check_acl(path, self._require(parent), Permission.DELETE)
        if delete.version not in (-1, row.version):
            raise BadVersion(path)
        if path == "/" or self._execute("SELECT 1 FROM node WHERE parent = ? LIMIT 1", path):
            raise NotEmpty(path)
        self._remove(path)
        return OperationResult(path), None

    def _remove(self, path: str) -> None:
        parent = split(path)[0]
        self._execute("DELETE FROM node WHERE path = ?", path)
        self._count_child_change(parent, 0)
        self._note(path, EventType.DELETED, parent)

    def _note(self, path: str, event: EventType, parent: str) -> None:
        self._touched[path] = self._touched[parent] = None
        self._events += TreeEvent(event, path), TreeEvent(EventType.CHILDREN, parent)

    def _check_version(self, path: str, version: int, permission: Permission) -> None:
        row = self._require(path)
        self._check_acl(path, row, permission)
        if version not in (-1, row.version):
            raise BadVersion(path)

    def _check_acl(self, path: str, row: Row, permission: Permission) -> None:
        if self._write.identities is not None:
            acls.check(path, row.acl, permission, self._write.identities)

    def _require(self, path: str) -> Row:
        rows = self._execute(f"SELECT {COLUMNS} FROM node WHERE path = ?", path)
        if not rows:
            raise NoNode(path)
        return Row(*rows[0])

    def _execute(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, parameters).fetchall()
