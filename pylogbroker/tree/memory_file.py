"""A coordination tree that no file keeps: its source is elsewhere, and it is filled again at each start."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import attrs

from pylogbroker.tree.rows import Nodes
from pylogbroker.tree.transactions import Session, Write, WriteResult, write_all
from pylogbroker.tree.tree_file import contents, create_tables


@attrs.define(eq=False, repr=False)
class MemoryFile:
    """Takes the place of `TreeFile`."""

    _connection: sqlite3.Connection
    sessions: list[Session]
    nodes: Nodes
    last: int

    @classmethod
    def create(cls) -> MemoryFile:
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        create_tables(connection)
        return cls(connection, *contents(connection))

    def write(self, writes: Sequence[Write], now_ms: int) -> list[WriteResult]:
        return write_all(self._connection, writes, now_ms)

    def close(self, last: Sequence[Write] = (), now_ms: int = 0) -> None:
        self._connection.close()
