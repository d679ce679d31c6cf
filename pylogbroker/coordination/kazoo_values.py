"""Values of kazoo, and what they are to users of a coordination tree: stats, ACLs and errors."""

from __future__ import annotations

from typing import Final

from kazoo import exceptions as kazoo
from kazoo.protocol.states import ZnodeStat
from kazoo.security import ACL, Id

from pylogbroker.interfaces import (
    Acl,
    BadVersion,
    CoordinationError,
    Create,
    InvalidAcl,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    NotPermitted,
    Operation,
    SessionExpired,
    Stat,
    Unavailable,
)

EPHEMERAL: Final = 1
SEQUENCE: Final = 2
_ERRORS: Final[dict[type[Exception], type[CoordinationError]]] = {
    kazoo.NoNodeError: NoNode,
    kazoo.NodeExistsError: NodeExists,
    kazoo.BadVersionError: BadVersion,
    kazoo.NotEmptyError: NotEmpty,
    kazoo.NoChildrenForEphemeralsError: NoChildrenForEphemerals,
    kazoo.NoAuthError: NotPermitted,
    kazoo.InvalidACLError: InvalidAcl,
    kazoo.SessionExpiredError: SessionExpired,
}
CONSEQUENCES: Final = (kazoo.RolledBackError, kazoo.RuntimeInconsistency)  # of another operation's error


def stat_of(stat: ZnodeStat) -> Stat:
    return Stat(stat.version, stat.czxid, stat.mzxid, stat.cversion, stat.ctime, stat.ephemeralOwner)


def kazoo_acl(acl: Acl) -> ACL:
    return ACL(int(acl.permissions), Id(acl.scheme, acl.id))


def error_at(path: str, error: Exception) -> CoordinationError:
    kind = _ERRORS.get(type(error))
    return Unavailable(f"{path} ({str(error) or type(error).__name__})") if kind is None else kind(path)


def operation_error(operation: Operation, error: Exception) -> CoordinationError:
    """Return the error with the path that it is about: a creation may fail because of the parent."""
    if isinstance(operation, Create) and isinstance(error, kazoo.NoNodeError | kazoo.NoChildrenForEphemeralsError):
        return error_at(operation.path.rpartition("/")[0] or "/", error)
    return error_at(operation.path, error)
