"""Eager polling of the reactor.

For `EAGER_SECONDS` after events are handled the poller does not sleep. Clients often send the next request when they
have the answer, and waking a processor takes longer than a small request. An idle broker sleeps.

The time is short, and others may run after each look. Without this, on a machine with more brokers than processors,
one that polls would keep those from running that it waits for.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, Final

from twisted.logger import Logger
from twisted.python.log import callWithLogger

from pylogbroker.net.joined_reads import JoinedReads
from pylogbroker.rpc.transport import RECEIVED_BOUND, RECEIVED_BYTES_MAX, ChunkConnection

log = Logger()
EPOLLIN = 1

EAGER_SECONDS = 30e-6

_SHARE_MIN = 32 * 1024  # below, the calls cost more than the copies

_offer_processor: Final[Callable[[], None]] = getattr(os, "sched_yield", lambda: None)  # exists where epoll does

Events = list[tuple[int, int]]


class EagerPoller:
    def __init__(
        self,
        poller: Any,
        clock: Callable[[], float] = perf_counter,
        offer_processor: Callable[[], None] = _offer_processor,
    ) -> None:
        self._poller = poller
        self._poll = poller.poll
        self._clock = clock
        self._offer_processor = offer_processor
        self._had_events = False
        self.joined_reads = JoinedReads()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._poller, name)

    def poll(self, timeout: float = -1, maxevents: int = -1) -> Events:
        """Return the events within `timeout` seconds; -1 waits without limit."""
        events: Events = []
        if self._had_events:  # they are handled now
            poll, clock = self._poll, self._clock
            now = clock()
            until = now + (EAGER_SECONDS if timeout < 0 else min(EAGER_SECONDS, timeout))
            while now < until and not events:
                events = poll(0, maxevents)
                if not events:
                    self._offer_processor()
                now = clock()
        if not events:
            events = self._poll(timeout, maxevents)
        self._had_events = bool(events)
        return events


def make_eager(reactor: Any) -> None:
    """Make Twisted's epoll reactor poll eagerly, and read directly; leave others as they are."""
    poller = _epoll_of(reactor)
    if poller is not None:
        reactor._poller = EagerPoller(poller)
        reactor.doIteration = partial(_iterate, reactor, reactor._poller)


def _iterate(reactor: Any, poller: EagerPoller, timeout: float | None) -> None:
    """Wait for events, and handle them.

    Connections with input read at once. Twisted calls each in a logging context of its own, which nothing here uses,
    and which takes a tenth of the time of a small request. Connections that receive large requests share a bound. Small
    requests of several connections may be handled together (`pylogbroker.net.joined_reads`).
    """
    selectables, joined_reads = reactor._selectables, poller.joined_reads
    try:
        events = poller.poll(-1 if timeout is None else timeout, len(selectables))
    except InterruptedError:
        return
    if len(events) > 1:
        RECEIVED_BOUND.bytes_max = max(_SHARE_MIN, RECEIVED_BYTES_MAX // len(events))
        joined_reads.is_open = True
    else:
        RECEIVED_BOUND.bytes_max = RECEIVED_BYTES_MAX
    for fd, event in events:
        selectable = selectables.get(fd)
        if event == EPOLLIN and isinstance(selectable, ChunkConnection):
            try:
                why = selectable.doRead()
            except BaseException as error:  # as Twisted: it ends the connection alone
                log.failure("a connection could not be read")
                why = error
            if why:
                joined_reads.handle()  # requests that came before the end
                reactor._disconnectSelectable(selectable, why, True)
        elif selectable is not None:
            callWithLogger(selectable, reactor._doReadOrWrite, selectable, fd, event)
    if joined_reads.is_open:
        joined_reads.close()


def others_wait(reactor: Any, fd: int) -> bool:
    """Return whether other files than `fd` have events, or the reactor cannot say; consume nothing."""
    poller = _epoll_of(reactor)
    return poller is None or any(other != fd for other, _ in poller.poll(0, 2))


def _epoll_of(reactor: Any) -> Any:
    """Return the epoll object, or None. `select.poll`, which has no `close`, takes milliseconds and no `maxevents`."""
    poller = getattr(reactor, "_poller", None)
    return poller if hasattr(poller, "close") else None
