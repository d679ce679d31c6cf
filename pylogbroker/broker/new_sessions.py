"""New sessions of the coordination tree, in which a service reads again: notifications may have been missed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import attrs
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.pauses import RetryPauses
from pylogbroker.broker.runtime import Runtime
from pylogbroker.interfaces import CoordinationError, ITree, SessionEvent, SessionExpired, SessionState

log = Logger()
_RETRY_SECONDS: Final = 1.0


@attrs.define(eq=False)
class NewSessions:
    """Calls `_read` in each new session, until it succeeds. `_subject` names what is read, in the log."""

    _tree: ITree
    _runtime: Runtime
    _subject: str
    _read: Callable[[], Awaitable[None]]
    _session_id: int = attrs.field(default=0, init=False)
    _pauses: RetryPauses = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._pauses = RetryPauses(self._runtime.clock)

    def follow(self) -> None:
        """Begin to follow sessions; call it before the first reading, so that no change is missed."""
        self._session_id = self._tree.session_id
        self._tree.watch_session(self._session_changed)

    def stop(self) -> None:
        self._pauses.end()

    def _session_changed(self, event: SessionEvent) -> None:
        if (
            event.state is SessionState.CONNECTED
            and event.session_id != self._session_id
            and not self._pauses.has_ended
        ):
            self._session_id = event.session_id
            problem = "{subject} were not read in a new session, changes are missed"
            run_in_background(log, self._resume(), problem, subject=self._subject)

    async def _resume(self) -> None:
        while not self._pauses.has_ended:
            try:
                await self._read()
                return
            except SessionExpired:
                return  # the next session reads them
            except CoordinationError as error:
                if self._runtime.may_log(f"reading {self._subject} again"):
                    log.warn(
                        "{subject} cannot be read now, changes are missed: {why}", subject=self._subject, why=error
                    )
                await self._pauses.pause(_RETRY_SECONDS)
