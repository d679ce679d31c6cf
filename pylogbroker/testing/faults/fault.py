"""Faults and watches: conditions on requests, and effects on them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import StrEnum
from types import TracebackType
from typing import Any, Protocol

import attrs
from twisted.internet.defer import Deferred, succeed

from pylogbroker.errors import ErrorCode
from pylogbroker.testing.faults.criteria import Call, Criteria
from pylogbroker.testing.faults.requests import WATCHED_BYTES_MAX, WATCHED_MAX, RequestLog, SeenRequest, summary


class CloseMoment(StrEnum):
    """Moment of closing a connection: before the work, after it but before the answer, or within the answer."""

    BEFORE = "before"
    AFTER = "after"
    MID_FRAME = "mid-frame"


class TimeDriver(Protocol):
    """Advances the time of brokers that run on the caller's thread: they do nothing while the caller waits."""

    @property
    def is_running(self) -> bool:
        """True within a call that the driver runs."""

    def run(self, deferred: Deferred[Any], what: str) -> Any:
        """Let time pass until the result of a Deferred; return it, or raise its error."""

    def run_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Let time pass until a condition holds; return False if it does not after `seconds`."""


class FaultNotFired(AssertionError):
    """A fault that had to fire did not, or a watch saw too few requests."""


@attrs.define(eq=False, repr=False)
class Watch:
    """Counts requests; `hits` are those so far. Any thread may use it.

    `seen` has the last of them: at most `WATCHED_MAX`, with at most `WATCHED_BYTES_MAX` of records.
    """

    criteria: Criteria
    _log: RequestLog
    _unlist: Callable[[Watch], bool]
    _driver: TimeDriver | None = attrs.field(default=None, kw_only=True)
    id: int = attrs.field(default=0, kw_only=True)
    """Number in the order of `add` and `watch`, from 1 on."""
    seen: RequestLog = attrs.field(factory=lambda: RequestLog(WATCHED_MAX, WATCHED_BYTES_MAX), init=False)
    _changed: threading.Condition = attrs.field(factory=threading.Condition, init=False)
    _began: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._began = self._log.count

    @property
    def hits(self) -> int:
        return self.seen.count

    @property
    def is_spent(self) -> bool:
        """Later requests pass, without being counted."""
        return False

    def release(self) -> None:
        """Raise ValueError: a watch holds no requests."""
        raise ValueError(f"{self} holds no requests")

    def note(self, seen: SeenRequest) -> None:
        with self._changed:
            self.seen.add(seen)
            self._changed.notify_all()

    def wait(self, hits: int = 1, timeout: float = 10.0) -> SeenRequest:
        """Block until so many requests have come; return the last of them. Raise FaultNotFired after `timeout`.

        If `seen` has lost that one, return the first that it has. Do not call it on the broker's thread. With a
        `MemoryBroker`, which has no thread, time passes instead.
        """
        if hits < 1:
            raise ValueError(f"hits must be at least 1, not {hits}")
        with self._changed:
            if not self._wait_for(lambda: self.hits >= hits, timeout):
                raise FaultNotFired(f"{self} saw {self.hits} of {hits} in {timeout} s; {self.came_instead()}")
            return self.seen.number(hits)

    def _wait_for(self, condition: Callable[[], bool], timeout: float) -> bool:
        if self._driver is None:
            return self._changed.wait_for(condition, timeout)
        return self._driver.run_until(condition, timeout)

    def came_instead(self) -> str:
        return f"since then came: {summary(self._log.since(self._began))}"

    def remove(self) -> None:
        self._unlist(self)

    def finish(self) -> None:
        """Remove it; raise FaultNotFired if it is a fault that had to fire, and did not."""
        self._unlist(self)

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.finish()
        except FaultNotFired:
            if error is None:  # otherwise that error says more
                raise

    def __str__(self) -> str:
        return f"the watch of {self.criteria}"


@attrs.frozen
class Action:
    """Effects of a fault; they may be combined."""

    errors: tuple[ErrorCode, ...] = ()
    """Errors one after the other; the last is followed by the first."""
    after: bool = False
    """The work is done, and its answer replaced."""
    delay: float = 0.0
    hold: bool = False
    close: CloseMoment | None = None
    answer: Any = None
    throttle_ms: int = 0
    on_hit: Callable[[Call], None] | None = None
    """Called before the error: breaks a disk, say."""

    def __str__(self) -> str:
        parts = [code.name for code in self.errors]
        parts += [f"delay={self.delay}"] if self.delay else []
        parts += ["hold"] if self.hold else []
        parts += [f"close={self.close.value}"] if self.close else []
        parts += ["a scripted answer"] if self.answer is not None else []
        parts += [f"throttle_ms={self.throttle_ms}"] if self.throttle_ms else []
        return ", ".join(parts) + (" after the work" if self.after else "")


@attrs.define(eq=False, repr=False)
class Fault(Watch):
    """Acts on the requests that it counts, `times` of them, or without end if None."""

    action: Action
    times: int | None = None
    must_fire: bool = False
    _run: Callable[..., Any] = attrs.field(kw_only=True)
    _note_silent: Callable[[Fault], None] = attrs.field(kw_only=True)
    """Called with a fault that is removed, and had to fire."""
    _held: list[Deferred[None]] = attrs.field(factory=list, init=False)
    _is_released: bool = attrs.field(default=False, init=False)

    @property
    def is_spent(self) -> bool:
        return self._is_released or (self.times is not None and self.hits >= self.times)

    @property
    def error(self) -> ErrorCode | None:
        """Error of the hit that was noted last."""
        errors = self.action.errors
        return errors[(self.hits - 1) % len(errors)] if errors else None

    def released(self) -> Deferred[None]:
        """Return a Deferred that fires with `release`, which may have come already."""
        if self._is_released:
            return succeed(None)
        waiting: Deferred[None] = Deferred(lambda gone: self._held.remove(gone))
        self._held.append(waiting)
        return waiting

    def release(self) -> None:
        """Let held requests go on, and later ones pass."""
        self._is_released = True
        self._run(self._release)

    def _release(self) -> None:
        held, self._held[:] = tuple(self._held), []
        for waiting in held:
            waiting.callback(None)

    def remove(self) -> None:
        """Let later requests pass, and held ones go on.

        If it had to fire, and did not, then `Faults.check` and `Faults.clear` will still raise FaultNotFired.
        """
        is_listed = self._unlist(self)
        self.release()
        if is_listed and self.must_fire and not self.hits:
            self._note_silent(self)

    def finish(self) -> None:
        is_listed = self._unlist(self)
        self.release()
        if is_listed:
            self.check()

    def check(self) -> None:
        """Raise FaultNotFired if it had to fire, and did not."""
        if self.must_fire and not self.hits:
            raise FaultNotFired(f"{self} never fired; {self.came_instead()}")

    def __str__(self) -> str:
        return f"the fault {self.action} for {self.criteria}"
