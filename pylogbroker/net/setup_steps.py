"""Steps of connections that are not set up: the reactor polls between two of them, so that other clients wait for one.

A step accepts a connection, or reads what continues a handshake or an authentication. It costs up to a millisecond, and
clients that are not authenticated choose when. All listeners share the steps. Connections and ports that must wait do
so in one queue, the first one first, and their bytes in the kernel.

    iteration  | calls that are due | events of the poll
    -----------|--------------------|-----------------------------------------
    n          |                    | step 1; other setups wait
    n + 1      | `_poll_first`      | requests that arrived during step 1
    n + 2      | `_next`: step 2    | requests that arrived during step 2
    n + 3      | `_poll_first`      | requests that arrived during the last poll
    n + 4      | `_next`: step 3    | ...
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, cast

import attrs
from twisted.internet.abstract import FileDescriptor
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure


class TakesSteps(Protocol):
    def wait_for_step(self) -> None:
        """Read nothing until `take_step`."""

    def take_step(self) -> bool:
        """Read once, and then as before; return False if there is nothing to read from any more."""


class Stepwise(FileDescriptor):
    """Mixin for a connection or a port: while it waits for its step, others may stop and start reading, too."""

    _waits_for_step = False
    _is_reading_stopped = False

    def stopReading(self) -> None:
        self._is_reading_stopped = True
        super().stopReading()

    def startReading(self) -> None:
        self._is_reading_stopped = False
        if not self._waits_for_step:
            super().startReading()

    def wait_for_step(self) -> None:
        self._waits_for_step = True
        super().stopReading()

    def take_step(self) -> bool:
        self._waits_for_step = False
        if not self.connected or self._is_reading_stopped:
            return False
        super().startReading()
        outcome = self.read_step()
        if outcome is not None and self.connected:
            self.connectionLost(Failure(cast(BaseException, outcome)))
        return True

    def read_step(self) -> Any:
        """Read without waiting; return None, or why the connection ends."""
        raise NotImplementedError


@attrs.define(eq=False, repr=False)
class SetupSteps:
    _clock: IReactorTime
    _is_taken: bool = attrs.field(default=False, init=False)
    """True until the reactor has polled after the last step."""
    _waiting: deque[TakesSteps] = attrs.field(factory=deque, init=False)

    def run(self, taker: TakesSteps, step: Callable[[], Any]) -> Any:
        """Run a step, and return its result; if the reactor has not polled since the last one, let the taker wait."""
        if self._is_taken:
            taker.wait_for_step()
            self._waiting.append(taker)
            return None
        self._take()
        return step()

    def _take(self) -> None:
        self._is_taken = True
        self._clock.callLater(0, self._poll_first)

    def _poll_first(self) -> None:
        """Let the next step wait for one more poll: an iteration polls after the calls that are due."""
        self._clock.callLater(0, self._next)

    def _next(self) -> None:
        """Let the first one that waits take a step."""
        self._is_taken = False
        while self._waiting:
            if not self._is_taken:
                self._take()
            if self._waiting.popleft().take_step():
                break
