"""Time and memory of message conversions, since the start of the broker.

One conversion is of one partition's records in one request.
"""

from __future__ import annotations

import threading
from typing import Final

import attrs

BUCKETS: Final = 64


def _empty() -> list[int]:
    return [0] * BUCKETS


@attrs.define(eq=False)
class Distribution:
    """Bucket n has the values below 2**n, and not below half of that."""

    buckets: list[int] = attrs.field(factory=_empty, init=False)
    sum: int = attrs.field(default=0, init=False)

    def add(self, value: int) -> None:
        self.buckets[value.bit_length()] += 1
        self.sum += value


@attrs.define(eq=False)
class ConversionCost:
    times_ns: Distribution = attrs.field(factory=Distribution, init=False)
    sizes: Distribution = attrs.field(factory=Distribution, init=False)
    """Bytes of converted records."""

    def add(self, size: int, ns: int) -> None:
        self.times_ns.add(ns)
        self.sizes.add(size)


@attrs.define(eq=False)
class ConversionCosts:
    """Costs by API. Worker threads convert, so who counts holds the lock."""

    produce: ConversionCost = attrs.field(factory=ConversionCost, init=False)
    fetch: ConversionCost = attrs.field(factory=ConversionCost, init=False)
    lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
