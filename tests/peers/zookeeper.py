"""A real ZooKeeper server, of the release that Kafka 3.9 brings, on a free port of loopback.

    with ZooKeeper(directory) as server:
        KazooClient(server.address)

Its snapshots and transaction logs lie in `directory/version-2`. A start writes a snapshot. Start-up takes a second.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import attrs

from tests.peers.maven import classpath
from tests.peers.processes import SHORT_LIVED, Server, free_ports

LOGGING = """\
log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=%p %m%n
"""
STARTED = r"PrepRequestProcessor .* started"


@attrs.define
class ZooKeeper(Server):
    """One server, with everything it keeps below `directory`."""

    directory: Path
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    prefix: Sequence[str] = ()
    settings: Mapping[str, object] = attrs.field(factory=dict)
    java_options: Sequence[str] = ()

    def start(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        if not self.port:
            [self.port] = free_ports(1)
        settings = self.directory / "zoo.cfg"
        settings.write_text(
            f"dataDir={self.directory}\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
            "tickTime=500\nminSessionTimeout=1000\nadmin.enableServer=false\n"
            + "".join(f"{name}={value}\n" for name, value in self.settings.items())
        )
        logging = self.directory / "log4j.properties"
        logging.write_text(LOGGING)
        options = [f"-Dlog4j.configuration=file:{logging}", "-Dzookeeper.preAllocSize=4"]
        server = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        command = [
            *self.prefix,
            "java",
            *options,
            *self.java_options,
            *SHORT_LIVED,
            "-cp",
            classpath("kafka-3.9"),
            server,
            str(settings),
        ]
        output = self.directory / "output.log"
        output.unlink(missing_ok=True)
        self._run(command, output, output, STARTED, 30)
        return self
