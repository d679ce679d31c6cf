"""Counts of values by size, for quantiles and histograms."""

from __future__ import annotations

from typing import Final

import attrs

BUCKETS: Final = 64


def _empty() -> list[int]:
    return [0] * BUCKETS


@attrs.define(eq=False, repr=False)
class Distribution:
    """Bucket n has the values below 2**n, and not below half of that."""

    buckets: list[int] = attrs.field(factory=_empty, init=False)
    sum: int = attrs.field(default=0, init=False)

    def add(self, value: int, count: int = 1) -> None:
        self.buckets[value.bit_length()] += count
        self.sum += value * count

    def add_all(self, others: Distribution) -> None:
        self.buckets = [mine + its for mine, its in zip(self.buckets, others.buckets, strict=True)]
        self.sum += others.sum
