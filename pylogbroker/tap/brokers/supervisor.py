"""The supervisor of `--brokers N`: owns the coordination tree, serves it to its brokers, and keeps N brokers alive.

| a broker's process ends        | the supervisor                                                            |
|--------------------------------|---------------------------------------------------------------------------|
| before it has ever served      | stops all, with its last line as the reason                               |
| later                          | ends its session at once, and starts it again                             |
| for the third time in a minute | stops all: status 1                                                       |
| while all are stopped          | waits for the others, the controller's process last; then closes the tree |
| not within a minute after that | kills it                                                                  |

A killed supervisor leaves its brokers' sessions in the tree, and brokers that end some seconds later. The next one
waits for that, and ends the sessions: a broker need not wait for the time limit of its own former registration.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Sequence
from secrets import token_urlsafe
from typing import Any, Final

import attrs
from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, DeferredList, ensureDeferred, maybeDeferred, succeed
from twisted.internet.error import CannotListenError
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.config import BrokerConfig
from pylogbroker.errors import PylogbrokerError, StartupError
from pylogbroker.metadata import zk_paths
from pylogbroker.metadata.zk_schema import BrokerNode, decode_broker, decode_controller
from pylogbroker.tap import tree_login
from pylogbroker.tap.brokers.child import BrokerProcess
from pylogbroker.tap.brokers.data import known_ids
from pylogbroker.tap.brokers.forks import BrokerForks
from pylogbroker.tap.brokers.plan import BrokersPlan, PlannedBroker, check_shrinking, plan
from pylogbroker.tap.brokers.readiness import MetadataWait, metadata_question
from pylogbroker.tap.preflight import check_data_of_several, check_unused
from pylogbroker.tap.process_log import PROCESS_LOG
from pylogbroker.tree import acls
from pylogbroker.tree.database import TreeDatabase, wall_clock_ms
from pylogbroker.tree.rows import Row
from pylogbroker.tree.server.factory import ServerSettings, ZooKeeperFactory
from pylogbroker.tree.transactions import WriteResult
from pylogbroker.tree.tree_file import TreeFile

log = Logger()
_DEATHS_MAX: Final = 3
_DEATHS_SECONDS: Final = 60.0
STOP_SECONDS_MAX: Final = 60.0
_FORMER_SECONDS_MAX: Final = 60.0  # for brokers of a killed supervisor; on a slow machine they take long to stop
_FORMER_CHECK_SECONDS: Final = 0.1
_LOOPBACK: Final = "127.0.0.1"


@attrs.define(eq=False, repr=False)
class _Supervised:
    id: int
    arguments: Sequence[str]
    process: BrokerProcess | None = None
    has_served: bool = False
    deaths: deque[float] = attrs.field(factory=lambda: deque(maxlen=_DEATHS_MAX))
    ended: Deferred[None] = attrs.field(factory=Deferred)


@attrs.frozen
class _Tree:
    """The brokers' coordination tree, and who serves it: to the brokers, and to others."""

    database: TreeDatabase
    factory: ZooKeeperFactory
    own_factory: ZooKeeperFactory


class Supervisor(Service):
    """`settings` are those of the command line and its file; `arguments` give a broker the same ones."""

    def __init__(self, reactor: Any, settings: dict[str, str], count: int, arguments: Sequence[str]) -> None:
        self._reactor = reactor
        self._settings = settings
        self._count = count
        self._arguments = arguments
        self._planned: Sequence[PlannedBroker] = ()
        self._brokers: dict[int, _Supervised] = {}
        self._tree: _Tree | None = None
        self._tree_password = token_urlsafe()
        self._ports: list[Any] = []
        self._forks = BrokerForks(reactor)
        self._is_stopping = False
        self._announcing: Deferred[None] | None = None

    def startService(self) -> None:
        super().startService()
        self._reactor.callWhenRunning(lambda: ensureDeferred(self._start()).addErrback(self._fail))

    async def _start(self) -> None:
        self._forks.prepare()
        planned = await deferToThread(self._plan)
        self._planned = planned.brokers
        file = await deferToThread(TreeFile.open, planned.tree_directory, wall_clock_ms(), keeps_sessions=True)
        database = TreeDatabase(file, deferToThread)
        database.listen(self._on_write)
        factory = ZooKeeperFactory(database, self._reactor, ServerSettings())
        own_factory = factory.restricted(acls.digest(f"{tree_login.USER}:{self._tree_password}"))
        self._tree = _Tree(database, factory, own_factory)
        address = self._listen(self._tree, planned)
        await self._end_former_life()  # first: their registrations are no sign that new processes serve
        if self._is_stopping:
            return
        for broker in planned.brokers:
            overrides = broker.overrides | {"zookeeper.connect": address}
            given = [f"--override={name}={value}" for name, value in overrides.items()]
            self._brokers[broker.id] = _Supervised(broker.id, [*self._arguments, *given])
        for supervised in self._brokers.values():
            self._spawn(supervised)

    def _plan(self) -> BrokersPlan:
        """Plan for the brokers that have data, and check that they have their tree. Blocks."""
        first = plan(self._settings, self._count).brokers[0]
        ids = known_ids(first.log_directories)
        check_shrinking(ids, self._count)
        planned = plan(self._settings, self._count, ids)
        directories = [directory for broker in planned.brokers for directory in broker.log_directories]
        check_data_of_several(planned.tree_directory, directories)
        return planned

    def _listen(self, tree: _Tree, planned: BrokersPlan) -> str:
        """Listen for the brokers, who log in, and for others where they are wanted; return the brokers' address."""
        endpoints = [
            (tree.own_factory, _LOOPBACK, 0),
            *((tree.factory, *listener) for listener in planned.tree_listeners),
        ]
        for factory, host, port in endpoints:
            try:
                self._ports.append(self._reactor.listenTCP(port, factory, interface=host))
            except CannotListenError as error:
                raise StartupError(f"cannot listen on {host}:{port}: {error.socketError}") from error
        own, *others = (f"{port.getHost().host}:{port.getHost().port}" for port in self._ports)
        log.info(
            "{count} brokers start; their coordination tree is at {own}, for them alone", count=self._count, own=own
        )
        for other in others:
            log.info("others reach it at {other}, as a ZooKeeper without a quorum", other=other)
        return own

    async def _end_former_life(self) -> None:
        """End the sessions of brokers that a killed supervisor has left; raise StartupError if a broker lives on."""
        former = [broker for broker in self._planned if self._row(zk_paths.broker(broker.id)) is not None]
        deadline = self._reactor.seconds() + _FORMER_SECONDS_MAX
        while former and not self._is_stopping:
            try:
                await deferToThread(check_unused, [path for broker in former for path in broker.log_directories])
                break
            except StartupError:
                if self._reactor.seconds() >= deadline:
                    raise
                await deferLater(self._reactor, _FORMER_CHECK_SECONDS)
        for broker in former:
            await self._end_session(broker.id)

    def _spawn(self, supervised: _Supervised) -> None:
        supervised.process = BrokerProcess(supervised.id, self._on_process_ended)
        title = f"pylogbroker: broker {supervised.id}"
        self._forks.fork(supervised.process, supervised.arguments, title, self._tree_password)

    # -- brokers that come and go --------------------------------------------------------------------------------------

    def _on_write(self, result: WriteResult) -> None:
        if zk_paths.BROKER_IDS not in result.changed_parents:
            return
        for supervised in self._brokers.values():
            if not supervised.has_served and self._row(zk_paths.broker(supervised.id)) is not None:
                supervised.has_served = True
                started = sum(broker.has_served for broker in self._brokers.values())
                log.info(
                    "broker {id} has started, {started} of {count}",
                    id=supervised.id,
                    started=started,
                    count=self._count,
                )
        is_complete = bool(self._brokers) and all(broker.has_served for broker in self._brokers.values())
        if self._announcing is None and is_complete:
            self._announcing = ensureDeferred(self._announce())
            self._announcing.addErrback(lambda failure: failure.trap(CancelledError)).addErrback(self._fail)

    async def _announce(self) -> None:
        config = BrokerConfig(self._settings | self._planned[0].overrides)
        ask = await deferToThread(metadata_question, self._reactor, config)
        listener = config.inter_broker_listener.name
        await MetadataWait(self._reactor, self._brokers, self._governed, listener, ask).finish()
        endpoints = ", ".join(endpoint for node in self._registrations().values() for endpoint in node.endpoints)
        log.info("{count} brokers serve: {endpoints}", count=self._count, endpoints=endpoints)

    def _registrations(self) -> dict[int, BrokerNode]:
        rows = {broker_id: self._row(zk_paths.broker(broker_id)) for broker_id in self._brokers}
        return {broker_id: decode_broker(row.data) for broker_id, row in rows.items() if row is not None}

    def _governed(self) -> dict[int, BrokerNode]:
        """Return the registrations once there is a controller: before, no broker can know it."""
        return {} if self._controller() is None else self._registrations()

    def _row(self, path: str) -> Row | None:
        return None if self._tree is None else self._tree.database.nodes.get(path)

    def _on_process_ended(self, process: BrokerProcess, cause: str) -> None:
        supervised = self._brokers[process.broker_id]
        supervised.process = None
        if self._is_stopping:
            stopped = sum(broker.process is None for broker in self._brokers.values())
            log.info(
                "broker {id} has stopped, {stopped} of {count}", id=supervised.id, stopped=stopped, count=self._count
            )
            supervised.ended.callback(None)
            return
        if not supervised.has_served:
            self._fail(Failure(StartupError(f"broker {process.broker_id} cannot start: {process.last_line or cause}")))
            return
        now = self._reactor.seconds()
        supervised.deaths.append(now)
        if len(supervised.deaths) == _DEATHS_MAX and now - supervised.deaths[0] <= _DEATHS_SECONDS:
            reason = f"broker {process.broker_id} ended {_DEATHS_MAX} times within a minute, now by {cause}"
            self._fail(Failure(StartupError(f"{reason}; its last line: {process.last_line}")))
            return
        log.error("broker {id} has ended by {cause}; it is started again", id=process.broker_id, cause=cause)
        self._end_session(process.broker_id)
        self._spawn(supervised)

    def _end_session(self, broker_id: int) -> Deferred[Any]:
        """End the session of a process that is gone, so that others take over without waiting for its time limit."""
        row = self._row(zk_paths.broker(broker_id))
        ended = None if row is None or self._tree is None else self._tree.factory.end_session(row.owner)
        return succeed(None) if ended is None else ended

    def reload(self) -> None:
        """Let all brokers reload their settings, as SIGHUP does; reopen the log."""
        PROCESS_LOG.reopen()
        for supervised in self._brokers.values():
            if supervised.process is not None:
                supervised.process.reload()

    # -- end ---------------------------------------------------------------------------------------------------------

    def _fail(self, reason: Failure) -> None:
        """End the process with status 1."""
        if self._is_stopping:
            return
        if reason.check(PylogbrokerError):
            log.critical("{reason}", reason=reason.value)
            print(f"pylogbroker: {reason.value}", file=sys.__stderr__)
        else:
            log.failure("the brokers cannot be run", reason)
        self._reactor.addSystemEventTrigger("after", "shutdown", os._exit, 1)
        self._reactor.callLater(0, self._reactor.stop)

    def stopService(self) -> Deferred[None]:
        super().stopService()
        self._is_stopping = True
        return ensureDeferred(self._stop())

    async def _stop(self) -> None:
        if self._announcing is not None:
            self._announcing.cancel()
        controller = self._controller()
        for wave in ([broker_id for broker_id in self._brokers if broker_id != controller], [controller]):
            await self._stop_brokers([self._brokers[broker_id] for broker_id in wave if broker_id in self._brokers])
        self._forks.close()
        for port in self._ports:
            await maybeDeferred(port.stopListening)
        if self._tree is not None:
            self._tree.own_factory.stop()
            self._tree.factory.stop()
            await self._tree.database.close()

    async def _stop_brokers(self, brokers: Sequence[_Supervised]) -> None:
        alive = [broker for broker in brokers if broker.process is not None]
        for supervised in alive:
            if supervised.process is not None:
                supervised.process.stop()
        killing = self._reactor.callLater(STOP_SECONDS_MAX, self._kill, alive)
        await DeferredList([broker.ended for broker in alive])
        if killing.active():
            killing.cancel()

    def _kill(self, brokers: Sequence[_Supervised]) -> None:
        for broker in brokers:
            if broker.process is not None:
                log.error("broker {id} has not stopped within {s:g} s: it is killed", id=broker.id, s=STOP_SECONDS_MAX)
                broker.process.kill()

    def _controller(self) -> int | None:
        row = self._row(zk_paths.CONTROLLER)
        return None if row is None else decode_controller(row.data).broker
