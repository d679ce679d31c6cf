"""The connection to ZooKeeper as the broker's settings want it."""

from __future__ import annotations

import os
from typing import Any

import pytest

from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ConfigError
from pylogbroker.metadata.zk_acl import secure_acl
from pylogbroker.tap import tree_login, zookeeper
from pylogbroker.tree.zookeeper import ZooKeeperTree
from pylogbroker.tree.zookeeper_options import ZooKeeperLogin
from tests.broker.trees import now


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []

    async def connect(*arguments: Any) -> str:
        calls.append(arguments)
        return "a tree"

    monkeypatch.setattr(ZooKeeperTree, "connect", connect)
    return calls


def connect(**settings: str) -> Any:
    named = {name.replace("_", "."): text for name, text in settings.items()}
    config = BrokerConfig({"log.dirs": "unused", **named})
    return now(zookeeper.connect("reactor", config, "threads"))  # type: ignore[arg-type]


def test_servers_path_and_times(connected: list[Any]) -> None:
    tree = connect(
        zookeeper_connect="one:2181,two:2182/events",
        zookeeper_session_timeout_ms="6000",
        zookeeper_connection_timeout_ms="4000",
        zookeeper_max_in_flight_requests="7",
    )
    [(servers, options, reactor, in_thread)] = connected
    assert (tree, reactor, in_thread) == ("a tree", "reactor", "threads")
    assert (servers.hosts, servers.chroot) == ("one:2181,two:2182", "/events")
    assert (options.session_timeout, options.connection_seconds, options.in_flight_max) == (6, 4, 7)


def test_acls(connected: list[Any]) -> None:
    connect(zookeeper_connect="one:2181")
    connect(zookeeper_connect="one:2181", zookeeper_set_acl="true")
    assert [options.default_acl is secure_acl for _, options, _, _ in connected] == [False, True]


def test_the_login_of_a_supervisors_broker(connected: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The password is not for the processes that the broker starts."""
    connect(zookeeper_connect="one:2181")
    monkeypatch.setenv("PYLOGBROKER_TREE_PASSWORD", "")  # to be restored
    tree_login.keep("secret")
    connect(zookeeper_connect="one:2181")
    assert [options.digest for _, options, _, _ in connected] == [None, ZooKeeperLogin(tree_login.USER, "secret")]
    assert "PYLOGBROKER_TREE_PASSWORD" not in os.environ


def test_servers_that_are_none(connected: list[Any]) -> None:
    with pytest.raises(ConfigError, match=r"zookeeper\.connect"):
        connect(zookeeper_connect="one:two")
    assert connected == []
