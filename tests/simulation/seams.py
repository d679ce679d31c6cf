"""Places where the simulation stands in for the system: sockets, threads, ZooKeeper, randomness, time, the disk.

Everything else is the product: a broker is started and stopped by `pylogbroker.tap.lifecycle`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Final
from unittest.mock import patch

import attrs
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from pylogbroker.broker.kraft.publisher import MetadataPublisher
from pylogbroker.broker.runtime import resources as runtime
from pylogbroker.broker.runtime.slices import Slices
from pylogbroker.kraft.metadata_log import CommittedMetadata, SnapshotPart
from pylogbroker.net import protocol, service
from pylogbroker.rpc import endpoint
from pylogbroker.tap import lifecycle, preflight
from pylogbroker.tap.threads import Threads
from pylogbroker.tree import zookeeper
from tests.simulation.disk import SyncedSizes
from tests.simulation.ensemble import Ensemble, SimulatedSession
from tests.simulation.network import ClientEndpoint, Network, ServerEndpoint
from tests.simulation.quorum import QUORUM_SETTINGS, SimulatedQuorum
from tests.simulation.setup import KRAFT, Setup
from tests.simulation.stored_metadata import StoredMetadata
from tests.simulation.world import Process, World
from tests.simulation.zookeeper_metadata import ZooKeeperMetadata

_SLOW_SHARE: Final = 0.02
ENSEMBLE_SETTINGS: Final[Mapping[str, str]] = {
    "zookeeper.connect": "zookeeper:2181",
    "zookeeper.session.timeout.ms": "2000",
}


@attrs.define(eq=False)
class _SlowProcessor:
    """Returns the time; now and then a second more has passed at once."""

    _world: World
    _lost_seconds: int = attrs.field(default=0, init=False)

    def __call__(self) -> float:
        self._lost_seconds += self._world.rng.random() < _SLOW_SHARE
        return self._world.now + self._lost_seconds


@attrs.define(eq=False)
class Surroundings:
    world: World
    network: Network
    stored: StoredMetadata
    disk: SyncedSizes
    settings: Mapping[str, str]
    """Settings by which brokers find the metadata."""
    processor: Callable[[], float] | None = None
    """Clock of slices; by default now and then a second passes at once."""

    @classmethod
    def of(cls, world: World, setup: Setup, network: Network) -> Surroundings:
        if setup.engine == KRAFT:
            return cls(world, network, SimulatedQuorum(network, setup), SyncedSizes(), QUORUM_SETTINGS)
        return cls(
            world, network, ZooKeeperMetadata(Ensemble(network, setup.late_answers)), SyncedSizes(), ENSEMBLE_SETTINGS
        )

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Stand in for the system; afterwards no event of the simulation runs."""
        network, rng = self.network, self.world.rng
        processor = self.processor or _SlowProcessor(self.world)
        state = random.getstate()
        random.seed(rng.random())
        with ExitStack() as stack:
            stack.callback(random.setstate, state)
            if isinstance(self.stored, SimulatedQuorum):
                stack.enter_context(patch.object(MetadataPublisher, "publish", _published_to(self.stored)))
            for target, name, stand_in in (
                (endpoint, "endpoint", partial(_client_endpoint, network)),
                (service, "ChunkServerEndpoint", partial(_server_endpoint, network)),
                (preflight, "check_ports", lambda listeners: None),
                (lifecycle, "Threads", partial(SimulatedThreads, self)),
                (zookeeper, "KazooSession", partial(SimulatedSession, getattr(self.stored, "ensemble", None))),
                (runtime, "Slices", lambda clock: Slices(clock, now=processor)),
                (protocol, "perf_counter", processor),
                (os, "urandom", rng.randbytes),
                (os, "fsync", self.disk.synced),
                (os, "fdatasync", self.disk.synced),
            ):
                stack.enter_context(patch.object(target, name, stand_in))
            try:
                yield
            finally:
                self.world.end()


def _published_to(quorum: SimulatedQuorum) -> Any:
    async def publish(publisher: MetadataPublisher, committed: CommittedMetadata | SnapshotPart) -> None:
        await quorum.publish(publisher, committed)

    return publish


def _client_endpoint(
    network: Network, reactor: Any, host: str, port: int, timeout: float, make_engine: None
) -> ClientEndpoint:
    return ClientEndpoint(network, reactor.process, host, port, timeout)


def _server_endpoint(
    network: Network, reactor: Any, host: str, port: int, backlog: int, steps: None, make_engine: None
) -> ServerEndpoint:
    return ServerEndpoint(network, reactor.process, port)


class SimulatedThreads(Threads):
    """Runs each call at some later time; its result comes later still."""

    def __init__(self, surroundings: Surroundings, reactor: Any, config: object) -> None:
        self._reactor = reactor
        self._surroundings = surroundings
        self._workers: Any = None
        self._readers: Any = None
        self._logins: Any = None
        self._calls = 0
        self._idle = None

    async def stop(self) -> None:
        await self.wait_until_idle()

    def _call(self, pool: object, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        done: Deferred[Any] = Deferred()
        self._calls += 1
        process: Process = self._reactor.process
        self._later(self._work, process, done, function, arguments)
        return done.addBoth(self._returned)

    def _later(self, call: Callable[..., object], *arguments: Any) -> None:
        delay = self._surroundings.network.delay()
        self._reactor.callLater(delay, call, *arguments)

    def _work(self, process: Process, done: Deferred[Any], function: Callable[..., Any], arguments: Any) -> None:
        try:
            result = function(*arguments)
        except Exception:
            self._later(done.errback, Failure())
        else:
            self._later(done.callback, result)
