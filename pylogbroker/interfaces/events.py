"""Events of a producer's queue, and the handlers called at each step.

    send()   before_enqueue  -> queue ->  after_dequeue   handle()   before_send  -> broker
                    after_enqueue

Methods are called on the reactor thread and must not block.
"""

# ruff: noqa: N805  (the methods of an interface have no self)

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

import attrs
from zope.interface import Interface, implementer

from pylogbroker.interfaces.factories import IPluginFactory

Headers = Sequence[tuple[str, bytes | None]]


@attrs.define(eq=False, repr=False)
class Event:
    """Record in a producer's queue.

    To change an event, set its fields or use `attrs.evolve`. Both keep `ticket`, which links it to the result that the
    sender awaits. An event made from scratch is sent, but nobody gets its result.
    """

    topic: str
    value: Any  # before encoding
    key: Any = None  # before encoding
    partition: int | None = None  # None: chosen by the partitioner
    timestamp: int | None = None  # milliseconds since 1970; None: now
    headers: Headers = ()
    ticket: Any = attrs.field(default=None, repr=False)


class IEventHandler(Interface):
    """Handler of events taken from a producer's queue; the built-in one serializes and sends them."""

    def handle(events: Sequence[Event]) -> Awaitable[Any] | None:
        """Handle a batch; it is done with the returned awaitable, or at once if None.

        An exception fails events without results. The next batch may arrive earlier.
        """


class IForwardingEventHandler(IEventHandler):
    """Event handler that passes events on to the built-in handler."""

    def forward_to(handler: IEventHandler) -> None:
        """Receive the built-in handler. Called once, before the first batch."""


class ICallbackHandler(Interface):
    """Hooks that observe, change or drop records at each step; `CallbackHandler` has default methods.

    Handlers are called in the setting's order, each with the previous one's result. An exception fails only the record
    or batch concerned.
    """

    def before_enqueue(event: Event) -> Event | None:
        """Return the record to enqueue instead of `event`; None drops it."""

    def after_enqueue(event: Event, is_queued: bool) -> None:
        """Observe that the record was enqueued, or rejected by a full queue."""

    def after_dequeue(events: Sequence[Event]) -> Sequence[Event]:
        """Return the records to handle; omitted ones are dropped."""

    def before_send(events: Sequence[Event]) -> Sequence[Event]:
        """Return the events of a partition's batch to send; omitted ones are dropped."""

    def close() -> None:
        """Release resources; no call follows. An exception is logged."""


@implementer(ICallbackHandler)
class CallbackHandler:
    """Base class of callback handlers: every method passes its argument on.

    Methods not overridden cost a producer nothing.
    """

    def before_enqueue(self, event: Event) -> Event | None:
        return event

    def after_enqueue(self, event: Event, is_queued: bool) -> None:
        pass

    def after_dequeue(self, events: Sequence[Event]) -> Sequence[Event]:
        return events

    def before_send(self, events: Sequence[Event]) -> Sequence[Event]:
        return events

    def close(self) -> None:
        pass


class IEventHandlerFactory(IPluginFactory):
    """Plugin factory of event handlers. The setting `event.handler` names one."""


class ICallbackHandlerFactory(IPluginFactory):
    """Plugin factory of callback handlers. The setting `callback.handlers` names several."""
