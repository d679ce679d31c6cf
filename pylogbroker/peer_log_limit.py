"""Limit of log lines about peers, which may be many and do the same again and again."""

from __future__ import annotations

import attrs
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

log = Logger()

LINES_PER_MINUTE_MAX = 10

_ADDRESSES_MAX = 20
_MINUTE = 60.0


@attrs.define(eq=False, repr=False)
class PeerLogLimit:
    """Limits log lines to `_most` per address and minute, then one with the number left out."""

    _clock: IReactorTime
    _left_out: str  # format, with `host` and `count`
    _most: int = LINES_PER_MINUTE_MAX
    _others: str = "other addresses"
    _counts: dict[str, int] = attrs.field(factory=dict, init=False)
    _minute: IDelayedCall | None = attrs.field(default=None, init=False)

    def is_due(self, host: str) -> bool:
        """Return whether to log a line about `host`; beyond `_ADDRESSES_MAX`, addresses share lines."""
        if host not in self._counts and len(self._counts) >= _ADDRESSES_MAX:
            host = self._others
        if self._minute is None:
            self._minute = self._clock.callLater(_MINUTE, self.log_suppressed)
        self._counts[host] = self._counts.get(host, 0) + 1
        return self._counts[host] <= self._most

    def log_suppressed(self) -> None:
        """Log how many lines this minute left out."""
        if self._minute is not None and self._minute.active():
            self._minute.cancel()
        self._minute = None
        counts, self._counts = self._counts, {}
        for host, count in counts.items():
            if count > self._most:
                log.warn(self._left_out, host=host, count=count - self._most)
