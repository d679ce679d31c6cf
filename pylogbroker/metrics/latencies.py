"""Metrics of how long requests take.

Quantiles are of about the last minute, from the buckets at scrapes, linear within a bucket. A histogram has the buckets
themselves: those of several brokers can be added, quantiles cannot.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from math import inf, nan
from typing import Final

import attrs

from pylogbroker.broker.runtime.distribution import BUCKETS, Distribution
from pylogbroker.long_loops import give_way
from pylogbroker.metrics import families
from pylogbroker.metrics.declarations import Family
from pylogbroker.metrics.exposition import Exposition
from pylogbroker.metrics.recent_rate import WINDOW_SECONDS
from pylogbroker.net.latencies import Latency

QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
_FETCHES: Final = ("FetchConsumer", "FetchFollower")
_SHOWN: Final = range(16, 37)
"""_Buckets of the histogram: those with bounds from 66 microseconds to 69 seconds. Shorter ones are in the first."""

_Buckets = Sequence[int]


def quantile(share: float, buckets: _Buckets) -> float:
    """Return the value that a share of all values is not above; NaN without any.

    Bucket n has the values below 2**n, and not below half of that.
    """
    rank = share * sum(buckets)
    below = 0
    for bucket, count in enumerate(buckets):
        if count and below + count >= rank:
            first, last = (0.0 if bucket == 0 else 2.0 ** (bucket - 1)), 2.0**bucket
            return first + (last - first) * (rank - below) / count
        below += count
    return nan


@attrs.define(eq=False, repr=False)
class RecentBuckets:
    """Growth of buckets since the oldest reading in the window, or the last one before it."""

    _readings: deque[tuple[float, _Buckets]] = attrs.field(factory=lambda: deque([(-inf, (0,) * BUCKETS)]), init=False)

    def update(self, seconds: float, buckets: _Buckets) -> _Buckets:
        readings = self._readings
        readings.append((seconds, tuple(buckets)))
        while len(readings) > 2 and readings[1][0] <= seconds - WINDOW_SECONDS:
            readings.popleft()
        return [last - first for last, first in zip(buckets, readings[0][1], strict=True)]


@attrs.define(eq=False, repr=False)
class LatencyMetrics:
    _recent: defaultdict[tuple[Family, str], RecentBuckets] = attrs.field(
        factory=lambda: defaultdict(RecentBuckets), init=False
    )

    async def collect(self, out: Exposition, listeners: Iterable[Mapping[str, Latency]], now: float) -> None:
        for request, latency in sorted(_by_request(listeners).items()):
            if not any(latency.total.buckets):
                continue
            self._write(out, families.TOTAL_TIME, request, latency.total, now)
            self._write(out, families.QUEUE_TIME, request, latency.queue, now)
            self._write(out, families.LOCAL_TIME, request, latency.local, now)
            self._write(out, families.REMOTE_TIME, request, latency.remote, now)
            _write_histogram(out, request, latency)
            await give_way()

    def _write(self, out: Exposition, family: Family, request: str, durations: Distribution, now: float) -> None:
        recent = self._recent[family, request].update(now, durations.buckets)
        write = out.lines(family).append
        for share in QUANTILES:
            value = quantile(share, recent) / 1e6  # milliseconds
            write(f'{family.name}{{request="{request}",quantile="{share}"}} {number_text(value)}\n')
        _write_totals(out, family, request, durations.sum / 1e6, sum(durations.buckets))


def number_text(value: float) -> str:
    return "NaN" if value != value else f"{value:.6g}"


def _by_request(listeners: Iterable[Mapping[str, Latency]]) -> Mapping[str, Latency]:
    """Return the latencies by API over all listeners, and of all fetches besides those of each kind."""
    totals: defaultdict[str, Latency] = defaultdict(Latency)
    for latencies in listeners:
        for request, latency in latencies.items():
            totals[request].add_all(latency)
            if request in _FETCHES:
                totals["Fetch"].add_all(latency)
    return totals


def _write_histogram(out: Exposition, request: str, latency: Latency) -> None:
    family, counts = families.REQUEST_SECONDS, tuple(accumulate(latency.total.buckets))
    write = out.lines(family).append
    for bucket in _SHOWN:
        write(f'{family.name}_bucket{{request="{request}",le="{2**bucket / 1e9}"}} {counts[bucket]}\n')
    write(f'{family.name}_bucket{{request="{request}",le="+Inf"}} {counts[-1]}\n')
    _write_totals(out, family, request, latency.total.sum / 1e9, counts[-1])


def _write_totals(out: Exposition, family: Family, request: str, total: float, count: int) -> None:
    write = out.lines(family).append
    write(f'{family.name}_sum{{request="{request}"}} {total:.6f}\n')
    write(f'{family.name}_count{{request="{request}"}} {count}\n')
