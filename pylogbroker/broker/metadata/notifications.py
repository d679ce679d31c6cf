"""Notifications in the coordination tree: sequence nodes by which a broker announces its changes to the others.

Each broker acts on new ones. Those older than 15 minutes are deleted.

A watch is called once. The connection may be lost before the next one is set, and no later change would be noticed. So
the broker reads again and again, until it succeeds or the session ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import attrs
from twisted.internet.defer import DeferredLock, ensureDeferred
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.metadata.tree_errors import is_error_within_session
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.interfaces import Changed, CoordinationError, Delete, ITree, Node, NoNode, SessionExpired
from pylogbroker.rpc.backoff import Backoff
from pylogbroker.rpc.errors import Closed
from pylogbroker.rpc.retries import Pauses, retrying

log = Logger()
NOTIFICATION_MS_MAX: Final = 15 * 60 * 1000
_BACKOFF: Final = Backoff.fixed(1.0)

ActOnChanges = Callable[[Sequence[bytes | None]], Awaitable[None]]
"""Acts on the data of new notifications; after CoordinationError it gets them again, with the next ones."""


@attrs.define(eq=False, repr=False)
class Notifications:
    """Follows the children of a node. `_subject` names what changes, in the log; `_lock` is held while it is acted."""

    _tree: ITree
    _runtime: Runtime
    _path: str
    _subject: str
    _act: ActOnChanges
    _lock: DeferredLock
    _handled: set[str] = attrs.field(factory=set, init=False)
    _is_watched: bool = attrs.field(default=False, init=False)
    _pauses: Pauses = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._pauses = Pauses(self._runtime.clock)

    async def start(self) -> None:
        """Begin to watch; call it before what is notified is read, and in each new session: no change is missed."""
        self._is_watched = False
        self._handled = set(await self._children())

    def stop(self) -> None:
        self._pauses.close()

    async def _children(self) -> list[str]:
        """Return the notifications' names, with one watch at a time."""
        if self._is_watched:
            return await self._tree.children(self._path)
        self._is_watched = True
        try:
            return await self._tree.children(self._path, self._notified)
        except BaseException:
            self._is_watched = False
            raise

    def _notified(self, _: Changed) -> None:
        self._is_watched = False
        if not self._pauses.is_closed:
            following = self._follow(self._tree.session_id)
            run_in_background(log, following, "a change of {subject} was not followed", subject=self._subject)

    async def _follow(self, session_id: int) -> None:
        async def read() -> None:
            if self._tree.session_id == session_id:
                await self._lock.run(lambda: ensureDeferred(self._read()))

        failed = partial(self._log, "changes of {subject} cannot be read now: {why}")
        with suppress(Closed, SessionExpired):  # `start` is called in the next session
            # Pauses are without the lock: other reads may fail meanwhile.
            await retrying(read, self._pauses, _BACKOFF, retriable=is_error_within_session, failed=failed)

    async def _read(self) -> None:
        names = await self._children()
        stored = await self._tree.get_many([self._child(name) for name in names])
        nodes = {name: node for name, node in zip(names, stored, strict=True) if node is not None}
        await self._act([node.data for name, node in nodes.items() if name not in self._handled])
        self._handled = set(names)  # only now: after an error they are read again
        try:
            await self._delete_old(nodes)
        except CoordinationError as error:
            self._log("old changes of {subject} cannot be deleted now: {why}", error)

    def _log(self, text: str, error: Exception) -> None:
        if not self._pauses.is_closed and self._runtime.may_log(f"changes of {self._subject}"):
            log.warn(text, subject=self._subject, why=error)

    async def _delete_old(self, nodes: Mapping[str, Node]) -> None:
        before_ms = self._runtime.now_ms() - NOTIFICATION_MS_MAX
        for name, node in nodes.items():
            if node.stat.created_ms < before_ms:
                try:
                    await self._tree.commit([Delete(self._child(name))])
                except NoNode:
                    continue  # another broker deleted it

    def _child(self, name: str) -> str:
        return f"{self._path}/{name}"
