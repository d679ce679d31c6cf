"""Limit of the search for a first broker."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from pylogbroker.client.errors import NeverReached
from pylogbroker.config import Values
from pylogbroker.rpc.settings import first_contact_seconds


class FirstContact:
    """The limit is `bootstrap.connect.max.ms`; negative: none. `seconds` is a clock."""

    def __init__(self, seconds: Callable[[], float], settings: Values) -> None:
        self._seconds = seconds
        self._limit = first_contact_seconds(settings)
        self._since: float | None = None

    def started(self) -> None:
        """Begin the time with an attempt, whose failure may come late; otherwise it begins with the first failure."""
        if self._since is None:
            self._since = self._seconds()

    def succeeded(self) -> None:
        self._limit = inf  # brokers that were there may come back

    def failed(self, why: str, explain: Callable[[], str] | None = None) -> NeverReached | None:
        """Return the error that ends the search, if it is time.

        `explain` returns the error's text in place of `why`, if an address accepts connections.
        """
        now = self._seconds()
        if self._since is None:
            self._since = now
        if now - self._since < self._limit:
            return None
        if explain is not None:
            return NeverReached(explain())
        return NeverReached(
            f"{why}; no broker answered for {self._limit:g} s (bootstrap.connect.max.ms):"
            " is one running there, and are the addresses right?"
        )
