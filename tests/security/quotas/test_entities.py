"""Quotas in force for a client, by Kafka's precedence, and entities in the tree and in filters."""

from __future__ import annotations

from itertools import combinations

import attrs
import pytest

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.security.quotas import tree_layout
from pylogbroker.security.quotas.entities import DEFAULT, Limit, QuotaEntity, QuotaTable
from pylogbroker.security.quotas.filters import parse_filter
from pylogbroker.security.quotas.keys import BadQuota, QuotaKey, check, encode

RATE = QuotaKey.PRODUCER_BYTE_RATE
#: from the first that counts to the last, by the nodes that Kafka's documentation lists
PRECEDENCE = (
    "users/alice/clients/app",
    "users/alice/clients/<default>",
    "users/alice",
    "users/<default>/clients/app",
    "users/<default>/clients/<default>",
    "users/<default>",
    "clients/app",
    "clients/<default>",
)
SHARED_BY = {
    "users/alice/clients/app": ("alice", "app"),
    "users/alice/clients/<default>": ("alice", "app"),
    "users/alice": ("alice", ""),
    "users/<default>/clients/app": ("alice", "app"),
    "users/<default>/clients/<default>": ("alice", "app"),
    "users/<default>": ("alice", ""),
    "clients/app": ("", "app"),
    "clients/<default>": ("", "app"),
}


def entity(path: str) -> QuotaEntity:
    found = tree_layout.parse_entity_path(path)
    assert found is not None
    return found


def table(*paths: str) -> QuotaTable:
    return QuotaTable({entity(path): {RATE: 100.0 + PRECEDENCE.index(path)} for path in paths})


def test_first_level_with_a_quota_counts() -> None:
    for count in range(1, len(PRECEDENCE) + 1):
        for paths in combinations(PRECEDENCE, count):
            others = {entity("users/bob"): {RATE: 1.0}, entity("clients/other"): {RATE: 1.0}}
            found = table(*paths).changed(others).limit(RATE, "alice", "app")
            first = paths[0]
            assert found == Limit(100.0 + PRECEDENCE.index(first), *SHARED_BY[first]), paths


def test_a_level_with_other_quotas_only_does_not_count() -> None:
    quotas = table("clients/app").changed({entity("users/alice"): {QuotaKey.CONSUMER_BYTE_RATE: 5.0}})
    assert quotas.limit(RATE, "alice", "app") == Limit(106.0, "", "app")
    assert quotas.limit(QuotaKey.CONSUMER_BYTE_RATE, "alice", "app") == Limit(5.0, "alice", "")
    assert quotas.limit(QuotaKey.REQUEST_PERCENTAGE, "alice", "app") is None
    assert quotas.keys == {RATE, QuotaKey.CONSUMER_BYTE_RATE}
    assert quotas.changed({entity("clients/app"): {}}).keys == {QuotaKey.CONSUMER_BYTE_RATE}


def test_rate_of_connections_by_address() -> None:
    key = QuotaKey.CONNECTION_CREATION_RATE
    quotas = QuotaTable({entity("ips/<default>"): {key: 5.0}, entity("ips/10.0.0.1"): {key: 7.0}})
    assert quotas.connection_rate("10.0.0.1") == 7.0
    assert quotas.connection_rate("10.0.0.2") == 5.0
    assert QuotaTable().connection_rate("10.0.0.1") is None


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("alice", "alice"),
        ("CN=a b,O=x", "CN%3Da%20b%2CO%3Dx"),
        ("a*~/ü", "a%2A%7E%2F%C3%BC"),
        ("<default>", "%3Cdefault%3E"),  # a user of that name
        (DEFAULT, "<default>"),
    ],
)
def test_names_in_the_tree(name: str, node: str) -> None:
    of_both = QuotaEntity(name, name)
    assert tree_layout.entity_path(of_both) == f"users/{node}/clients/{node}"
    assert tree_layout.parse_entity_path(f"users/{node}/clients/{node}") == of_both


def test_paths_of_other_settings() -> None:
    for path in ("topics/orders", "users", "users/alice/clients", ""):
        assert tree_layout.parse_entity_path(path) is None


def test_settings_that_are_no_quotas_stay() -> None:
    stored = {"SCRAM-SHA-256": "salt=...", "producer_byte_rate": "1024", "request_percentage": "50.5"}
    quotas = tree_layout.quotas_of(entity("users/alice"), stored)
    assert quotas == {RATE: 1024.0, QuotaKey.REQUEST_PERCENTAGE: 50.5}
    changed = tree_layout.with_quotas(stored, {QuotaKey.CONSUMER_BYTE_RATE: 2048.0})
    assert changed == {"SCRAM-SHA-256": "salt=...", "consumer_byte_rate": "2048"}


@pytest.mark.parametrize(
    ("key", "value", "of_ip", "error"),
    [
        ("producer_byte_rate", 0.0, False, "must be greater than 0"),
        ("producer_byte_rate", -1.0, False, "must be greater than 0"),
        ("producer_byte_rate", float("nan"), False, "must be greater than 0"),
        ("producer_byte_rate", 1.5, False, "cannot be a fractional value"),
        ("producer_byte_rate", 1e30, False, "too large for a LONG"),
        ("producer_byte_rate", float("inf"), False, "too large for a LONG"),
        ("connection_creation_rate", 3e9, True, "too large for an INT"),
        ("connection_creation_rate", 10.0, False, "Invalid configuration key"),
        ("producer_byte_rate", 10.0, True, "Invalid configuration key"),
        ("SCRAM-SHA-256", 10.0, False, "Invalid configuration key"),
    ],
)
def test_bad_quotas(key: str, value: float, of_ip: bool, error: str) -> None:
    with pytest.raises(BadQuota, match=error):
        check(key, value, of_ip)


def test_good_quotas() -> None:
    assert encode(check("request_percentage", 0.5, False), 0.5) == "0.5"
    assert encode(check("producer_byte_rate", 1048576.0, False), 1048576.0) == "1048576"
    assert encode(check("connection_creation_rate", 10.0, True), 10.0) == "10"


@attrs.frozen
class Component:
    entity_type: str
    match_type: int
    match: str | None = None


ALL = QuotaTable(
    {entity(path): {RATE: 1.0} for path in (*PRECEDENCE, "users/bob", "users/bob/clients/other")}
    | {entity(path): {QuotaKey.CONNECTION_CREATION_RATE: 1.0} for path in ("ips/10.0.0.1", "ips/<default>")}
)


def selected(*components: Component, strict: bool = False) -> set[str]:
    return {tree_layout.entity_path(each) for each, _ in parse_filter(components, strict).select(ALL)}


def test_filters() -> None:
    assert selected() == {tree_layout.entity_path(each) for each in ALL.entities}
    assert selected(strict=True) == set()
    alice = Component("user", 0, "alice")
    assert selected(alice) == {path for path in PRECEDENCE if path.startswith("users/alice")}
    assert selected(alice, strict=True) == {"users/alice"}
    assert selected(Component("user", 1), strict=True) == {"users/<default>"}
    assert selected(Component("user", 2), strict=True) == {"users/alice", "users/bob", "users/<default>"}
    any_of_alice = (alice, Component("client-id", 2))
    assert selected(*any_of_alice, strict=True) == {"users/alice/clients/app", "users/alice/clients/<default>"}
    assert selected(Component("client-id", 0, "app"), strict=True) == {"clients/app"}
    assert selected(Component("ip", 2)) == {"ips/10.0.0.1", "ips/<default>"}
    assert selected(Component("ip", 0, "10.0.0.2")) == set()


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([Component("", 0, "a")], ErrorCode.INVALID_REQUEST),
        ([Component("group", 0, "a")], ErrorCode.UNSUPPORTED_VERSION),
        ([Component("user", 0)], ErrorCode.INVALID_REQUEST),
        ([Component("user", 1, "a")], ErrorCode.INVALID_REQUEST),
        ([Component("user", 2, "a")], ErrorCode.INVALID_REQUEST),
        ([Component("user", 3)], ErrorCode.INVALID_REQUEST),
        ([Component("user", 1), Component("user", 2)], ErrorCode.INVALID_REQUEST),
        ([Component("user", 1), Component("ip", 2)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_bad_filters(components: list[Component], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as raised:
        parse_filter(components, False)
    assert raised.value.code is code
