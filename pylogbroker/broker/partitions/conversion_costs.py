"""Time and memory of message conversions, since the start of the broker.

One conversion is of one partition's records in one request.
"""

from __future__ import annotations

import threading

import attrs

from pylogbroker.broker.runtime.distribution import Distribution


@attrs.define(eq=False, repr=False)
class ConversionCost:
    times_ns: Distribution = attrs.field(factory=Distribution, init=False)
    sizes: Distribution = attrs.field(factory=Distribution, init=False)
    """Bytes of converted records."""

    def add(self, size: int, ns: int) -> None:
        self.times_ns.add(ns)
        self.sizes.add(size)


@attrs.define(eq=False, repr=False)
class ConversionCosts:
    """Costs by API. Worker threads convert, so who counts holds the lock."""

    produce: ConversionCost = attrs.field(factory=ConversionCost, init=False)
    fetch: ConversionCost = attrs.field(factory=ConversionCost, init=False)
    lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
