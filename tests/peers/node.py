"""Clients of Kafka 0.7 for Node, pinned by `node/package.json`, kept in `.peers/node`.

    from tests.peers import node
    output = node.run(path, "127.0.0.1", "9092")

No package's own install scripts are run.  Packages that would have to be compiled, and that no compiler of today takes,
are replaced by a few lines that do the same (`node/bignum`, `node/snappy`).
"""

import hashlib
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from tests.peers.maven import CACHE, PeerError, locked

_SOURCE = Path(__file__).parent / "node"
_COMMAND = ("npm", "install", "--ignore-scripts", "--omit=optional", "--no-package-lock", "--no-audit", "--no-fund")


@cache
def modules() -> Path:
    """The directory of the packages, fetched with npm first if they are not there for the present `package.json`."""
    files = sorted(path for path in _SOURCE.rglob("*") if path.is_file())
    checksum = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    directory = CACHE / "node"
    stamp = directory / "complete"
    with locked("node"):
        if not (stamp.exists() and stamp.read_text() == checksum):
            shutil.rmtree(directory, ignore_errors=True)
            shutil.copytree(_SOURCE, directory)
            done = subprocess.run(
                _COMMAND, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
            )
            if done.returncode:
                raise PeerError(f"npm could not fetch clients of 0.7:\n{done.stdout}")
            stamp.write_text(checksum)
    return directory / "node_modules"


def run(path: Path, *arguments: str, timeout: float = 30.0) -> str:
    """The output of a script, which finds the packages by their names; PeerError if it fails."""
    environment = {**os.environ, "NODE_PATH": str(modules())}
    command = ["node", "--no-deprecation", str(path), *arguments]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=timeout, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise PeerError(f"{path.name} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout
