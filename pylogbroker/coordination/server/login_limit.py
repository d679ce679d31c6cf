"""Number and time of connections that have not logged in, on a server that serves its login's users alone.

Every process of the machine can connect. Beyond `LOGINS_MAX`, the oldest one ends: so they cannot keep those out who
log in at once, as brokers do.
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


class LoggingIn(Protocol):
    def expel(self) -> None:
        """Close the connection at once."""


@attrs.define(eq=False)
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

    def _expire(self) -> None:
        self._timer = None
        now = self._clock.seconds()
        while self._waiting and next(iter(self._waiting.values())) <= now:
            self._expel_oldest(f"it took more than {LOGIN_SECONDS:g} s")
        if self._waiting:
            self._timer = self._clock.callLater(next(iter(self._waiting.values())) - now, self._expire)

    def _expel_oldest(self, why: str) -> None:
        oldest = next(iter(self._waiting))
        del self._waiting[oldest]
        now = self._clock.seconds()
        if self._logged is None or now >= self._logged + _LOG_SECONDS:
            self._logged = now
            log.warn(
                "a connection that has not logged in is closed: {why}; others of this minute are not reported", why=why
            )
        oldest.expel()
