"""Transactions on the embedded tree. They wait for the disk, so they run on a worker thread."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import KeysView, Sequence

import attrs

from pylogbroker.interfaces import (
    OPEN_ACL,
    Acl,
    BadVersion,
    Check,
    Create,
    Delete,
    InvalidAcl,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    OperationResult,
    Permission,
    SetData,
    Stat,
)

STAT_COLUMNS = "version, created, modified, children_version, created_ms, owner"


@attrs.frozen
class Effect:
    """Result of an operation, and nodes whose watches fire."""

    result: OperationResult
    changed_nodes: tuple[str, ...] = ()
    changed_children: tuple[str, ...] = ()


@attrs.frozen
class Written:
    """Results of a transaction's operations, and nodes whose watches fire, each once."""

    results: list[OperationResult]
    changed_nodes: KeysView[str]
    changed_children: KeysView[str]

    @classmethod
    def of(cls, effects: Sequence[Effect]) -> Written:
        nodes = dict.fromkeys(path for effect in effects for path in effect.changed_nodes)
        children = dict.fromkeys(path for effect in effects for path in effect.changed_children)
        return cls([effect.result for effect in effects], nodes.keys(), children.keys())


@attrs.define
class TreeTransaction:
    _connection: sqlite3.Connection
    _session_id: int
    _now_ms: int
    _number: int = attrs.field(init=False, default=0)

    def run(self, operations: Sequence[Operation]) -> list[Effect]:
        """Apply the operations and sync; an error leaves the tree unchanged."""
        self._execute("BEGIN IMMEDIATE")
        try:
            self._number = self._next_number()
            effects = [self._do(operation) for operation in operations]
            self._execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._execute("ROLLBACK")
            raise
        return effects

    def _next_number(self) -> int:
        ((number,),) = self._execute("UPDATE counter SET transactions = transactions + 1 RETURNING transactions")
        return int(number)

    def _do(self, operation: Operation) -> Effect:
        match operation:
            case Create():
                return self._create(operation)
            case SetData():
                return self._set(operation)
            case Delete():
                return self._delete(operation)
            case Check():
                self._check(operation.path, operation.version)
                return Effect(OperationResult(operation.path))

    def _create(self, create: Create) -> Effect:
        parent, name = _split(create.path)
        created_before = self._count_creation(parent)
        if create.sequence:
            name += f"{created_before:010d}"
        path = _join(parent, name)
        owner = self._session_id if create.ephemeral else 0
        try:
            self._execute(
                "INSERT INTO node VALUES (?, ?, ?, ?, 0, ?, ?, 0, ?, ?, 0, ?)",
                path, parent, name, create.data, self._number, self._number, self._now_ms, owner, _encode_acl(create),
            )  # fmt: skip
        except sqlite3.IntegrityError:
            raise NodeExists(path) from None
        return Effect(OperationResult(path), (path,), (parent,))

    def _count_creation(self, parent: str) -> int:
        """Return the number of children created before."""
        rows = self._execute(
            "UPDATE node SET creations = creations + 1, children_version = children_version + 1 "
            "WHERE path = ? RETURNING owner, creations - 1",
            parent,
        )
        if not rows:
            raise NoNode(parent)
        ((owner, created_before),) = rows
        if owner:
            raise NoChildrenForEphemerals(parent)
        return created_before

    def _set(self, change: SetData) -> Effect:
        self._check(change.path, change.version)
        [columns] = self._execute(
            f"UPDATE node SET data = ?, version = version + 1, modified = ? WHERE path = ? RETURNING {STAT_COLUMNS}",
            change.data, self._number, change.path,
        )  # fmt: skip
        return Effect(OperationResult(change.path, Stat(*columns)), (change.path,))

    def _delete(self, delete: Delete) -> Effect:
        self._check(delete.path, delete.version)
        if self._execute("SELECT 1 FROM node WHERE parent = ? LIMIT 1", delete.path) or delete.path == "/":
            raise NotEmpty(delete.path)
        self._execute("DELETE FROM node WHERE path = ?", delete.path)
        parent = _split(delete.path)[0]
        self._execute("UPDATE node SET children_version = children_version + 1 WHERE path = ?", parent)
        return Effect(OperationResult(delete.path), (delete.path,), (delete.path, parent))

    def _check(self, path: str, version: int) -> None:
        rows = self._execute("SELECT version FROM node WHERE path = ?", path)
        if not rows:
            raise NoNode(path)
        if version not in (-1, rows[0][0]):
            raise BadVersion(path)

    def _execute(self, statement: str, *parameters: object) -> list[tuple[int, ...]]:
        return self._connection.execute(statement, parameters).fetchall()


def _encode_acl(create: Create) -> str | None:
    if create.acl is None or tuple(create.acl) == OPEN_ACL:
        return None
    if not create.acl or any(acl.scheme == "auth" for acl in create.acl):
        raise InvalidAcl(create.path)
    return json.dumps([(acl.scheme, acl.id, acl.permissions) for acl in create.acl])


def decode_acl(text: str | None) -> tuple[Acl, ...]:
    if text is None:
        return OPEN_ACL
    return tuple(Acl(scheme, name, Permission(bits)) for scheme, name, bits in json.loads(text))


def _split(path: str) -> tuple[str, str]:
    parent, _, name = path.rpartition("/")
    return parent or "/", name


def _join(parent: str, name: str) -> str:
    return f"/{name}" if parent == "/" else f"{parent}/{name}"
