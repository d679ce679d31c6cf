"""Durations of requests, counted in buckets.

    total   from the read that brought the request to its answer, which is ready and behind no earlier one
    queue   the first part of it, in which the request waited for those of the same read
    local   the part of it in which the broker decoded and handled the request at once, alone or with those of other
            connections
    remote  the rest, in which its answer waited for records, replicas, a thread or the answers before it

While reads are few, all are measured. Of many, one in `SPARSE` is, and counts as often: clocks and counters take some
microseconds, several percent of a small request.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import Final

import attrs

from pylogbroker.broker.runtime.distribution import Distribution

SPARSE: Final = 31
"""Prime: clients whose requests alternate are not always measured at the same one."""

ALL_PER_SECOND_MAX: Final = 100
_SECOND_NS: Final = 1_000_000_000


@attrs.define(eq=False, repr=False)
class Latency:
    """Durations of one kind of request since the start, in nanoseconds."""

    total: Distribution = attrs.field(factory=Distribution, init=False)
    queue: Distribution = attrs.field(factory=Distribution, init=False)
    local: Distribution = attrs.field(factory=Distribution, init=False)
    remote: Distribution = attrs.field(factory=Distribution, init=False)

    def add_all(self, others: Latency) -> None:
        self.total.add_all(others.total)
        self.queue.add_all(others.queue)
        self.local.add_all(others.local)
        self.remote.add_all(others.remote)


_NOT_COUNTED: Final = Latency()


@attrs.define(eq=False, repr=False)
class MeasuredWait:
    """An answer that is not ready, or waits for earlier ones."""

    _latency: Latency
    _received_ns: int
    _handled_ns: int
    _count: int

    def end(self) -> None:
        now = perf_counter_ns()
        self._latency.total.add(now - self._received_ns, self._count)
        self._latency.remote.add(now - self._handled_ns, self._count)


@attrs.define(eq=False, repr=False)
class MeasuredRead:
    """Requests of one read; `latency` is of the current one."""

    _received_ns: int
    _count: int
    _begun_ns: int = attrs.field(init=False)
    latency: Latency = attrs.field(default=_NOT_COUNTED, init=False)

    def __attrs_post_init__(self) -> None:
        self._begun_ns = self._received_ns

    def resume(self) -> None:
        """Begin work after a pause."""
        self._begun_ns = perf_counter_ns()

    def answered(self) -> None:
        """Count a request whose answer has left; the next one begins."""
        now = self._handled()
        self.latency.total.add(now - self._received_ns, self._count)
        self.latency.remote.add(0, self._count)

    def waits(self, requests: int = 1) -> MeasuredWait:
        """Count the parts of requests that are over; the next one begins."""
        return MeasuredWait(self.latency, self._received_ns, self._handled(requests), self._count * requests)

    def _handled(self, requests: int = 1) -> int:
        now = perf_counter_ns()
        self.latency.queue.add(self._begun_ns - self._received_ns, self._count * requests)
        self.latency.local.add((now - self._begun_ns) // requests, self._count * requests)
        self._begun_ns = now
        return now


@attrs.define(eq=False, repr=False)
class ReadSampler:
    """Chooses which reads of a listener are measured: those at which `skipped` falls below 0."""

    skipped: int = 0
    _second_ends_ns: int = 0
    _in_second: int = 0

    def measure(self) -> MeasuredRead:
        now = perf_counter_ns()
        if now >= self._second_ends_ns:
            self._second_ends_ns, self._in_second = now + _SECOND_NS, 0
        self._in_second += 1
        count = 1 if self._in_second <= ALL_PER_SECOND_MAX else SPARSE
        self.skipped = count - 1
        return MeasuredRead(now, count)
