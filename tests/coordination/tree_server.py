"""This project's server of ZooKeeper's protocol as a process; `shared_tree_server` has one for all tests of a run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from tests.support import run_services
from tests.support.run_services import DIES_WITH_PARENT, Facts

_SERVICE = f"{__name__}:start_tree_server"
SUPER_DIGEST = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="  # of the password `test`


@attrs.define
class TreeServer:
    """A server process; a restart has the same port and tree."""

    directory: Path
    address: str = "127.0.0.1:0"
    _process: subprocess.Popen[str] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        command = [*DIES_WITH_PARENT, sys.executable, "-m", "tests.coordination.server_process", str(self.directory)]
        command += [self.address.partition(":")[2], SUPER_DIGEST]
        with (self.directory / "server.log").open("a") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdout is not None
        self._process, self.address = process, process.stdout.readline().strip()
        assert self.address, (self.directory / "server.log").read_text()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    @property
    def facts(self) -> Facts:
        """Return the address for clients."""
        return {"address": self.address}

    def stop(self) -> list[str]:
        """Kill the server; none of its log lines is an error of a test."""
        self.kill()
        return []


def start_tree_server(directory: Path) -> TreeServer:
    server = TreeServer(directory / "tree")
    server.start()
    return server


def shared_tree_server(config: pytest.Config) -> str:
    """Return the address of the run's server."""
    return run_services.of(config).get(_SERVICE)["address"]
