"""The broker that is killed: a process on one port and one data directory, life after life."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.peers.port_owners import check_owner
from tests.peers.processes import free_ports
from tests.support.broker_process import LISTENING, ROOT, START_SECONDS_MAX, STOP_SECONDS_MAX, BrokerProcess
from tests.support.line_process import LineProcess

#: Short times of groups whose broker assigns, as those of clients of classic groups.
CONSUMER_GROUPS: Final[Mapping[str, str]] = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.assignment.interval.ms": "0",
}
#: So that logs are checkpointed, and groups' and producers' states loaded, while the run lasts.
SETTINGS: Final[Mapping[str, str]] = {
    "log.flush.offset.checkpoint.interval.ms": "300",
    "replica.high.watermark.checkpoint.interval.ms": "300",
    "log.flush.scheduler.interval.ms": "400",
    "offsets.topic.segment.bytes": "20000",
    "auto.create.topics.enable": "false",
    **CONSUMER_GROUPS,
}
_CUT: Final = re.compile(r": recovered \d+ segments?, (?!all batches are valid)")
_CHECKED: Final = re.compile(r"not stopped cleanly: (\d+) logs? checked")


class KilledBroker(BrokerProcess):
    """A broker with a port that the system gives to no client."""

    def __init__(
        self, directory: Path, settings: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        [port] = free_ports(1)
        super().__init__(directory, {**SETTINGS, **(settings or {})}, port=port, environment=environment)
        self._directory.mkdir(parents=True, exist_ok=True)
        self.lines: list[str] = []  # of the lives that are over
        self.kills = self.starts = 0
        self.slowest_start = 0.0

    def launch(self) -> None:
        """Start the process, and wait for nothing."""
        self._process = LineProcess(self._command(), cwd=ROOT, environment=self._environment, forked=True)
        self.starts += 1

    def start(self) -> None:
        """Start the process; returns when clients can connect."""
        begun = time.monotonic()
        self.launch()
        self.process.expect(LISTENING, timeout=START_SECONDS_MAX)
        check_owner(self._port, self.process.pid)
        self.slowest_start = max(self.slowest_start, time.monotonic() - begun)

    def strike(self) -> None:
        """SIGKILL, at once; any thread, a client's callback even.  `bury` has to follow."""
        self.process.signal(signal.SIGKILL)

    def bury(self) -> None:
        """Wait until the process is gone, and keep what it logged; it may have ended by itself."""
        self.kills += self.process.wait() == -signal.SIGKILL
        self.kill()
        self._keep_lines()

    def stop(self, timeout: float = STOP_SECONDS_MAX) -> int:
        status = super().stop(timeout)
        self._keep_lines()
        return status

    def _keep_lines(self) -> None:
        self.lines += self.process.lines

    @property
    def recoveries(self) -> tuple[int, int]:
        """Return the number of logs checked at starts, and of those cut, by the broker's log."""
        checked = sum(int(found[1]) for line in self.lines if (found := _CHECKED.search(line)))
        return checked, sum(bool(_CUT.search(line)) for line in self.lines)

    def all_unexpected_errors(self) -> list[str]:
        """Return the unexpected errors in the logs of all its lives."""
        return [line for line in self.lines if re.search(r"#(error|critical)\]|Traceback|Unhandled", line)]
