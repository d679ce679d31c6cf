"""ACLs as values: resource patterns, access control entries, and filters. Numbers are those of Kafka's protocol."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import attrs

WILDCARD: Final = "*"
"""A literal name that stands for every resource, and a host for every host."""

CLUSTER_NAME: Final = "kafka-cluster"


class AclOperation(IntEnum):
    ANY = 1  # in filters alone
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14

    __hash__ = int.__hash__  # that of enumerations is slow, and verdicts are looked up for each request


class AclResourceType(IntEnum):
    ANY = 1  # in filters alone
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7

    __hash__ = int.__hash__


class PatternType(IntEnum):
    ANY = 1  # in filters alone
    MATCH = 2  # in filters alone: the patterns that concern a resource of this name
    LITERAL = 3
    PREFIXED = 4


class AclPermission(IntEnum):
    ANY = 1  # in filters alone
    DENY = 2
    ALLOW = 3


_SEVERAL: Final = (PatternType.ANY, PatternType.MATCH)


def kafka_name(number: AclOperation | AclResourceType | AclPermission) -> str:
    """Return a name as Kafka writes it in nodes and in its log: `TransactionalId`."""
    return "".join(word.capitalize() for word in number.name.split("_"))


@attrs.frozen
class ResourcePattern:
    """Resources of a type: the one with a name, those whose names have a prefix, or with `WILDCARD` all."""

    type: AclResourceType
    name: str
    pattern: PatternType = PatternType.LITERAL

    def covers(self, name: str) -> bool:
        if self.pattern is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)


@attrs.frozen
class AccessControlEntry:
    """Permission of a principal, `User:name`, that connects from a host."""

    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission


@attrs.frozen
class AclBinding:
    resource: ResourcePattern
    entry: AccessControlEntry


@attrs.frozen
class AclFilter:
    """Selects bindings. None, and the members named ANY, match all."""

    type: AclResourceType = AclResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY

    @property
    def exact_resource(self) -> ResourcePattern | None:
        """The only pattern whose bindings can match, if there is only one."""
        if self.name is None or self.type is AclResourceType.ANY or self.pattern in _SEVERAL:
            return None
        return ResourcePattern(self.type, self.name, self.pattern)

    def matches_resource(self, resource: ResourcePattern) -> bool:
        if self.type not in (AclResourceType.ANY, resource.type):
            return False
        if self.pattern is PatternType.MATCH:
            return self.name is None or resource.covers(self.name)
        return self.pattern in (PatternType.ANY, resource.pattern) and self.name in (None, resource.name)

    def matches_entry(self, entry: AccessControlEntry) -> bool:
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission in (AclPermission.ANY, entry.permission)
        )
