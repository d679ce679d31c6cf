"""A real ZooKeeper server, of the release that Kafka 3.9 brings, on a free port of loopback.

    with ZooKeeper(directory) as server:
        KazooClient(server.address)

Its snapshots and transaction logs lie in `directory/version-2`. A start writes a snapshot. Start-up takes a second.
"""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import attrs

from tests.peers.maven import PeerError, classpath
from tests.peers.processes import SHORT_LIVED, free_ports, stop, wait_for_line

LOGGING = """\
log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=%p %m%n
"""
STARTED = r"PrepRequestProcessor .* started"


@attrs.define
class ZooKeeper:
    """One server; it can be started again on the same data and port."""

    directory: Path
    port: int = 0
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start the server and wait until it serves."""
        self.directory.mkdir(parents=True, exist_ok=True)
        if not self.port:
            [self.port] = free_ports(1)
        settings = self.directory / "zoo.cfg"
        settings.write_text(
            f"dataDir={self.directory}\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
            "tickTime=500\nminSessionTimeout=1000\nadmin.enableServer=false\n"
        )
        logging = self.directory / "log4j.properties"
        logging.write_text(LOGGING)
        options = [f"-Dlog4j.configuration=file:{logging}", "-Dzookeeper.preAllocSize=4"]
        server = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        command = ["java", *options, *SHORT_LIVED, "-cp", classpath("kafka-3.9"), server, str(settings)]
        output = self.directory / "output.log"
        output.unlink(missing_ok=True)
        with output.open("wb") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=file, stdin=subprocess.DEVNULL)
        try:
            wait_for_line(output, STARTED, self.process, 30)
            socket.create_connection(("127.0.0.1", self.port), timeout=10).close()
        except (PeerError, OSError):
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """End the server in order."""
        if self.process is not None:
            stop(self.process)
            self.process = None

    def kill(self) -> None:
        """End the server at once."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
