"""Metrics of requests and connections."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

import attrs

from pylogbroker.long_loops import give_way
from pylogbroker.metrics import families
from pylogbroker.metrics.exposition import Exposition
from pylogbroker.metrics.latencies import LatencyMetrics
from pylogbroker.metrics.recent_rate import RecentRate
from pylogbroker.net.service import KafkaFactory
from pylogbroker.rpc.errors import code_of

_PROCESSOR: Final = "0"
"""Label networkProcessor: one thread serves all connections."""

_SOFTWARE_MAX: Final = 100
ERRORS_MAX: Final = 400
_CONNECTIONS_PER_STEP: Final = 200
_OTHER: Final = ("other", "other")


@attrs.define(eq=False, repr=False)
class _ListenerRates:
    made: RecentRate = attrs.field(factory=RecentRate)
    lost: RecentRate = attrs.field(factory=RecentRate)


@attrs.define(eq=False, repr=False)
class NetworkMetrics:
    """Reads listeners, on the reactor's thread."""

    _rates: dict[str, _ListenerRates] = attrs.field(factory=dict, init=False)
    _busy: RecentRate = attrs.field(factory=RecentRate, init=False)
    _latencies: LatencyMetrics = attrs.field(factory=LatencyMetrics, init=False)

    def __attrs_post_init__(self) -> None:
        self._busy.update(time.monotonic(), time.thread_time())

    async def collect(self, out: Exposition, factories: Sequence[KafkaFactory]) -> None:
        now = time.monotonic()
        busy = self._busy.update(now, time.thread_time())
        for family in (families.NETWORK_IDLE, families.HANDLERS_IDLE):
            out.add(family, round(max(0.0, 1.0 - busy), 6))
        _write_requests(out, factories)
        await give_way()
        await self._latencies.collect(out, [factory.routes.latencies for factory in factories], now)
        queued = waiting = 0
        for factory in factories:
            self._write_listener(out, factory, now)
            software: Counter[tuple[str, str]] = Counter()
            for number, connection in enumerate(tuple(factory.connections)):
                if number % _CONNECTIONS_PER_STEP == 0:
                    await give_way()
                queued += connection.requests_queued
                waiting += connection.answers_waiting
                if (said := connection.software) is not None:
                    software[said if said in software or len(software) < _SOFTWARE_MAX else _OTHER] += 1
            for (name, version), count in software.items():
                out.add(families.SOFTWARE, count, name, version, factory.listener_name, _PROCESSOR)
        out.add(families.REQUEST_QUEUE, queued)
        out.add(families.RESPONSE_QUEUE, waiting)

    def _write_listener(self, out: Exposition, factory: KafkaFactory, now: float) -> None:
        counts, labels = factory.counts, (factory.listener_name, _PROCESSOR)
        rates = self._rates.setdefault(factory.listener_name, _ListenerRates())
        lost = counts.accepted - len(factory.connections)
        out.add(families.CONNECTIONS, len(factory.connections), *labels)
        out.add(families.CONNECTIONS_MADE, counts.accepted, *labels)
        out.add(families.CONNECTIONS_LOST, lost, *labels)
        out.add(families.CREATION_RATE, round(rates.made.update(now, counts.accepted), 6), *labels)
        out.add(families.CLOSE_RATE, round(rates.lost.update(now, lost), 6), *labels)
        out.add(families.AUTHENTICATED, counts.authenticated, *labels)
        out.add(families.NOT_AUTHENTICATED, counts.not_authenticated, *labels)
        out.add(families.EXPIRED, counts.expired, *labels)
        for (step, has_succeeded), count in counts.setups.items():
            result = "success" if has_succeeded else "failure"
            out.add(families.HANDSHAKES, count, factory.listener_name, step, result)


def _write_requests(out: Exposition, factories: Sequence[KafkaFactory]) -> None:
    requests: Counter[tuple[str, str]] = Counter()
    errors: Counter[tuple[str, str]] = Counter()
    for factory in factories:
        for version, route in factory.routes:
            requests[route.name, str(version)] += route.requests
            for code, count in route.errors.items():
                errors[route.name, code_of(code).name] += count
    for (api, version_text), count in requests.items():
        out.add(families.REQUESTS, count, api, version_text)
    for (api, error), count in bounded_errors(errors).items():
        out.add(families.ERRORS, count, api, error)


def bounded_errors(errors: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
    """Return the most frequent errors of APIs; OTHER has the rest of each API."""
    shown = Counter(dict(errors.most_common(ERRORS_MAX)))
    for (api, error), count in errors.items():
        if (api, error) not in shown:
            shown[api, "OTHER"] += count
    return shown
