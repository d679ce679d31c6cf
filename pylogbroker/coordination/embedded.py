"""The coordination tree of a cluster of one broker, in a SQLite file.

One table has a row for each node:

    path                the key; the root is `/`
    parent, name        indexed, for the list of a node's children
    data                bytes, or null
    version             number of times that the data was set
    created, modified   transaction numbers
    children_version    number of times that a child was created or deleted
    created_ms          time of the creation; 0 for nodes of schema version 1
    owner               session that an ephemeral node ends with; 0 for others
    creations           number of children created, which is also the number of the next sequential child
    acl                 JSON: [[scheme, id, permissions], ...]; null if open to all. Nobody is authenticated here

Schema version 1 had neither null data nor the last five columns; opening such a file migrates it. A session has the
number of the next transaction. Sessions that own nodes made a transaction, so their numbers differ.

The file is in WAL mode. One connection writes and syncs transactions on a worker thread; the reactor thread reads
through another, which never waits. A lock file makes the broker the only session: closing the tree removes all
ephemeral nodes, opening it those that a crash left.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import ExitStack, closing, suppress
from typing import Any

import attrs
from twisted.internet.defer import DeferredLock
from zope.interface import implementer

from pylogbroker.coordination import disk_reserve
from pylogbroker.coordination.transactions import STAT_COLUMNS, TreeTransaction, Written, decode_acl
from pylogbroker.coordination.watches import Watches
from pylogbroker.errors import StartupError
from pylogbroker.interfaces import (
    Acl,
    ITree,
    Node,
    NoNode,
    NoRoom,
    Operation,
    OperationResult,
    SessionListener,
    Stat,
    Unavailable,
    Watch,
)

FILE_NAME = "coordination.sqlite"
LOCK_NAME = "coordination.lock"
_SCHEMA_VERSION = 2  # in the file's user_version
_NODE_TABLE = """
CREATE TABLE node (
    path TEXT PRIMARY KEY,
    parent TEXT,
    name TEXT NOT NULL,
    data BLOB,
    version INTEGER NOT NULL,
    created INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    children_version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    owner INTEGER NOT NULL,
    creations INTEGER NOT NULL,
    acl TEXT
) WITHOUT ROWID;
"""
_CHILD_INDEX = "CREATE INDEX child ON node (parent, name);"
_SCHEMA = f"""
BEGIN;
{_NODE_TABLE}
{_CHILD_INDEX}
CREATE TABLE counter (transactions INTEGER NOT NULL);
INSERT INTO node VALUES ('/', NULL, '', NULL, 0, 0, 0, 0, 0, 0, 0, NULL);
INSERT INTO counter VALUES (0);
PRAGMA user_version = {_SCHEMA_VERSION};
COMMIT;
"""
_MIGRATION = f"""
BEGIN IMMEDIATE;
DELETE FROM node WHERE ephemeral = 1;
ALTER TABLE node RENAME TO node1;
{_NODE_TABLE}
INSERT INTO node SELECT
    path, parent, name, data, version, created, modified, children, 0, 0, children + sequence, NULL
    FROM (SELECT *, (SELECT count(*) FROM node1 AS child WHERE child.parent = node1.path) AS children FROM node1);
DROP TABLE node1;
{_CHILD_INDEX}
PRAGMA user_version = {_SCHEMA_VERSION};
COMMIT;
"""
_EPHEMERALS_DELETION = """
BEGIN IMMEDIATE;
UPDATE node SET children_version = children_version + (
    SELECT count(*) FROM node AS child WHERE child.parent = node.path AND child.owner <> 0
) WHERE path IN (SELECT parent FROM node WHERE owner <> 0);
DELETE FROM node WHERE owner <> 0;
COMMIT;
"""
_COLUMNS = f"data, {STAT_COLUMNS}"
_PATHS_AT_ONCE = 500

Work = Callable[[], Written]
Offload = Callable[[Work], Awaitable[Written]]


async def at_once(work: Work) -> Written:
    """Work in the calling thread: before the reactor runs, and in tests."""
    return work()


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


@implementer(ITree)
@attrs.define(eq=False)
class EmbeddedTree:
    """`offload` runs blocking work on another thread and awaits it. The session lasts until `close`."""

    _directory: str
    _offload: Offload
    _writer: sqlite3.Connection
    _reader: sqlite3.Connection
    _lock_file: int
    _now_ms: Callable[[], int]
    session_id: int
    earlier_sessions: Sequence[int] = attrs.field(init=False, default=())
    _commit_lock: DeferredLock = attrs.field(init=False, factory=DeferredLock)
    _watches: Watches = attrs.field(init=False, factory=Watches)

    @classmethod
    def open(
        cls, directory: str, offload: Offload = at_once, now_ms: Callable[[], int] = wall_clock_ms
    ) -> EmbeddedTree:
        """Open or create a tree; raise StartupError if it is in use, unreadable or cannot be written. Blocks."""
        lock_file = _lock(directory)
        path = os.path.join(directory, FILE_NAME)
        disk_reserve.release(directory)
        with ExitStack() as undo:
            undo.callback(os.close, lock_file)
            try:
                writer = _connect(path)
                undo.callback(writer.close)
                _prepare(writer)
                disk_reserve.hold(path, writer)
                tree = cls(directory, offload, writer, _connect(path), lock_file, now_ms, _next_session(writer))
            except (sqlite3.Error, StartupError) as error:
                raise StartupError(f"{path}: {error}") from error
            undo.pop_all()
            return tree

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        (node,) = await self.get_many([path])
        if node is None:
            raise NoNode(path)
        self._watches.on_node(path, watch)
        return node

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        (node,) = await self.get_many([path])
        self._watches.on_node(path, watch)
        return node.stat if node else None

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        names = [name for (name,) in self._select("name", path)]
        await self._require(path, names)
        self._watches.on_children(path, watch)
        return names

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        found: dict[str, Node] = {}
        for start in range(0, len(paths), _PATHS_AT_ONCE):
            some = paths[start : start + _PATHS_AT_ONCE]
            marks = ",".join("?" * len(some))
            query = f"SELECT path, {_COLUMNS} FROM node WHERE path IN ({marks})"
            found.update((path, _node(*columns)) for path, *columns in self._read(query, some, some[0]))
        return [found.get(path) for path in paths]

    async def children_with_data(self, path: str) -> dict[str, Node]:
        nodes = {name: _node(*columns) for name, *columns in self._select(f"name, {_COLUMNS}", path)}
        await self._require(path, nodes)
        return nodes

    async def acl(self, path: str) -> tuple[Acl, ...]:
        rows = self._read("SELECT acl FROM node WHERE path = ?", [path], path)
        if not rows:
            raise NoNode(path)
        return decode_acl(rows[0][0])

    def watch_session(self, listener: SessionListener) -> None:
        """Do nothing: the session does not change."""

    async def new_session(self) -> None:
        """Do nothing: the session does not expire."""

    async def commit(self, operations: Sequence[Operation]) -> list[OperationResult]:
        await self._commit_lock.acquire()
        try:
            written = await self._offload(lambda: self._write(operations))
        finally:
            self._commit_lock.release()
        self._watches.fire(written.changed_nodes, written.changed_children)
        return written.results

    async def close(self) -> None:
        await self._commit_lock.acquire()
        self._watches.forget()
        await self._offload(self._close_files)

    def _close_files(self) -> Written:
        with suppress(sqlite3.Error):  # else the next start does it
            _delete_ephemerals(self._writer)
        self._reader.close()
        self._writer.close()
        disk_reserve.hold_for_next(self._directory, os.path.join(self._directory, FILE_NAME))
        os.close(self._lock_file)
        return Written.of([])

    def _write(self, operations: Sequence[Operation]) -> Written:
        try:
            transaction = TreeTransaction(self._writer, self.session_id, self._now_ms())
            return Written.of(disk_reserve.with_reserve(self._writer, lambda: transaction.run(operations)))
        except sqlite3.Error as error:
            failure = NoRoom if disk_reserve.is_full(error) else Unavailable
            raise failure(f"{operations[0].path} ({error})") from error

    def _select(self, columns: str, parent: str) -> list[Any]:
        return self._read(f"SELECT {columns} FROM node WHERE parent = ? ORDER BY name", [parent], parent)

    def _read(self, query: str, parameters: Sequence[str], path: str) -> list[Any]:
        try:
            return self._reader.execute(query, parameters).fetchall()
        except sqlite3.Error as error:
            raise Unavailable(f"{path} ({error})") from error

    async def _require(self, path: str, children: Collection[str]) -> None:
        if not children and await self.exists(path) is None:
            raise NoNode(path)


def copy_tree(directory: str, target: str) -> None:
    """Copy a directory's tree, open or closed; raise StartupError if that fails. Blocks."""
    path = os.path.join(directory, FILE_NAME)
    try:
        with (
            closing(sqlite3.connect(path)) as source,
            closing(sqlite3.connect(os.path.join(target, FILE_NAME))) as copy,
        ):
            source.backup(copy)
    except sqlite3.Error as error:
        raise StartupError(f"{path}: {error}") from error


def _node(data: bytes | None, *stat: int) -> Node:
    return Node(data, Stat(*stat))


def _lock(directory: str) -> int:
    path = os.path.join(directory, LOCK_NAME)
    try:
        os.makedirs(directory, exist_ok=True)
        lock_file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StartupError(f"{path}: {error.strerror}") from error
    try:
        fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock_file)
        raise StartupError(f"{directory} is in use by another broker: stop it, or choose another directory") from error
    return lock_file


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _prepare(writer: sqlite3.Connection) -> None:
    writer.execute("PRAGMA journal_mode = WAL")
    ((version,),) = writer.execute("PRAGMA user_version").fetchall()
    if version == 0:
        writer.executescript(_SCHEMA)
    elif version == 1:
        _migrate(writer)
    elif version != _SCHEMA_VERSION:
        raise StartupError(f"written by a newer release (schema version {version}, not {_SCHEMA_VERSION})")
    disk_reserve.with_reserve(writer, lambda: _delete_ephemerals(writer))


def _migrate(writer: sqlite3.Connection) -> None:
    try:
        disk_reserve.with_reserve(writer, lambda: _in_one_transaction(writer, _MIGRATION))
    except sqlite3.Error as error:
        raise StartupError(f"cannot be migrated to schema version {_SCHEMA_VERSION}: {error}") from error


def _next_session(writer: sqlite3.Connection) -> int:
    ((transactions,),) = writer.execute("SELECT transactions FROM counter").fetchall()
    return int(transactions) + 1


def _delete_ephemerals(writer: sqlite3.Connection) -> None:
    if writer.execute("SELECT 1 FROM node WHERE owner <> 0 LIMIT 1").fetchall():
        _in_one_transaction(writer, _EPHEMERALS_DELETION)


def _in_one_transaction(writer: sqlite3.Connection, script: str) -> None:
    try:
        writer.executescript(script)
    except sqlite3.Error:
        if writer.in_transaction:
            writer.execute("ROLLBACK")
        raise
