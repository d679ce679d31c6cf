"""The way of records through a producer's queue, and who may step in.

    send()   before_enqueue  -> queue ->  after_dequeue   handle()   before_send  -> broker
                    after_enqueue

Callback handlers see, change or drop records at each step. The event handler takes what comes out of the queue; the
built-in one makes bytes of it and sends it. All is called on the reactor's thread and must not block.
"""

# ruff: noqa: N805  (the methods of an interface have no self)

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

import attrs
from zope.interface import Interface, implementer

from pylogbroker.interfaces.factories import IPluginFactory

Headers = Sequence[tuple[str, bytes | None]]


@attrs.define(eq=False)
class Event:
    """A record on its way through a producer.

    Who changes one sets its fields, or puts another in its place that `attrs.evolve` made of it: that keeps `ticket`,
    by which the producer knows whom to tell what became of the record. One that is made from nothing has none: it is
    sent, and nobody is told.
    """

    topic: str
    value: Any  # as given to the producer: no encoder has seen it
    key: Any = None  # the same
    partition: int | None = None  # None is what the partitioner says
    timestamp: int | None = None  # milliseconds since 1970; None is the time of sending
    headers: Headers = ()
    ticket: Any = attrs.field(default=None, repr=False)


class IEventHandler(Interface):
    """Takes the events that come out of a producer's queue, batch by batch."""

    def handle(events: Sequence[Event]) -> Awaitable[Any] | None:
        """Deal with a batch.

        The events count as dealt with when the Deferred, or what else can be awaited, is done; or at once if it is
        None. An exception fails those among them that nobody has been told of yet. The next batch may come before.
        """


class IForwardingEventHandler(IEventHandler):
    """An event handler that gives all or some events to the built-in one in the end."""

    def forward_to(handler: IEventHandler) -> None:
        """`handler` is the built-in one. Called once, before the first batch."""


class ICallbackHandler(Interface):
    """Looks at, changes or drops records at each step of their way; `CallbackHandler` is one that does nothing.

    Several are called in the order of the setting, each with what the one before has left. An exception fails the
    record, or the batch, and nothing else.
    """

    def before_enqueue(event: Event) -> Event | None:
        """A record was given to the producer: the one to enqueue, or None if it is to be dropped."""

    def after_enqueue(event: Event, is_queued: bool) -> None:
        """The record lies in the queue; or it does not, because the queue is full."""

    def after_dequeue(events: Sequence[Event]) -> Sequence[Event]:
        """Records were taken out of the queue: the ones to handle. What is left out is dropped."""

    def before_send(events: Sequence[Event]) -> Sequence[Event]:
        """The events of one batch, for one partition of one topic, are about to be sent: the ones to send."""

    def close() -> None:
        """The producer is closed: nothing follows. An exception is logged."""


@implementer(ICallbackHandler)
class CallbackHandler:
    """A callback handler that lets everything pass: derive from it to write what you need only.

    A step that is not overridden costs a producer nothing.
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
    """Makes event handlers (`IEventHandler`): a plugin. Settings name it: `event.handler`."""


class ICallbackHandlerFactory(IPluginFactory):
    """Makes callback handlers (`ICallbackHandler`): a plugin. Settings name several: `callback.handlers`."""
