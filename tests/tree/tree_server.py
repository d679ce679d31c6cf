"""This project's server of ZooKeeper's protocol as a process, which needs no JVM; all tests of a run share one.

    def test_a_broker(tree_chroot: str) -> None:
        broker = BrokerProcess(path, {"zookeeper.connect": tree_chroot})

The chroot exists, and is deleted with all nodes after the test. Sessions may be as short as a second.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from tests.support import run_services
from tests.support.run_services import DIES_WITH_PARENT, Facts
from tests.support.shared_zookeeper import fresh_chroot

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
        command = [*DIES_WITH_PARENT, sys.executable, "-m", "tests.tree.server_process", str(self.directory)]
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
        """Kill the server; return the errors that it has logged."""
        self.kill()
        lines = (self.directory / "server.log").read_text().splitlines()
        return [line for line in lines if "#error]" in line or "#critical]" in line]


def start_tree_server(directory: Path) -> TreeServer:
    server = TreeServer(directory / "tree")
    server.start()
    return server


def shared_tree_server(config: pytest.Config) -> str:
    """Return the address of the run's server."""
    return run_services.of(config).get(_SERVICE)["address"]


@pytest.fixture
def tree_chroot(request: pytest.FixtureRequest) -> Iterator[str]:
    """The value of `zookeeper.connect` for this test alone: the run's own server, and a chroot that is empty."""
    with fresh_chroot(shared_tree_server(request.config), request.node.name) as chroot:
        yield chroot
