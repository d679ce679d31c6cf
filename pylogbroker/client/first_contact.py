"""Limit of the search for a first broker."""

from __future__ import annotations

from collections.abc import Callable

from pylogbroker.client.errors import NeverReached
from pylogbroker.config import Values


class FirstContact:
    """The limit is `bootstrap.connect.max.ms`; negative: none. `seconds` is a clock."""

    def __init__(self, seconds: Callable[[], float], settings: Values) -> None:
        limit_ms = settings.integer("bootstrap.connect.max.ms")
        self._seconds = seconds
        self._limit = None if limit_ms < 0 else limit_ms / 1000
        self._since: float | None = None

    def started(self) -> None:
        """Begin the time with an attempt, whose failure may come late; otherwise it begins with the first failure."""
        if self._since is None:
            self._since = self._seconds()

    def succeeded(self) -> None:
        self._limit = None  # brokers that were there may come back

    def failed(self, why: str) -> NeverReached | None:
        """Return the error that ends the search, if it is time."""
        now = self._seconds()
        if self._since is None:
            self._since = now
        if self._limit is None or now - self._since < self._limit:
            return None
        return NeverReached(
            f"{why}; no broker answered for {self._limit:g} s (bootstrap.connect.max.ms):"
            " is one running there, and are the addresses right?"
        )
