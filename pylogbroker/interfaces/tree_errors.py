"""Errors of the coordination tree."""

from __future__ import annotations

from pylogbroker.errors import PylogbrokerError


class CoordinationError(PylogbrokerError):
    """Failed operation on node `path`; nothing was changed, except perhaps by `Unavailable`."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"{type(self).__name__}: {path}")


class NoNode(CoordinationError):
    """The node, or the new node's parent, does not exist."""


class NodeExists(CoordinationError):
    """The new node exists."""


class BadVersion(CoordinationError):
    """The node has changed since the given version."""


class NotEmpty(CoordinationError):
    """The node to delete has children."""


class NoChildrenForEphemerals(CoordinationError):
    """The new node's parent is ephemeral."""


class NotPermitted(CoordinationError):
    """The node's ACL forbids the operation to this session."""


class InvalidAcl(CoordinationError):
    """The new node's ACL is empty or invalid, or is of the creator, who is not authenticated."""


class Unavailable(CoordinationError):
    """The tree cannot be read or written; a change's outcome is unknown.

    Whether the change was made shows only in the tree: the caller reads again, and compares data, versions or owners.
    """


class SessionExpired(Unavailable):
    """The session has ended, with its ephemeral nodes and watches; `new_session` starts another."""


class NoRoom(Unavailable):
    """The tree's disk is full; nothing was changed."""
