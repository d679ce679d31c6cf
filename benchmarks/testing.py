"""Cost of the seam for faults, and start time of a test's broker.

    python -m benchmarks.testing

A production broker has no faults: a connection calls the handler that its route has. Rounds alternate between that call
and the handler itself, which is called twice: the ratio of the equal ones shows how much two measurements of the same
differ. A broker with `testing.faults=true` is measured, too. The request is a Heartbeat, one of the cheapest.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import click
from twisted.internet.defer import ensureDeferred

from benchmarks.machine import description
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.net.routes import Routes
from pylogbroker.testing import Broker
from pylogbroker.wire.messages.heartbeat import HeartbeatRequest

CALLS = 20_000
VERSION = 4
DIRECT, AGAIN, NO_FAULTS, FAULTS = "handler", "handler, again", "route without faults", "with testing.faults=true"


def measure(broker: Broker, rounds: int) -> Mapping[str, list[float]]:
    """Return microseconds of a call, by kind of call; each round has all kinds, in changing order."""
    services: Any = broker.faults.broker
    api = next(each for each in services.apis if each.key == HeartbeatRequest.api_key)
    route = Routes(services.apis, services).find(api.key, VERSION)
    request, context = HeartbeatRequest(group_id="g", member_id="m"), RequestContext(VERSION)

    def faulty() -> None:
        ensureDeferred(broker.faults.handle(api, services, context, request))

    kinds: dict[str, Callable[[], object]] = {
        DIRECT: lambda: api.handle(route.services, context, request),
        NO_FAULTS: lambda: route.handle(route.services, context, request),
        AGAIN: lambda: api.handle(route.services, context, request),
        FAULTS: faulty,
    }
    found: dict[str, list[float]] = {name: [] for name in kinds}
    for number in range(-2, rounds):
        for name in kinds if number % 2 else reversed(kinds):
            used = broker.faults.run(_seconds, kinds[name])
            if number >= 0:
                found[name].append(used * 1e6 / CALLS)
    return found


def _seconds(call: Callable[[], object]) -> float:
    begin = time.thread_time()
    for _ in range(CALLS):
        call()
    return time.thread_time() - begin


def start_milliseconds(count: int) -> list[float]:
    """Return the start times of brokers, without the first one of the process."""
    found = []
    for _ in range(count + 1):
        begin = time.perf_counter()
        with Broker():
            found.append((time.perf_counter() - begin) * 1e3)
    return found[1:]


@click.command()
@click.option("--rounds", default=15)
@click.option("--starts", default=10)
def main(rounds: int, starts: int) -> None:
    with Broker() as broker:
        found = measure(broker, rounds)
    for name, times in found.items():
        ratio = statistics.median(mine / direct for mine, direct in zip(times, found[DIRECT], strict=True))
        click.echo(f"{name}: {statistics.median(times):.3f} us a call, {ratio:.3f} x the handler")
    times = start_milliseconds(starts)
    click.echo(f"start of a broker: {statistics.median(times):.0f} ms, {min(times):.0f} to {max(times):.0f} ms")
    click.echo(description())


if __name__ == "__main__":
    main()
