"""Clients of franz-go, pinned by `go/go.mod`, built to `.peers/go`.

from tests.peers import go
output = go.run("share", "127.0.0.1:9092", "orders", "packers", "10")
"""

import hashlib
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from tests.peers.maven import CACHE, PeerError, locked

_SOURCE = Path(__file__).parent / "go"
_COMMAND = ("go", "build", "-mod=readonly", "-buildvcs=false", "-o")
_SECONDS_MAX = 180


def available() -> bool:
    """Return whether Go is installed."""
    return shutil.which("go") is not None


@cache
def program() -> Path:
    """Return the program, built first if it is not there for the present source; Go fetches the modules."""
    files = sorted(path for path in _SOURCE.iterdir() if path.is_file())
    checksum = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    directory = CACHE / "go"
    built = directory / f"franz-{checksum[:16]}"
    with locked("go"):
        if not built.exists():
            directory.mkdir(parents=True, exist_ok=True)
            done = subprocess.run(
                [*_COMMAND, built],
                cwd=_SOURCE,
                env={**os.environ, "CGO_ENABLED": "0"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            if done.returncode:
                raise PeerError(f"Go could not build clients of franz-go:\n{done.stdout}")
    return built


def run(*arguments: str) -> list[str]:
    """Run the program; return the lines of its output."""
    done = subprocess.run([program(), *arguments], capture_output=True, text=True, timeout=_SECONDS_MAX, check=False)
    if done.returncode:
        raise PeerError(f"franz {arguments} ended with {done.returncode}: {done.stderr}")
    return done.stdout.splitlines()
