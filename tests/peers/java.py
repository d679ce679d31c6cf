"""Small Java client programs, compiled once and run against one set of Kafka's Java clients.

    program = Program(Path(__file__).parent / "RoundTrip.java", clients="clients-4")
    done = program.run("127.0.0.1:9092", "topic")         # to its end: .stdout, .returncode
    process = program.start("127.0.0.1:9092", "topic")    # one that runs on, with pipes for all three

The source is one file whose public class is called as the file is, or several files of one directory
(`also`). `clients` is `clients-3.9` or `clients-4`: `CLIENTS` has both, for `pytest.mark.parametrize`.
The clients' own log goes to the standard error, warnings and worse only; `log_level="info"` or `"debug"` shows more.
"""

import os
import subprocess
from functools import cache
from pathlib import Path

import attrs

from tests.peers.classes import compiled
from tests.peers.maven import CACHE, PeerError, jars
from tests.peers.resident import JavaProgram

CLIENTS = ("clients-3.9", "clients-4")


@attrs.frozen
class Program:
    """A Java program of one or a few source files, which uses one version of Kafka's clients."""

    source: Path
    clients: str = "clients-4"
    also: tuple[Path, ...] = ()
    log_level: str = "warn"

    def run(
        self, *arguments: str, input: str | None = None, timeout: float = 300.0, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end; with `check`, an exit status other than 0 is an error that shows the output."""
        done = self._compiled().run(arguments, input, timeout)
        if check and done.returncode:
            raise PeerError(f"{self.source.name} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start it with pipes for its input, output and errors; the caller ends it."""
        pipe = subprocess.PIPE
        return subprocess.Popen(self.command(*arguments), stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def command(self, *arguments: str) -> list[str]:
        """Return the whole command that runs it, compiled first if that hasn't been done."""
        return self._compiled().command(arguments)

    def _compiled(self) -> JavaProgram:
        classes = compiled([self.source, *self.also], self.clients)
        libraries = (_logging(self.log_level), *jars(self.clients))
        return JavaProgram(self.source.stem, libraries, (classes,))


@cache
def _logging(level: str) -> Path:
    """Return a directory of the class path in which the clients' logger finds its level."""
    return write_library(
        f"logging-{level}", "simplelogger.properties", f"org.slf4j.simpleLogger.defaultLogLevel={level}\n"
    )


def write_library(name: str, file: str, text: str) -> Path:
    """Return a directory of the cache that has this one file."""
    directory = CACHE / name
    directory.mkdir(parents=True, exist_ok=True)
    fresh = directory / f"{file}.{os.getpid()}"
    fresh.write_text(text)
    fresh.rename(directory / file)
    return directory
