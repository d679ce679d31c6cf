"""Decisions of Kafka's StandardAuthorizer, as a value.

1. A super user may do all.
2. Of the ACLs whose pattern covers the resource, those count whose principal is the caller's or `User:*`, whose host is
   the caller's or `*`, and whose operation fits. One DENY among them denies, else one ALLOW allows.
3. If none counts, but some cover the resource, it is denied. If none covers it, `allow.everyone.if.no.acl.found`
   decides.

An ALLOW of READ, WRITE, DELETE or ALTER implies DESCRIBE, and one of ALTER_CONFIGS implies DESCRIBE_CONFIGS; a DENY
implies nothing. Sources: StandardAuthorizerData and Authorizer.authorizeByResourceType of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv6Address, ip_address
from typing import Final

import attrs

from pylogbroker.security.acls.bindings import (
    WILDCARD,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)
from pylogbroker.security.acls.index import AclIndex

_PROBE_NAME: Final = "hardcode"
"""Kafka's name of a resource that it checks first for "on any": who may do it there may do it."""

_DESCRIBING: Final = frozenset(
    {AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
)
_DESCRIBING_CONFIGS: Final = frozenset({AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS})

SUPPORTED_OPERATIONS: Final[Mapping[AclResourceType, tuple[AclOperation, ...]]] = {
    AclResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
}
"""Operations that answers list for a resource (KIP-430)."""


def bit_field(operations: Iterable[AclOperation]) -> int:
    """Return the 32-bit field in responses: bit n stands for operation code n."""
    return sum(1 << operation for operation in operations)


def kafka_host(address: str) -> str:
    """Return an IP address in the form in which Kafka compares it with the hosts of ACLs, which is Java's."""
    plain, zone, name = address.partition("%")
    try:
        parsed = ip_address(plain)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in parsed.exploded.split(":")) + zone + name


@attrs.frozen
class Authorizer:
    acls: AclIndex = attrs.field(factory=AclIndex)
    super_users: frozenset[str] = frozenset()
    allow_everyone: bool = False
    """True if all may be done with resources that no ACL covers."""

    def allows(self, principal: str, host: str, operation: AclOperation, kind: AclResourceType, name: str) -> bool:
        if principal in self.super_users:
            return True
        covered = allowed = False
        for acls in self.acls.covering(kind, name):
            covered = True
            for entry in acls.concerning(principal):
                if entry.host in (host, WILDCARD):
                    if entry.permission is AclPermission.ALLOW:
                        allowed = allowed or _allows(entry.operation, operation)
                    elif entry.operation in (operation, AclOperation.ALL):
                        return False
        return allowed if covered else self.allow_everyone

    def allows_on_any(self, principal: str, host: str, operation: AclOperation, kind: AclResourceType) -> bool:
        """Return whether an operation is allowed on some resource of a type, which need not exist.

        An ALLOW counts unless a DENY dominates it: of all resources, of the same literal name, or of a prefix of it.
        """
        if self.allows(principal, host, operation, kind, _PROBE_NAME):
            return True
        allowed: set[tuple[PatternType, str]] = set()
        denied: set[tuple[PatternType, str]] = set()
        for resource, acls in self.acls.of_type(kind):
            for entry in acls.concerning(principal):
                if entry.host in (host, WILDCARD) and entry.operation in (operation, AclOperation.ALL):
                    patterns = allowed if entry.permission is AclPermission.ALLOW else denied
                    patterns.add((resource.pattern, resource.name))
        everything = PatternType.LITERAL, WILDCARD
        if everything in denied:
            return False
        return everything in allowed or not all(_is_dominated(pattern, name, denied) for pattern, name in allowed)

    def operations(self, principal: str, host: str, kind: AclResourceType, name: str) -> int:
        """Return the allowed operations on a resource, as the bit field in responses."""
        supported = SUPPORTED_OPERATIONS[kind]
        return bit_field(operation for operation in supported if self.allows(principal, host, operation, kind, name))


def _allows(allowed: AclOperation, requested: AclOperation) -> bool:
    if allowed in (requested, AclOperation.ALL):
        return True
    if requested is AclOperation.DESCRIBE:
        return allowed in _DESCRIBING
    return requested is AclOperation.DESCRIBE_CONFIGS and allowed in _DESCRIBING_CONFIGS


def _is_dominated(pattern: PatternType, name: str, denied: set[tuple[PatternType, str]]) -> bool:
    if pattern is PatternType.LITERAL and (pattern, name) in denied:
        return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))
