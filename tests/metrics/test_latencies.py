"""Quantiles and windows of durations, compared with the durations themselves."""

from __future__ import annotations

import random
from math import isnan

from pylogbroker.broker.runtime.distribution import Distribution
from pylogbroker.metrics.latencies import RecentBuckets, quantile


def test_quantiles_are_in_the_bucket_of_the_true_one() -> None:
    source = random.Random(5)
    durations = sorted(source.lognormvariate(-7, 2) for _ in range(5000))
    latency = Distribution()
    for seconds in durations:
        latency.add(int(seconds * 1e9))
    for share in (0.5, 0.75, 0.95, 0.99, 0.999):
        true = durations[int(share * len(durations))]
        assert true / 2 <= quantile(share, latency.buckets) / 1e9 <= true * 2, share
    assert sum(latency.buckets) == 5000
    assert abs(latency.sum / 1e9 - sum(durations)) < 1e-4


def test_a_quantile_is_linear_in_its_bucket() -> None:
    latency = Distribution()
    for _ in range(4):
        latency.add(1_100_000)  # from 2**20 to 2**21 ns
    assert quantile(0.5, latency.buckets) == 1.5 * 2**20
    assert quantile(1.0, latency.buckets) == 2**21
    assert isnan(quantile(0.5, Distribution().buckets))


def test_recent_buckets_are_of_about_the_last_minute() -> None:
    latency, recent = Distribution(), RecentBuckets()
    latency.add(1_000_000)
    assert sum(recent.update(100.0, latency.buckets)) == 1
    latency.add(1_000_000)
    assert sum(recent.update(150.0, latency.buckets)) == 2
    latency.add(500_000_000)
    assert sum(recent.update(160.0, latency.buckets)) == 2
    assert sum(recent.update(215.0, latency.buckets)) == 1
    assert sum(recent.update(300.0, latency.buckets)) == 0
    assert sum(recent.update(301.0, latency.buckets)) == 0
