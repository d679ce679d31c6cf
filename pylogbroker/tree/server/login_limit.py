"""Number and time of connections that have not logged in or, where no login is required, sent their first request.

Every process of the machine can connect. Beyond `LOGINS_MAX`, the oldest one ends: so they cannot keep those out who
log in at once, as brokers do.

After a pause of this process, timers run before connections are read. A connection that is due ends only after two more
iterations of the reactor: its request may wait to be read.
"""

from __future__ import annotations

from typing import Final, Protocol

import attrs
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

log = Logger()
LOGINS_MAX: Final = 100
LOGIN_SECONDS: Final = 10.0
_LOG_SECONDS: Final = 60.0
_LAST_ITERATIONS: Final = 2


class LoggingIn(Protocol):
    def expel(self) -> None:
        """Close the connection at once."""


@attrs.define(eq=False, repr=False)
class LoginLimit:
    _clock: IReactorTime
    _waiting: dict[LoggingIn, float] = attrs.field(init=False, factory=dict)  # and their deadlines, the oldest first
    _timer: IDelayedCall | None = attrs.field(init=False, default=None)
    _logged: float | None = attrs.field(init=False, default=None)

    def start(self, connection: LoggingIn) -> None:
        if len(self._waiting) >= LOGINS_MAX:
            self._expel_oldest(f"there are {LOGINS_MAX} others")
        self._waiting[connection] = self._clock.seconds() + LOGIN_SECONDS
        if self._timer is None:
            self._timer = self._clock.callLater(LOGIN_SECONDS, self._expire)

    def stop(self, connection: LoggingIn) -> None:
        """Forget a connection that has logged in, or is lost."""
        self._waiting.pop(connection, None)
        if not self._waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self, iteration: int = 0) -> None:
        self._timer = None
        if not self._waiting:
            return
        now, deadline = self._clock.seconds(), next(iter(self._waiting.values()))
        if deadline > now:
            self._timer = self._clock.callLater(deadline - now, self._expire)
        elif iteration < _LAST_ITERATIONS:
            self._timer = self._clock.callLater(0, self._expire, iteration + 1)
        else:
            while self._waiting and next(iter(self._waiting.values())) <= now:
                self._expel_oldest(f"it took more than {LOGIN_SECONDS:g} s")
            self._expire()

    def _expel_oldest(self, why: str) -> None:
        oldest = next(iter(self._waiting))
        del self._waiting[oldest]
        now = self._clock.seconds()
        if self._logged is None or now >= self._logged + _LOG_SECONDS:
            self._logged = now
            log.warn(
                "a connection without a login or a request is closed: {why}; others of this minute are not reported",
                why=why,
            )
        oldest.expel()
