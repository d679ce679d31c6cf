"""Steps of connections that are not set up: the reactor polls between two of them, the first that waits is first."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import attrs
import pytest
from twisted.internet.protocol import Factory
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from pylogbroker.net.setup_steps import SetupSteps
from pylogbroker.net.transport import SetupPort, SetupServer
from tests.net.test_transport import FakeReactor, Receiver


def begin_iteration(clock: Clock) -> None:
    """Run what is due, as a reactor does before it reads."""
    scheduled, clock.calls = clock.calls, []
    for call in scheduled:
        call.func()


def let_step(clock: Clock) -> None:
    """Run the iteration that only polls, and begin the one after it."""
    begin_iteration(clock)
    begin_iteration(clock)


@attrs.define(eq=False)
class Taker:
    steps: SetupSteps
    log: list[str]
    name: str
    connected: bool = True
    waits: bool = False

    def read(self) -> None:
        if not self.waits:
            self.steps.run(self, self._step)

    def _step(self) -> None:
        self.log.append(self.name)

    def wait_for_step(self) -> None:
        self.waits = True

    def take_step(self) -> bool:
        self.waits = False
        if self.connected:
            self._step()
        return self.connected


def test_one_step_after_the_other_for_the_first_that_waits() -> None:
    clock, log = Clock(), list[str]()
    steps = SetupSteps(clock)
    a, b, c, d = (Taker(steps, log, name) for name in "abcd")
    for each in (a, b, c):
        each.read()
    assert log == ["a"]
    b.connected = False
    let_step(clock)
    for each in (d, a, b, c):
        each.read()
    assert log == ["a", "c"], "the second one has gone, and new ones wait behind the third"
    for _ in range(5):
        let_step(clock)
    assert log == ["a", "c", "d", "a", "c"]
    assert clock.getDelayedCalls() == []
    d.read()
    assert log[-1] == "d", "at once"


def test_the_reactor_polls_between_two_steps() -> None:
    """An iteration runs what is due, then polls: a request that arrives during a step is served before the next one."""
    clock, log = Clock(), list[str]()
    steps = SetupSteps(clock)
    takers = [Taker(steps, log, name) for name in "abc"]
    for each in takers:
        each.read()
    for served in range(5):
        begin_iteration(clock)
        log.append(f"poll {served}")
    assert log == ["a", "poll 0", "b", "poll 1", "poll 2", "c", "poll 3", "poll 4"]


@attrs.define(eq=False)
class Listening:
    """A port whose connections read and accept in steps; their reactor does what is asked of it only."""

    reactor: FakeReactor
    port: SetupPort
    accepted: list[Receiver]

    def client(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port.getHost().port), 20)

    def take_step(self) -> None:
        """Let something else have the step of this iteration."""
        self.port.steps.run(Taker(self.port.steps, [], "other"), lambda: None)

    def connection(self, client: socket.socket) -> SetupServer:
        """Accept a client."""
        self.port.doRead()
        accepted = self.accepted[-1].transport
        assert isinstance(accepted, SetupServer)
        assert accepted.getPeer().port == client.getsockname()[1]
        let_step(self.reactor)
        return accepted


@pytest.fixture
def listening() -> Iterator[Listening]:
    reactor, accepted = FakeReactor(), list[Receiver]()
    factory = Factory()

    def build(address: object) -> Receiver:
        accepted.append(Receiver())
        return accepted[-1]

    factory.buildProtocol = build
    factory.noisy = False
    port = SetupPort(0, factory, 50, "127.0.0.1", reactor)
    port.steps = SetupSteps(reactor)
    port.startListening()
    yield Listening(reactor, port, accepted)
    for each in accepted:
        transport = each.transport
        assert isinstance(transport, SetupServer)
        if transport.connected:
            transport.connectionLost(Failure(ConnectionAbortedError()))
    port.close_now()


def test_connections_are_accepted_step_by_step(listening: Listening) -> None:
    with closing(listening.client()), closing(listening.client()), closing(listening.client()):
        listening.take_step()
        listening.port.doRead()
        assert listening.accepted == []
        assert listening.port not in listening.reactor.readers
        let_step(listening.reactor)
        assert len(listening.accepted) == 1
        assert listening.port in listening.reactor.readers
        listening.port.doRead()
        let_step(listening.reactor)
        assert len(listening.accepted) == 2, "one at a time"


def test_a_connection_that_is_not_set_up_is_read_step_by_step(listening: Listening) -> None:
    with closing(listening.client()) as client:
        connection = listening.connection(client)
        client.sendall(b"credentials")
        listening.take_step()
        connection.doRead()
        assert listening.accepted[0].received == []
        let_step(listening.reactor)
        assert listening.accepted[0].received == [b"credentials"]
        assert connection in listening.reactor.readers
        connection.is_set_up = True
        client.sendall(b"request")
        connection.doRead()
        assert listening.accepted[0].received == [b"credentials", b"request"], "no step is needed"


def test_a_client_that_leaves_while_it_waits_ends_its_connection(listening: Listening) -> None:
    with closing(listening.client()) as client:
        connection = listening.connection(client)
        listening.take_step()
        connection.doRead()
    let_step(listening.reactor)
    assert not connection.connected
    assert connection not in listening.reactor.readers


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_connection_that_stops_reading_is_not_read(listening: Listening, is_stopped: bool) -> None:
    with closing(listening.client()) as client:
        connection = listening.connection(client)
        client.sendall(b"credentials")
        listening.take_step()
        connection.doRead()
        connection.stopReading()
        if not is_stopped:
            connection.startReading()
        assert connection not in listening.reactor.readers, "its step comes later"
        let_step(listening.reactor)
        assert listening.accepted[0].received == ([] if is_stopped else [b"credentials"])
        connection.startReading()
        assert connection in listening.reactor.readers
