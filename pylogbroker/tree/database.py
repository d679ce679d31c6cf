"""A tree with its sessions: writes go to its file on a worker thread, reads come from memory.

Writes are done in the order of their calls. Those that wait while others are written are written together. After that
the reactor thread handles one write after the other: the mirror in memory changes, listeners hear of the events, and
the caller gets the result. Nobody sees a change before it is on the disk; an event comes before what it announces.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.interfaces import CoordinationError, Unavailable
from pylogbroker.tree.rows import Nodes
from pylogbroker.tree.transactions import Session, Write, WriteResult

log = Logger()
Work = Callable[[], Any]
Offload = Callable[[Work], Awaitable[Any]]
_WriteListener = Callable[[WriteResult], object]


async def at_once(work: Work) -> Any:
    """Work in the calling thread: before the reactor runs, and in tests."""
    return work()


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class NodeFile(Protocol):
    """Keeps the nodes: on the disk, or in memory."""

    @property
    def sessions(self) -> Sequence[Session]: ...
    @property
    def nodes(self) -> Nodes: ...
    @property
    def last(self) -> int: ...
    def write(self, writes: Sequence[Write], now_ms: int) -> list[WriteResult]: ...
    def close(self, last: Sequence[Write] = (), now_ms: int = 0) -> None: ...


@attrs.define(eq=False, repr=False)
class TreeDatabase:
    """`offload` runs blocking work on another thread and awaits it."""

    _file: NodeFile
    _offload: Offload = at_once
    now_ms: Callable[[], int] = wall_clock_ms
    _listeners: list[_WriteListener] = attrs.field(init=False, factory=list)
    _waiting: list[tuple[Write, Deferred[WriteResult]]] = attrs.field(init=False, factory=list)
    _is_writing: bool = attrs.field(init=False, default=False)
    _last: int = attrs.field(init=False)
    _idle: list[Deferred[None]] = attrs.field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        self._last = self._file.last

    @property
    def nodes(self) -> Nodes:
        return self._file.nodes

    @property
    def sessions(self) -> Sequence[Session]:
        """Sessions that the file held when it was opened."""
        return self._file.sessions

    @property
    def last(self) -> int:
        """Number of the last transaction that reads show."""
        return self._last

    def listen(self, listener: _WriteListener) -> None:
        """Call the listener with the result of each write that has events."""
        self._listeners.append(listener)

    def write(self, write: Write) -> Deferred[WriteResult]:
        done: Deferred[WriteResult] = Deferred()
        self._waiting.append((write, done))
        if not self._is_writing:
            self._is_writing = True
            run_in_background(log, self._write_waiting(), "nothing more is written to the coordination tree")
        return done

    async def _write_waiting(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                results = await self._write_batch([write for write, _ in batch])
            except Exception as error:  # a worker that cannot be reached must not keep callers waiting
                failed = error if isinstance(error, CoordinationError) else Unavailable(f"the tree ({error})")
                results = [WriteResult(self._last, error=failed) for _ in batch]
            for (_, done), result in zip(batch, results, strict=True):
                self._apply(result)
                done.callback(result)
        self._is_writing = False
        idle, self._idle = self._idle, []
        for waiting in idle:
            waiting.callback(None)

    async def _write_batch(self, writes: list[Write]) -> list[WriteResult]:
        now_ms = self.now_ms()
        results: list[WriteResult] = await self._offload(lambda: self._file.write(writes, now_ms))
        return results

    def _apply(self, result: WriteResult) -> None:
        self._last = max(self._last, result.number)
        self.nodes.apply(result.changes)
        if result.events:
            for listener in self._listeners:
                try:
                    listener(result)
                except Exception:  # callers get their results, and later writes are done
                    log.failure("a listener of the coordination tree failed")

    async def close(self, last: Sequence[Write] = ()) -> None:
        """Close the file after writes in progress and the last ones. No call may follow."""
        if self._is_writing:
            idle: Deferred[None] = Deferred()
            self._idle.append(idle)
            await idle
        await self._offload(lambda: self._file.close(last, self.now_ms()))
