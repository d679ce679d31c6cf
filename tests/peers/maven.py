"""Jars of Maven Central, pinned by one small pom per peer (`poms/<peer>.xml`), kept in `.peers/<peer>/lib`.

    from tests.peers.maven import classpath
    subprocess.run(["java", "-cp", classpath("clients-4"), ...])

`.peers/<peer>/complete` keeps the checksum of the pom that the jars belong to: while it agrees, Maven is not
run.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

POMS = Path(__file__).parent / "poms"
CACHE = Path(__file__).parents[2] / ".peers"
PEERS = tuple(sorted(pom.stem for pom in POMS.glob("*.xml")))


class PeerError(Exception):
    """A peer could not be fetched, compiled or started."""


@cache
def jars(peer: str) -> tuple[Path, ...]:
    """Return the jars of `peer`, fetched with Maven first if they are not there for its present pom."""
    if peer not in PEERS:
        raise PeerError(f"no peer {peer!r}: one of {', '.join(PEERS)}")
    checksum = hashlib.sha256((POMS / f"{peer}.xml").read_bytes()).hexdigest()
    directory = CACHE / peer
    stamp = directory / "complete"
    with locked(peer):
        if not (stamp.exists() and stamp.read_text() == checksum):
            shutil.rmtree(directory, ignore_errors=True)
            _fetch(peer, directory / "lib")
            stamp.write_text(checksum)
    return tuple(sorted((directory / "lib").glob("*.jar")))


def classpath(peer: str, *more: Path) -> str:
    """Return the jars of `peer`, after the directories named, in the form that `java -cp` takes."""
    return os.pathsep.join(str(path) for path in (*more, *jars(peer)))


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Let one process at a time fill the part of the cache that is called `name`."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(peer: str, lib: Path) -> None:
    command = ["mvn", "--batch-mode", "--quiet", "--file", str(POMS / f"{peer}.xml")]
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={lib}", "-DincludeScope=runtime"]
    done = subprocess.run([*command, *goal], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise PeerError(f"Maven could not fetch {peer}:\n{done.stdout}")
