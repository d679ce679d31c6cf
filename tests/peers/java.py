"""Small Java client programs, compiled once and run against one set of Kafka's Java clients.

    program = Program(Path(__file__).parent / "RoundTrip.java", clients="clients-4")
    done = program.run("127.0.0.1:9092", "topic")         # a finished process: .stdout, .returncode
    process = program.start("127.0.0.1:9092", "topic")    # one that runs on, with pipes for all three

The source is one file whose public class is called as the file is, or several files of one directory
(`also`). `clients` is `clients-3.9` or `clients-4`: `CLIENTS` has both, for `pytest.mark.parametrize`.
Classes are kept in `.peers/classes/` by the checksum of what they were made from. The clients' own log goes
to the standard error, warnings and worse only; `log_level="info"` or `"debug"` shows more.
"""

import hashlib
import shutil
import subprocess
from pathlib import Path

import attrs

from tests.peers.maven import CACHE, PeerError, classpath, locked

CLIENTS = ("clients-3.9", "clients-4")
#: what is over soon is not worth the time of the second compiler, and of a collector with threads of its own
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
SHORT_LIVED = (*QUICK, "-Xshare:auto", "-Xmx256M")


@attrs.frozen
class Program:
    """A Java program of one or a few source files, which uses one version of Kafka's clients."""

    source: Path
    clients: str = "clients-4"
    also: tuple[Path, ...] = ()
    log_level: str = "warn"

    def run(
        self, *arguments: str, input: str | None = None, timeout: float = 60.0, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end; with `check`, an exit status other than 0 is an error that shows the output."""
        command = self.command(*arguments)
        done = subprocess.run(command, input=input, capture_output=True, text=True, timeout=timeout)
        if check and done.returncode:
            raise PeerError(f"{self.source.name} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start it with pipes for its input, output and errors; the caller ends it."""
        pipe = subprocess.PIPE
        return subprocess.Popen(self.command(*arguments), stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def command(self, *arguments: str) -> list[str]:
        """Return the whole command that runs it, compiled first if that hasn't been done."""
        level = f"-Dorg.slf4j.simpleLogger.defaultLogLevel={self.log_level}"
        path = classpath(self.clients, self._compile())
        return ["java", *SHORT_LIVED, level, "-cp", path, self.source.stem, *arguments]

    def _compile(self) -> Path:
        sources = [self.source, *self.also]
        contents = self.clients.encode() + b"".join(each.read_bytes() for each in sources)
        name = f"{self.source.stem}-{hashlib.sha256(contents).hexdigest()[:16]}"
        classes = CACHE / "classes" / name
        with locked(name):
            if not classes.exists():
                self._javac(sources, classes)
        return classes

    def _javac(self, sources: list[Path], classes: Path) -> None:
        fresh = classes.with_suffix(".new")
        shutil.rmtree(fresh, ignore_errors=True)
        options = ["-proc:none", "-cp", classpath(self.clients), "-d", str(fresh)]
        done = subprocess.run(["javac", *options, *map(str, sources)], capture_output=True, text=True)
        if done.returncode:
            raise PeerError(f"{self.source} does not compile:\n{done.stdout}{done.stderr}")
        fresh.rename(classes)
