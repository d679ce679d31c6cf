"""Apache Kafka's KRaft controller in a Java process, which ends with this one.

It is a quorum of one, at a free port of 127.0.0.1. Its data is in the directory of the test's brokers.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

import attrs

from pylogbroker.errors import ConfigError, StartupError
from pylogbroker.metadata.feature_levels import SUPPORTED_LEVELS, LevelRange
from pylogbroker.offline.kraft_format import random_id

_NODE_ID: Final = 100_000
"""No broker of a test has it."""
_JAVA_OPTIONS: Final = ("-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_UNTIL_STDIN_ENDS: Final = """
exec 3<&0
"$@" 3<&- & java=$!
(cat <&3 >/dev/null; kill -9 "$java" 2>/dev/null) & watch=$!
exec 3<&-
wait "$java"; status=$?
kill "$watch" 2>/dev/null
exit "$status"
"""
_OF_CONTROLLERS: Final = (
    "broker.session.timeout.ms",
    "num.partitions",
    "default.replication.factor",
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "super.users",
)
"""Settings that KRaft's controllers apply: they make the topics, and fence brokers."""
_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_LOG4J: Final = """\
log4j.rootLogger=WARN, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=%d %p %m (%c)%n
"""
_LOG4J_2: Final = """\
rootLogger.level=warn
rootLogger.appenderRef.stdout.ref=stdout
appender.stdout.type=Console
appender.stdout.name=stdout
appender.stdout.layout.type=PatternLayout
appender.stdout.layout.pattern=%d %p %m (%c)%n
"""
_JAR: Final = re.compile(r"kafka-server-common-(\d+)\.(\d+)\..*\.jar")
_FIRST_WITH_STREAMS: Final = (4, 2)
_START_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.05
_SHOWN_CHARACTERS: Final = 2_000


@attrs.frozen(eq=False, repr=False)
class ControllerProcess:
    address: str
    cluster_id: str
    _process: subprocess.Popen[bytes]

    @classmethod
    @contextmanager
    def started(cls, home: Path, directory: Path, settings: Mapping[str, str]) -> Iterator[Self]:
        """Run a controller of an installation; raise ConfigError or StartupError."""
        release = _release(home)
        java = _java()
        directory = directory / "controller"
        files = _Files(directory, free_port(), {name: settings[name] for name in _OF_CONTROLLERS if name in settings})
        files.write("authorizer.class.name" in settings)
        command = [java, *files.java_options, *_JAVA_OPTIONS, "-cp", str(home / "libs" / "*")]
        cluster_id = files.cluster_id()
        if cluster_id is None:
            cluster_id = random_id()
            _format(command, files, cluster_id, release)
        process = _run([*command, "kafka.Kafka", str(files.properties)], files.output)
        try:
            _wait(process, files)
            yield cls(f"127.0.0.1:{files.port}", cluster_id, process)
        finally:
            _end(process)


@attrs.frozen
class _Files:
    """Settings, data and output of a controller, below a directory."""

    directory: Path
    port: int
    _settings: Mapping[str, str]

    @property
    def properties(self) -> Path:
        return self.directory / "controller.properties"

    @property
    def output(self) -> Path:
        return self.directory / "output.log"

    @property
    def java_options(self) -> tuple[str, str]:
        return (
            f"-Dlog4j.configuration=file:{self.directory / 'log4j.properties'}",
            f"-Dlog4j2.configurationFile={self.directory / 'log4j2.properties'}",
        )

    def write(self, has_acls: bool) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        address = f"127.0.0.1:{self.port}"
        settings = {
            "process.roles": "controller",
            "node.id": str(_NODE_ID),
            "controller.quorum.voters": f"{_NODE_ID}@{address}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
            "listeners": f"CONTROLLER://{address}",
            "log.dirs": str(self.directory / "data"),
            "broker.session.timeout.ms": "6000",  # until then, Kafka rejects a broker that starts again
            **self._settings,
        }
        if has_acls:
            settings["authorizer.class.name"] = _AUTHORIZER
            settings["super.users"] = ";".join([*filter(None, [settings.get("super.users")]), "User:ANONYMOUS"])
        self.properties.write_text(_properties(settings))
        (self.directory / "log4j.properties").write_text(_LOG4J)
        (self.directory / "log4j2.properties").write_text(_LOG4J_2)

    def cluster_id(self) -> str | None:
        """Return the cluster of a directory that is formatted."""
        with suppress(FileNotFoundError):
            text = (self.directory / "data" / "meta.properties").read_text()
            match = re.search(r"^cluster\.id=(\S+)$", text, re.MULTILINE)
            return match and match[1]
        return None

    def last_output(self) -> str:
        try:
            return self.output.read_text(errors="replace")[-_SHOWN_CHARACTERS:].strip()
        except FileNotFoundError:
            return ""


def _properties(settings: Mapping[str, str]) -> str:
    """Return a file of settings; Java reads the escapes of JSON as its own."""
    return "".join(f"{name}={json.dumps(text)[1:-1]}\n" for name, text in settings.items())


def _release(home: Path) -> tuple[int, int]:
    for jar in home.glob("libs/kafka-server-common-*.jar"):
        match = _JAR.fullmatch(jar.name)
        if match is not None:
            return int(match[1]), int(match[2])
    raise ConfigError(f"kafka_home: {home} is not accepted; expected the directory of an unpacked release, with libs/")


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not os.access(java, os.X_OK):
        raise ConfigError("engine: kraft runs Apache Kafka's controller in Java; install it, or correct JAVA_HOME")
    return java


def _format(command: list[str], files: _Files, cluster_id: str, release: tuple[int, int]) -> None:
    options = ["format", "--cluster-id", cluster_id, "--config", str(files.properties)]
    if release >= _FIRST_WITH_STREAMS:
        level = SUPPORTED_LEVELS.get("streams.version", LevelRange(0, 0)).last
        options += ["--feature", f"streams.version={level}"]
    done = subprocess.run(
        [*command, "kafka.tools.StorageTool", *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise StartupError(f"Apache Kafka's controller cannot be formatted: {done.stdout[-_SHOWN_CHARACTERS:].strip()}")


def _run(command: list[str], output: Path) -> subprocess.Popen[bytes]:
    with output.open("wb") as file:
        return subprocess.Popen(
            ["/bin/sh", "-c", _UNTIL_STDIN_ENDS, "sh", *command], stdin=subprocess.PIPE, stdout=file, stderr=file
        )


def _wait(process: subprocess.Popen[bytes], files: _Files) -> None:
    """Return when the controller accepts connections; raise StartupError."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        if process.poll() is not None:
            raise StartupError(f"Apache Kafka's controller ended at its start: {files.last_output()}")
        with suppress(OSError), socket.create_connection(("127.0.0.1", files.port), _POLL_SECONDS):
            return
        if time.monotonic() > deadline:
            raise StartupError(
                f"Apache Kafka's controller has not started within {_START_SECONDS:g} s: {files.last_output()}"
            )
        time.sleep(_POLL_SECONDS)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    process.wait()


def free_port() -> int:
    """Return a port that nobody listens on at this moment: Kafka has to know its own before it starts."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
