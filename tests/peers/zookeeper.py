"""A real ZooKeeper server, of the release that Kafka 3.9 brings, on a free port of loopback.

    with ZooKeeper(directory) as server:
        KazooClient(server.address)

Its snapshots and transaction logs lie in `directory/version-2`. A start writes a snapshot. Start-up takes a second.
Sessions may be as short as a second, and as long as an hour: a test that is about no expiry asks for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import attrs

from tests.peers.java_server import JavaServer
from tests.peers.processes import QUICK

TICK_MS = 500
SESSION_SECONDS_MAX = 3600
LOGGING = """\
log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=%p %m%n
"""


@attrs.define
class ZooKeeper(JavaServer):
    """One server, with everything it keeps below `directory`."""

    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    started = r"PrepRequestProcessor .* started"
    #: It sometimes hangs at its end, when all is stored; sessions of its clients must not end meanwhile.
    stop_seconds_max: ClassVar[float] = 5.0

    java_options: tuple[str, ...] = (*QUICK, "-Xshare:auto", "-Xmx128M", "-Dzookeeper.preAllocSize=4")

    @property
    def logging(self) -> str:
        """Return LOGGING: the log is the standard output."""
        return LOGGING

    def all_settings(self) -> Mapping[str, str]:
        """Return the lines of `zoo.cfg`."""
        return {
            "dataDir": str(self.directory),
            "clientPort": str(self.port),
            "clientPortAddress": "127.0.0.1",
            "tickTime": str(TICK_MS),
            "minSessionTimeout": str(2 * TICK_MS),
            "maxSessionTimeout": str(SESSION_SECONDS_MAX * 1000),
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
            **self.settings,
        }
