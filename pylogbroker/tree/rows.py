"""Nodes of a tree as rows of its file and as a mirror in memory, which all reads use.

One table has a row for each node:

    path                the key; the root is `/`
    data                bytes, or null
    version             number of times that the data was set
    created, modified   transaction numbers
    children_version    number of times that a child was created or deleted
    created_ms          time of the creation; 0 for nodes of schema version 1
    owner               session that an ephemeral node ends with; 0 for others
    creations           number of children created, which is also the number of the next sequential child
    acl                 JSON: [[scheme, id, permissions], ...]; null if open to all
    modified_ms         time of the last change of the data; `created_ms` at first
    acl_version         number of times that the ACL was set
    children_modified   number of the last transaction that created or deleted a child; `created` at first
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator
from itertools import repeat
from sys import intern
from typing import Final, NamedTuple

import attrs

from pylogbroker.interfaces import Node, Stat


class Row(NamedTuple):
    """A node without its path."""

    data: bytes | None
    version: int
    created: int
    modified: int
    children_version: int
    created_ms: int
    owner: int
    creations: int
    acl: str | None
    modified_ms: int
    acl_version: int
    children_modified: int

    @property
    def stat(self) -> Stat:
        return Stat(self.version, self.created, self.modified, self.children_version, self.created_ms, self.owner)

    @property
    def node(self) -> Node:
        return Node(self.data, self.stat)


COLUMNS: Final = ", ".join(Row._fields)


def split(path: str) -> tuple[str, str]:
    """Return a node's parent and name."""
    parent, _, name = path.rpartition("/")
    return parent or "/", intern(name)  # many nodes have the same name


def join(parent: str, name: str) -> str:
    return f"/{name}" if parent == "/" else f"{parent}/{name}"


@attrs.frozen
class NodeChanges:
    """Nodes that a transaction leaves created or changed, and those that it leaves deleted.

    Made on a worker thread, so that the reactor thread only merges dictionaries, also for ten thousand nodes.
    """

    rows: dict[str, Row] = attrs.field(factory=dict)
    added: dict[str, dict[str, None]] = attrs.field(factory=dict)  # names by parent
    deleted: list[str] = attrs.field(factory=list)
    removed: list[tuple[str, str]] = attrs.field(factory=list)  # parents that stay, and names that they lose

    @classmethod
    def of(cls, rows: Iterable[tuple[str, Row | None]], created: Container[str]) -> NodeChanges:
        changes = cls()
        for path, row in rows:
            if row is None:
                changes.deleted.append(path)
                continue
            changes.rows[path] = row
            if path in created and path != "/":
                parent, name = split(path)
                changes.added.setdefault(parent, {})[name] = None
        deleted = set(changes.deleted)
        changes.removed.extend(place for place in map(split, changes.deleted) if place[0] not in deleted)
        return changes


@attrs.define
class Nodes:
    """All nodes of a tree by path."""

    _rows: dict[str, Row] = attrs.field(factory=dict)
    _names: dict[str, dict[str, None]] = attrs.field(factory=dict, init=False)  # of children, by parent

    @classmethod
    def of(cls, rows: Iterable[tuple[str, Row]]) -> Nodes:
        by_path = dict(rows)
        nodes = cls()
        nodes.apply(NodeChanges.of(by_path.items(), by_path))
        return nodes

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def get(self, path: str) -> Row | None:
        return self._rows.get(path)

    def children(self, path: str) -> list[str]:
        """Return the sorted names of a node's children."""
        return sorted(self._names.get(path, ()))

    def child_count(self, path: str) -> int:
        return len(self._names.get(path, ()))

    def apply(self, changes: NodeChanges) -> None:
        self._rows.update(changes.rows)
        for parent, names in changes.added.items():
            children = self._names.setdefault(parent, names)
            if children is not names:
                children.update(names)
        for table in (self._rows, self._names):
            deque(map(table.pop, changes.deleted, repeat(None)), maxlen=0)  # in C: there may be ten thousand
        for parent, name in changes.removed:
            siblings = self._names.get(parent, {})
            siblings.pop(name, None)
            if not siblings:
                self._names.pop(parent, None)
