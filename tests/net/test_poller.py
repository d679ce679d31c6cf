"""Looking again before sleeping, with a poller and a clock of the test's own."""

from __future__ import annotations

import select
import socket

from pylogbroker.net.poller import EAGER_SECONDS, EagerPoller

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
