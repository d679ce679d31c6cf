"""Rates of topics: how their counts grow, in the partitions of this broker."""

from __future__ import annotations

from typing import Final

import attrs

from pylogbroker.broker.partitions.traffic import TopicTraffic
from pylogbroker.broker.services import Services

INTERVAL_SECONDS: Final = 10.0
"""Rates are those of the last one or two intervals."""
_TOPICS_MAX: Final = 20_000
"""Topics whose counts are noted; those of others have no rates."""


@attrs.frozen
class _Counts:
    seconds: float
    messages_in: int
    bytes_in: int
    bytes_out: int
    traffic: TopicTraffic
    """A topic that is deleted and created again has other counts."""


@attrs.frozen
class Rates:
    """Growth per second."""

    messages_in: float
    bytes_in: float
    bytes_out: float


@attrs.define(eq=False, repr=False)
class TopicRates:
    _older: dict[str, _Counts] = attrs.field(factory=dict, init=False)
    _newer: dict[str, _Counts] = attrs.field(factory=dict, init=False)
    noted: dict[str, float] = attrs.field(factory=dict, init=False)
    """Records per second between the last two samples, of topics that got any."""

    async def sample(self, services: Services) -> None:
        """Note the counts of all topics."""
        counts: dict[str, _Counts] = {}
        rates: dict[str, float] = {}
        clock = services.runtime.clock
        async for name, traffic in services.runtime.slices.over(tuple(services.partitions.traffic.topics.items())):
            if len(counts) < _TOPICS_MAX:
                counts[name] = _counts(traffic, clock.seconds())
                before = self._newer.get(name)
                if before is not None and before.traffic is traffic and traffic.messages_in > before.messages_in:
                    grown = traffic.messages_in - before.messages_in
                    rates[name] = grown / (counts[name].seconds - before.seconds)
        self.noted = rates
        self._older, self._newer = self._newer, counts

    def of(self, services: Services, topic: str) -> Rates | None:
        """Return the rates of a topic since the last sample but one; None without it."""
        before, traffic = self._older.get(topic), services.partitions.traffic.topics.get(topic)
        if before is None or traffic is None or before.traffic is not traffic:
            return None
        now = _counts(traffic, services.runtime.clock.seconds())
        seconds = now.seconds - before.seconds
        if seconds <= 0:
            return None
        return Rates(
            (now.messages_in - before.messages_in) / seconds,
            (now.bytes_in - before.bytes_in) / seconds,
            (now.bytes_out - before.bytes_out) / seconds,
        )


def _counts(traffic: TopicTraffic, seconds: float) -> _Counts:
    return _Counts(seconds, traffic.messages_in, traffic.bytes_in, traffic.bytes_out, traffic)
