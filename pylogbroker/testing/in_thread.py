"""Brokers in this process, on a reactor in a thread: one, or a small cluster with its coordination tree."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred, FirstError, gatherResults, maybeDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.threads import deferToThreadPool
from twisted.python.failure import Failure

from pylogbroker.config import BrokerConfig, Listener
from pylogbroker.metadata import zk_paths
from pylogbroker.metadata.zk_schema import BrokerNode, decode_broker, decode_controller
from pylogbroker.tap.brokers.plan import plan
from pylogbroker.tap.brokers.readiness import MetadataWait, metadata_question
from pylogbroker.tap.faults import BrokerFaults
from pylogbroker.tap.service import BrokerService
from pylogbroker.tree.database import TreeDatabase, wall_clock_ms
from pylogbroker.tree.server.factory import ZooKeeperFactory
from pylogbroker.tree.tree_file import TreeFile

_LOOPBACK: Final = "127.0.0.1"
_OF_MEMBERS: Final = ("process.roles", "node.id", "broker.id")

Listeners = Mapping[str, Listener]


class _Service(BrokerService):
    _config: BrokerConfig | None = None  # of the broker that was started last

    def start_failed(self, reason: Failure) -> None:
        """Log nothing: the test gets the error."""

    def use(self, config: BrokerConfig) -> None:
        self._config = config

    def keep_leaderships(self) -> None:
        """Let its next stop hand over nothing."""
        if self._config is not None:
            self._config.decide("controlled.shutdown.enable", "false")


@attrs.define(eq=False, repr=False)
class BrokersInThread:
    """`settings` name the listeners, and one log directory. Call methods on the reactor's thread."""

    _reactor: Any
    _settings: dict[str, str]
    _count: int = 1
    _clock: IReactorTime | None = None
    _faults: BrokerFaults | None = None
    _services: dict[int, _Service] = attrs.field(factory=dict, init=False)  # by broker id
    _planned: dict[int, dict[str, str]] = attrs.field(factory=dict, init=False)  # settings by broker id
    _listeners: dict[int, Listeners] = attrs.field(factory=dict, init=False)  # with their actual ports
    _tree: _ServedTree | None = attrs.field(default=None, init=False)

    @property
    def services(self) -> tuple[BrokerService, ...]:
        return tuple(self._services.values())

    @property
    def ids(self) -> tuple[int, ...]:
        """Ids of the brokers; a single one has 0 here, whatever its own."""
        return tuple(self._services)

    @property
    def have_busy_threads(self) -> bool:
        return any(service.has_busy_threads for service in self.services)

    async def start(self) -> list[Listeners]:
        """Return each broker's listeners by name; raise StartupError or ConfigError, and leave nothing open."""
        try:
            return await self._start()
        except GeneratorExit:  # a collected coroutine must not await
            raise
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop all brokers; none hands over what it leads, since nobody is left."""
        await self.down(self._services)
        tree, self._tree = self._tree, None
        if tree is not None:
            await tree.close()

    async def down(self, brokers: Collection[int]) -> None:
        """Stop these brokers; their listening ports are closed, and their data kept.

        They hand over what they lead if another broker goes on.
        """
        stopping = [self._services[broker] for broker in brokers]
        if all(service in stopping for service in self.services if service.running):
            for service in stopping:
                service.keep_leaderships()
        await gatherResults([service.stopService() for service in stopping])

    async def up(self, brokers: Collection[int]) -> None:
        """Start stopped brokers again, on their former ports; raise StartupError."""
        for broker in brokers:
            listeners = ",".join(
                f"{listener.name}://{listener.host}:{listener.port}" for listener in self._listeners[broker].values()
            )
            await self._services[broker].reload({**self._planned[broker], "listeners": listeners})
            self._services[broker].startService()
        starting = gatherResults([self._services[broker].listening for broker in brokers], consumeErrors=True)
        await starting.addErrback(_first_error)
        if self._count > 1:
            running = [broker for broker, service in self._services.items() if service.running]
            await self._wait_for_metadata(running)

    async def _start(self) -> list[Listeners]:
        if self._settings.get("process.roles") == "broker":
            listeners = await self._serve(members_of(self._settings, self._count))
            await self._wait_for_metadata(self._services)
            return listeners
        if self._count == 1:
            return await self._serve({0: self._settings})
        planned = plan(self._settings, self._count)
        self._tree = _ServedTree.on(self._reactor, planned.tree_directory)
        common = {**self._settings, "zookeeper.connect": self._tree.address}
        settings = {broker.id: common | broker.overrides for broker in planned.brokers}
        listeners = await self._serve(settings)
        await self._wait_for_metadata(self._services)
        return listeners

    async def _serve(self, settings: Mapping[int, dict[str, str]]) -> list[Listeners]:
        made = {
            broker: _Service(self._reactor, broker_settings, self._clock)
            for broker, broker_settings in settings.items()
        }
        for started in made.values():
            if started.faults is not None:
                started.faults = self._faults  # one for all
        self._services.update(made)
        self._planned.update(settings)
        for service in self.services:
            service.startService()
        listening = gatherResults([service.listening for service in self.services], consumeErrors=True)
        opened = await listening.addErrback(_first_error)
        for broker, listeners in zip(made, opened, strict=True):
            self._listeners[broker] = {listener.name: listener for listener in listeners}
        return list(self._listeners.values())

    async def _wait_for_metadata(self, brokers: Collection[int]) -> None:
        config = BrokerConfig(self._settings)
        ask = metadata_question(self._reactor, config)
        registrations = partial(self._registered if self._tree is None else self._tree.registrations, brokers)
        await MetadataWait(self._reactor, brokers, registrations, config.inter_broker_listener.name, ask).finish()

    def _registered(self, brokers: Collection[int]) -> dict[int, BrokerNode]:
        """Return these brokers, which serve only once KRaft's controllers have registered them."""
        return {
            broker: BrokerNode(
                [f"{listener.name}://{listener.host}:{listener.port}" for listener in self._listeners[broker].values()],
                {listener.name: listener.protocol for listener in self._listeners[broker].values()},
            )
            for broker in brokers
        }


def members_of(settings: dict[str, str], count: int) -> dict[int, dict[str, str]]:
    """Return the settings of each member of a cluster of KRaft controllers, by id; `node.id` is that of the first.

    Each has a directory of its own below the log directories: that has to be empty when it is formatted.
    """
    first = int(settings["node.id"])
    alone = {name: text for name, text in settings.items() if name not in _OF_MEMBERS}
    planned = plan(alone, count, range(first, first + count))
    directories = BrokerConfig(alone).log_dirs
    members = {}
    for broker in planned.brokers:
        number = str(broker.id)
        paths = [os.path.join(directory, f"broker-{number}") for directory in directories]
        own = {"broker.id": number, "node.id": number, "log.dirs": ",".join(paths)}
        members[broker.id] = settings | broker.overrides | own
    return members


@attrs.define(eq=False, repr=False)
class _ServedTree:
    """The coordination tree of a cluster, served by ZooKeeper's protocol."""

    _database: TreeDatabase
    _factory: ZooKeeperFactory
    _port: Any

    @classmethod
    def on(cls, reactor: Any, directory: str) -> _ServedTree:
        file = TreeFile.open(directory, wall_clock_ms(), keeps_sessions=True)

        def in_thread(work: Callable[[], Any]) -> Deferred[Any]:
            return deferToThreadPool(reactor, reactor.getThreadPool(), work)

        database = TreeDatabase(file, in_thread)
        factory = ZooKeeperFactory(database, reactor)
        return cls(database, factory, reactor.listenTCP(0, factory, interface=_LOOPBACK))

    @property
    def address(self) -> str:
        return f"{_LOOPBACK}:{self._port.getHost().port}"

    @property
    def controller(self) -> int | None:
        row = self._database.nodes.get(zk_paths.CONTROLLER)
        return None if row is None else decode_controller(row.data).broker

    def registrations(self, brokers: Collection[int]) -> dict[int, BrokerNode]:
        """Return the registered ones of these brokers, none without a controller: before, no broker can know it."""
        nodes = self._database.nodes
        if self.controller is None:
            return {}
        rows = {broker: nodes.get(zk_paths.broker(broker)) for broker in brokers}
        return {broker: decode_broker(row.data) for broker, row in rows.items() if row is not None}

    async def close(self) -> None:
        await maybeDeferred(self._port.stopListening)
        self._factory.stop()
        await self._database.close()


def _first_error(failure: Failure) -> Failure:
    return failure.value.subFailure if isinstance(failure.value, FirstError) else failure
