"""One ZooKeeper server for all tests of a run, on any worker: tests keep apart by their chroots."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from tests.peers.zookeeper import ZooKeeper
from tests.support import run_services
from tests.support.run_services import DIES_WITH_PARENT, Facts


@attrs.frozen
class ZooKeeperService:
    """A server that runs for the whole test run."""

    server: ZooKeeper

    @property
    def facts(self) -> Facts:
        """Return the address for clients."""
        return {"address": self.server.address}

    def stop(self) -> list[str]:
        """Kill the server; clients that are cut make it log errors, which are nobody's fault."""
        self.server.kill()
        return []


def start_zookeeper(directory: Path) -> ZooKeeperService:
    return ZooKeeperService(ZooKeeper(directory, prefix=DIES_WITH_PARENT).start())


def shared_zookeeper(config: pytest.Config) -> str:
    """Return the server's address."""
    return run_services.of(config).get(f"{__name__}:start_zookeeper")["address"]
