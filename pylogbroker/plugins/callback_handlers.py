"""The built-in callback handlers.

name       function
logging    logs what happens to records, at the level after the colon: `logging:info`; default `debug`
metrics    counts records and batches, and measures how long they waited
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import attrs
from twisted.logger import InvalidLogLevelError, Logger, LogLevel
from twisted.plugin import IPlugin
from zope.interface import implementer

from pylogbroker.interfaces import CallbackHandler, Event, ICallbackHandler, ICallbackHandlerFactory

__all__ = ["LoggingHandler", "MetricsHandler"]


@attrs.frozen
class LoggingHandler(CallbackHandler):
    """Log enqueued records and sent batches; warn of records rejected by a full queue."""

    _level: Any = LogLevel.debug
    _log: Logger = attrs.field(factory=Logger)

    def after_enqueue(self, event: Event, is_queued: bool) -> None:
        if is_queued:
            self._log.emit(self._level, "a record for {topic} is enqueued", topic=event.topic)
        else:
            self._log.warn("rejected a record for {topic}: the queue is full", topic=event.topic)

    def before_send(self, events: Sequence[Event]) -> Sequence[Event]:
        if events:
            self._log.emit(
                self._level,
                "{count} records are sent to {topic}-{partition}",
                count=len(events),
                topic=events[0].topic,
                partition=events[0].partition,
            )
        return events

    def close(self) -> None:
        self._log.emit(self._level, "the producer is closed")


@attrs.frozen
class Counts:
    """Totals of a producer's records. Times in seconds."""

    given: int = 0  # to the producer
    queued: int = 0
    refused: int = 0  # by a full queue
    dequeued: int = 0
    sent: int = 0  # to the connection, acknowledged or not
    batches: int = 0  # sent
    waited: float = 0.0  # in the queue, summed over records
    longest_wait: float = 0.0

    @property
    def waiting(self) -> int:
        return self.queued - self.dequeued

    @property
    def mean_wait(self) -> float:
        return self.waited / self.dequeued if self.dequeued else 0.0

    @property
    def mean_batch(self) -> float:
        return self.sent / self.batches if self.batches else 0.0


@implementer(ICallbackHandler)
@attrs.define(eq=False, repr=False)
class MetricsHandler:
    """`counts` has the totals, `topics` those of each topic."""

    _seconds: Callable[[], float] = time.monotonic
    _tallies: dict[str, _Tally] = attrs.field(factory=dict, init=False)
    _since: WeakKeyDictionary[Event, float] = attrs.field(factory=WeakKeyDictionary, init=False)

    @property
    def topics(self) -> Mapping[str, Counts]:
        return {topic: tally.counts() for topic, tally in self._tallies.items()}

    @property
    def counts(self) -> Counts:
        total = _Tally()
        for tally in self._tallies.values():
            total.add(tally)
        return total.counts()

    def _of(self, topic: str) -> _Tally:
        tally = self._tallies.get(topic)
        if tally is None:
            tally = self._tallies[topic] = _Tally()
        return tally

    def before_enqueue(self, event: Event) -> Event | None:
        self._of(event.topic).given += 1
        return event

    def after_enqueue(self, event: Event, is_queued: bool) -> None:
        tally = self._of(event.topic)
        if is_queued:
            tally.queued += 1
            self._since[event] = self._seconds()
        else:
            tally.refused += 1

    def after_dequeue(self, events: Sequence[Event]) -> Sequence[Event]:
        now = self._seconds()
        for event in events:
            tally = self._of(event.topic)
            tally.dequeued += 1
            waited = now - self._since.pop(event, now)
            tally.waited += waited
            tally.longest_wait = max(tally.longest_wait, waited)
        return events

    def before_send(self, events: Sequence[Event]) -> Sequence[Event]:
        if events:
            tally = self._of(events[0].topic)
            tally.sent += len(events)
            tally.batches += 1
        return events

    def close(self) -> None:
        """Keep the counts readable."""


@attrs.define
class _Tally:
    given: int = 0
    queued: int = 0
    refused: int = 0
    dequeued: int = 0
    sent: int = 0
    batches: int = 0
    waited: float = 0.0
    longest_wait: float = 0.0

    def counts(self) -> Counts:
        return Counts(**attrs.asdict(self))

    def add(self, other: _Tally) -> None:
        longest = max(self.longest_wait, other.longest_wait)
        for name, value in attrs.asdict(other).items():
            setattr(self, name, getattr(self, name) + value)
        self.longest_wait = longest


@implementer(IPlugin, ICallbackHandlerFactory)
@attrs.frozen
class LoggingFactory:
    name: str = "logging"

    def make(self, argument: str, settings: Mapping[str, object]) -> ICallbackHandler:
        try:
            return LoggingHandler(LogLevel.levelWithName(argument or "debug"))
        except InvalidLogLevelError:
            levels = ", ".join(level.name for level in LogLevel.iterconstants())
            raise ValueError(f"expected a level, any of {levels}: logging:info") from None


@implementer(IPlugin, ICallbackHandlerFactory)
@attrs.frozen
class MetricsFactory:
    name: str = "metrics"

    def make(self, argument: str, settings: Mapping[str, object]) -> ICallbackHandler:
        if argument:
            raise ValueError("metrics takes no argument")
        return MetricsHandler()


logging_handler = LoggingFactory()
metrics_handler = MetricsFactory()
