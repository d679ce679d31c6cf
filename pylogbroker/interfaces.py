"""The public seams of the broker: what can be put in place of what is built in.

Each interface says which thread its methods are called on, in which units its numbers are and how it fails.
"""

# ruff: noqa: N805  (the methods of an interface have no self)

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs
from zope.interface import Attribute, Interface

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


@attrs.frozen
class SegmentView:
    """What there is to know of one segment of a log. Sizes in bytes, times in milliseconds since 1970."""

    base_offset: int  # no record has a smaller offset
    next_offset: int  # the base offset of the segment that follows; of the last one, where the log ends
    size: int  # of the entries, without indexes
    largest_timestamp: int  # of its records; -1 if they have none
    modified_ms: int  # when its file was written to last
    active: bool  # whether it is the last one, that records are appended to


@attrs.frozen
class LogView:
    """The log of one partition at one moment: its segments, oldest first. An active one that is empty is left out."""

    topic: str
    partition: int
    segments: tuple[SegmentView, ...]


class IDeletePolicy(Interface):
    """Says which segments of a log may be deleted: one topic's policy, made by an `IDeletePolicyFactory`.

    It looks at values and answers with values: it neither touches files nor knows the log.
    """

    def deletable(log: LogView, now_ms: int) -> Iterable[SegmentView]:
        """The segments that may go: a run of `log.segments` from the oldest on, in their order; or none.

        Called on the reactor's thread, for each log of the topic every `log.retention.check.interval.ms`, and only if
        there are segments; must not block. `now_ms` is the time of day, in milliseconds since 1970. If the active
        segment is named, a new one is begun before it goes.

        The log takes from the answer what it can do: records that are not yet below the high watermark stay. Of
        several policies, each is asked about what the others leave. If this one raises, or names anything but the
        oldest segments in their order, nothing is deleted by it, and that is logged, once for each cause.
        """


class IDeletePolicyFactory(Interface):
    """Makes delete policies: a plugin.

    An instance, which provides `twisted.plugin.IPlugin` too, stands at the top level of a module that lies in a
    directory `pylogbroker/plugins`, without an `__init__.py`, of any directory of Python's path. Settings name it:
    `log.delete.policies` for all topics, `delete.policies` for one.
    """

    name: str = Attribute("What settings call it, made of a-z, 0-9 and -; unlike that of any other.")

    def make(argument: str, settings: Mapping[str, object]) -> IDeletePolicy:
        """The policy of a topic with these settings.

        `argument` is what a setting has behind the name and a colon: "3" in `delete.policies=newest-segments:3`; empty
        if it has none. It has no commas. `settings` are the values in force for the topic by their names
        (`retention.ms`), in Kafka's units, and immutable: when they change, a new policy is made.

        Raises ValueError, whose text ends the sentence "... is not accepted; ", if the argument is of no use; then the
        setting is refused to whoever sets it. Called on the reactor's thread, when settings are checked too; must not
        block.
        """
