"""The coordination tree of a broker that is alone: the only session of a tree's file.

Its session has the number of the next transaction. Sessions that own nodes made a transaction, so their numbers differ.
Closing the tree removes all ephemeral nodes, opening it those that a crash left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
from zope.interface import implementer

from pylogbroker.interfaces import (
    Acl,
    ITree,
    Node,
    NoNode,
    Operation,
    OperationResult,
    SessionListener,
    Stat,
    Watch,
)
from pylogbroker.tree import acls
from pylogbroker.tree.database import Offload, TreeDatabase, at_once, wall_clock_ms
from pylogbroker.tree.memory_file import MemoryFile
from pylogbroker.tree.rows import Row
from pylogbroker.tree.transactions import EndSession, Write, WriteResult
from pylogbroker.tree.tree_file import TreeFile
from pylogbroker.tree.watches import Watches


@implementer(ITree)
@attrs.define(eq=False, repr=False)
class EmbeddedTree:
    """`offload` runs blocking work on another thread and awaits it. The session lasts until `close`."""

    _database: TreeDatabase
    session_id: int
    earlier_sessions: Sequence[int] = attrs.field(init=False, default=())
    _watches: Watches = attrs.field(init=False, factory=Watches)

    def __attrs_post_init__(self) -> None:
        self._database.listen(self._fire)

    @classmethod
    def open(
        cls, directory: str, offload: Offload = at_once, now_ms: Callable[[], int] = wall_clock_ms
    ) -> EmbeddedTree:
        """Open or create a tree; raise StartupError if it is in use, unreadable or cannot be written. Blocks."""
        file = TreeFile.open(directory, now_ms(), keeps_sessions=False)
        return cls(TreeDatabase(file, offload, now_ms), file.last + 1)

    @classmethod
    def in_memory(cls, now_ms: Callable[[], int] = wall_clock_ms) -> EmbeddedTree:
        """Return an empty tree that no file keeps."""
        return cls(TreeDatabase(MemoryFile.create(), at_once, now_ms), 1)

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        row = self._require(path)
        self._watches.on_node(path, watch)
        return row.node

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        row = self._database.nodes.get(path)
        self._watches.on_node(path, watch)
        return None if row is None else row.stat

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        self._require(path)
        self._watches.on_children(path, watch)
        return self._database.nodes.children(path)

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        rows = map(self._database.nodes.get, paths)
        return [None if row is None else row.node for row in rows]

    async def children_with_data(self, path: str) -> dict[str, Node]:
        names = await self.children(path)
        prefix = path.rstrip("/")
        return {name: self._require(f"{prefix}/{name}").node for name in names}

    async def acl(self, path: str) -> tuple[Acl, ...]:
        return acls.decode(self._require(path).acl)

    def watch_session(self, listener: SessionListener) -> None:
        """Do nothing: the session does not change."""

    async def new_session(self) -> None:
        """Do nothing: the session does not expire."""

    async def commit(self, operations: Sequence[Operation]) -> list[OperationResult]:
        result = await self._database.write(Write(operations, self.session_id))
        if result.error is not None:
            raise result.error
        return result.results

    async def close(self) -> None:
        self._watches.forget()
        await self._database.close([Write(EndSession(self.session_id))])

    def _fire(self, result: WriteResult) -> None:
        self._watches.fire(result.changed_nodes, result.changed_parents)

    def _require(self, path: str) -> Row:
        row = self._database.nodes.get(path)
        if row is None:
            raise NoNode(path)
        return row
