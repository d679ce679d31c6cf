"""Second connection to a leader: fetches for replicas that become ready while a fetch waits on the first one.

A leader answers the requests of a connection in order. Without a second one, a replica of a new topic, or of a broker
that died, would wait behind the others' fetch, and its records would be acknowledged late::

    first connection    |-- waits, at most until D -----------------------------| all replicas --
    second connection        |- 5 ms -|-- 10 ms --|-- 20 ms --|- until D -|
                             ^ a replica becomes ready: the waits are short again

Fetches here have no session. The next fetch on the first connection does not wait for longer than the last one here, so
that all replicas meet there again.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from pylogbroker.broker.replication.followed_replicas import FollowedReplicas
from pylogbroker.broker.replication.leader_requests import LeaderRequests
from pylogbroker.broker.runtime.idle_pause import IdlePause
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.replication.throttle import ReplicationThrottle

SHORT_WAIT_MS = 5
_REPLICAS_PER_WAIT_MS = 10
"""A request names all replicas, and costs some 10 us for each: with many, the waits are longer."""


@attrs.define(eq=False, repr=False)
class SecondConnection:
    """`_deadline` returns the time until which the first connection's fetch may wait, 0 if none is under way."""

    requests: LeaderRequests
    _replicas: FollowedReplicas
    _throttle: ReplicationThrottle
    _runtime: Runtime
    _deadline: Callable[[], float]
    fetches_until: float = attrs.field(default=0.0, init=False)
    """Time until which this connection's fetch may wait; 0 without one."""
    _idle: IdlePause = attrs.field(factory=IdlePause, init=False)
    _is_woken: bool = attrs.field(default=False, init=False)
    """A replica has become ready since the last round began."""
    _is_closed: bool = attrs.field(default=False, init=False)

    def wake(self) -> None:
        self._is_woken = True
        self._idle.wake()

    def close(self) -> None:
        self._is_closed = True
        self.requests.close()
        self._idle.wake()

    async def run(self) -> None:
        """Fetch until the first connection's fetch ends, or no replica needs it."""
        wait_ms = SHORT_WAIT_MS
        while not self._is_closed and (left_ms := self._left_ms()) >= SHORT_WAIT_MS:
            self._is_woken = False
            self.fetches_until = self._deadline()  # the first connection's next fetch takes it into account
            is_exceeded = self._throttle.is_exceeded(self._runtime.now_ms())
            lookups, fetches, _ = await self.requests.next_round(is_exceeded)
            if lookups or self.requests.pending:
                wait_ms = min(max(wait_ms, len(self.requests.pending) // _REPLICAS_PER_WAIT_MS), left_ms)
                self.fetches_until = self._runtime.clock.seconds() + wait_ms / 1000
                await self.requests.round(lookups, fetches, wait_ms)
                wait_ms = SHORT_WAIT_MS if self._is_woken else 2 * wait_ms
            elif not self._is_woken and not await self._retry_is_due():
                break
            self.fetches_until = 0.0

    def _left_ms(self) -> int:
        return round((self._deadline() - self._runtime.clock.seconds()) * 1000)

    async def _retry_is_due(self) -> bool:
        """Wait until a replica's time has come, or another one is ready; return False if that takes too long."""
        self.fetches_until = 0.0
        now_ms = self._runtime.now_ms()
        retry_ms = self._replicas.next_retry_ms(now_ms)
        if retry_ms is None or retry_ms - now_ms > self._left_ms():
            return False
        await self._idle.for_seconds(self._runtime.clock, (retry_ms - now_ms) / 1000)
        return True
