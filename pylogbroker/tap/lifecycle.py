"""Start and stop of one broker with its listeners, logs and coordination tree, in order.

start   checks of ports and directories -> coordination -> ids -> directories locked -> logs -> broker -> listeners
stop    no new connections -> waiting requests answered -> connections closed -> logs -> coordination -> threads

Each step of the start registers its undo step; the stop, and a failed start, run these in reverse order.  Blocking
steps run in worker threads, or in the calling thread as long as the reactor does not run.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import ExitStack
from errno import EADDRINUSE
from math import inf
from typing import Any

import attrs
from twisted.internet.defer import ensureDeferred, gatherResults
from twisted.internet.error import CannotListenError
from twisted.logger import Logger

from pylogbroker import __version__
from pylogbroker.broker.assembly import Broker, assemble
from pylogbroker.broker.partitions.delete_policies import DeletePolicies
from pylogbroker.broker.partitions.log_config import log_config
from pylogbroker.broker.runtime import Runtime
from pylogbroker.broker.slices import SLICE_SECONDS
from pylogbroker.config import SIMPLE, BrokerConfig, ConfigSource, Endpoint, Listener
from pylogbroker.coordination.embedded import EmbeddedTree
from pylogbroker.errors import ConfigError, PylogbrokerError, StartupError
from pylogbroker.legacy07.server.connection import Legacy07Factory
from pylogbroker.metadata import registration
from pylogbroker.metadata.zk_schema import BrokerNode, TopicNode
from pylogbroker.net.service import KafkaFactory, KafkaListener, SharedLimits
from pylogbroker.net.stall_watch import StallWatch
from pylogbroker.storage import DeletedDirectory, LogConfig, LogManager, Notice, Recovered
from pylogbroker.storage.formatting import counted
from pylogbroker.tap import plugins, preflight
from pylogbroker.tap.change_log import ChangeLog
from pylogbroker.tap.identification import identify
from pylogbroker.tap.threads import Threads

log = Logger()

_FACTORIES: Mapping[str, type[KafkaFactory]] = {SIMPLE: Legacy07Factory}  # of listeners with other protocols


@attrs.define(eq=False)
class BrokerLifecycle:
    """Broker with its listeners, logs and coordination tree; starts once and stops once."""

    _reactor: Any
    config: BrokerConfig
    _threads: Threads = attrs.field(init=False)
    _undo: list[Callable[[], Awaitable[None]]] = attrs.field(init=False, factory=list)
    aborted: bool = attrs.field(init=False, default=False)
    _is_open: bool = attrs.field(init=False, default=False)
    _logs: LogManager = attrs.field(init=False)
    _logs_are_loaded: bool = attrs.field(init=False, default=False)
    _tree: EmbeddedTree = attrs.field(init=False)
    _broker: Broker | None = attrs.field(init=False, default=None)
    _listeners: list[KafkaListener] = attrs.field(init=False, factory=list)

    async def start(self) -> tuple[Listener, ...]:
        """Open everything; return the listeners with their actual ports.

        StartupError if something cannot be opened, or after `give_up`; everything opened so far is closed then.
        """
        began = self._reactor.seconds()
        self._threads = Threads(self._reactor, self.config)
        self._undo.append(self._threads.stop)
        try:
            broker = await self._open()
        except Exception as error:
            await self.stop()
            if isinstance(error, PylogbrokerError | CannotListenError | OSError):
                raise StartupError(_reason(error)) from error
            raise
        self._is_open = True
        self._log_start(broker, self._reactor.seconds() - began)
        return tuple(broker.node.listeners.values())

    def abort(self) -> None:
        """Make a running start fail at its next step."""
        if self._is_open:
            return
        self.aborted = True
        if self._broker is not None:
            self._broker.release()

    async def stop(self) -> None:
        """Answer running requests, flush everything to disk, and close; a failed step does not prevent the others."""
        while self._undo:
            step = self._undo.pop()
            try:
                await step()
            except Exception:
                log.failure("{step} failed", step=step.__qualname__)

    # -- the steps of the start ------------------------------------------------------------------------------------

    async def _open(self) -> Broker:
        config, in_thread = self.config, self._threads.in_thread
        policies = await in_thread(self._check)
        for warning in (*config.warnings, *preflight.warnings(config)):
            log.warn("{warning}", warning=warning)
        tree = self._tree = await in_thread(self._open_tree)
        self._undo.append(tree.close)
        logs = self._logs = LogManager(
            config.log_dirs, recovery_threads=config.integer("num.recovery.threads.per.data.dir")
        )
        self._undo.append(self._close_logs)
        broker_id, cluster_id = await identify(config, tree, logs.directories, in_thread)
        broker = self._broker = assemble(
            config,
            broker_id,
            cluster_id,
            Runtime.on(self._reactor, in_thread, self._threads.in_reading_thread),
            tree,
            logs,
            policies,
        )
        deleted = await self._load(logs, broker.runtime.now_ms(), await registration.topics(tree))
        changes = ChangeLog(broker)
        self._undo += [
            changes.stop,
            self._threads.wait_until_idle,
            self._close_connections,
            self._release,
            self._stop_accepting,
        ]
        self._go_on()
        if not self._reactor.running:
            broker.runtime.slices.seconds = inf  # there are no others to give way to, and no later turn
        await broker.open()
        await broker.coordinators_loaded
        self._go_on()
        broker.runtime.slices.seconds = SLICE_SECONDS
        changes.attach()
        await self._listen(broker)
        await registration.register(tree, broker_id, _announcement(broker), broker.runtime.now_ms())
        self._go_on()
        self._watch_stalls(broker)
        if deleted:
            self._reactor.callWhenRunning(self._remove, deleted)
        return broker

    def _go_on(self) -> None:
        if self.aborted:
            raise StartupError("it was stopped before it had started")

    def _check(self) -> DeletePolicies:
        """Run the preflight checks; StartupError if one fails.  Blocks."""
        policies = plugins.delete_policies()
        try:
            policies.check(self.config.topic({}))
        except ConfigError as error:
            raise StartupError(str(error)) from error
        check_ports(self.config.listeners)
        preflight.check(self.config)
        return policies

    def _open_tree(self) -> EmbeddedTree:
        self._go_on()
        try:
            return EmbeddedTree.open(os.path.abspath(self.config.metadata_dir), self._threads.in_thread)
        except StartupError as error:
            raise StartupError(f"{error}; {preflight.COORDINATION}") from error

    async def _load(self, logs: LogManager, now_ms: int, topics: Mapping[str, TopicNode]) -> list[DeletedDirectory]:
        """Open all logs; return the directories of deleted ones, which are to be removed."""
        settings = log_config(self.config.topic({}))
        known = {(name, index): topic.topic_id for name, topic in topics.items() for index in topic.replicas}
        findings: list[Notice | Recovered] = []

        def config_of(topic: str) -> LogConfig:
            self._go_on()
            return settings

        try:
            deleted = await self._threads.in_thread(logs.load, config_of, now_ms, findings.append, known)
        finally:
            for found in findings:
                log.warn("{found}", found=found)
        self._logs_are_loaded = True
        return deleted

    async def _listen(self, broker: Broker) -> None:
        bounds = SharedLimits.of(broker)
        for listener in self.config.listeners:
            service = KafkaListener(
                self._reactor, broker, listener, bounds, _FACTORIES.get(listener.protocol, KafkaFactory)
            )
            self._listeners.append(service)
            await service.start()

    def _watch_stalls(self, broker: Broker) -> None:
        stalls = StallWatch(self._reactor, self.config.integer("reactor.stall.warn.ms"), broker.apis)
        self._undo.append(stalls.stop)
        self._reactor.callWhenRunning(stalls.start)

    def _remove(self, deleted: Iterable[DeletedDirectory]) -> None:
        if self._undo:  # not stopped yet
            self._threads.in_thread(_remove, deleted)

    def _log_start(self, broker: Broker, seconds: float) -> None:
        log.info(
            "pylogbroker {version}: broker {broker} of cluster {cluster}",
            version=__version__,
            broker=broker.node.id,
            cluster=broker.node.cluster_id,
        )
        for directory in broker.logs.directories.online:
            log.info("data in {path}", path=directory.path)
        log.info(
            "{topics} with {partitions}, {groups} and {bytes} bytes of records; started in {seconds:.2f} s",
            topics=counted(len(broker.catalog.topics), "topic"),
            partitions=counted(len(broker.partitions.led), "partition"),
            groups=counted(len(broker.groups.list_groups()[1]), "consumer group"),
            bytes=sum(partition.log.size for partition in broker.partitions.led.values()),
            seconds=seconds,
        )
        for listener in broker.node.listeners.values():
            log.info("listening on {endpoint}", endpoint=Endpoint(listener.name, listener.host, listener.port))
        if "listeners" not in self.config.explicit(ConfigSource.STATIC_BROKER_CONFIG):
            log.info("only clients on this machine reach the broker; the setting listeners opens it to others")

    # -- the steps of the stop -------------------------------------------------------------------------------------

    async def _stop_accepting(self) -> None:
        for listener in self._listeners:
            await listener.stop_accepting()

    async def _release(self) -> None:
        if self._broker is not None:
            self._broker.release()

    async def _close_connections(self) -> None:
        await gatherResults([ensureDeferred(listener.close()) for listener in self._listeners])

    async def _close_logs(self) -> None:
        if not self._logs_are_loaded:
            self._logs.directories.unlock()
            return
        for notice in await self._threads.in_thread(self._logs.close):
            log.error("{notice}", notice=notice)


def check_ports(listeners: Iterable[Listener]) -> None:
    """StartupError if another process has a listener's port, or if two listeners have the same one."""
    with ExitStack() as probes:
        bound: list[tuple[int, str, int]] = []
        for listener in listeners:
            family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
            probe = probes.enter_context(socket.socket(family, socket.SOCK_STREAM))
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((listener.host, listener.port))
            except OSError as error:
                raise StartupError(_cannot_listen(listener, error)) from error
            address = (family, *probe.getsockname()[:2])
            if any(_overlap(address, other) for other in bound):
                raise StartupError(_cannot_listen(listener, OSError(EADDRINUSE, os.strerror(EADDRINUSE))))
            bound.append(address)


def _overlap(one: tuple[int, str, int], other: tuple[int, str, int]) -> bool:
    """Return True if only one of two addresses (family, host, port) can be bound."""
    hosts = {one[1], other[1]}
    return one[0] == other[0] and one[2] == other[2] and (len(hosts) == 1 or bool(hosts & {"0.0.0.0", "::"}))


def _cannot_listen(listener: Listener, error: OSError) -> str:
    endpoint = Endpoint(listener.name, listener.host, listener.port)
    cure = "choose another port with --listener NAME://host:port, or with the setting listeners"
    return f"cannot listen on {endpoint}: {error.strerror or error}" + (f"; {cure}" if listener.port else "")


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, CannotListenError):
        return f"cannot listen on {error.interface}:{error.port}: {error.socketError}"
    return str(error)


def _announcement(broker: Broker) -> BrokerNode:
    every = list(broker.node.listeners.values())
    told = [listener for listener in every if listener.protocol != SIMPLE] or every  # who reads this speaks Kafka's
    endpoints = [_advertised(listener) for listener in told]
    return BrokerNode(
        endpoints=[str(endpoint) for endpoint in endpoints],
        protocols={listener.name: listener.protocol for listener in told},
        rack=broker.node.rack,
        host=endpoints[0].host,
        port=endpoints[0].port,
    )


def _advertised(listener: Listener) -> Endpoint:
    return Endpoint(listener.name, listener.advertised_host or socket.gethostname(), listener.advertised_port)


def _remove(deleted: Iterable[DeletedDirectory]) -> None:
    for directory in deleted:
        directory.remove()
