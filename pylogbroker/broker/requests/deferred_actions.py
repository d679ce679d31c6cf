"""Actions deferred until all requests that a connection received at once are handled (Kafka: ActionQueue).

So a fetch that several of these requests complete is answered once. An action that raises is logged; others still run.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

log = Logger()


@attrs.define
class DeferredActions:
    """Collects actions between `hold` and `run`; at other times runs them in the reactor's next iteration."""

    _clock: IReactorTime
    _actions: list[Callable[[], None]] = attrs.field(factory=list, init=False)
    _held: bool = attrs.field(default=False, init=False)
    _running: bool = attrs.field(default=False, init=False)

    def defer(self, action: Callable[[], None]) -> None:
        self._actions.append(action)
        if not self._held and not self._running and len(self._actions) == 1:
            self._clock.callLater(0, self.run)

    @property
    def is_collecting(self) -> bool:
        """True if `run` follows before the reactor's next iteration."""
        return self._held or self._running

    def hold(self) -> None:
        self._held = True

    def run_early(self) -> None:
        """Run what the request at work has deferred so far; the requests after it defer again."""
        if self._held and not self._running and self._actions:
            self.run()
            self._held = True

    def run(self) -> None:
        self._held = False
        if self._running:
            return
        self._running = True
        while self._actions:
            actions, self._actions = self._actions, []
            for action in actions:
                try:
                    action()
                except Exception:
                    log.failure("a deferred action failed")
        self._running = False
