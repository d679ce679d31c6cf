"""The coordination tree: what it keeps, what it says, how it refuses."""

# ruff: noqa: N805  (the methods of an interface have no self)

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
from zope.interface import Interface

from pylogbroker.errors import PylogbrokerError


class CoordinationError(PylogbrokerError):
    """An operation on the coordination tree that was refused; nothing was changed. `path` is the node it was about."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"{type(self).__name__}: {path}")


class NoNode(CoordinationError):
    """The node, or the parent of a node to create, does not exist."""


class NodeExists(CoordinationError):
    """The node to create exists."""


class BadVersion(CoordinationError):
    """The node has been changed since the version that the caller knows."""


class NotEmpty(CoordinationError):
    """The node to delete has children."""


class NoChildrenForEphemerals(CoordinationError):
    """The parent of the node to create is ephemeral."""


class Unavailable(CoordinationError):
    """The tree cannot be read or written now; whether a change was made is not known."""


class NoRoom(Unavailable):
    """The tree's disk is full; nothing was changed."""


@attrs.frozen
class Stat:
    """What is known of a node besides its data."""

    version: int  # how often the data was set
    created: int  # the number of the transaction that created the node: grows over the whole tree
    modified: int  # the number of the transaction that set its data last
    ephemeral: bool = False


@attrs.frozen
class Node:
    """A node's data, and what else is known of it."""

    data: bytes
    stat: Stat


@attrs.frozen
class Create:
    """Create a node below an existing one.

    An ephemeral node goes when the session that created it ends, and has no children. A sequence node gets ten digits
    appended to its path, larger than those of any sequence node that the parent had before.
    """

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequence: bool = False


@attrs.frozen
class SetData:
    """Replace a node's data, if its version is `version`; -1 is any version."""

    path: str
    data: bytes
    version: int = -1


@attrs.frozen
class Delete:
    """Delete a node without children, if its version is `version`; -1 is any version."""

    path: str
    version: int = -1


@attrs.frozen
class Check:
    """Change nothing, but refuse the transaction unless the node's version is `version`; -1 is any version."""

    path: str
    version: int = -1


Operation = Create | SetData | Delete | Check


@attrs.frozen
class Changed:
    """What a watch is told: the node that was watched has changed, or its children have."""

    path: str


Watch = Callable[[Changed], object]


class ITree(Interface):
    """A tree of small nodes that the brokers of a cluster share, with the semantics of ZooKeeper.

    Paths are absolute (`/brokers/ids/0`); the root `/` always exists. All methods are called on the reactor thread; any
    of them may raise Unavailable. What one caller has awaited is seen by every later call. A watch is called once, on
    the reactor thread, after a change; whoever wants the next change asks again.
    """

    async def get(path: str, watch: Watch | None = None) -> Node:
        """The node at `path`; NoNode if there is none. The watch fires when its data is set or it is deleted."""

    async def exists(path: str, watch: Watch | None = None) -> Stat | None:
        """What is known of the node at `path`, or None. The watch fires when it is created, set or deleted."""

    async def children(path: str, watch: Watch | None = None) -> list[str]:
        """The names of a node's children, sorted; NoNode if there is no such node.

        The watch fires when a child is created or deleted, or the node itself is deleted.
        """

    async def get_many(paths: Sequence[str]) -> list[Node | None]:
        """The nodes at the paths, in their order, None for each that does not exist: one step for ten thousand."""

    async def children_with_data(path: str) -> dict[str, Node]:
        """The children of a node by their names, sorted; NoNode if there is no such node."""

    async def commit(operations: Sequence[Operation]) -> list[str]:
        """Do all the operations in their order, or none of them; return the path of the node of each.

        Raises the error of the first operation that cannot be done: NoNode, NodeExists, BadVersion, NotEmpty or
        NoChildrenForEphemerals. Once it has returned, the change outlives a loss of power.
        """

    async def close() -> None:
        """End the session, after the commits that are under way: its ephemeral nodes go, its watches never fire.

        The tree is not used again.
        """
