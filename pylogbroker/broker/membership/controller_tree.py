"""The coordination tree over one session, as `pylogbroker.controller` needs it.

| call   | connection lost                               | session ended      |
|--------|-----------------------------------------------|--------------------|
| read   | repeated after RETRY_SECONDS, until it is not | raises Unavailable |
| commit | returns Unavailable: the outcome is unknown   | raises Unavailable |

After an unknown outcome the connection may be one to another server, which lags behind. So the next read first commits
a check that changes nothing: servers answer it after all earlier commits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

import attrs
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IReactorTime

from pylogbroker.interfaces import (
    Check,
    CoordinationError,
    ITree,
    Node,
    Operation,
    SessionExpired,
    Stat,
    Unavailable,
    Watch,
)
from pylogbroker.rpc.errors import Closed
from pylogbroker.rpc.retries import Pauses

RETRY_SECONDS: Final = 0.1
COMMITS_STARTED_MAX: Final = 500
"""Keeps the connection busy; starting thousands at once would block the reactor."""
_BARRIER: Final = (Check("/"),)
T = TypeVar("T")


@attrs.define(eq=False, repr=False)
class SessionTree:
    _tree: ITree
    _clock: IReactorTime
    _session_id: int
    _has_ended: bool = attrs.field(default=False, init=False)
    _is_uncertain: bool = attrs.field(default=False, init=False)
    _pauses: Pauses = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._pauses = Pauses(self._clock)

    @classmethod
    def of(cls, tree: ITree, clock: IReactorTime) -> SessionTree:
        """Return the tree over its present session."""
        return cls(tree, clock, tree.session_id)

    @property
    def is_live(self) -> bool:
        return not self._has_ended and self._tree.session_id == self._session_id

    def end(self) -> None:
        """Let all further calls raise Unavailable: the session has expired, or is not needed any more."""
        self._has_ended = True
        self._pauses.close()

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        return await self._read(path, lambda: self._tree.children(path, watch))

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        return await self._read(paths[0] if paths else "/", lambda: self._tree.get_many(paths))

    async def children_with_data(self, path: str) -> dict[str, Node]:
        return await self._read(path, lambda: self._tree.children_with_data(path))

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        """Return the node; raise NoNode, and set no watch then."""
        return await self._read(path, lambda: self._tree.get(path, watch))

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        return await self._read(path, lambda: self._tree.exists(path, watch))

    async def commit_each(self, transactions: Sequence[Sequence[Operation]]) -> list[CoordinationError | None]:
        if not self.is_live:
            raise Unavailable(transactions[0][0].path if transactions else "/")
        outcomes: list[CoordinationError | None] = []
        started: deque[Deferred[CoordinationError | None]] = deque()
        for transaction in transactions:
            started.append(ensureDeferred(self._commit(transaction)))
            if len(started) == COMMITS_STARTED_MAX:
                outcomes.append(await started.popleft())
        while started:
            outcomes.append(await started.popleft())
        return outcomes

    async def _commit(self, transaction: Sequence[Operation]) -> CoordinationError | None:
        try:
            await self._tree.commit(transaction)
        except Unavailable as error:
            self._is_uncertain = True
            return error
        except CoordinationError as error:
            return error
        return None

    async def _read(self, path: str, read: Callable[[], Awaitable[T]]) -> T:
        while self.is_live:
            try:
                if self._is_uncertain:
                    await self._tree.commit(_BARRIER)
                    self._is_uncertain = False
                return await read()
            except SessionExpired:
                raise
            except Unavailable:
                await self.pause(RETRY_SECONDS)
        raise Unavailable(f"{path} (the session has ended)")

    async def pause(self, seconds: float) -> None:
        """Wait before another attempt, at most until `end`."""
        with suppress(Closed):
            await self._pauses.pause(seconds)
