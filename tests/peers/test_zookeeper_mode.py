"""Brokers in ZooKeeper mode: both releases register, and one that is killed or paused is missed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.peers import available
from tests.peers.zookeeper import ZooKeeper
from tests.peers.zookeeper_mode import RELEASES, SESSION_SECONDS, ZooKeeperModeBroker
from tests.support.shared_zookeeper import START_SECONDS_MAX
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(not available(), reason="needs a JDK and Maven")


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def tree(zookeeper: ZooKeeper) -> Iterator[Any]:
    client = KazooClient(zookeeper.address)
    client.start(START_SECONDS_MAX)
    yield client
    client.stop()
    client.close()


@pytest.mark.parametrize("release", RELEASES)
def test_a_broker_registers_and_its_death_is_seen(
    release: str, zookeeper: ZooKeeper, tree: Any, tmp_path: Path
) -> None:
    chroot = f"/{release}"
    broker = ZooKeeperModeBroker(
        tmp_path, broker_id=7, zookeeper=zookeeper.address + chroot, protocol="2.7", kafka_release=release
    )
    with broker:
        registered = json.loads(tree.get(f"{chroot}/brokers/ids/7")[0])
        assert registered["endpoints"] == [f"PLAINTEXT://{broker.address}"]
        assert json.loads(tree.get(f"{chroot}/feature")[0])["version"] == 1  # 2 from inter-broker protocol 3.3 on
        killed = time.monotonic()
        broker.kill()
        wait_until(lambda: tree.exists(f"{chroot}/brokers/ids/7") is None)
        assert time.monotonic() - killed > SESSION_SECONDS / 4
        broker.start()
        broker.stop()
        assert tree.exists(f"{chroot}/brokers/ids/7") is None  # a clean stop closes the session


def test_a_paused_broker_is_missed_and_returns(zookeeper: ZooKeeper, tree: Any, tmp_path: Path) -> None:
    with ZooKeeperModeBroker(tmp_path, broker_id=1, zookeeper=f"{zookeeper.address}/pause") as broker:
        first = tree.get("/pause/brokers/ids/1")[1].czxid
        broker.pause()
        wait_until(lambda: tree.exists("/pause/brokers/ids/1") is None)
        broker.resume()
        wait_until(lambda: tree.exists("/pause/brokers/ids/1") is not None)
        assert tree.get("/pause/brokers/ids/1")[1].czxid > first
