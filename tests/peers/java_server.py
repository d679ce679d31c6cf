"""Base of the servers that run in a JVM: their files in one directory, their port, and the start of their process."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

import attrs

from tests.peers.class_archives import archive_options
from tests.peers.maven import classpath
from tests.peers.processes import SHORT_LIVED, Server, free_ports


@attrs.define
class JavaServer(Server):
    """A server with everything it keeps below `directory`: data, properties, logs.

    The port is chosen at the first start and kept.  `prefix` is put before the command.
    """

    main: ClassVar[str]
    started: ClassVar[str]  # the pattern of a line in `log`

    directory: Path
    settings: Mapping[str, str] = attrs.field(factory=dict)
    port: int = 0
    start_timeout: float = 180.0
    java_options: tuple[str, ...] = SHORT_LIVED
    prefix: Sequence[str] = ()
    process: subprocess.Popen[bytes] | None = None

    @property
    def release(self) -> str:
        """The peer whose jars are run."""
        return "kafka-3.9"

    @property
    def logging(self) -> str:
        """Properties of the release's log4j, in which {log} is the path of `log`; none, unless a subclass has some."""
        return ""

    @property
    def log(self) -> Path:
        """The server's own log, since its last start; the one before is kept as `.previous`."""
        return self.directory / "output.log"

    def start(self) -> Self:
        """Write the properties, start the server and wait until it serves."""
        self.directory.mkdir(parents=True, exist_ok=True)
        if not self.port:
            [self.port] = free_ports(1)
        properties, logging = self.directory / "server.properties", self.directory / "log4j.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in self.all_settings().items()))
        logging.write_text(self.logging.format(log=self.log))
        self._prepare(properties, logging)
        if self.log.exists():
            self.log.rename(self.log.with_suffix(".previous"))
        java = [*self.prefix, "java", *logging_options(logging), *self.java_options]
        if not any("Archive" in option for option in self.java_options):
            java += archive_options(self.release)
        command = [*java, "-cp", classpath(self.release), self.main, str(properties)]
        self._run(command, self.directory / "output.log", self.log, self.started, self.start_timeout)
        return self

    def all_settings(self) -> Mapping[str, str]:
        """Return the properties of the next start."""
        raise NotImplementedError

    def _prepare(self, properties: Path, logging: Path) -> None:
        """Do what has to be done before the start; nothing, unless a subclass has something."""


def logging_options(properties: Path) -> tuple[str, ...]:
    """Return the options by which log4j finds its properties: those of its first and of its second major release."""
    return f"-Dlog4j.configuration=file:{properties}", f"-Dlog4j2.configurationFile={properties}"
