"""One JVM for all Java programs of a test run: it starts once, and the libraries that it has loaded stay warm.

    program = JavaProgram("kafka.tools.DumpLogSegments", jars("kafka-3.9"))
    done = program.run(["--files", path], timeout=60.0)       # in that JVM
    subprocess.Popen(program.command(["--files", path]))      # in a JVM of its own

`Resident.java` says what a program may do there.  One that is killed or talked to needs a JVM of its own.  Outside a
test run each has one.
"""

import os
import socket
import struct
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import attrs

from tests.peers.classes import compiled
from tests.peers.maven import PeerError
from tests.peers.processes import QUICK, SHORT_LIVED
from tests.support import run_services
from tests.support.line_process import LineProcess
from tests.support.run_services import DIES_WITH_PARENT, Facts

_SOURCE = Path(__file__).parent / "Resident.java"
_SERVICE = f"{__name__}:start"


@attrs.frozen
class JavaProgram:
    """A class with a main method, and where it and what it uses lie."""

    main: str
    libraries: tuple[Path, ...]
    classes: tuple[Path, ...] = ()

    def command(self, arguments: Sequence[str]) -> list[str]:
        """Return the command that runs it in a JVM of its own."""
        return ["java", *SHORT_LIVED, "-cp", _joined([*self.classes, *self.libraries]), self.main, *arguments]

    def run(
        self, arguments: Sequence[str], input: str | None, timeout: float, *, alone: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run it to its end; `alone`, in a JVM of its own."""
        services = run_services.current()
        if services is None or alone:
            return subprocess.run(
                self.command(arguments), input=input, capture_output=True, text=True, timeout=timeout, check=False
            )
        port = int(services.get(_SERVICE)["port"])
        try:
            with socket.create_connection(("127.0.0.1", port), timeout) as connection:
                connection.sendall(self._request(arguments, input or ""))
                with connection.makefile("rb") as answer:
                    return self._done(arguments, answer.read())
        except TimeoutError:
            raise subprocess.TimeoutExpired([self.main, *arguments], timeout) from None

    def _request(self, arguments: Sequence[str], input: str) -> bytes:
        where = [_joined(self.libraries), _joined(self.classes), self.main]
        return b"".join([*map(_text, where), struct.pack(">i", len(arguments)), *map(_text, arguments), _text(input)])

    def _done(self, arguments: Sequence[str], answer: bytes) -> subprocess.CompletedProcess[str]:
        if not answer:
            raise PeerError(f"the run of {self.main} was broken off: it ended the JVM, or could not be begun")
        status, size = struct.unpack_from(">ii", answer)
        output, errors = answer[8 : 8 + size], answer[12 + size :]
        return subprocess.CompletedProcess([self.main, *arguments], status, output.decode(), errors.decode())


@attrs.frozen
class ResidentJvm:
    """The JVM of a test run."""

    process: LineProcess
    port: str

    @property
    def facts(self) -> Facts:
        """Path of the socket on which it accepts programs."""
        return {"port": self.port}

    def stop(self) -> list[str]:
        """Kill it; all that it says is its port, and errors of its own."""
        self.process.kill()
        return self.process.lines[1:]


def start(directory: Path) -> ResidentJvm:
    """Start the JVM, in the new directory."""
    directory.mkdir()
    options = [*QUICK, "-Xshare:auto", "-Xmx512M", "-cp", str(compiled([_SOURCE], "clients-4"))]
    process = LineProcess([*DIES_WITH_PARENT, "java", *options, "Resident"], cwd=directory)
    return ResidentJvm(process, process.expect(r"^port (\d+)")[1])


def _joined(paths: Iterable[Path]) -> str:
    return os.pathsep.join(map(str, paths))


def _text(value: str) -> bytes:
    return struct.pack(">i", len(value.encode())) + value.encode()
