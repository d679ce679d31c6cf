"""Values of kazoo, and what they are to users of a coordination tree: stats, ACLs, operations and errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from kazoo import exceptions as kazoo
from kazoo.protocol import serialization
from kazoo.protocol.states import ZnodeStat
from kazoo.security import ACL, Id

from pylogbroker.interfaces import (
    Acl,
    BadVersion,
    Check,
    CoordinationError,
    Create,
    Delete,
    InvalidAcl,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    NotPermitted,
    Operation,
    OperationResult,
    SessionExpired,
    SetData,
    Stat,
    Unavailable,
)

_EPHEMERAL: Final = 1
_SEQUENCE: Final = 2
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


def request_of(operation: Operation, path: str, default_acl: Callable[[str], Sequence[Acl]]) -> Any:
    """Return a part of a transaction; `path` is absolute."""
    match operation:
        case Create():
            acls = default_acl(operation.path) if operation.acl is None else operation.acl
            flags = _EPHEMERAL * operation.ephemeral | _SEQUENCE * operation.sequence
            return serialization.Create(path, operation.data, list(map(kazoo_acl, acls)), flags)
        case SetData():
            return serialization.SetData(path, operation.data, operation.version)
        case Delete():
            return serialization.Delete(path, operation.version)
        case Check():
            return serialization.CheckVersion(path, operation.version)


def result_of(operation: Operation, answer: Any, chroot_length: int) -> OperationResult:
    match operation:
        case Create():
            return OperationResult(answer[chroot_length:])
        case SetData():
            return OperationResult(operation.path, stat_of(answer))
        case _:
            return OperationResult(operation.path)


def error_at(path: str, error: Exception) -> CoordinationError:
    kind = _ERRORS.get(type(error))
    return Unavailable(f"{path} ({str(error) or type(error).__name__})") if kind is None else kind(path)


def operation_error(operation: Operation, error: Exception) -> CoordinationError:
    """Return the error with the path that it is about: a creation may fail because of the parent."""
    if isinstance(operation, Create) and isinstance(error, kazoo.NoNodeError | kazoo.NoChildrenForEphemeralsError):
        return error_at(operation.path.rpartition("/")[0] or "/", error)
    return error_at(operation.path, error)
