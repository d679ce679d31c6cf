"""Clients that stop in the middle of a handshake, in great number: others are served, and memory stays bounded.

A thorough run compares how long others wait for answers, before and while there are 10,000 such clients.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import quantiles
from typing import Final

import attrs

from pylogbroker.wire.messages.api_versions import ApiVersionsRequest
from tests.clients.test_sasl import SaslBroker, sasl_broker
from tests.net.test_hostile_peers import Peer, resident_bytes
from tests.support.broker_process import ROOT
from tests.support.budget import Budget
from tests.support.line_process import LineProcess
from tests.support.reactor_stalls import check_stalls, watching

CONNECTIONS, CONNECTIONS_THOROUGH = 300, 10_000
WAVES, WAVES_THOROUGH = 2, 3
PER_SECOND: Final = 1000
REQUESTS_PER_SECOND: Final = 200
HELD_SECONDS, HELD_SECONDS_THOROUGH = 1, 6
BYTES_OF_CONNECTION_MAX: Final = 100_000  # as a rule 50,000, most of them of OpenSSL
BYTES_MAX: Final = 20_000_000  # besides
RISE_MAX: Final = 2.0


@attrs.define
class Waves:
    broker: SaslBroker
    count: int
    held_seconds: float
    rises: list[float] = attrs.field(factory=list)
    """How many times as long the slowest hundredth of others' requests took, while all handshakes waited."""
    resident: list[int] = attrs.field(factory=list)
    """Memory of the broker before the first wave, and in each."""

    def run(self, waves: int) -> None:
        process = self.broker.process
        peer = Peer(process)
        self.resident.append(resident_bytes(process))
        for _ in range(waves):
            calm = p99(peer, self.held_seconds)
            with self._attackers() as attackers:
                arriving = p99(peer, self.count / PER_SECOND)
                attackers.expect("opened", 120)
                held = p99(peer, self.held_seconds)
                self.resident.append(resident_bytes(process))
                attackers.expect("ended", 120)
            self.rises.append(held / calm)
            print(f"p99 {calm * 1000:.2f} ms, handshakes arrive {arriving * 1000:.2f}, wait {held * 1000:.2f}")

    def _attackers(self) -> LineProcess:
        ports = [str(self.broker.ports[name]) for name in ("SASL_SSL", "SASL_PLAINTEXT")]
        command = [sys.executable, "-m", "tests.net.half_open", *ports, str(self.count), str(PER_SECOND)]
        return LineProcess(command, cwd=ROOT)


def p99(peer: Peer, seconds: float) -> float:
    """Send requests on a schedule for some time; return how long the slowest hundredth took at least."""
    times, begin = list[float](), time.perf_counter()
    for number in range(int(seconds * REQUESTS_PER_SECOND)):
        due = begin + number / REQUESTS_PER_SECOND
        time.sleep(max(0.0, due - time.perf_counter()))
        sent = time.perf_counter()
        peer.ask(ApiVersionsRequest(), 0)
        times.append(time.perf_counter() - sent)
    return quantiles(times, n=100)[-1]


def test_handshakes_that_stop_half_way_disturb_no_other_client(tmp_path: Path, budget: Budget) -> None:
    count, held = budget.of((CONNECTIONS, HELD_SECONDS), (CONNECTIONS_THOROUGH, HELD_SECONDS_THOROUGH))
    timeout_ms = str(1000 * (held + 2 + count // PER_SECOND))
    settings = {name.replace(".", "_"): value for name, value in watching(budget).items()}
    with sasl_broker(tmp_path, connection_setup_timeout_ms=timeout_ms, **settings) as broker:
        waves = Waves(broker, count, held)

        def arrive(attempt: int) -> None:
            nonlocal waves
            waves = Waves(broker, count, held)
            waves.run(budget.of(WAVES, WAVES_THOROUGH))

        check_stalls(broker.process, budget, arrive)
        before, *during = waves.resident
        assert max(during) - before < BYTES_MAX + count * BYTES_OF_CONNECTION_MAX
        assert during[-1] - during[0] < BYTES_MAX + count * BYTES_OF_CONNECTION_MAX / 4, "a wave leaves memory behind"
        failures = [line for line in broker.process.log_lines() if "closed the connection" in line]
        assert len(failures) < 1000, "each failure is a line"
    if budget.thorough:
        assert min(waves.rises) < RISE_MAX, waves.rises  # other programs disturb some waves, handshakes would each
