"""Notifications in the coordination tree: sequence nodes by which a broker announces its changes to the others.

Each broker acts on new ones. Those older than 15 minutes are deleted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import attrs
from twisted.internet.defer import DeferredLock, ensureDeferred
from twisted.logger import Logger

from pylogbroker.broker.runtime import Runtime
from pylogbroker.interfaces import Changed, CoordinationError, Delete, ITree, Node, NoNode

log = Logger()
NOTIFICATION_MS_MAX: Final = 15 * 60 * 1000

ActOnChanges = Callable[[Sequence[bytes | None]], Awaitable[None]]
"""Acts on the data of new notifications; after CoordinationError it gets them again, with the next ones."""


@attrs.define(eq=False)
class Notifications:
    """Follows the children of a node. `_subject` names what changes, in the log; `_lock` is held while it is acted."""

    _tree: ITree
    _runtime: Runtime
    _path: str
    _subject: str
    _act: ActOnChanges
    _lock: DeferredLock
    _handled: set[str] = attrs.field(factory=set, init=False)
    _is_stopped: bool = attrs.field(default=False, init=False)

    async def start(self) -> None:
        """Begin to watch; call it before what is notified is read, so that no change is missed."""
        self._handled = set(await self._tree.children(self._path, self._notified))

    def stop(self) -> None:
        self._is_stopped = True

    def _notified(self, _: Changed) -> None:
        if not self._is_stopped:
            ensureDeferred(self._follow()).addErrback(
                lambda failure: log.failure("a change of {subject} was not followed", failure, subject=self._subject)
            )

    async def _follow(self) -> None:
        await self._lock.acquire()
        try:
            names = await self._tree.children(self._path, self._notified)
            found = await self._tree.get_many([self._child(name) for name in names])
            nodes = {name: node for name, node in zip(names, found, strict=True) if node is not None}
            await self._act([node.data for name, node in nodes.items() if name not in self._handled])
            self._handled = set(names)  # only now: after an error they are read again
            await self._delete_old(nodes)
        except CoordinationError as error:
            if not self._is_stopped and self._runtime.may_log(f"changes of {self._subject}"):
                log.warn("changes of {subject} cannot be read now: {why}", subject=self._subject, why=error)
        finally:
            self._lock.release()

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
