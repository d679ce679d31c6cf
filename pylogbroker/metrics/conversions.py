"""Metrics of how much time and memory message conversions take."""

from __future__ import annotations

import time
from collections import defaultdict

import attrs

from pylogbroker.broker.partitions.conversion_costs import ConversionCosts
from pylogbroker.broker.runtime.distribution import Distribution
from pylogbroker.metrics import families
from pylogbroker.metrics.declarations import Family
from pylogbroker.metrics.exposition import Exposition
from pylogbroker.metrics.latencies import QUANTILES, RecentBuckets, number_text, quantile

_NS_PER_MS = 1e6


@attrs.define(eq=False, repr=False)
class ConversionMetrics:
    _recent: defaultdict[tuple[Family, str], RecentBuckets] = attrs.field(
        factory=lambda: defaultdict(RecentBuckets), init=False
    )

    def collect(self, out: Exposition, costs: ConversionCosts) -> None:
        for request, cost in (("Produce", costs.produce), ("Fetch", costs.fetch)):
            self._write(out, families.CONVERSION_TIME, request, cost.times_ns, _NS_PER_MS)
            self._write(out, families.CONVERSION_MEMORY, request, cost.sizes, 1)

    def _write(self, out: Exposition, family: Family, request: str, values: Distribution, unit: float) -> None:
        recent = self._recent[family, request].update(time.monotonic(), values.buckets)
        write = out.lines(family).append
        for share in QUANTILES:
            value = quantile(share, recent) / unit
            write(f'{family.name}{{request="{request}",quantile="{share}"}} {number_text(value)}\n')
        write(f'{family.name}_sum{{request="{request}"}} {number_text(values.sum / unit)}\n')
        write(f'{family.name}_count{{request="{request}"}} {sum(values.buckets)}\n')
