"""Sessions of the server's clients.

A session outlives its connections. It ends when its client closes it, or when the server has heard nothing from it for
its time limit: then its ephemeral nodes are deleted. After a restart of the server, each session has its time limit
to come back.

After a pause of this process, timers run before connections are read. A session that is due ends only after two more
iterations of the reactor: its ping may wait to be read, or its client may have connected again.
"""

from __future__ import annotations

import hmac
import os
from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from pylogbroker.tree.database import TreeDatabase
from pylogbroker.tree.transactions import BeginSession, EndSession, Session, Write, WriteResult

log = Logger()
SESSIONS_MAX: Final = 2000
"""Sessions of clients that anybody may be."""
SESSIONS_OF_HOST_MAX: Final = 1000
_PASSWORD_BYTES: Final = 16
_LAST_ITERATIONS: Final = 2
_COUNTER_BITS: Final = 20  # of a session id; the others are its time in milliseconds


class Attached(Protocol):
    """The connection of a session."""

    def drop(self) -> None:
        """Close the connection: the session has ended, or has another one."""


@attrs.define(eq=False, repr=False)
class LiveSession:
    session: Session
    timer: IDelayedCall
    host: str = ""
    """Address of the client that began the session; empty for one that has logged in, or began before a restart."""
    connection: Attached | None = None
    last_iterations: int = 0
    """Iterations of the reactor since the time limit."""


@attrs.define(eq=False, repr=False)
class Sessions:
    """Time limits are between `least_ms` and `most_ms`, whatever a client asks for.

    `_logs_expiry` says whether to log one of a client from a host.
    """

    _database: TreeDatabase
    _clock: IReactorTime
    least_ms: int
    most_ms: int
    _logs_expiry: Callable[[str], bool]
    _live: dict[int, LiveSession] = attrs.field(init=False, factory=dict)
    _last_id: int = attrs.field(init=False, default=0)
    _by_host: Counter[str] = attrs.field(init=False, factory=Counter)

    def __attrs_post_init__(self) -> None:
        for session in self._database.sessions:
            self._begin(session)
            self._last_id = max(self._last_id, session.id)

    def __len__(self) -> int:
        return len(self._live)

    def offer(self, wanted_ms: int) -> Session:
        """Return a new session, which does not begin yet."""
        self._last_id = max(self._last_id + 1, self._database.now_ms() << _COUNTER_BITS)
        timeout_ms = min(max(wanted_ms, self.least_ms), self.most_ms)
        return Session(self._last_id, os.urandom(_PASSWORD_BYTES), timeout_ms)

    def may_begin(self, host: str) -> bool:
        """Return whether a client from a host may begin one more session."""
        return self._by_host.total() < SESSIONS_MAX and self._by_host[host] < SESSIONS_OF_HOST_MAX

    async def begin(self, session: Session, host: str = "") -> LiveSession:
        """Return the session once it is on the disk; raise CoordinationError if that fails.

        With `host`, it counts among the sessions that `may_begin` limits.
        """
        if host:
            self._by_host[host] += 1
        result = await self._database.write(Write(BeginSession(session)))
        if result.error is not None:
            self._uncount(host)
            raise result.error
        return self._begin(session, host)

    def find(self, session_id: int, password: bytes) -> LiveSession | None:
        """Return the session that a client goes on with; None if it has ended, or the password is wrong."""
        live = self._live.get(session_id)
        if live is None or not hmac.compare_digest(live.session.password, password):
            return None
        return live

    def attach(self, live: LiveSession, connection: Attached) -> None:
        """Let a connection, and no earlier one, have the session."""
        earlier, live.connection = live.connection, connection
        if earlier is not None:
            earlier.drop()
        self.touch(live)

    def touch(self, live: LiveSession) -> None:
        """Note that the client lives."""
        if live.timer.active():
            live.last_iterations = 0
            live.timer.reset(live.session.timeout_ms / 1000)

    def detach(self, live: LiveSession, connection: Attached) -> None:
        if live.connection is connection:
            live.connection = None

    def end(self, live: LiveSession) -> Deferred[WriteResult]:
        """End the session; the result comes once its ephemeral nodes are deleted."""
        if self._live.pop(live.session.id, None) is not None:
            self._uncount(live.host)
        if live.timer.active():
            live.timer.cancel()
        return self._database.write(Write(EndSession(live.session.id))).addCallback(_report_failure)

    def end_of_gone(self, session_id: int) -> Deferred[WriteResult] | None:
        """End a session, if there is one, and close its connection."""
        live = self._live.get(session_id)
        if live is None:
            return None
        ended = self.end(live)
        if live.connection is not None:
            live.connection.drop()
        return ended

    def stop(self) -> None:
        """Stop all timers; the sessions live on in the file."""
        for live in self._live.values():
            live.timer.cancel()
        self._live.clear()

    def _begin(self, session: Session, host: str = "") -> LiveSession:
        timer = self._clock.callLater(session.timeout_ms / 1000, self._expire, session.id)
        live = self._live[session.id] = LiveSession(session, timer, host)
        return live

    def _uncount(self, host: str) -> None:
        if host:
            self._by_host[host] -= 1
            if not self._by_host[host]:
                del self._by_host[host]

    def _expire(self, session_id: int) -> None:
        live = self._live[session_id]
        if live.last_iterations < _LAST_ITERATIONS:
            live.last_iterations += 1
            live.timer = self._clock.callLater(0, self._expire, session_id)
            return
        if not live.host or self._logs_expiry(live.host):
            milliseconds = live.session.timeout_ms
            log.info("session 0x{id:x} has expired after {ms} ms of silence", id=session_id, ms=milliseconds)
        self.end_of_gone(session_id)


def _report_failure(result: WriteResult) -> WriteResult:
    if result.error is not None:
        log.error("the end of a session could not be written: {error}; its nodes stay", error=result.error)
    return result
