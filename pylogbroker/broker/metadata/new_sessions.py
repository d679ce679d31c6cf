"""New sessions of the coordination tree, in which a service reads again: notifications may have been missed."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

import attrs
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.metadata.tree_errors import is_error_within_session
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.interfaces import ITree, SessionEvent, SessionExpired, SessionState
from pylogbroker.rpc.backoff import Backoff
from pylogbroker.rpc.errors import Closed
from pylogbroker.rpc.retries import Pauses, retrying

log = Logger()
_BACKOFF: Final = Backoff.fixed(1.0)


@attrs.define(eq=False, repr=False)
class NewSessions:
    """Calls `_read` in each new session, until it succeeds. `_subject` names what is read, in the log."""

    _tree: ITree
    _runtime: Runtime
    _subject: str
    _read: Callable[[], Coroutine[Any, Any, None]]
    _session_id: int = attrs.field(default=0, init=False)
    _pauses: Pauses = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._pauses = Pauses(self._runtime.clock)

    def follow(self) -> None:
        """Begin to follow sessions; call it before the first reading, so that no change is missed."""
        self._session_id = self._tree.session_id
        self._tree.watch_session(self._session_changed)

    def stop(self) -> None:
        self._pauses.close()

    def _session_changed(self, event: SessionEvent) -> None:
        if (
            event.state is SessionState.CONNECTED
            and event.session_id != self._session_id
            and not self._pauses.is_closed
        ):
            self._session_id = event.session_id
            self.read_again()

    def read_again(self) -> None:
        """Read in the background, until it succeeds or the session ends: then the next one reads."""
        if not self._pauses.is_closed:
            problem = "{subject} were not read again, changes are missed"
            run_in_background(log, self._resume(), problem, subject=self._subject)

    async def _resume(self) -> None:
        with suppress(Closed, SessionExpired):  # the next session reads them
            await retrying(
                self._read, self._pauses, _BACKOFF, retriable=is_error_within_session, failed=self._log_failure
            )

    def _log_failure(self, error: Exception) -> None:
        if self._runtime.may_log(f"reading {self._subject} again"):
            log.warn("{subject} cannot be read now, changes are missed: {why}", subject=self._subject, why=error)
