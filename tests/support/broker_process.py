"""A broker in a process of its own, which runs `twistd -n pylogbroker`; it is forked if that is possible.

    process = BrokerProcess(directory, {"group.initial.rebalance.delay.ms": "0"})
    process.start()              # returns when a client can connect
    process.bootstrap            # "127.0.0.1:45123"
    process.stop()               # SIGTERM; or process.kill()
    process.start()              # again, on the same port and data
    process.pause()              # SIGSTOP, until process.resume()

Its log lines are `process.process.lines`.  A member of a cluster is given its port, and has the settings `broker.id`
and `zookeeper.connect`.
"""

from __future__ import annotations

import re
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.peers.port_owners import check_owner
from tests.peers.processes import free_ports
from tests.support.line_process import LineProcess

ROOT = Path(__file__).resolve().parents[2]

#: A start takes a second, but many times that on a machine that is busy with other tests.
START_SECONDS_MAX = 120.0
#: A controlled shutdown asks the controller up to four times, for five seconds each.
STOP_SECONDS_MAX = 120.0
#: The line that names the first port of a broker without TLS.
LISTENING = r"listening on (?:SASL_)?PLAINTEXT://127\.0\.0\.1:([1-9]\d*)"
#: What the tests of clients ask of a broker, so that they need not wait for Kafka's patient defaults.
QUICK_SETTINGS: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "log.segment.delete.delay.ms": "1000",
    "log.retention.check.interval.ms": "500",
    "log.retention.ms": "-1",  # many tests write records of past years
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "num.partitions": "1",
    "http.listeners": "",
}


class BrokerProcess:
    """Our broker; the port, unless given, is chosen at the first start and kept: nobody else takes it meanwhile."""

    segment_suffix = ".kafka"

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        python: str | Path = sys.executable,
        prefix: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        port: int = 0,
    ) -> None:
        self.data_dir = directory / "data"
        self._directory = directory
        self._settings = {**QUICK_SETTINGS, **(settings or {})}
        self._python = python
        self._prefix = prefix
        self._environment = environment
        self._port = port
        self._process: LineProcess | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def process(self) -> LineProcess:
        if self._process is None:
            raise RuntimeError("the broker has not been started")
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    def unexpected_errors(self) -> list[str]:
        """Return the unexpected errors in its log."""
        return [line for line in self.log_lines() if re.search(r"#(error|critical)\]|Traceback|Unhandled", line)]

    def log_lines(self) -> list[str]:
        """Return the lines of its log since its last start."""
        return [] if self._process is None else self._process.lines

    def partition_dir(self, topic: str, partition: int) -> Path:
        return self.data_dir / f"{topic}_{partition}"

    def start(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        if not self._port:
            [self._port] = free_ports(1)
        self._process = LineProcess(self._command(), cwd=ROOT, environment=self._environment, forked=True)
        found = self._process.expect(LISTENING, START_SECONDS_MAX)
        self._port = int(found[1])
        check_owner(self._port, self._process.pid)
        socket.create_connection(("127.0.0.1", self._port), timeout=START_SECONDS_MAX).close()

    def stop(self, timeout: float = STOP_SECONDS_MAX) -> int:
        """A clean stop; 0 when it went well. twistd, when it is done, ends itself by the signal that it was sent."""
        status = self.process.terminate(timeout)
        return 0 if status == -signal.SIGTERM and "Server Shut Down" in self.process.lines[-1] else status

    def kill(self) -> None:
        """End the process as a crash would."""
        if self._process is not None:
            self._process.kill()

    def pause(self) -> None:
        """Stop the process where it is, as a long pause of the machine does; its connections stay open."""
        self.process.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process continue."""
        self.process.signal(signal.SIGCONT)

    def _command(self) -> list[str | Path]:
        overrides = [f"--override={name}={value}" for name, value in self._settings.items()]
        return [
            *self._prefix, self._python, "-c", "from twisted.scripts.twistd import run; run()",
            "--nodaemon", f"--pidfile={self._directory / 'twistd.pid'}",
            "pylogbroker", f"--data-dir={self.data_dir}",
            f"--listener=PLAINTEXT://127.0.0.1:{self._port}", *overrides,
        ]  # fmt: skip
