"""Calls that are put off to the end of a turn.

A turn is the handling of all requests that one connection received at once.  What they set off, such as the answers to
fetches that wait for the records they produce, is done when the turn ends: once, not request by request.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
from twisted.internet.interfaces import IReactorTime


@attrs.define
class DeferredActions:
    """Collects calls; makes them at the end of the turn, or outside of any turn as soon as the reactor is back."""

    _clock: IReactorTime
    _calls: list[Callable[[], None]] = attrs.field(factory=list, init=False)
    _open: bool = attrs.field(default=False, init=False)
    _ending: bool = attrs.field(default=False, init=False)

    def defer(self, call: Callable[[], None]) -> None:
        """Make a call when the turn ends."""
        self._calls.append(call)
        if not self._open and not self._ending and len(self._calls) == 1:
            self._clock.callLater(0, self.end)

    def begin(self) -> None:
        """A turn begins."""
        self._open = True

    def end(self) -> None:
        """The turn ends: make the calls, and those that they ask for."""
        self._open = False
        if self._ending:
            return
        self._ending = True
        try:
            while self._calls:
                calls, self._calls = self._calls, []
                for call in calls:
                    call()
        finally:
            self._ending = False
