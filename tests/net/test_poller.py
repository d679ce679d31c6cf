"""Looking again before sleeping, with a poller and a clock of the test's own."""

from __future__ import annotations

import select
import socket
from unittest.mock import patch

from twisted.internet import epollreactor
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IReactorFDSet
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.net.joined_reads import JoinedReads, joined_reads_of
from pylogbroker.net.poller import EAGER_SECONDS, EagerPoller, make_eager
from pylogbroker.rpc.transport import ChunkConnection

STEP = EAGER_SECONDS / 10


class Poller:
    """Returns the given events one after the other; a poll takes a step of time, waiting takes all of it."""

    def __init__(self, *events: list[tuple[int, int]]) -> None:
        self.events = list(events)
        self.timeouts: list[float] = []
        self.now = 100.0

    def poll(self, timeout: float, maxevents: int) -> list[tuple[int, int]]:
        self.timeouts.append(timeout)
        self.now += max(timeout, STEP)
        return self.events.pop(0) if self.events else []

    def clock(self) -> float:
        return self.now


EVENT = [(1, select.EPOLLIN)]


def test_without_an_event_before_it_waits_at_once() -> None:
    poller = Poller()
    assert EagerPoller(poller, poller.clock).poll(5, 10) == []
    assert poller.timeouts == [5]


def test_after_an_event_it_looks_on_for_a_moment_and_then_waits() -> None:
    poller = Poller(EVENT)
    eager = EagerPoller(poller, poller.clock)
    assert eager.poll(5, 10) == EVENT
    assert eager.poll(5, 10) == []
    looks, waits = poller.timeouts[1:-1], poller.timeouts[-1]
    assert set(looks) == {0}
    assert 8 <= len(looks) <= 11
    assert waits == 5


def test_the_moment_begins_when_the_events_are_handled() -> None:
    poller = Poller(EVENT, [], EVENT)
    eager = EagerPoller(poller, poller.clock)
    assert eager.poll(5, 10) == EVENT
    poller.now += EAGER_SECONDS * 100
    assert eager.poll(5, 10) == EVENT
    assert poller.timeouts == [5, 0, 0]


def test_others_may_run_between_looks_without_events() -> None:
    poller = Poller(EVENT, [], [], EVENT)
    offered: list[list[float]] = []
    eager = EagerPoller(poller, poller.clock, lambda: offered.append(poller.timeouts[:]))
    eager.poll(5, 10)
    eager.poll(5, 10)
    assert offered == [[5, 0], [5, 0, 0]]


def test_an_event_that_comes_meanwhile_is_reported_without_waiting() -> None:
    poller = Poller(EVENT, [], [], EVENT)
    eager = EagerPoller(poller, poller.clock)
    eager.poll(5, 10)
    assert eager.poll(5, 10) == EVENT
    assert poller.timeouts == [5, 0, 0, 0]


def test_a_call_that_is_due_sooner_is_not_kept_waiting() -> None:
    poller = Poller(EVENT)
    eager = EagerPoller(poller, poller.clock)
    eager.poll(5, 10)
    before = poller.now
    eager.poll(STEP * 2, 10)
    assert poller.now - before < STEP * 5


def test_eager_poller_replaces_a_real_poller() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, select.epoll() as real:
        eager = EagerPoller(real)
        eager.register(ours.fileno(), select.EPOLLIN)
        assert eager.poll(0, 10) == []
        theirs.send(b"x")
        assert eager.poll(-1, 10) == [(ours.fileno(), select.EPOLLIN)]
        ours.recv(1)
        assert eager.poll(0.01, 10) == []


class Reading(ChunkConnection):
    """Connection over one end of a pair of sockets."""

    def __init__(self, ours: socket.socket, reactor: IReactorFDSet) -> None:
        self.received: list[bytes] = []
        self.joined: list[bool] = []
        self.end: object = None
        super().__init__(ours, None, reactor)
        self.deliver_to(self)
        self.startReading()

    def receive_buffer(self) -> memoryview | None:
        return None

    def dataReceived(self, data: bytes) -> None:
        if data == b"defect":
            raise ValueError(data)
        self.received.append(data)
        self.joined.append(joined_reads_of(self.reactor).is_open)

    def chunks_sent(self) -> None:
        """Ignore it: nothing is sent."""

    def connectionLost(self, reason: Failure) -> None:
        self.end = reason.type
        self.socket.close()


class IterationTests(SynchronousTestCase):
    """A reactor's own iterations, without the time of its delayed calls."""

    def setUp(self) -> None:
        self.reactor = epollreactor.EPollReactor()
        make_eager(self.reactor)
        self.addCleanup(self.reactor._poller.close)
        self.connection, self.peer = self.connect()

    def connect(self) -> tuple[Reading, socket.socket]:
        ours, peer = socket.socketpair()
        ours.setblocking(False)
        self.addCleanup(peer.close)
        self.addCleanup(ours.close)
        return Reading(ours, self.reactor), peer

    def test_a_connection_reads_its_input(self) -> None:
        self.peer.send(b"one")
        self.reactor.doIteration(10)
        self.assertEqual((self.connection.received, self.connection.end), ([b"one"], None))

    def test_a_connection_that_its_peer_ends_is_lost(self) -> None:
        self.peer.shutdown(socket.SHUT_WR)
        self.reactor.doIteration(10)
        self.assertIs(self.connection.end, ConnectionDone)

    def test_a_defect_ends_its_connection_and_is_logged(self) -> None:
        self.peer.send(b"defect")
        self.reactor.doIteration(10)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
        self.assertIs(self.connection.end, ValueError)

    def test_other_events_are_left_to_the_reactor(self) -> None:
        self.connection.startWriting()
        self.reactor.doIteration(10)  # has nothing to write: stops writing
        self.assertEqual(self.reactor.getWriters(), [])

    def test_nothing_to_read_ends_with_the_timeout(self) -> None:
        self.reactor.doIteration(0)
        self.assertEqual((self.connection.received, self.connection.end), ([], None))

    def test_reads_of_several_connections_are_joined(self) -> None:
        others = [self.connect() for _ in range(2)]
        for peer in (self.peer, *(peer for _, peer in others)):
            peer.send(b"together")
        self.reactor.doIteration(10)
        self.assertEqual([reading.joined for reading in (self.connection, others[0][0], others[1][0])], [[True]] * 3)
        self.peer.send(b"alone")
        self.reactor.doIteration(10)
        self.assertEqual(self.connection.joined, [True, False])

    def test_joined_reads_are_handled_before_a_connection_ends(self) -> None:
        other, other_peer = self.connect()
        self.peer.send(b"one")
        other_peer.shutdown(socket.SHUT_WR)
        ends: list[object] = []
        joined_reads = joined_reads_of(self.reactor)
        with patch.object(JoinedReads, "handle", lambda _: ends.append(other.end)):
            self.reactor.doIteration(10)
        self.assertEqual(ends, [None])
        self.assertFalse(joined_reads.is_open)
