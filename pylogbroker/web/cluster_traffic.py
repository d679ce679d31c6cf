"""Traffic of all brokers of a cluster, and the rates of each, by counts that our brokers answer to each other.

Apache Kafka's brokers have no request for such counts: their rates are not known, and the sums are without them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import attrs

from pylogbroker.web.traffic_history import SAMPLES_MAX, TrafficSample
from pylogbroker.wire.messages.describe_log_dirs import BrokerTraffic, DescribeLogDirsResponse


@attrs.frozen
class _Counts:
    seconds: float
    traffic: BrokerTraffic


@attrs.define(eq=False, repr=False)
class ClusterTraffic:
    """`samples` has the sums of the brokers in `rates`; both are empty until the cluster has two brokers."""

    samples: deque[TrafficSample] = attrs.field(factory=lambda: deque(maxlen=SAMPLES_MAX), init=False)
    rates: Mapping[int, TrafficSample] = attrs.field(factory=dict, init=False)
    """Of the brokers that answered the last two times."""
    software: Mapping[int, str] = attrs.field(factory=dict, init=False)
    """Names and versions of our brokers."""
    _counts: Mapping[int, _Counts] = attrs.field(factory=dict, init=False)

    @property
    def has_begun(self) -> bool:
        return bool(self._counts)

    def note(self, seconds: float, time_ms: int, answers: Mapping[int, DescribeLogDirsResponse | None]) -> None:
        """Note what brokers answered, None for one that did not, at a time of a clock that never goes back."""
        counts = {
            broker_id: _Counts(seconds, answer.traffic)
            for broker_id, answer in answers.items()
            if answer is not None and answer.traffic.messages_in >= 0
        }
        rates = {
            broker_id: _rates(time_ms, self._counts[broker_id], now)
            for broker_id, now in counts.items()
            if broker_id in self._counts and now.seconds > self._counts[broker_id].seconds
        }
        self.software = {broker_id: now.traffic.software for broker_id, now in counts.items()}
        self._counts, self.rates = counts, rates
        if rates:
            self.samples.append(_sum(time_ms, [*rates.values()]))

    def unknown(self, brokers: Iterable[int]) -> list[int]:
        """Return the brokers whose rates are not in the sums."""
        return sorted(set(brokers) - self.rates.keys()) if self.rates else []


def _rates(time_ms: int, before: _Counts, now: _Counts) -> TrafficSample:
    """Return growth per second; a broker that has been started again counts from 0."""
    seconds = now.seconds - before.seconds
    pairs = (
        (now.traffic.messages_in, before.traffic.messages_in),
        (now.traffic.bytes_in, before.traffic.bytes_in),
        (now.traffic.bytes_out, before.traffic.bytes_out),
    )
    return TrafficSample(time_ms, *(max(0, last - first) / seconds for last, first in pairs))


def _sum(time_ms: int, rates: Sequence[TrafficSample]) -> TrafficSample:
    return TrafficSample(
        time_ms,
        sum(rate.messages_in for rate in rates),
        sum(rate.bytes_in for rate in rates),
        sum(rate.bytes_out for rate in rates),
    )
