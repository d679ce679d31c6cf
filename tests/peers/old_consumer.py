"""The console consumer of Kafka 0.8, which finds brokers, group and offsets in ZooKeeper, in a JVM of its own.

    consumer = OldConsumer(directory, "127.0.0.1:2181/events", "billing", "orders", from_beginning=True)
    with consumer:
        consumer.values()               # of all records so far
        consumer.stop()                 # it commits and leaves the group

It commits when it leaves, and before it returns partitions.  It ignores `auto.offset.reset`: without committed
offsets it begins at the end, or with `from_beginning` at the first record.  Its log is in `directory`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

import attrs

from tests.peers.maven import classpath
from tests.peers.processes import SHORT_LIVED
from tests.support.line_process import LineProcess

_SIGTERM_STATUS: Final = 143  # of a JVM
_LAST_LINE: Final = "Consumed "  # N messages
_QUICK: Final[Mapping[str, str]] = {
    "zookeeper.session.timeout.ms": "10000",
    "rebalance.backoff.ms": "200",
    "rebalance.max.retries": "500",
    "fetch.wait.max.ms": "20",
}
_LOGGING: Final = """\
log4j.rootLogger=INFO, file
log4j.appender.file=org.apache.log4j.FileAppender
log4j.appender.file.File={log}
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=%d %p %m (%c)%n
"""


@attrs.define
class OldConsumer:
    """A member of a group with one stream; `settings` have the names of Kafka 0.8."""

    directory: Path
    zookeeper: str
    group: str
    topic: str
    settings: Mapping[str, str] = attrs.field(factory=dict)
    from_beginning: bool = attrs.field(default=False, kw_only=True)
    _process: LineProcess | None = None

    def __enter__(self) -> Self:
        config, logging = self.directory / "old-consumer.properties", self.directory / "old-consumer.log4j"
        settings = {**_QUICK, "group.id": self.group, **self.settings}
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        logging.write_text(_LOGGING.format(log=self.directory / "old-consumer.log"))
        java = ["java", f"-Dlog4j.configuration=file:{logging}", *SHORT_LIVED, "-cp", classpath("kafka-0.8")]
        options = ["--zookeeper", self.zookeeper, "--topic", self.topic, "--consumer.config", str(config)]
        options += ["--from-beginning"] if self.from_beginning else []
        self._process = LineProcess([*java, "kafka.tools.ConsoleConsumer", *options])
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._running.kill()

    def values(self) -> list[str]:
        """Return the values of all records that it has read."""
        return [line for line in self._running.lines if not line.startswith(_LAST_LINE)]

    def stop(self) -> None:
        """Let it commit and leave the group."""
        assert self._running.terminate() == _SIGTERM_STATUS

    @property
    def _running(self) -> LineProcess:
        assert self._process is not None
        return self._process
