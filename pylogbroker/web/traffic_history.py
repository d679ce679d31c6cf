"""History of what comes in and goes out, of all topics and of each: rings of samples, until the broker stops.

The last `SAMPLES_MAX` samples hold an hour. A topic without traffic in that time has no ring.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

import attrs

from pylogbroker.broker.services import Services

INTERVAL_SECONDS: Final = 30.0
SAMPLES_MAX: Final = 120
TOPICS_MAX: Final = 2000
"""Topics with a history; later ones have none until others are silent for an hour."""
_SPARK_STEP: Final = 4
"""Samples whose mean is one point of a small chart."""


@attrs.frozen
class TrafficSample:
    """Growth per second in the time before a sample."""

    time_ms: int
    messages_in: float
    bytes_in: float
    bytes_out: float


@attrs.frozen
class _Counts:
    seconds: float
    by_topic: dict[str, int]
    """Bytes that came in."""
    messages_in: int
    bytes_in: int
    bytes_out: int


@attrs.define(eq=False, repr=False)
class TrafficHistory:
    samples: deque[TrafficSample] = attrs.field(factory=lambda: deque(maxlen=SAMPLES_MAX), init=False)
    _bytes_in: dict[str, deque[int]] = attrs.field(factory=dict, init=False)
    _counts: deque[_Counts] = attrs.field(factory=lambda: deque(maxlen=2), init=False)
    """Counts at the last two samples."""

    async def sample(self, services: Services) -> None:
        """Note how much has come since the last sample."""
        runtime, traffic = services.runtime, services.partitions.traffic
        by_topic: dict[str, int] = {}
        messages_in, bytes_in, bytes_out = (
            traffic.of_others.messages_in,
            traffic.of_others.bytes_in,
            traffic.of_others.bytes_out,
        )
        async for name, counts in runtime.slices.over(tuple(traffic.topics.items())):
            by_topic[name] = counts.bytes_in
            messages_in, bytes_in = messages_in + counts.messages_in, bytes_in + counts.bytes_in
            bytes_out += counts.bytes_out
        self._counts.append(_Counts(runtime.clock.seconds(), by_topic, messages_in, bytes_in, bytes_out))
        before, seconds = self._counts[0], self._counts[-1].seconds - self._counts[0].seconds
        if seconds <= 0:
            return
        self.samples.append(
            TrafficSample(
                runtime.now_ms(),
                (messages_in - before.messages_in) / seconds,
                (bytes_in - before.bytes_in) / seconds,
                (bytes_out - before.bytes_out) / seconds,
            )
        )
        async for name, count in runtime.slices.over(by_topic.items()):
            grown = max(0, count - before.by_topic.get(name, 0))  # a topic that was created again counts from 0
            if name in self._bytes_in or (grown and len(self._bytes_in) < TOPICS_MAX):
                ring = self._bytes_in.setdefault(name, deque([0] * (len(self.samples) - 1), SAMPLES_MAX))
                ring.append(round(grown / seconds))
        silent = [name for name, ring in self._bytes_in.items() if name not in by_topic or not any(ring)]
        for name in silent:
            del self._bytes_in[name]

    def spark(self, topic: str) -> Sequence[float]:
        """Return bytes per second that came into a topic over the last hour, as points of a small chart."""
        ring = self._bytes_in.get(topic)
        values = [0] * len(self.samples) if ring is None else list(ring)
        starts = range(len(values) % _SPARK_STEP, len(values), _SPARK_STEP)
        return [sum(values[start : start + _SPARK_STEP]) / _SPARK_STEP for start in starts]
