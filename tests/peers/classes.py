"""Java sources, compiled once: their classes are kept in `.peers/classes/` by a checksum of what they are made from."""

import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.peers.maven import CACHE, PeerError, classpath, locked


def compiled(sources: Sequence[Path], peer: str) -> Path:
    """Return the directory of the classes of these files, compiled beside the jars of `peer`."""
    contents = peer.encode() + b"".join(each.read_bytes() for each in sources)
    name = f"{sources[0].stem}-{hashlib.sha256(contents).hexdigest()[:16]}"
    classes = CACHE / "classes" / name
    with locked(name):
        if not classes.exists():
            _compile(sources, peer, classes)
    return classes


def _compile(sources: Sequence[Path], peer: str, classes: Path) -> None:
    fresh = classes.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    options = ["-proc:none", "-cp", classpath(peer), "-d", str(fresh)]
    done = subprocess.run(["javac", *options, *map(str, sources)], capture_output=True, text=True)
    if done.returncode:
        raise PeerError(f"{sources[0]} does not compile:\n{done.stdout}{done.stderr}")
    fresh.rename(classes)
