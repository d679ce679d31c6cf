"""What is asked of the reactor's poller beyond what Twisted asks.

Looking again for a moment, before the process goes to sleep: who has just been answered often asks again at once, and
to be woken from sleep takes a processor longer than a small request takes the broker.  So for `EAGER_SECONDS` after the
last event the reactor's poller looks without waiting, and only then waits.  An idle broker still uses no processor
time; one that gets a request now and then uses that much more for each.

And whether others wait: who has much to send asks it from time to time, and gives way if they do.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

EAGER_SECONDS = 100e-6

Events = list[tuple[int, int]]


class EagerPoller:
    """A `select.epoll` that looks on for a moment after an event."""

    def __init__(self, poller: Any, clock: Callable[[], float] = perf_counter) -> None:
        self._poller = poller
        self._look = poller.poll
        self._clock = clock
        self._until = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._poller, name)

    def poll(self, timeout: float = -1, maxevents: int = -1) -> Events:
        """The events there are within `timeout` seconds; -1 waits as long as it takes."""
        found = self._poll_eagerly(timeout, maxevents) if timeout else []
        if not found:
            found = self._look(timeout, maxevents)
        if found:
            self._until = self._clock() + EAGER_SECONDS
        return found

    def _poll_eagerly(self, timeout: float, maxevents: int) -> Events:
        now = self._clock()
        until = self._until if timeout < 0 else min(self._until, now + timeout)
        found: Events = []
        while now < until and not found:
            found = self._look(0, maxevents)
            now = self._clock()
        return found


def make_eager(reactor: Any) -> None:
    """Let Twisted's epoll reactor poll so; other reactors stay as they are.

    The reactor has no seam for this, so its poller is wrapped.
    """
    poller = getattr(reactor, "_poller", None)
    if poller is not None and hasattr(poller, "poll"):
        reactor._poller = EagerPoller(poller)


def others_wait(reactor: Any, fd: int) -> bool:
    """Whether anything but `fd` has an event for `reactor`, which stays to be told; yes if the reactor can't say."""
    poller = getattr(reactor, "_poller", None)
    if poller is None or not hasattr(poller, "poll"):
        return True
    return any(found != fd for found, _ in poller.poll(0, 2))
