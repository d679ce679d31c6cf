"""One broker and all that belongs to it: what is opened when, and closed in which order.

start   ports free? directories ours? -> coordination -> who we are -> directories locked -> logs -> broker -> listeners
stop    no new connections -> answers to what waits -> connections closed -> logs -> coordination
"""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterable
from contextlib import ExitStack
from errno import EADDRINUSE
from typing import Any

import attrs
from twisted.internet.defer import ensureDeferred, gatherResults
from twisted.internet.error import CannotListenError
from twisted.logger import Logger

from pylogbroker import __version__
from pylogbroker.broker.broker import Broker
from pylogbroker.broker.delete_policies import DeletePolicies
from pylogbroker.broker.log_config import log_config
from pylogbroker.config import SIMPLE, BrokerConfig, Endpoint, Listener
from pylogbroker.coordination import identity
from pylogbroker.coordination.embedded import EmbeddedTree
from pylogbroker.coordination.layout import BrokerNode
from pylogbroker.errors import ConfigError, PylogbrokerError, StartupError
from pylogbroker.net.service import Bounds, KafkaListener
from pylogbroker.storage import DeletedDirectory, Identity, LogManager, Notice, Recovered
from pylogbroker.tap import checks, plugins
from pylogbroker.tap.threads import Threads

log = Logger()


@attrs.define(eq=False)
class Node:
    """A broker with its listeners, logs and coordination."""

    _reactor: Any
    _config: BrokerConfig
    _threads: Threads = attrs.field(init=False)
    _policies: DeletePolicies = attrs.field(init=False, factory=plugins.delete_policies)
    _logs: LogManager | None = attrs.field(init=False, default=None)
    _tree: EmbeddedTree | None = attrs.field(init=False, default=None)
    _broker: Broker | None = attrs.field(init=False, default=None)
    _listeners: list[KafkaListener] = attrs.field(init=False, factory=list)

    async def start(self) -> None:
        """Open everything; StartupError if that cannot be, with all that was opened closed again."""
        self._check_policies()
        check_ports(self._config.listeners)
        checks.look(self._config)
        for warning in (*self._config.warnings, *checks.warnings(self._config)):
            log.warn("{warning}", warning=warning)
        allow_many_files()
        self._threads = Threads(self._reactor, self._config)
        try:
            await self._open()
        except (PylogbrokerError, CannotListenError, OSError) as error:
            await self.stop()
            raise StartupError(_reason(error)) from error

    async def _open(self) -> None:
        config = self._config
        logs = LogManager(config.log_dirs, recovery_threads=config.integer("num.recovery.threads.per.data.dir"))
        tree = self._tree = self._coordination()
        broker_id, cluster_id = await self._identify(tree, logs)
        broker = Broker(
            config,
            self._reactor,
            broker_id,
            cluster_id,
            tree,
            logs,
            self._threads.in_thread,
            self._threads.in_reading_thread,
            delete_policies=self._policies,
        )
        self._load(logs, broker.now_ms())
        await broker.open()
        self._broker = broker
        await self._listen(broker)
        await identity.register(tree, broker_id, _announcement(broker), broker.now_ms())
        self._tell(broker)

    async def stop(self) -> None:
        """Answer what is under way, bring everything to the disk, and close; a step that fails stops no other."""
        for step in (
            self._stop_accepting,
            self._release,
            self._close_connections,
            self._stop_readers,
            self._close_logs,
            self._close_tree,
        ):
            try:
                await step()
            except Exception:
                log.failure("{step} failed", step=step.__name__)

    def _check_policies(self) -> None:
        try:
            self._policies.check(self._config.topic({}))
        except ConfigError as error:
            raise StartupError(str(error)) from error

    # -- the steps of the start ------------------------------------------------------------------------------------

    def _coordination(self) -> EmbeddedTree:
        try:
            return EmbeddedTree.open(os.path.abspath(self._config.metadata_dir), self._threads.in_thread)
        except StartupError as error:
            raise StartupError(f"{error}; {checks.COORDINATION}") from error

    async def _identify(self, tree: EmbeddedTree, logs: LogManager) -> tuple[int, str]:
        """The broker's number and the cluster's id; the directories are the ones of before, or new, held and marked."""
        await identity.lay_out(tree)
        known = logs.identities()
        cluster_id = await identity.cluster_id(tree, known.cluster_id)
        broker_id = await self._number(tree, known)
        remembered = await identity.directories(tree, broker_id)
        logs.recognize(remembered, os.path.abspath(self._config.metadata_dir))
        for notice in logs.lock():
            log.error("a log directory is offline: {why}", why=notice.text)
        logs.identify(broker_id, cluster_id)
        await identity.remember_directories(tree, broker_id, logs.to_remember(remembered))
        self._config.decide("broker.id", str(broker_id))
        return broker_id, cluster_id

    async def _number(self, tree: EmbeddedTree, known: Identity) -> int:
        """The broker's number: the setting's, the directories', that of the topics' broker, or else a new one."""
        config = self._config
        owners = await identity.owners(tree)
        remembered = min(owners, default=-1) if known.broker_id is None else known.broker_id
        number = config.integer("broker.id")
        if number < 0:
            number = remembered
        if owners and number not in owners:
            raise StartupError(_of_another(config, number, min(owners)))
        return number if number >= 0 else await identity.new_broker_id(tree, config.integer("reserved.broker.max.id"))

    def _load(self, logs: LogManager, now_ms: int) -> None:
        settings = log_config(self._config.topic({}))
        deleted = logs.load(lambda topic: settings, now_ms, _report)
        self._logs = logs
        if deleted:
            self._reactor.callWhenRunning(self._threads.in_thread, _remove, deleted)

    async def _listen(self, broker: Broker) -> None:
        bounds = Bounds.of(broker)
        for listener in self._config.listeners:
            service = KafkaListener(self._reactor, broker, listener, bounds)
            await service.start()
            self._listeners.append(service)

    def _tell(self, broker: Broker) -> None:
        log.info(
            "pylogbroker {version}: broker {broker} of cluster {cluster}",
            version=__version__,
            broker=broker.node_id,
            cluster=broker.cluster_id,
        )
        for directory in broker.logs.online:
            log.info("data in {path}", path=directory.path)
        for listener in broker.listeners.values():
            log.info("listening on {endpoint}", endpoint=Endpoint(listener.name, listener.host, listener.port))

    # -- the steps of the stop -------------------------------------------------------------------------------------

    async def _stop_accepting(self) -> None:
        for listener in self._listeners:
            await listener.stop_accepting()

    async def _release(self) -> None:
        if self._broker is not None:
            self._broker.release()

    async def _close_connections(self) -> None:
        await gatherResults([ensureDeferred(listener.close()) for listener in self._listeners])

    async def _stop_readers(self) -> None:
        self._threads.stop()

    async def _close_logs(self) -> None:
        if self._logs is not None:
            for notice in await self._threads.in_thread(self._logs.close):
                log.error("{notice}", notice=notice)

    async def _close_tree(self) -> None:
        if self._tree is not None:
            await self._tree.close()


def check_ports(listeners: Iterable[Listener]) -> None:
    """StartupError if a port is taken, by others or twice, before anything is touched for the sake of it."""
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
    """Whether two addresses, as family, host and port, cannot be listened on both."""
    hosts = {one[1], other[1]}
    return one[0] == other[0] and one[2] == other[2] and (len(hosts) == 1 or bool(hosts & {"0.0.0.0", "::"}))


def allow_many_files() -> None:
    """As many open files as the system gives: every partition and every connection is one or more."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _cannot_listen(listener: Listener, error: OSError) -> str:
    endpoint = Endpoint(listener.name, listener.host, listener.port)
    return f"cannot listen on {endpoint}: {error.strerror or error}"


def _of_another(config: BrokerConfig, number: int, owner: int) -> str:
    """The sentence that refuses topics whose records are another broker's."""
    chosen = config.integer("broker.id") >= 0
    remedy = checks.cure(config, owner) if chosen else "remove meta.properties from the log directories"
    return f"the topics here belong to broker {owner}, this is broker {number}: {remedy}"


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, CannotListenError):
        return f"cannot listen on {error.interface}:{error.port}: {error.socketError}"
    return str(error)


def _announcement(broker: Broker) -> BrokerNode:
    """What the coordination tree shows of the broker."""
    every = list(broker.listeners.values())
    told = [listener for listener in every if listener.protocol != SIMPLE] or every  # who reads this speaks Kafka's
    endpoints = [_advertised(listener) for listener in told]
    return BrokerNode(
        endpoints=[str(endpoint) for endpoint in endpoints],
        protocols={listener.name: listener.protocol for listener in told},
        rack=broker.rack,
        host=endpoints[0].host,
        port=endpoints[0].port,
    )


def _advertised(listener: Listener) -> Endpoint:
    return Endpoint(listener.name, listener.advertised_host or socket.gethostname(), listener.advertised_port)


def _report(found: Notice | Recovered) -> None:
    log.warn("{found}", found=found)


def _remove(deleted: Iterable[DeletedDirectory]) -> None:
    for directory in deleted:
        directory.remove()
