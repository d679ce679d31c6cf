"""MirrorMaker 2 of Apache Kafka 3.9 in dedicated mode: a process that mirrors clusters into each other.

    settings = {"A->B.enabled": "true", "A->B.topics": "orders"}
    with MirrorMaker(tmp_path, settings, clusters={"A": a.address, "B": b.address}):
        ...

Its intervals are one second, so that a test need not wait for the defaults of one to ten minutes. Start-up takes about
10 seconds, and the first record arrives some seconds later.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tests.peers.java_server import JavaServer

QUICK_SETTINGS: Mapping[str, str] = {
    "dedicated.mode.enable.internal.rest": "true",
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "sync.topic.configs.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "emit.heartbeats.interval.seconds": "1",
    "sync.group.offsets.interval.seconds": "1",
    "offset.flush.interval.ms": "1000",
    "replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "config.storage.replication.factor": "1",
}
LOGGING = """\
log4j.rootLogger=WARN, file
log4j.logger.org.apache.kafka.connect.mirror=INFO
log4j.appender.file=org.apache.log4j.FileAppender
log4j.appender.file.File={log}
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=%d %p %m (%c)%n
"""


@attrs.define
class MirrorMaker(JavaServer):
    """MirrorMaker 2 between `clusters`, bootstrap addresses by alias; `settings` has the pairs that are mirrored.

    With `exactly_once`, positions are written in the transactions of the records, which is not the default of Kafka.
    """

    main = "org.apache.kafka.connect.mirror.MirrorMaker"
    started = r"Kafka MirrorMaker started"

    clusters: Mapping[str, str] = attrs.field(factory=dict, kw_only=True)
    exactly_once: bool = attrs.field(default=True, kw_only=True)

    @property
    def release(self) -> str:
        """The peer whose jars are run."""
        return "mirror-3.9"

    @property
    def logging(self) -> str:
        """Return the properties of log4j."""
        return LOGGING

    def all_settings(self) -> Mapping[str, str]:
        """Return the clusters, short intervals, and `settings`."""
        addresses = {f"{alias}.bootstrap.servers": address for alias, address in self.clusters.items()}
        support = "enabled" if self.exactly_once else "disabled"
        return {
            "clusters": ", ".join(self.clusters),
            **addresses,
            **QUICK_SETTINGS,
            **{f"{alias}.exactly.once.source.support": support for alias in self.clusters},
            "listeners": f"http://127.0.0.1:{self.port}",
            **self.settings,
        }
