"""Clients that open the coordination tree by the setting `zookeeper.connect`: on fakes, and on a server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

from pylogbroker.client import ConsumerConnector, Producer, sync
from pylogbroker.client.errors import Closed, NoBrokers, ZooKeeperUnreachable
from pylogbroker.client.settings import CONSUMER, read
from pylogbroker.client.zookeeper import ClientZooKeeper, zookeeper_of
from pylogbroker.errors import ConfigError, StartupError
from pylogbroker.interfaces import SessionEvent, SessionListener, SessionState, Unavailable
from pylogbroker.tree.zookeeper_options import ZooKeeperOptions, parse_connect
from tests.tree.conftest import result_of
from tests.tree.trees import serving_tree

NOWHERE = "127.0.0.1:1"


@attrs.define(eq=False)
class FakeTree:
    session_id: int = 1
    listeners: list[SessionListener] = attrs.field(factory=list)
    renewals: list[Deferred[None]] = attrs.field(factory=list)
    is_closed: bool = False

    def watch_session(self, listener: SessionListener) -> None:
        self.listeners.append(listener)

    async def children(self, path: str, watch: Any) -> list[str]:
        return [path]

    async def new_session(self) -> None:
        self.renewals.append(Deferred())
        await self.renewals[-1]

    async def close(self) -> None:
        self.is_closed = True


@attrs.define(eq=False)
class Fakes:
    """A connection whose ZooKeeper a test plays."""

    clock: Clock = attrs.field(factory=Clock)
    tree: FakeTree = attrs.field(factory=FakeTree)
    connecting: list[Deferred[Any]] = attrs.field(factory=list)
    events: list[SessionState] = attrs.field(factory=list)

    def open(self) -> ClientZooKeeper:
        zookeeper = ClientZooKeeper(parse_connect("zk:2181"), ZooKeeperOptions(), self.clock, self.connect)
        zookeeper.watch_session(lambda event: self.events.append(event.state))
        return zookeeper

    def connect(self, *arguments: object) -> Deferred[Any]:
        self.connecting.append(Deferred())
        return self.connecting[-1]

    def change(self, state: SessionState) -> None:
        for listener in self.tree.listeners:
            listener(SessionEvent(state, 1))


@pytest.fixture
def fakes() -> Fakes:
    return Fakes()


def test_the_first_call_connects_and_others_wait_for_it(fakes: Fakes) -> None:
    zookeeper = fakes.open()
    assert fakes.connecting == []
    calls = [ensureDeferred(zookeeper.children(path)) for path in ("/a", "/b")]
    [connecting] = fakes.connecting
    connecting.callback(fakes.tree)
    assert list(map(result_of, calls)) == [["/a"], ["/b"]]
    assert fakes.events == [SessionState.CONNECTED]
    result_of(ensureDeferred(zookeeper.close()))
    assert fakes.tree.is_closed


def test_after_a_failure_the_next_call_tries_again(fakes: Fakes) -> None:
    zookeeper = fakes.open()
    call = ensureDeferred(zookeeper.children("/a"))
    fakes.connecting[0].errback(StartupError("ZooKeeper at zk:2181: not connected"))
    with pytest.raises(ZooKeeperUnreachable, match="ZooKeeper at zk:2181: not connected"):
        result_of(call)
    call = ensureDeferred(zookeeper.children("/a"))
    fakes.connecting[1].callback(fakes.tree)
    assert result_of(call) == ["/a"]


def test_a_close_ends_an_attempt_to_connect(fakes: Fakes) -> None:
    zookeeper = fakes.open()
    call = ensureDeferred(zookeeper.children("/a"))
    result_of(ensureDeferred(zookeeper.close()))
    with pytest.raises(Closed):
        result_of(call)
    with pytest.raises(Closed):
        result_of(ensureDeferred(zookeeper.children("/a")))
    assert len(fakes.connecting) == 1


def test_an_expired_session_is_replaced_until_that_succeeds(fakes: Fakes) -> None:
    zookeeper = fakes.open()
    opening = ensureDeferred(zookeeper.open())
    fakes.connecting[0].callback(fakes.tree)
    assert result_of(opening) is fakes.tree
    fakes.change(SessionState.EXPIRED)
    fakes.clock.advance(0)
    fakes.tree.renewals[0].errback(Unavailable("/"))
    fakes.clock.advance(1)
    fakes.tree.renewals[1].callback(None)
    fakes.change(SessionState.CONNECTED)
    fakes.clock.advance(10)
    assert len(fakes.tree.renewals) == 2
    assert fakes.events == [SessionState.CONNECTED, SessionState.EXPIRED, SessionState.CONNECTED]
    fakes.change(SessionState.EXPIRED)
    result_of(ensureDeferred(zookeeper.close()))
    assert fakes.clock.getDelayedCalls() == []


@pytest.mark.parametrize(
    ("settings", "session", "connection"),
    [
        ({}, 6.0, 6.0),
        ({"zookeeper.session.timeout.ms": 1500}, 1.5, 1.5),
        ({"zookeeper.connection.timeout.ms": "250"}, 6.0, 0.25),
    ],
)
def test_settings(settings: dict[str, Any], session: float, connection: float) -> None:
    values = read(CONSUMER, {"zookeeper.connect": "a:1,b/kafka", **settings})
    zookeeper = zookeeper_of(values, None, Clock())
    assert zookeeper is not None
    assert str(zookeeper._servers) == "a:1,b:2181/kafka"
    options = zookeeper._options
    assert (options.session_timeout, options.connection_seconds) == (session, connection)
    assert not options.creates_chroot
    assert zookeeper_of(read(CONSUMER), None, Clock()) is None


@pytest.mark.parametrize("make", [Producer, lambda **named: ConsumerConnector(group="g", **named)])
def test_bad_settings_are_errors_at_once(make: Callable[..., object]) -> None:
    with pytest.raises(ConfigError, match=r"zookeeper\.connect: 'zk:x' has a bad server"):
        make(zookeeper_connect="zk:x")
    with pytest.raises(ConfigError, match="a coordination tree is given, too"):
        make(zookeeper_connect="zk:1", coordination=FakeTree())


def test_kazoo_is_imported_only_with_the_setting() -> None:
    program = """
import sys
from twisted.internet import reactor
from pylogbroker.client import ConsumerConnector, Producer
Producer("127.0.0.1:1"), ConsumerConnector("127.0.0.1:1", group="g")
sys.exit("kazoo" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# -- a server of its protocol, or none


async def test_an_unreachable_zookeeper_is_one_clear_error() -> None:
    connector = ConsumerConnector(group="g", zookeeper_connect=NOWHERE, zookeeper_connection_timeout_ms=300)
    with pytest.raises(ZooKeeperUnreachable, match=r"ZooKeeper at 127.0.0.1:1: not connected within 0.3 s .*check"):
        await connector.create_message_streams({"t": 1})
    await connector.shutdown()
    named = {"zookeeper_connection_timeout_ms": 300, "max_block_ms": 500}
    producer = Producer(zookeeper_connect=NOWHERE, **named)
    with pytest.raises(NoBrokers, match=r"ZooKeeper at 127.0.0.1:1: not connected within 0.3 s"):
        await producer.send("t", b"x")
    await producer.close()


async def test_a_client_does_not_create_a_chroot(tmp_path: Path) -> None:
    async with serving_tree(tmp_path) as address:
        connector = ConsumerConnector(group="g", zookeeper_connect=f"{address}/right/wrong")
        with pytest.raises(ZooKeeperUnreachable, match="has no node /right/wrong: check the path"):
            await connector.create_message_streams({"t": 1})
        await connector.shutdown()


def test_without_twisted_the_error_is_the_same() -> None:
    with (
        sync.ConsumerConnector(group="g", zookeeper_connect=NOWHERE, zookeeper_connection_timeout_ms=300) as connector,
        pytest.raises(ZooKeeperUnreachable, match="not connected within"),
    ):
        connector.stream("t")
