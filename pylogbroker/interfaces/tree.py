"""The coordination tree: nodes, operations and watches."""

# ruff: noqa: N805  (the methods of an interface have no self)

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, IntFlag
from typing import Final

import attrs
from zope.interface import Attribute, Interface


@attrs.frozen
class Stat:
    """A node's metadata; ZooKeeper's names are in brackets."""

    version: int  # how often the data was set
    created: int  # number of the creating transaction (czxid); grows over the whole tree
    modified: int  # number of the last transaction that set the data (mzxid)
    children_version: int = 0  # how often a child was created or deleted (cversion)
    created_ms: int = 0  # time of the creation (ctime)
    owner: int = 0  # session that an ephemeral node ends with, else 0 (ephemeralOwner)


@attrs.frozen
class Node:
    """A node's data, which may be null, and its metadata."""

    data: bytes | None
    stat: Stat


class Permission(IntFlag):
    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16
    ALL = 31


@attrs.frozen
class Acl:
    """Permissions of one identity, as ZooKeeper has them: `world` `anyone`, `digest` `user:hash`, `sasl` `user`."""

    scheme: str
    id: str
    permissions: Permission


OPEN_ACL: Final = (Acl("world", "anyone", Permission.ALL),)
CREATOR_ACL: Final = (Acl("auth", "", Permission.ALL),)  # ZooKeeper stores the session's identities
READABLE_ACL: Final = (*CREATOR_ACL, Acl("world", "anyone", Permission.READ))
DefaultAcl = Callable[[str], Sequence[Acl]]  # of a new node's path


@attrs.frozen
class Create:
    """Create a node below an existing one.

    An ephemeral node ends with its session and has no children. A sequence node gets ten digits appended to its path:
    the number of nodes that were created below its parent before. Without an ACL it gets the tree's default.
    """

    path: str
    data: bytes | None = None
    ephemeral: bool = False
    sequence: bool = False
    acl: Sequence[Acl] | None = None


@attrs.frozen
class SetData:
    """Replace a node's data at this version; -1 matches any."""

    path: str
    data: bytes | None
    version: int = -1


@attrs.frozen
class Delete:
    """Delete a childless node at this version; -1 matches any."""

    path: str
    version: int = -1


@attrs.frozen
class Check:
    """Fail the transaction unless the node has this version; -1 matches any."""

    path: str
    version: int = -1


Operation = Create | SetData | Delete | Check


@attrs.frozen
class OperationResult:
    """Path of an operation's node; after SetData also the node's metadata."""

    path: str
    stat: Stat | None = None


@attrs.frozen
class Changed:
    """A watched node, or its children, changed."""

    path: str


Watch = Callable[[Changed], object]


class SessionState(Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"  # the connection is lost; the session lives on for its timeout
    EXPIRED = "expired"


@attrs.frozen
class SessionEvent:
    """Change of the session's state; CONNECTED with another id is a new session."""

    state: SessionState
    session_id: int


SessionListener = Callable[[SessionEvent], object]


class ITree(Interface):
    """Tree of small nodes that a cluster's brokers share, with ZooKeeper's semantics.

    Paths are absolute (`/brokers/ids/0`); the root `/` always exists. Methods are called on the reactor thread; any may
    raise Unavailable or NotPermitted. Every call sees all changes that an earlier caller has awaited.

    A watch is called once, on the reactor thread, after a change; to see the next, read again with a watch. A change
    between a watch's call and the next read shows in what is read. After a reconnection watches are called too, since
    changes may have been missed. The end of the session drops them.

    An expired session is not replaced by itself: listeners get EXPIRED, calls in progress and later ones raise
    SessionExpired, until the owner of the tree has called `new_session`.
    """

    session_id: int = Attribute("Number of the session: the owner of its ephemeral nodes.")
    earlier_sessions: Sequence[int] = Attribute("Numbers of this tree's expired sessions.")

    def watch_session(listener: SessionListener) -> None:
        """Call the listener on the reactor thread at each change of the session's state."""

    async def new_session() -> None:
        """Start a new session if the last one has expired; raise Unavailable if that fails."""

    async def get(path: str, watch: Watch | None = None) -> Node:
        """Return the node; raise NoNode. The watch fires on SetData and Delete."""

    async def exists(path: str, watch: Watch | None = None) -> Stat | None:
        """Return the node's metadata, or None. The watch fires on Create, SetData and Delete."""

    async def children(path: str, watch: Watch | None = None) -> list[str]:
        """Return the sorted names of a node's children; raise NoNode.

        The watch fires when a child is created or deleted, or the node is deleted.
        """

    async def get_many(paths: Sequence[str]) -> list[Node | None]:
        """Return nodes in the order of `paths`, None for missing ones. Ten thousand paths cost one call."""

    async def children_with_data(path: str) -> dict[str, Node]:
        """Return a node's children by name, sorted; raise NoNode."""

    async def acl(path: str) -> tuple[Acl, ...]:
        """Return the node's ACL; raise NoNode."""

    async def commit(operations: Sequence[Operation]) -> list[OperationResult]:
        """Apply all operations in order, or none; return a result for each.

        Raise the first failing operation's error: NoNode, NodeExists, BadVersion, NotEmpty, NoChildrenForEphemerals,
        InvalidAcl. A change survives a power failure once the call has returned.
        """

    async def close() -> None:
        """End the session after commits in progress: delete its ephemeral nodes, drop its watches.

        No call may follow.
        """
