"""Fixtures of mirrors: two clusters, in threads, and mirrors on the reactor of the test.

An `async def` is run on Twisted's global reactor, as in tests/client.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import attrs
import pytest
from twisted.internet import reactor
from twisted.internet.defer import DeferredList, FirstError

from pylogbroker.mirror.copier import CopyListener
from pylogbroker.mirror.mirror import Mirror, MirrorStatus
from pylogbroker.mirror.settings import MirroredCluster, MirrorSettings
from pylogbroker.testing import Broker
from tests.client.conftest import pytest_pyfunc_call

__all__ = ["pytest_pyfunc_call"]

_names = count()


@attrs.frozen
class TwoClusters:
    source: Broker
    target: Broker

    def settings(self, topics: str = ".*", **others: Any) -> MirrorSettings:
        given = {"commit_interval": 0.0, "refresh_interval": 0.05, "retry_stopped": 0.5, "sync": None, **others}
        source = MirroredCluster(self.source.bootstrap, "east")
        target = MirroredCluster(self.target.bootstrap, "offline")
        return MirrorSettings(source, target, (topics,), **given)

    def mirror(self, topics: str = ".*", *, listeners: tuple[CopyListener, ...] = (), **others: Any) -> Mirror:
        return Mirror(self.settings(topics, **others), reactor, listeners=listeners, has_standby=False)


@pytest.fixture(scope="module")
def brokers() -> Iterator[TwoClusters]:
    with Broker() as source, Broker() as target:
        yield TwoClusters(source, target)


@pytest.fixture
def clusters(brokers: TwoClusters) -> TwoClusters:
    return brokers


@pytest.fixture
def topic() -> str:
    return f"orders-{next(_names)}"


async def copy_all(mirror: Mirror) -> MirrorStatus:
    """Run a mirror until it has caught up; return its figures."""
    running = mirror.run()
    first = DeferredList(
        [mirror.caught_up(), running], fireOnOneCallback=True, fireOnOneErrback=True, consumeErrors=True
    )
    try:
        await first
    except FirstError as error:
        error.subFailure.raiseException()
    status = mirror.status
    await mirror.stop()
    return status
