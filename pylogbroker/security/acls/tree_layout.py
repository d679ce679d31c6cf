"""ACLs in the coordination tree, in the layout of Kafka's AclAuthorizer.

/kafka-acl/<Type>/<name>                     entries of a literal name
/kafka-acl-extended/prefixed/<Type>/<name>   entries of a prefix
/kafka-acl-changes/acl_changes_<seq>         `TYPE:name`: a literal name's entries changed
/kafka-acl-extended-changes/acl_changes_<seq>    the same of a prefix, as JSON

Entries are `{"acls":[{"principal":"User:a","permissionType":"Allow","host":"*","operation":"Read"}],"version":1}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from pylogbroker.security.acls.bindings import (
    AccessControlEntry,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
    kafka_name,
)

_VERSION: Final = 1
_CHANGE_NAME: Final = "acl_changes_"
_ROOTS: Final = {PatternType.LITERAL: "/kafka-acl", PatternType.PREFIXED: "/kafka-acl-extended/prefixed"}
_CHANGES: Final = {PatternType.LITERAL: "/kafka-acl-changes", PatternType.PREFIXED: "/kafka-acl-extended-changes"}
STORED_TYPES: Final = tuple(kind for kind in AclResourceType if kind is not AclResourceType.ANY)
STORED_PATTERNS: Final = tuple(_ROOTS)


_OPERATIONS: Final = {
    kafka_name(operation): operation for operation in AclOperation if operation is not AclOperation.ANY
}
_PERMISSIONS: Final = {kafka_name(permission): permission for permission in (AclPermission.ALLOW, AclPermission.DENY)}


class BadAcls(ValueError):
    """A node with ACLs cannot be read; the message says why."""


def type_path(pattern: PatternType, kind: AclResourceType) -> str:
    return f"{_ROOTS[pattern]}/{kafka_name(kind)}"


def path(resource: ResourcePattern) -> str:
    return f"{type_path(resource.pattern, resource.type)}/{resource.name}"


def can_be_stored(name: str) -> bool:
    """Return whether a node may have this name."""
    return "/" not in name and "\0" not in name and name not in (".", "..")


def changes_path(pattern: PatternType) -> str:
    return _CHANGES[pattern]


def new_change_path(pattern: PatternType) -> str:
    """Return the path of a sequence node."""
    return f"{_CHANGES[pattern]}/{_CHANGE_NAME}"


def permanent_paths() -> list[str]:
    """Return the paths of the nodes that an authorizer makes at its start, parents first; their data is null."""
    paths = ["/kafka-acl", "/kafka-acl-extended"]
    for pattern, root in _ROOTS.items():
        paths += [root] if root not in paths else []
        paths += [type_path(pattern, kind) for kind in STORED_TYPES]
    return [*paths, *_CHANGES.values()]


def encode_entries(entries: Iterable[AccessControlEntry]) -> bytes:
    acls = [
        {
            "principal": entry.principal,
            "permissionType": kafka_name(entry.permission),
            "host": entry.host,
            "operation": kafka_name(entry.operation),
        }
        for entry in sorted(entries, key=lambda acl: (acl.principal, acl.operation, acl.permission, acl.host))
    ]
    return json.dumps({"acls": acls, "version": _VERSION}, separators=(",", ":"), ensure_ascii=False).encode()


def decode_entries(data: bytes | None) -> frozenset[AccessControlEntry]:
    """Return a node's entries; raise BadAcls."""
    if not data:
        return frozenset()
    try:
        fields: Any = json.loads(data)
        if fields["version"] != _VERSION:
            raise BadAcls(f"version {fields['version']} is not known")
        return frozenset(
            AccessControlEntry(
                acl["principal"],
                acl["host"],
                _OPERATIONS[acl["operation"]],
                _PERMISSIONS[acl["permissionType"]],
            )
            for acl in fields["acls"]
        )
    except (ValueError, KeyError, TypeError) as error:
        raise BadAcls(f"{type(error).__name__}: {error}") from error


def encode_change(resource: ResourcePattern) -> bytes:
    if resource.pattern is PatternType.LITERAL:
        return f"{resource.type.name}:{resource.name}".encode()
    change = {
        "version": _VERSION,
        "resourceType": resource.type.name,
        "name": resource.name,
        "patternType": resource.pattern.name,
    }
    return json.dumps(change, separators=(",", ":"), ensure_ascii=False).encode()


def decode_change(pattern: PatternType, data: bytes | None) -> ResourcePattern:
    """Return the resource whose entries changed; raise BadAcls."""
    try:
        text = (data or b"").decode()
        if pattern is PatternType.LITERAL:
            kind, _, name = text.partition(":")
        else:
            change = json.loads(text)
            kind, name = change["resourceType"], change["name"]
        return ResourcePattern(AclResourceType[kind.upper()], name, pattern)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadAcls(f"{type(error).__name__}: {error}") from error
