"""Errors of users without rights: who may not do what to which resource, and the command that allows it.

A broker's error has only the kind of the resource. The operation follows from the request, or from what the whole
command needs.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from pylogbroker.client.admin import ItemsFailed
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.wire import Request

_KINDS: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "cluster",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional-id",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "delegation-token",
}
_TOPIC: Final = "topic"
_GROUP: Final = "group"
_CLUSTER: Final = "cluster"
_TRANSACTION: Final = "transactional-id"
#: Operations that requests need, by the kind of the resource.
_OPERATIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "AlterClientQuotasRequest": {_CLUSTER: "alter-configs"},
    "AlterConfigsRequest": {_TOPIC: "alter-configs", _GROUP: "alter-configs", _CLUSTER: "alter-configs"},
    "AlterPartitionReassignmentsRequest": {_CLUSTER: "alter"},
    "AlterReplicaLogDirsRequest": {_CLUSTER: "alter"},
    "AlterUserScramCredentialsRequest": {_CLUSTER: "alter"},
    "ConsumerGroupDescribeRequest": {_GROUP: "describe", _TOPIC: "describe"},
    "CreateAclsRequest": {_CLUSTER: "alter"},
    "CreatePartitionsRequest": {_TOPIC: "alter"},
    "CreateTopicsRequest": {_TOPIC: "create", _CLUSTER: "create"},
    "DeleteAclsRequest": {_CLUSTER: "alter"},
    "DeleteGroupsRequest": {_GROUP: "delete"},
    "DeleteRecordsRequest": {_TOPIC: "delete"},
    "DeleteTopicsRequest": {_TOPIC: "delete"},
    "DescribeAclsRequest": {_CLUSTER: "describe"},
    "DescribeClientQuotasRequest": {_CLUSTER: "describe-configs"},
    "DescribeClusterRequest": {_CLUSTER: "describe"},
    "DescribeConfigsRequest": {
        _TOPIC: "describe-configs",
        _GROUP: "describe-configs",
        _CLUSTER: "describe-configs",
    },
    "DescribeDelegationTokenRequest": {"delegation-token": "describe"},
    "DescribeGroupsRequest": {_GROUP: "describe"},
    "DescribeLogDirsRequest": {_CLUSTER: "describe"},
    "DescribeProducersRequest": {_TOPIC: "read"},
    "DescribeTransactionsRequest": {_TRANSACTION: "describe", _TOPIC: "describe"},
    "DescribeUserScramCredentialsRequest": {_CLUSTER: "describe"},
    "ElectLeadersRequest": {_CLUSTER: "alter"},
    "FetchRequest": {_TOPIC: "read"},
    "FindCoordinatorRequest": {_GROUP: "describe", _TRANSACTION: "describe"},
    "IncrementalAlterConfigsRequest": {_TOPIC: "alter-configs", _GROUP: "alter-configs", _CLUSTER: "alter-configs"},
    "LeaveGroupRequest": {_GROUP: "read"},
    "ListOffsetsRequest": {_TOPIC: "describe"},
    "ListPartitionReassignmentsRequest": {_CLUSTER: "describe"},
    "MetadataRequest": {_TOPIC: "describe", _CLUSTER: "create"},
    "OffsetCommitRequest": {_GROUP: "read", _TOPIC: "read"},
    "OffsetDeleteRequest": {_GROUP: "delete", _TOPIC: "read"},
    "OffsetFetchRequest": {_GROUP: "describe", _TOPIC: "describe"},
    "UpdateFeaturesRequest": {_CLUSTER: "alter"},
    "WriteTxnMarkersRequest": {_CLUSTER: "alter"},
}
#: Subjects that the client puts before a broker's error.
_SUBJECT: Final = re.compile(r"(?:(?:topic|group|transactional id) (?P<name>\S+)|(?P<topic>\S+)/\d+): ")
_LINE: Final = re.compile(r"lines? \d+(?: to \d+)?: ")


@attrs.frozen
class Right:
    """An operation on a resource. Its name is None for the cluster, or if it is unknown."""

    operation: str
    kind: str
    name: str | None = None


class NotAllowed(KafkaError):
    """Rejection of a user without rights, with the right that is missing."""


def explained(
    error: PylogbrokerError, requests: Sequence[Request], needs: Mapping[str, Right], principal: str | None
) -> PylogbrokerError:
    """Return errors of access with the missing right, and others as they are.

    `requests` are those of the call; `needs` has what the whole command needs for a kind of resource.
    """
    if isinstance(error, ItemsFailed):
        errors = {item: _one(problem, requests, needs, principal, item) for item, problem in error.errors.items()}
        return ItemsFailed(errors, error.results)
    explanation = _one(error, requests, needs, principal, None)
    assert isinstance(explanation, PylogbrokerError)
    return explanation


def _one(
    error: Exception, requests: Sequence[Request], needs: Mapping[str, Right], principal: str | None, item: Any
) -> Exception:
    if not isinstance(error, KafkaError) or isinstance(error, NotAllowed) or error.code not in _KINDS:
        return error
    kind = _KINDS[error.code]
    right = needs.get(kind) or _right_of(kind, requests)
    if right is None:
        return error
    if right.name is None and right.kind == kind:
        right = attrs.evolve(right, name=_name(kind, error.detail, requests, item))
    place = _LINE.match(error.detail)
    return NotAllowed((place[0] if place else "") + _text(right, principal), error.code)


def _right_of(kind: str, requests: Sequence[Request]) -> Right | None:
    """Return what the last request that concerns this kind of resource needs."""
    for request in reversed(requests):
        operation = _OPERATIONS.get(type(request).__name__, {}).get(kind)
        if operation is not None:
            return Right(operation, kind)
    return None


def _name(kind: str, detail: str, requests: Sequence[Request], item: Any) -> str | None:
    """Return the name of the resource, None if it is unknown."""
    if kind == _CLUSTER:
        return None
    if isinstance(item, tuple) and item and isinstance(item[0], str):
        return item[0]
    if isinstance(item, str):
        return item
    if subject := _SUBJECT.match(detail):
        return subject["name"] or subject["topic"]
    names = {name for request in requests for name in _names_in(kind, request)}
    return names.pop() if len(names) == 1 else None


def _names_in(kind: str, request: Request) -> Iterable[str]:
    """Return names of resources that a request is about."""
    fields = {_TOPIC: ("topics",), _GROUP: ("group_id", "groups", "key", "coordinator_keys")}.get(kind, ())
    for field in fields:
        value = getattr(request, field, None)
        for part in value if isinstance(value, list) else [value]:
            name = part if isinstance(part, str) else getattr(part, "name", None) or getattr(part, "group_id", None)
            if isinstance(name, str) and name:
                yield name


def _text(right: Right, principal: str | None) -> str:
    resource = "the cluster" if right.kind == _CLUSTER else f"{right.kind} {right.name or ''}".rstrip()
    words = ["pylogbroker", "acl", "create", "allow", principal or "User:NAME", right.operation]
    words += ["--resource", right.kind]
    if right.kind != _CLUSTER:
        words += ["--name", right.name or "NAME"]
    who, command = principal or "this client's user", shlex.join(words)
    return f"not allowed: {who} needs {right.operation} on {resource}, which an administrator gives by: {command}"
