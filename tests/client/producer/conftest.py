"""A producer on a clock, with a cluster that does what the test says."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.task import Clock

from pylogbroker.client.producer import Producer
from tests.client.producer.fake_cluster import FakeCluster, Make


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Make:
    cluster = FakeCluster()
    monkeypatch.setattr("pylogbroker.client.producer.producer.Cluster", lambda *_: cluster)

    def made(**settings: Any) -> tuple[Producer, FakeCluster]:
        return Producer("nowhere:1", reactor=clock, **settings), cluster

    return made
