"""Start and stop of one broker.

    start   checks of ports and directories -> HTTP -> coordination -> ids -> directories locked -> logs -> broker
            -> listeners
    stop    no new connections -> waiting requests answered -> connections closed -> logs -> coordination -> HTTP
            -> threads

Steps of the start add undo steps; the stop, and a failed start, run these in reverse. Worker threads run blocking
steps; before the reactor runs, the calling thread does.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred, ensureDeferred, gatherResults
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from pylogbroker import __version__
from pylogbroker.broker.assembly import Broker, RemoteStorage, assemble
from pylogbroker.broker.partitions.delete_policies import DeletePolicies
from pylogbroker.broker.partitions.log_config import opening_configs
from pylogbroker.broker.runtime.resources import InThread, Runtime
from pylogbroker.broker.runtime.slices import SLICE_SECONDS
from pylogbroker.broker.security.tls_listeners import check_tls
from pylogbroker.config import SIMPLE, BrokerConfig, ConfigSource, Endpoint, Listener, Reloaded
from pylogbroker.config.http_settings import ui_endpoints
from pylogbroker.errors import ConfigError, PylogbrokerError, StartupError
from pylogbroker.features import on_first_use
from pylogbroker.formatting import counted
from pylogbroker.interfaces import IClientTelemetryReceiver, IGroupAssignor, ITree
from pylogbroker.interfaces.network import INetwork
from pylogbroker.interfaces.remote_storage import IRemoteStorage
from pylogbroker.metadata.feature_levels import initial_levels
from pylogbroker.metadata.image import TopicImage
from pylogbroker.metadata.zk_schema import BrokerNode
from pylogbroker.net.service import KafkaFactory, KafkaListener, MakeFactory, SharedLimits
from pylogbroker.net.stall_watch import StallWatch
from pylogbroker.storage import DeletedDirectory, LogConfig, LogManager, Notice, Recovered, TopicIds, load_logs
from pylogbroker.tap import plugins, preflight, schema_registry
from pylogbroker.tap.change_log import ChangeLog
from pylogbroker.tap.faults import BrokerFaults, warn_of_faults
from pylogbroker.tap.identification import identify, identify_in_kraft
from pylogbroker.tap.steady_clock import time_of_day
from pylogbroker.tap.threads import Threads
from pylogbroker.tree.embedded import EmbeddedTree

if TYPE_CHECKING:
    from pylogbroker.broker.security import sasl_listeners
    from pylogbroker.legacy07.server import connection
    from pylogbroker.registry.service import RegistryService
    from pylogbroker.tap import http, zookeeper
    from pylogbroker.tap.http import HttpServer
else:
    connection = on_first_use("pylogbroker.legacy07.server.connection")
    http = on_first_use("pylogbroker.tap.http")
    sasl_listeners = on_first_use("pylogbroker.broker.security.sasl_listeners")
    zookeeper = on_first_use("pylogbroker.tap.zookeeper")

log = Logger()


@attrs.define(eq=False, repr=False)
class _UndoSteps:
    _steps: list[Callable[[], Awaitable[None]]] = attrs.field(factory=list, init=False)
    is_done: bool = attrs.field(default=False, init=False)

    def add(self, *steps: Callable[[], Awaitable[None]]) -> None:
        self._steps += steps

    async def run(self) -> None:
        """Run all steps, even if some fail."""
        self.is_done = True
        while self._steps:
            step = self._steps.pop()
            try:
                await step()
            except Exception:
                log.failure("{step} failed", step=getattr(step, "__qualname__", repr(step)))


@attrs.frozen(eq=False, repr=False)
class ServingBroker:
    broker: Broker
    threads: Threads
    _undo: _UndoSteps
    _http: HttpServer | None
    _registries: Sequence[RegistryService] = ()

    @property
    def listeners(self) -> tuple[Listener, ...]:
        return tuple(self.broker.node.listeners.values())

    @property
    def http_addresses(self) -> Sequence[Endpoint]:
        return () if self._http is None else self._http.addresses

    @property
    def schema_registry_addresses(self) -> Sequence[Endpoint]:
        return [address for registry in self._registries for address in registry.addresses]

    @property
    def ended(self) -> Deferred[str]:
        """Fires with the reason when the broker cannot go on, and has to be stopped."""
        return self.broker.role.ended

    def reload(self, settings: Mapping[str, str]) -> Reloaded:
        """Apply dynamic settings; raise ConfigError, and change nothing, if invalid."""
        return self.broker.config.reload(settings)

    async def stop(self) -> None:
        await self._undo.run()


@attrs.define(eq=False, repr=False)
class BrokerStart:
    """One start of a broker.

    BrokerStart --run: open--> Broker with logs and coordinators --listen--> ServingBroker
         |                        |                                   |
         +------- failure or abort: undo steps, StartupError ---------+
    """

    _reactor: Any
    config: BrokerConfig
    _clock: IReactorTime
    _faults: BrokerFaults | None = None
    _has_ui: bool = False
    """True to serve the web UI where `http.listeners` does not say whether and where."""
    aborted: bool = attrs.field(init=False, default=False)
    _undo: _UndoSteps = attrs.field(init=False, factory=_UndoSteps)
    _assembled: Broker | None = attrs.field(init=False, default=None)
    _http: HttpServer | None = attrs.field(init=False, default=None)
    _registries: list[RegistryService] = attrs.field(init=False, factory=list)

    async def run(self) -> ServingBroker:
        """Open everything and listen; after a failure or `abort` close everything, and raise StartupError."""
        began = self._reactor.seconds()
        threads = Threads(self._reactor, self.config)
        self._undo.add(threads.stop)
        try:
            broker = await self._open(threads)
            self._assembled = None  # too late to abort
        except Exception as error:
            await self._undo.run()
            if isinstance(error, PylogbrokerError | CannotListenError | OSError):
                raise StartupError("; ".join([_reason(error), *self.config.unknown])) from error
            raise
        _log_start(broker, self._reactor.seconds() - began)
        self._reactor.callWhenRunning(self._log_listeners, broker)
        if self._http is not None:
            self._http.serve(broker)
            self._undo.add(self._http.stop_serving)
        return ServingBroker(broker, threads, self._undo, self._http, self._registries)

    def abort(self) -> None:
        self.aborted = True
        if self._assembled is not None:
            self._assembled.release()

    def _go_on(self) -> None:
        if self.aborted:
            raise StartupError("it was stopped before it had started")

    async def _open(self, threads: Threads) -> Broker:
        config, in_thread = self.config, threads.in_thread
        for warning in config.warnings:  # before anything fails, perhaps because of a misspelt name
            log.warn("{warning}", warning=warning)
        policies, assignors, receivers, storage = await in_thread(
            _check, config, not INetwork.providedBy(self._reactor)
        )
        for warning in preflight.warnings(config):
            log.warn("{warning}", warning=warning)
        self._start_http(in_thread)
        tree: ITree
        if config.in_kraft:
            tree = EmbeddedTree.in_memory()
        elif config.in_cluster:
            tree = await zookeeper.connect(self._reactor, config, in_thread)
        else:
            tree = await in_thread(self._open_tree, in_thread)
        self._undo.add(tree.close)
        if self._http is not None:
            self._http.watch(tree)
        logs = LogManager(config.log_dirs, recovery_threads=config.num_recovery_threads_per_data_dir)
        loaded = _LoadedLogs(logs, in_thread, is_crash_known=not config.in_cluster)
        self._undo.add(loaded.close)
        if config.in_kraft:
            broker_id, cluster_id = await identify_in_kraft(config, tree, logs.directories, in_thread)
        else:
            broker_id, cluster_id = await identify(config, tree, logs.directories, in_thread)
        runtime = Runtime.on(
            self._clock,
            in_thread,
            threads.in_reading_thread,
            self._reactor,
            threads.in_login_thread,
            time_of_day(self._clock),
        )
        broker = self._assembled = assemble(
            config, broker_id, cluster_id, runtime, tree, logs, policies, config.in_cluster, assignors, receivers,
            None if storage is None else RemoteStorage(
                storage, threads.in_archive_reading_thread, threads.in_archive_copying_thread
            ),
        )  # fmt: skip
        if not self._reactor.running:
            runtime.slices.seconds = inf  # nothing else waits for the reactor, which would never call back

        async def leave_cluster() -> None:
            broker.role.close()

        if config.in_kraft:
            self._undo.add(leave_cluster)  # also if the next steps fail: it holds the copy of the metadata log
        await broker.role.open()
        deleted = await self._load(loaded, broker)
        changes = ChangeLog(broker)
        listeners = _Listeners(self._reactor, broker, self._faults)

        async def release() -> None:
            if self._faults is not None:
                await self._faults.detach(broker)
            broker.release()

        self._undo.add(
            changes.stop, threads.wait_until_idle, listeners.close_connections, release, listeners.stop_accepting
        )
        self._go_on()
        await self._open_services(broker)
        changes.attach()
        await broker.tls.open()
        if broker.sasl is not None:
            await broker.sasl.open()
        if self._faults is not None:
            warn_of_faults()
            self._faults.attach(self._reactor, broker)
        if config.schema_registry_listeners:
            registry = schema_registry.make_registry(self._reactor, broker)
            self._undo.add(registry.stop)
            await schema_registry.validate_records(registry, broker)
            await registry.start()
            self._registries.append(registry)
            if self._http is not None:
                self._http.host_registry(registry)
        await listeners.start()
        if self._http is not None:
            self._http.measure(broker, [listener.factory for listener in listeners.started])
        self._undo.add(broker.role.leave)
        await broker.role.register(_announcement(broker))
        loaded.is_crash_known = True
        self._go_on()
        runtime.slices.seconds = SLICE_SECONDS  # not before: users and tokens are read in slices, too
        self._watch_stalls(broker)
        if deleted:
            self._reactor.callWhenRunning(self._remove, deleted, in_thread)
        return broker

    def _start_http(self, in_thread: InThread) -> None:
        config = self.config
        has_default = self._has_ui and config.http_listeners_text is None
        defaults = ui_endpoints([listener.port for listener in config.listeners]) if has_default else ()
        if config.http_listeners or defaults:
            self._http = http.HttpServer(self._reactor, config, in_thread, self._faults, defaults)
            self._undo.add(self._http.stop)
            self._http.start()

    def _open_tree(self, in_thread: InThread) -> EmbeddedTree:
        self._go_on()
        try:
            return EmbeddedTree.open(os.path.abspath(self.config.metadata_dir), in_thread)
        except StartupError as error:
            raise StartupError(f"{error}; {preflight.COORDINATION}") from error

    async def _load(self, loaded: _LoadedLogs, broker: Broker) -> list[DeletedDirectory]:
        deleted = {topic.name: topic for topic in broker.role.interrupted_deletions}
        topic_ids = _TopicIds(broker.metadata.topics, deleted)
        configs = opening_configs(self.config, broker.metadata.image)

        def config_of(topic: str) -> LogConfig:
            self._go_on()
            return configs(topic)

        return await loaded.load(config_of, broker.runtime.now_ms(), topic_ids)

    async def _open_services(self, broker: Broker) -> None:
        await broker.open()
        await broker.coordinators_loaded
        self._go_on()

    def _watch_stalls(self, broker: Broker) -> None:
        stalls = StallWatch(self._reactor, self.config.reactor_stall_warn_ms, broker.apis)
        self._undo.add(stalls.stop)
        self._reactor.callWhenRunning(stalls.start)

    def _log_listeners(self, broker: Broker) -> None:
        """Log only when the reactor runs: who reads the line may connect, and end the process by a signal."""
        if self._undo.is_done:
            return
        for listener in broker.node.listeners.values():
            log.info("listening on {endpoint}", endpoint=Endpoint(listener.name, listener.host, listener.port))
        for address in () if self._http is None else self._http.addresses:
            log.info("web UI on {address}/", address=address)
        for registry in self._registries:
            for address in registry.addresses:
                log.info("schema registry on {address}", address=address)
        if "listeners" not in broker.config.explicit(ConfigSource.STATIC_BROKER_CONFIG):
            log.info("only clients on this machine reach the broker; the setting listeners opens it to others")

    def _remove(self, deleted: Iterable[DeletedDirectory], in_thread: InThread) -> None:
        if not self._undo.is_done:
            in_thread(_remove, deleted)


@attrs.frozen(eq=False, repr=False)
class _TopicIds:
    """Implements `TopicIds` for the topics of an image and those under deletion."""

    _topics: Mapping[str, TopicImage]
    _deleted: Mapping[str, TopicImage]

    def get(self, key: tuple[str, int], /) -> UUID | None:
        topic = self._deleted.get(key[0]) or self._topics.get(key[0])
        return None if topic is None or key[1] not in topic.partitions else topic.id


@attrs.define(eq=False, repr=False)
class _LoadedLogs:
    """Logs, closed cleanly only if all were loaded, and the other brokers know of a crash before the start.

    Otherwise the next start would not know that records may be lost.
    """

    _logs: LogManager
    _in_thread: InThread
    is_crash_known: bool
    _is_complete: bool = attrs.field(init=False, default=False)

    async def load(
        self, config_of: Callable[[str], LogConfig], now_ms: int, topic_ids: TopicIds
    ) -> list[DeletedDirectory]:
        findings: list[Notice | Recovered] = []
        try:
            deleted: list[DeletedDirectory] = await self._in_thread(
                load_logs, self._logs, config_of, now_ms, findings.append, topic_ids
            )
        finally:
            for finding in findings:
                log.warn("{found}", found=finding)
        self._is_complete = True
        return deleted

    async def close(self) -> None:
        if not self._is_complete or not (self.is_crash_known or self._logs.were_closed_cleanly):
            self._logs.directories.unlock()
            return
        for notice in await self._in_thread(self._logs.close):
            log.error("{notice}", notice=notice)


@attrs.define(eq=False, repr=False)
class _Listeners:
    _reactor: Any
    _broker: Broker
    _faults: BrokerFaults | None
    started: list[KafkaListener] = attrs.field(init=False, factory=list)

    async def start(self) -> None:
        limits = SharedLimits.of(self._broker)
        for listener in self._broker.config.listeners:
            service = KafkaListener(self._reactor, self._broker, listener, limits, self._factory_of(listener))
            self.started.append(service)
            await service.start()

    def _factory_of(self, listener: Listener) -> MakeFactory:
        if listener.protocol == SIMPLE:
            return connection.Legacy07Factory
        return KafkaFactory if self._faults is None else self._faults.factory

    async def stop_accepting(self) -> None:
        for listener in self.started:
            await listener.stop_accepting()

    async def close_connections(self) -> None:
        await gatherResults([ensureDeferred(listener.close()) for listener in self.started])


def _check(
    config: BrokerConfig, has_sockets: bool
) -> tuple[DeletePolicies, Mapping[str, IGroupAssignor], Sequence[IClientTelemetryReceiver], IRemoteStorage | None]:
    """Return the broker's plugins; raise StartupError if a preflight check fails. Blocks."""
    policies = plugins.delete_policies()
    try:
        policies.check(config.topic({}))
        assignors, receivers = plugins.group_assignors(config), plugins.telemetry_receivers(config)
        storage = plugins.remote_storage(config)
        initial_levels(config.initial_features)
    except ConfigError as error:
        raise StartupError(str(error)) from error
    check_tls(config)
    if config.schema_registry_listeners:
        schema_registry.check_registry()
    if config.has_sasl or config.in_cluster:
        sasl_listeners.check_sasl(config)
    if has_sockets:
        preflight.check_ports((*config.listeners, *config.http_listeners, *config.schema_registry_listeners))
    preflight.check(config)
    return policies, assignors, receivers, storage


def _log_start(broker: Broker, seconds: float) -> None:
    log.info(
        "pylogbroker {version}: broker {broker} of cluster {cluster}",
        version=__version__,
        broker=broker.node.id,
        cluster=broker.node.cluster_id,
    )
    for directory in broker.logs.directories.online:
        log.info("data in {path}", path=directory.path)
    in_cluster = broker.config.in_cluster
    logs = broker.logs.logs.values()  # a member of a cluster waits for orders to lead and to follow
    log.info(
        "{topics} with {partitions}, {groups} and {bytes} bytes of records; started in {seconds:.2f} s",
        topics=counted(len(broker.metadata.topics), "topic"),
        partitions=f"{counted(len(logs), 'replica')} here" if in_cluster else counted(len(logs), "partition"),
        groups=counted(broker.groups.count_groups(), "consumer group"),
        bytes=sum(partition_log.size for partition_log in logs),
        seconds=seconds,
    )


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, CannotListenError):
        return f"cannot listen on {error.interface}:{error.port}: {error.socketError}"
    return str(error)


def _announcement(broker: Broker) -> BrokerNode:
    every = list(broker.node.listeners.values())
    kafka = [listener for listener in every if listener.protocol != SIMPLE] or every  # readers are Kafka clients
    endpoints = [_advertised(listener) for listener in kafka]
    are_secure = [listener.security.has_tls or listener.security.has_sasl for listener in kafka]
    plain = next((point for point, is_secure in zip(endpoints, are_secure, strict=True) if not is_secure), None)
    return BrokerNode(
        endpoints=[str(endpoint) for endpoint in endpoints],
        protocols={listener.name: listener.protocol for listener in kafka},
        rack=broker.node.rack,
        host=plain.host if plain else None,
        port=plain.port if plain else -1,
        has_archive=broker.archive is not None,
    )


def _advertised(listener: Listener) -> Endpoint:
    return Endpoint(listener.name, listener.advertised_host or socket.gethostname(), listener.advertised_port)


def _remove(deleted: Iterable[DeletedDirectory]) -> None:
    for directory in deleted:
        directory.remove()
