"""Sockets of kazoo's thread: what is read ahead, collected, and woken for."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest
from twisted.logger import capturedLogs

from pylogbroker.tree.kazoo_session import KazooSession
from pylogbroker.tree.kazoo_sockets import BufferedSocket, Wakeups, wait_until_ready

SECONDS_MAX = 60.0


@pytest.fixture
def pair() -> Iterator[tuple[BufferedSocket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        one.setblocking(False)
        yield BufferedSocket(one), other


@pytest.fixture
def wakeups() -> Iterator[Wakeups]:
    made = Wakeups()
    yield made
    made.close()


def test_a_socket_with_buffered_data_is_ready(pair: tuple[BufferedSocket, socket.socket]) -> None:
    own, peer = pair
    peer.send(b"0004data0003")
    assert wait_until_ready([own], [], SECONDS_MAX) == ([own], [], [])
    assert own.recv(4) == b"0004"
    assert own.pending() == 8
    assert wait_until_ready([own], [], SECONDS_MAX) == ([own], [], [])
    assert (own.recv(4), own.recv(100)) == (b"data", b"0003")
    assert own.pending() == 0
    assert wait_until_ready([own], [], 0) == ([], [], [])


def test_requests_are_collected_until_it_waits(pair: tuple[BufferedSocket, socket.socket]) -> None:
    own, peer = pair
    peer.setblocking(False)
    for request in (b"one", b"two"):
        assert wait_until_ready([], [own], SECONDS_MAX) == ([], [own], [])
        assert own.send(request) == 3
    with pytest.raises(BlockingIOError):
        peer.recv(100)
    assert wait_until_ready([own], [], 0) == ([], [], [])
    assert peer.recv(100) == b"onetwo"


def test_answers_are_read_while_the_other_side_takes_no_requests(pair: tuple[BufferedSocket, socket.socket]) -> None:
    """Else both sides could wait for each other."""
    own, peer = pair
    wanted = bytes(range(256)) * 10_000
    own.send(wanted)
    assert wait_until_ready([own], [], 0) == ([], [], [])
    peer.send(b"answer")
    assert wait_until_ready([own], [], SECONDS_MAX) == ([own], [], [])
    assert own.recv(100) == b"answer"
    found = b""
    while len(found) < len(wanted):
        found += peer.recv(1 << 20)
        assert wait_until_ready([own], [], 0) == ([], [], [])
    assert found == wanted


def test_the_end_of_the_connection(pair: tuple[BufferedSocket, socket.socket]) -> None:
    own, peer = pair
    peer.close()
    assert wait_until_ready([own], [], SECONDS_MAX) == ([own], [], [])
    assert own.recv(4) == b""
    own.send(b"x")
    with pytest.raises(OSError, match="Broken pipe"):
        wait_until_ready([own], [], SECONDS_MAX)


def test_one_byte_wakes_for_many_requests(wakeups: Wakeups) -> None:
    for _ in range(100_000):  # more than a socket's buffers hold
        wakeups.send(b"\0")
    for _ in range(100_000):
        assert wait_until_ready([wakeups], [], SECONDS_MAX) == ([wakeups], [], [])
        assert wakeups.recv(1) == b"\0"
    assert wait_until_ready([wakeups], [], 0) == ([], [], [])
    with pytest.raises(BlockingIOError):
        wakeups.recv(1)
    wakeups.send(b"\0")
    assert wait_until_ready([wakeups], [], SECONDS_MAX) == ([wakeups], [], [])


@attrs.define
class Reactor:
    """Calls from threads wait for `iterate`."""

    calls: list[Callable[[], object]] = attrs.field(factory=list)

    def callFromThread(self, call: Callable[[], object]) -> None:
        self.calls.append(call)

    def iterate(self) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            call()


def test_many_results_wake_the_reactor_once() -> None:
    reactor, seen, unused = Reactor(), [], Any
    session = KazooSession(unused, unused, reactor, unused, unused)  # type: ignore[arg-type]
    for number in range(250):
        session.post(lambda number=number: seen.append(number))  # type: ignore[misc]
    assert len(reactor.calls) == 1
    for calls in (100, 200, 250):  # others are served between
        reactor.iterate()
        assert seen == list(range(calls))
    assert reactor.calls == []


def test_a_failure_keeps_no_result_back() -> None:
    reactor, seen, unused = Reactor(), [], Any
    session = KazooSession(unused, unused, reactor, unused, unused)  # type: ignore[arg-type]
    session.post(lambda: {}["missing"])
    session.post(lambda: session.post(lambda: seen.append(2)))
    session.post(lambda: seen.append(1))
    with capturedLogs() as events:
        reactor.iterate()
        reactor.iterate()
    assert seen == [1, 2]
    assert [event["log_failure"].type for event in events] == [KeyError]
