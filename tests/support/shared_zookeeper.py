"""One ZooKeeper for all tests of a run, on any worker: each test has a chroot of its own.

    def test_registration(zookeeper_chroot: str) -> None:
        client = KazooClient(zookeeper_chroot)                         # "127.0.0.1:23456/test-registration-1a2b3c4d"
        broker = BrokerProcess(path, {"zookeeper.connect": zookeeper_chroot})

The chroot exists, and is deleted with all nodes after the test.  Sessions may be as short as a second.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NotEmptyError

from tests.peers import available
from tests.peers.zookeeper import ZooKeeper
from tests.support import run_services
from tests.support.run_services import DIES_WITH_PARENT, Facts
from tests.support.waiting import wait_until

_SERVICE = f"{__name__}:start_zookeeper"
#: A connection takes a moment, but a machine may stand still meanwhile.
START_SECONDS_MAX = 120.0


@attrs.frozen
class ZooKeeperService:
    """A ZooKeeper that runs for the whole test run."""

    server: ZooKeeper

    @property
    def facts(self) -> Facts:
        """Return the address for clients."""
        return {"address": self.server.address}

    def stop(self) -> list[str]:
        """Kill the server; none of its log lines is an error of a test."""
        self.server.kill()
        return []


def start_zookeeper(directory: Path) -> ZooKeeperService:
    """Start ZooKeeper."""
    return ZooKeeperService(ZooKeeper(directory, prefix=DIES_WITH_PARENT).start())


@contextmanager
def connected(hosts: str, session_seconds: float = 30.0) -> Iterator[Any]:
    """Connect kazoo's client to ZooKeeper; `hosts` may have a chroot."""
    client = KazooClient(hosts, timeout=session_seconds)
    client.start(START_SECONDS_MAX)
    try:
        yield client
    finally:
        client.stop()
        client.close()


@contextmanager
def fresh_chroot(address: str, name: str) -> Iterator[str]:
    """Create an empty chroot for a test of this name, and delete it with all its nodes in the end."""
    stem = re.sub(r"[^a-z0-9]+", "-", name.lower())[:40].strip("-")
    chroot = f"/{stem}-{uuid.uuid4().hex[:8]}"
    with connected(address) as client:
        client.retry(client.ensure_path, chroot)
        yield address + chroot
        wait_until(lambda: _is_deleted(client, chroot))


def _is_deleted(client: Any, path: str) -> bool:
    """Delete a node with all below it; return False if a broker that is being killed has just added one."""
    try:
        client.retry(client.delete, path, recursive=True)
    except NotEmptyError:
        return False
    return True


@pytest.fixture
def zookeeper_chroot(request: pytest.FixtureRequest) -> Iterator[str]:
    """The value of `zookeeper.connect` for this test alone: the run's ZooKeeper, and a chroot that is empty."""
    if not available():
        pytest.skip("Java and Maven are not installed")
    address = run_services.of(request.config).get(_SERVICE)["address"]
    with fresh_chroot(address, request.node.name) as chroot:
        yield chroot


def shared_zookeeper(config: pytest.Config) -> str:
    """Return the address of the run's ZooKeeper."""
    return run_services.of(config).get(_SERVICE)["address"]
