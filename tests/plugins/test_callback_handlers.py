"""The built-in callback handlers: what they say and count, step by step."""

from __future__ import annotations

import gc

import attrs
import pytest
from twisted.logger import LogEvent, Logger, LogLevel, formatEvent
from zope.interface.verify import verifyObject

from pylogbroker.interfaces import CallbackHandler, Event, ICallbackHandler, ICallbackHandlerFactory
from pylogbroker.plugins import callback_handlers as built_in
from pylogbroker.plugins.callback_handlers import Counts, LoggingHandler, MetricsHandler


def events(topic: str, count: int) -> list[Event]:
    return [Event(topic, number, partition=3) for number in range(count)]


@pytest.mark.parametrize("factory", [built_in.logging_handler, built_in.metrics_handler])
def test_factories_provide_their_interfaces(factory: ICallbackHandlerFactory) -> None:
    verifyObject(ICallbackHandlerFactory, factory)
    verifyObject(ICallbackHandler, factory.make("", {}))
    with pytest.raises(ValueError, match=r"no argument|any of debug, info"):
        factory.make("loud", {})


@pytest.mark.parametrize("handler", [CallbackHandler(), LoggingHandler(), MetricsHandler()])
def test_handlers_let_all_events_pass(handler: ICallbackHandler) -> None:
    verifyObject(ICallbackHandler, handler)
    some = events("t", 2)
    assert handler.before_enqueue(some[0]) is some[0]
    assert handler.after_enqueue(some[0], True) is None
    assert list(handler.after_dequeue(some)) == some
    assert list(handler.before_send(some)) == some
    assert (list(handler.after_dequeue([])), list(handler.before_send([]))) == ([], [])
    assert handler.close() is None


@pytest.mark.parametrize(("argument", "level"), [("", LogLevel.debug), ("info", LogLevel.info)])
def test_logging(argument: str, level: object) -> None:
    said: list[LogEvent] = []
    made = built_in.logging_handler.make(argument, {})
    handler = attrs.evolve(made, log=Logger(observer=said.append))
    first, *_ = some = events("orders", 2)
    handler.before_enqueue(first)
    handler.after_enqueue(first, True)
    handler.after_enqueue(first, False)
    handler.after_dequeue(some)
    handler.before_send(some)
    handler.close()
    assert [(event["log_level"], formatEvent(event)) for event in said] == [
        (level, "a record for orders is enqueued"),
        (LogLevel.warn, "rejected a record for orders: the queue is full"),
        (level, "2 records are sent to orders-3"),
        (level, "the producer is closed"),
    ]


def test_metrics() -> None:
    now = [100.0]
    handler = MetricsHandler(lambda: now[0])
    queued, others = events("a", 3), events("b", 1)
    for event in queued + others:
        handler.before_enqueue(event)
        now[0] += 1.0
        handler.after_enqueue(event, event is not queued[1])
    now[0] = 110.0
    assert handler.counts.waiting == 3
    handler.after_dequeue([queued[0], others[0]])  # they came at 101 and 104
    handler.before_send([queued[0]])
    handler.before_send(others)
    now[0] = 120.0
    handler.after_dequeue([queued[2]])  # at 103
    handler.before_send([queued[2]])
    handler.close()
    assert handler.topics == {
        "a": Counts(given=3, queued=2, refused=1, dequeued=2, sent=2, batches=2, waited=26.0, longest_wait=17.0),
        "b": Counts(given=1, queued=1, dequeued=1, sent=1, batches=1, waited=6.0, longest_wait=6.0),
    }
    total = handler.counts
    assert total == Counts(given=4, queued=3, refused=1, dequeued=3, sent=3, batches=3, waited=32.0, longest_wait=17.0)
    assert (total.waiting, total.mean_batch, total.mean_wait) == (0, 1.0, 32.0 / 3)
    assert (Counts().waiting, Counts().mean_batch, Counts().mean_wait) == (0, 0.0, 0.0)


def test_metrics_remember_no_record() -> None:
    """Not even one that another handler takes out of the queue, or puts something else in place of."""
    handler = MetricsHandler()
    event = Event("t", b"")
    handler.after_enqueue(event, True)
    assert handler.after_dequeue([attrs.evolve(event, value=b"x")])
    del event
    gc.collect()
    assert len(handler._since) == 0
    assert (handler.counts.dequeued, handler.counts.waited) == (1, 0.0)
