"""Connection as faults see it."""

from __future__ import annotations

from typing import Any, Protocol

from twisted.internet.interfaces import IReactorTime


class FaultyConnection(Protocol):
    """Connection that a fault may pause, close or cut."""

    @property
    def broker_id(self) -> int:
        """Broker that the client takes this one for."""

    @property
    def timers(self) -> IReactorTime:
        """Real time, also if a test moves the broker's clock."""

    @property
    def number(self) -> int: ...
    def pause(self) -> None:
        """Handle no further request until `go_on`."""

    def go_on(self) -> None: ...
    def close_now(self) -> None:
        """Close; drop what was not sent."""

    def cut(self, answer: Any, /) -> None:
        """Send half of the frame of an answer, then close."""
