"""Filters of ACLs, and their form in the coordination tree as Apache Kafka 3.9 writes it."""

from __future__ import annotations

import pytest

from pylogbroker.security.acls import tree_layout
from pylogbroker.security.acls.bindings import (
    AccessControlEntry,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from pylogbroker.security.acls.tree_layout import BadAcls

READ = AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermission.ALLOW)
ALL = AccessControlEntry("User:ANONYMOUS", "*", AclOperation.ALL, AclPermission.ALLOW)
TOPIC = AclResourceType.TOPIC
PATTERNS = {
    "ab": ResourcePattern(TOPIC, "ab"),
    "*": ResourcePattern(TOPIC, "*"),
    "a...": ResourcePattern(TOPIC, "a", PatternType.PREFIXED),
    "ab...": ResourcePattern(TOPIC, "ab", PatternType.PREFIXED),
    "group ab": ResourcePattern(AclResourceType.GROUP, "ab"),
}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(), {"ab", "*", "a...", "ab...", "group ab"}),
        (AclFilter(TOPIC), {"ab", "*", "a...", "ab..."}),
        (AclFilter(name="ab"), {"ab", "ab...", "group ab"}),
        (AclFilter(TOPIC, "ab", PatternType.LITERAL), {"ab"}),
        (AclFilter(TOPIC, "ab", PatternType.PREFIXED), {"ab..."}),
        (AclFilter(TOPIC, "ab", PatternType.MATCH), {"ab", "*", "a...", "ab..."}),
        (AclFilter(TOPIC, "a", PatternType.MATCH), {"*", "a..."}),
        (AclFilter(TOPIC, None, PatternType.MATCH), {"ab", "*", "a...", "ab..."}),
        (AclFilter(TOPIC, None, PatternType.PREFIXED), {"a...", "ab..."}),
    ],
)
def test_filters_of_resources(wanted: AclFilter, found: set[str]) -> None:
    assert {name for name, each in PATTERNS.items() if wanted.matches_resource(each)} == found


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        (AclFilter(principal="User:alice"), True),
        (AclFilter(principal="User:*"), False),
        (AclFilter(host="*"), True),
        (AclFilter(host="10.0.0.1"), False),
        (AclFilter(operation=AclOperation.READ, permission=AclPermission.ALLOW), True),
        (AclFilter(operation=AclOperation.ALL), False),
        (AclFilter(permission=AclPermission.DENY), False),
    ],
)
def test_filters_of_entries(wanted: AclFilter, matches: bool) -> None:
    assert wanted.matches_entry(READ) is matches


@pytest.mark.parametrize(
    ("resource", "path", "change"),
    [
        (ResourcePattern(TOPIC, "orders"), "/kafka-acl/Topic/orders", b"TOPIC:orders"),
        (
            ResourcePattern(TOPIC, "ord", PatternType.PREFIXED),
            "/kafka-acl-extended/prefixed/Topic/ord",
            b'{"version":1,"resourceType":"TOPIC","name":"ord","patternType":"PREFIXED"}',
        ),
        (
            ResourcePattern(AclResourceType.CLUSTER, "kafka-cluster"),
            "/kafka-acl/Cluster/kafka-cluster",
            b"CLUSTER:kafka-cluster",
        ),
        (
            ResourcePattern(AclResourceType.TRANSACTIONAL_ID, "a:b"),
            "/kafka-acl/TransactionalId/a:b",
            b"TRANSACTIONAL_ID:a:b",
        ),
    ],
)
def test_nodes_match_kafkas(resource: ResourcePattern, path: str, change: bytes) -> None:
    assert tree_layout.path(resource) == path
    assert tree_layout.encode_change(resource) == change
    assert tree_layout.decode_change(resource.pattern, change) == resource


@pytest.mark.parametrize(
    ("entry", "data"),
    [
        (
            READ,
            b'{"acls":[{"principal":"User:alice","permissionType":"Allow","host":"*","operation":"Read"}],"version":1}',
        ),
        (
            ALL,
            b'{"acls":[{"principal":"User:ANONYMOUS","permissionType":"Allow","host":"*","operation":"All"}],'
            b'"version":1}',
        ),
    ],
)
def test_entries_match_kafkas(entry: AccessControlEntry, data: bytes) -> None:
    assert tree_layout.encode_entries([entry]) == data
    assert tree_layout.decode_entries(data) == {entry}


def test_every_operation_comes_back() -> None:
    entries = {
        AccessControlEntry("User:ü", "h", operation, permission)
        for operation in AclOperation
        for permission in (AclPermission.ALLOW, AclPermission.DENY)
        if operation is not AclOperation.ANY
    }
    data = tree_layout.encode_entries(entries)
    assert tree_layout.decode_entries(data) == entries
    assert b'"operation":"IdempotentWrite"' in data
    assert tree_layout.decode_entries(None) == set()


@pytest.mark.parametrize(
    "data", [b"{", b"[]", b'{"acls":[]}', b'{"version":2,"acls":[]}', b'{"version":1,"acls":[{"principal":"User:a"}]}']
)
def test_unreadable_entries(data: bytes) -> None:
    with pytest.raises(BadAcls):
        tree_layout.decode_entries(data)


@pytest.mark.parametrize("data", [None, b"", b"Topik:a", b"\xff"])
def test_unreadable_changes(data: bytes | None) -> None:
    for pattern in tree_layout.STORED_PATTERNS:
        with pytest.raises(BadAcls):
            tree_layout.decode_change(pattern, data)


def test_permanent_nodes_match_kafkas() -> None:
    paths = tree_layout.permanent_paths()
    types = {"Topic", "Group", "Cluster", "TransactionalId", "DelegationToken", "User"}
    assert set(paths) == {
        "/kafka-acl",
        "/kafka-acl-extended",
        "/kafka-acl-extended/prefixed",
        "/kafka-acl-changes",
        "/kafka-acl-extended-changes",
        *(f"/kafka-acl/{kind}" for kind in types),
        *(f"/kafka-acl-extended/prefixed/{kind}" for kind in types),
    }
    assert len(paths) == len(set(paths))
    assert all(path.rpartition("/")[0] in ("", *paths[:index]) for index, path in enumerate(paths))


@pytest.mark.parametrize("name", ["a/b", ".", "..", "a\0"])
def test_names_that_no_node_has(name: str) -> None:
    assert not tree_layout.can_be_stored(name)
    assert tree_layout.can_be_stored("a.b:c*")
