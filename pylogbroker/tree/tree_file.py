"""SQLite file of a coordination tree: `rows` has its table of nodes.

    node        path, parent (indexed), and the columns of a row
    session     id, password, time limit in ms: the sessions that clients go on with after a restart
    counter     number of the last transaction

Schema version 1 had neither null data nor the columns from `children_version` on; version 2 had a column `name`, but
neither sessions nor the last three columns. Opening such a file migrates it. A file is in WAL mode, and a lock file
keeps other processes out. It has the keys of users, so it is for its owner only.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from typing import Final

import attrs

from pylogbroker.errors import StartupError
from pylogbroker.interfaces import NoRoom, Unavailable
from pylogbroker.tree import disk_reserve
from pylogbroker.tree.rows import COLUMNS, Nodes, Row
from pylogbroker.tree.transactions import EndSession, Session, Write, WriteResult, write_all

FILE_NAME: Final = "coordination.sqlite"
LOCK_NAME: Final = "coordination.lock"
_OTHERS: Final = 0o007  # a group may be chosen on purpose
_SCHEMA_VERSION = 3  # in the file's user_version
_TABLES = """
CREATE TABLE node (
    path TEXT PRIMARY KEY,
    parent TEXT,
    data BLOB,
    version INTEGER NOT NULL,
    created INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    children_version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    owner INTEGER NOT NULL,
    creations INTEGER NOT NULL,
    acl TEXT,
    modified_ms INTEGER NOT NULL,
    acl_version INTEGER NOT NULL,
    children_modified INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE session (id INTEGER PRIMARY KEY, password BLOB NOT NULL, timeout_ms INTEGER NOT NULL);
"""
_CHILD_INDEX = "CREATE INDEX child ON node (parent);"
_SCHEMA = f"""
BEGIN;
{_TABLES}
{_CHILD_INDEX}
CREATE TABLE counter (transactions INTEGER NOT NULL);
INSERT INTO node VALUES ('/', NULL, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, 0);
INSERT INTO counter VALUES (0);
PRAGMA user_version = {_SCHEMA_VERSION};
COMMIT;
"""
_SOURCES = {
    1: """
        SELECT path, parent, data, version, created, modified, children, 0, 0, children + sequence, NULL, 0, 0, created
        FROM (SELECT *, (
            SELECT count(*) FROM old AS child WHERE child.parent = old.path AND NOT child.ephemeral
        ) AS children FROM old) WHERE NOT ephemeral""",
    2: """
        SELECT path, parent, data, version, created, modified, children_version, created_ms, owner, creations, acl,
        created_ms, 0, created FROM old""",
}
_MIGRATION = f"""
BEGIN IMMEDIATE;
ALTER TABLE node RENAME TO old;
{_TABLES}
INSERT INTO node {{source}};
DROP TABLE old;
{_CHILD_INDEX}
PRAGMA user_version = {_SCHEMA_VERSION};
COMMIT;
"""
_OWNERS = "SELECT owner FROM node WHERE owner <> 0"
_ALL_SESSIONS = f"{_OWNERS} UNION SELECT id FROM session"
_UNKNOWN_SESSIONS = f"{_OWNERS} EXCEPT SELECT id FROM session"  # a single broker's session has no row


@attrs.define(eq=False, repr=False)
class TreeFile:
    """An open file; `sessions` and `nodes` are what it held then, `last` its last transaction. All methods block."""

    directory: str
    _connection: sqlite3.Connection
    _lock_file: int
    sessions: list[Session]
    nodes: Nodes
    last: int

    @classmethod
    def open(cls, directory: str, now_ms: int, *, keeps_sessions: bool) -> TreeFile:
        """Open or create a file; raise StartupError if it is in use, unreadable or cannot be written.

        End sessions that nobody goes on with. With `keeps_sessions`, those of the table `session` stay.
        """
        lock_file = _lock(directory)
        path = os.path.join(directory, FILE_NAME)
        disk_reserve.release(directory)
        with ExitStack() as undo:
            undo.callback(os.close, lock_file)
            _keep_private(path)
            try:
                connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
                undo.callback(connection.close)
                _prepare(connection)
                disk_reserve.hold(path, connection)
                _end_sessions(connection, now_ms, _UNKNOWN_SESSIONS if keeps_sessions else _ALL_SESSIONS)
                tree = cls(directory, connection, lock_file, *contents(connection))
            except (sqlite3.Error, StartupError) as error:
                raise StartupError(f"{path}: {error}") from error
            undo.pop_all()
            return tree

    def write(self, writes: Sequence[Write], now_ms: int) -> list[WriteResult]:
        """Write and sync; a result's error may be NoRoom or Unavailable."""
        try:
            return _write_all(self._connection, writes, now_ms)
        except sqlite3.Error as error:
            if len(writes) == 1:
                failure = NoRoom if disk_reserve.is_full(error) else Unavailable
                return [WriteResult(0, error=failure(f"{writes[0].path} ({error})"))]
        return [result for write in writes for result in self.write([write], now_ms)]

    def close(self, last: Sequence[Write] = (), now_ms: int = 0) -> None:
        """Close the file after some last writes, whose failures the next start makes good."""
        if last:
            self.write(last, now_ms)
        self._connection.close()
        disk_reserve.hold_for_next(self.directory, os.path.join(self.directory, FILE_NAME))
        os.close(self._lock_file)


def copy_tree(directory: str, target: str) -> None:
    """Copy a directory's tree, open or closed; raise StartupError if that fails. Blocks."""
    path, copied = os.path.join(directory, FILE_NAME), os.path.join(target, FILE_NAME)
    _keep_private(copied)
    try:
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copied)) as copy:
            source.backup(copy)
    except sqlite3.Error as error:
        raise StartupError(f"{path}: {error}") from error


def _keep_private(path: str) -> None:
    """Create a file for its owner only, and SQLite makes its WAL alike; take others' rights to an older one.

    SQLite reports what fails.
    """
    with suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    for file_path in (path, f"{path}-wal", f"{path}-shm"):
        with suppress(OSError):  # missing, or of another user
            mode = os.stat(file_path).st_mode
            if mode & _OTHERS:
                os.chmod(file_path, mode & 0o777 & ~_OTHERS)


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


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA journal_mode = WAL")
    ((version,),) = connection.execute("PRAGMA user_version").fetchall()
    if version == 0:
        create_tables(connection)
    elif version in _SOURCES:
        _migrate(connection, _MIGRATION.format(source=_SOURCES[version]))
    elif version != _SCHEMA_VERSION:
        raise StartupError(f"written by a newer release (schema version {version}, not {_SCHEMA_VERSION})")


def create_tables(connection: sqlite3.Connection) -> None:
    connection.executescript(_SCHEMA)


def _migrate(connection: sqlite3.Connection, script: str) -> None:
    try:
        disk_reserve.with_reserve(connection, lambda: _in_one_transaction(connection, script))
    except sqlite3.Error as error:
        raise StartupError(f"cannot be migrated to schema version {_SCHEMA_VERSION}: {error}") from error


def _in_one_transaction(connection: sqlite3.Connection, script: str) -> None:
    try:
        connection.executescript(script)
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _end_sessions(connection: sqlite3.Connection, now_ms: int, query: str) -> None:
    if writes := [Write(EndSession(session_id)) for (session_id,) in connection.execute(query).fetchall()]:
        _write_all(connection, writes, now_ms)


def _write_all(connection: sqlite3.Connection, writes: Sequence[Write], now_ms: int) -> list[WriteResult]:
    return disk_reserve.with_reserve(connection, lambda: write_all(connection, writes, now_ms))


def contents(connection: sqlite3.Connection) -> tuple[list[Session], Nodes, int]:
    sessions = [Session(*columns) for columns in connection.execute("SELECT * FROM session")]
    rows = connection.execute(f"SELECT path, {COLUMNS} FROM node")
    nodes = Nodes.of((path, Row(*columns)) for path, *columns in rows)
    ((last,),) = connection.execute("SELECT transactions FROM counter").fetchall()
    return sessions, nodes, last
