"""Samples that are taken at regular times while the broker serves, whether or not somebody looks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.logger import Logger

from pylogbroker.broker.runtime import PeriodicCall
from pylogbroker.broker.services import Services
from pylogbroker.web import topic_rates
from pylogbroker.web.topic_rates import TopicRates

log = Logger()

Sample = Callable[[Services], Awaitable[None]]


@attrs.define(eq=False)
class Samples:
    topic_rates: TopicRates = attrs.field(factory=TopicRates, init=False)
    _timers: list[PeriodicCall] = attrs.field(factory=list, init=False)
    _running: dict[Sample, Deferred[None]] = attrs.field(factory=dict, init=False)

    def start(self, services: Services) -> None:
        for seconds, sample in ((topic_rates.INTERVAL_SECONDS, self.topic_rates.sample),):
            timer = PeriodicCall(services.runtime.clock, self._begin, services, sample)
            timer.start(seconds)
            self._timers.append(timer)

    def stop(self) -> None:
        for timer in self._timers:
            timer.stop()
        self._timers.clear()
        for running in tuple(self._running.values()):
            running.cancel()

    def _begin(self, services: Services, sample: Sample) -> None:
        """Begin to take a sample, unless the one before takes longer than the interval."""
        if sample not in self._running:
            running = self._running[sample] = ensureDeferred(self._take(services, sample))
            running.addBoth(self._taken, sample)

    def _taken(self, _: object, sample: Sample) -> None:
        del self._running[sample]

    async def _take(self, services: Services, sample: Sample) -> None:
        try:
            await sample(services)
        except CancelledError:
            pass
        except Exception:
            log.failure("a sample for the page failed")
