"""The built-in replication policies, found by name."""

from __future__ import annotations

import pytest

from pylogbroker.discovery import built_in
from pylogbroker.interfaces import IReplicationPolicy, IReplicationPolicyFactory


def policy(name: str, argument: str = "") -> IReplicationPolicy:
    made: IReplicationPolicy = built_in(IReplicationPolicyFactory)[name].make(argument, {})
    assert IReplicationPolicy.providedBy(made)
    return made


def test_same_keeps_names() -> None:
    same = policy("same")
    assert same.target_topic("east", "orders") == "orders"
    assert same.origin("east.orders") is None
    assert same.upstream_topic("orders") == "orders"


@pytest.mark.parametrize(("argument", "name"), [("", "east.a.b"), ("_", "east_a.b")])
def test_prefix_names_the_source(argument: str, name: str) -> None:
    prefix = policy("prefix", argument)
    assert prefix.target_topic("east", "a.b") == name
    assert prefix.origin(name) == "east"
    assert prefix.upstream_topic(name) == "a.b"


def test_names_without_prefix_have_no_origin() -> None:
    prefix = policy("prefix")
    assert [prefix.origin(name) for name in ("orders", ".orders", "east.")] == [None, None, None]


def test_same_takes_no_argument() -> None:
    with pytest.raises(ValueError, match="no argument"):
        policy("same", "x")
