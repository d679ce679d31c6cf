"""A producer's callback handlers, chained into one function for each step.

A step without handlers is None. Each handler gets the previous one's result. An exception or invalid result becomes
PluginFailed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pylogbroker.client.plugin_guards import log_failure
from pylogbroker.client.plugin_lookup import ResolvedPlugin
from pylogbroker.interfaces import CallbackHandler, Event, ICallbackHandler

_ChangeOne = Callable[[Event], Event | None]
_ChangeMany = Callable[[Sequence[Event]], Sequence[Event]]
Notify = Callable[[Event, bool], None]
Steps = Sequence[tuple[ResolvedPlugin[ICallbackHandler], Callable[..., Any]]]
M = TypeVar("M")


class Callbacks:
    def __init__(self, plugged: Sequence[ResolvedPlugin[ICallbackHandler]]) -> None:
        self.handlers = tuple(resolved.plugin for resolved in plugged)
        self._closers = _steps(plugged, "close")
        self.before_enqueue: _ChangeOne | None = _chain(plugged, "before_enqueue", _chain_one)
        self.after_enqueue: Notify | None = _chain(plugged, "after_enqueue", _chain_notify)
        self.after_dequeue: _ChangeMany | None = _chain(plugged, "after_dequeue", _chain_many)
        self.before_send: _ChangeMany | None = _chain(plugged, "before_send", _chain_many)

    def close(self) -> None:
        for plugged, close in self._closers:
            try:
                close()
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                log_failure(plugged, error)


def _steps(plugged: Sequence[ResolvedPlugin[ICallbackHandler]], name: str) -> Steps:
    idle = getattr(CallbackHandler, name)
    methods = [(resolved, getattr(resolved.plugin, name)) for resolved in plugged]
    return [(resolved, method) for resolved, method in methods if getattr(method, "__func__", None) is not idle]


def _chain(plugged: Sequence[ResolvedPlugin[ICallbackHandler]], name: str, make: Callable[[Steps], M]) -> M | None:
    steps = _steps(plugged, name)
    return make(steps) if steps else None


def _chain_one(steps: Steps) -> _ChangeOne:
    def change(event: Event) -> Event | None:
        for plugged, method in steps:
            try:
                changed = method(event)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                raise plugged.failed(error) from error
            if changed is None:
                return None
            if not isinstance(changed, Event):
                raise plugged.failed(TypeError(f"it returned {changed!r}, which is not an Event"))
            event = changed
        return event

    return change


def _chain_many(steps: Steps) -> _ChangeMany:
    def change(events: Sequence[Event]) -> Sequence[Event]:
        for plugged, method in steps:
            if events:
                try:
                    events = _events(method(events))
                except KeyboardInterrupt:
                    raise
                except BaseException as error:
                    raise plugged.failed(error) from error
        return events

    return change


def _events(answer: Any) -> list[Event]:
    events = list(answer)
    for event in events:
        if not isinstance(event, Event):
            raise TypeError(f"{event!r} is not an Event")
    return events


def _chain_notify(steps: Steps) -> Notify:
    def notify(event: Event, is_queued: bool) -> None:
        for plugged, method in steps:
            try:
                method(event, is_queued)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                raise plugged.failed(error) from error

    return notify
