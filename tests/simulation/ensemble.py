"""Simulated ZooKeeper: a tree, sessions that expire, and the connections of brokers.

`SimulatedSession` takes the place of the product's `KazooSession`. The requests that kazoo would send go to the model,
in their order. Answers and watch events come back in the server's order.

| fault            | what happens                                                                        |
|------------------|-------------------------------------------------------------------------------------|
| loss             | answers are lost, requests perhaps too: their outcome is unknown; then reconnection |
| cut, pause       | the session expires, unless it is heard of within its timeout                       |
| expiry           | ephemeral nodes go at once, the client hears of it when it is reached               |
| late answers     | watch events, too: others have acted on the change meanwhile                        |
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import attrs
from kazoo import exceptions as kazoo
from kazoo.client import KazooClient, TransactionRequest
from kazoo.protocol import serialization
from kazoo.protocol.states import EventType, WatchedEvent, ZnodeStat
from kazoo.security import OPEN_ACL_UNSAFE
from twisted.internet.defer import Deferred

from pylogbroker.interfaces import (
    BadVersion,
    Check,
    CoordinationError,
    Create,
    Delete,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    OperationResult,
    SetData,
    Stat,
)
from tests.controller.memory_tree import MemoryTree, parent_of
from tests.simulation.network import Network
from tests.simulation.world import Process

HOST: Final = "zookeeper"
_TICK_SECONDS: Final = 0.25
_CONNECT_SECONDS: Final = 0.3
_CLOSE_SECONDS_MAX: Final = 2.0
_EPHEMERAL: Final = 1
_SEQUENCE: Final = 2
_ERRORS: Final[dict[type[CoordinationError], type[Exception]]] = {
    NoNode: kazoo.NoNodeError,
    NodeExists: kazoo.NodeExistsError,
    BadVersion: kazoo.BadVersionError,
    NotEmpty: kazoo.NotEmptyError,
    NoChildrenForEphemerals: kazoo.NoChildrenForEphemeralsError,
}
Watcher = Callable[[WatchedEvent], object]


@attrs.define(eq=False)
class ServerSession:
    number: int
    timeout: float
    last_heard: float
    client: SimulatedSession
    is_expired: bool = False
    node_watches: dict[str, list[Watcher]] = attrs.field(factory=dict)
    children_watches: dict[str, list[Watcher]] = attrs.field(factory=dict)

    def forget_watches(self) -> None:
        self.node_watches.clear()
        self.children_watches.clear()


@attrs.define(eq=False)
class Ensemble:
    network: Network
    late_share: float = 0.0
    """Share of answers that come up to `late_seconds` later."""
    late_seconds: float = 1.0
    tree: MemoryTree = attrs.field(init=False)
    sessions: dict[int, ServerSession] = attrs.field(factory=dict, init=False)
    _unaware: dict[int, ServerSession] = attrs.field(factory=dict, init=False)
    """Expired sessions whose clients have a connection: the server closes it."""
    _sessions_made: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        world = self.network.world
        self.tree = MemoryTree(now_ms=lambda: int(world.now * 1000))
        world.call_later(_TICK_SECONDS, self._tick)

    def open_session(self, client: SimulatedSession, timeout: float) -> ServerSession:
        self._sessions_made += 1
        session = ServerSession(self._sessions_made, timeout, self.network.world.now, client)
        self.sessions[session.number] = session
        return session

    @property
    def is_undisturbed(self) -> bool:
        """All clients are connected, and know if their sessions have ended."""
        return not self._unaware and all(session.client.is_connected for session in self.sessions.values())

    def expire(self, session: ServerSession) -> None:
        """End a session; its client hears of it at its next contact."""
        if not session.is_expired:
            session.is_expired = True
            del self.sessions[session.number]
            self._unaware[session.number] = session
            session.forget_watches()
            owned = [path for path, entry in self.tree.entries.items() if entry.owner == session.number]
            for path in owned:
                self._commit([Delete(path)], session.number)

    def serve(self, session: ServerSession, request: Any) -> Any:
        """Return the answer to one of kazoo's requests; raise one of kazoo's errors."""
        if session.is_expired:
            raise kazoo.SessionExpiredError
        match request:
            case serialization.Transaction():
                return self._transaction(session, request.operations)
            case serialization.Exists():
                _watch(session.node_watches, request)
                node = self.tree.node(request.path)
                return None if node is None else _znode_stat(node.stat)
        node = self.tree.node(request.path)
        if node is None:
            raise kazoo.NoNodeError
        match request:
            case serialization.GetData():
                _watch(session.node_watches, request)
                return node.data, _znode_stat(node.stat)
            case serialization.GetChildren():
                _watch(session.children_watches, request)
                return self.tree.names(request.path)
            case serialization.GetACL():
                return OPEN_ACL_UNSAFE, _znode_stat(node.stat)
        raise NotImplementedError(type(request))

    def _transaction(self, session: ServerSession, requests: Sequence[Any]) -> list[Any]:
        operations = list(map(_operation, requests))
        try:
            results = self._commit(operations, session.number)
        except CoordinationError as error:
            before = self.tree.failed
            rest = len(operations) - before - 1
            failed = _ERRORS[type(error)]()
            return [kazoo.RolledBackError()] * before + [failed] + [kazoo.RuntimeInconsistency()] * rest
        return list(map(_answer, operations, results))

    def _commit(self, operations: Sequence[Operation], owner: int) -> list[OperationResult]:
        results = self.tree.apply(operations, owner)
        for operation, result in zip(operations, results, strict=True):
            path = result.path
            if not isinstance(operation, Check):
                self._changed(path, "node_watches")
            if isinstance(operation, Delete):
                self._changed(path, "children_watches")
            if isinstance(operation, Create | Delete):
                self._changed(parent_of(path), "children_watches")
        return results

    def _changed(self, path: str, kind: str) -> None:
        for session in self.sessions.values():
            for watcher in getattr(session, kind).pop(path, ()):
                session.client.notify(session, partial(watcher, WatchedEvent(EventType.CHANGED, "CONNECTED", path)))

    def is_reached_by(self, process: Process) -> bool:
        network, host = self.network, process.host
        return process.is_running and network.reaches(host, HOST) and network.reaches(HOST, host)

    def delay(self) -> float:
        rng = self.network.world.rng
        late = rng.random() * self.late_seconds if self.late_share and rng.random() < self.late_share else 0.0
        return self.network.delay() + late

    def _tick(self) -> None:
        """Hear the pings of clients, and expire sessions without any; close connections."""
        world = self.network.world
        world.call_later(_TICK_SECONDS, self._tick)
        for session in tuple(self.sessions.values()):
            client = session.client
            if client.is_connected and self.is_reached_by(client.process):
                session.last_heard = world.now
            elif world.now - session.last_heard > session.timeout:
                self.expire(session)
            elif client.is_connected and world.now - session.last_heard > session.timeout * 2 / 3:
                client.lose()
        for number, session in tuple(self._unaware.items()):
            if not session.client.is_connected:
                del self._unaware[number]
            elif self.is_reached_by(session.client.process):
                session.client.lose()


def _watch(watches: dict[str, list[Watcher]], request: Any) -> None:
    if request.watcher is not None:
        watches.setdefault(request.path, []).append(request.watcher)


def _operation(request: Any) -> Operation:
    match request:
        case serialization.Create():
            flags = request.flags
            return Create(request.path, request.data, bool(flags & _EPHEMERAL), bool(flags & _SEQUENCE))
        case serialization.SetData():
            return SetData(request.path, request.data, request.version)
        case serialization.Delete():
            return Delete(request.path, request.version)
        case serialization.CheckVersion():
            return Check(request.path, request.version)
    raise NotImplementedError(type(request))


def _answer(operation: Operation, result: OperationResult) -> Any:
    if isinstance(operation, Create):
        return result.path
    return True if result.stat is None else _znode_stat(result.stat)


def _znode_stat(stat: Stat) -> ZnodeStat:
    return ZnodeStat(
        stat.created,
        stat.modified,
        stat.created_ms,
        stat.created_ms,
        stat.version,
        stat.children_version,
        0,
        stat.owner,
        0,
        0,
        0,
    )


class _Result:
    """Result of one request, as kazoo has them."""

    def __init__(self) -> None:
        self.value: Any = None
        self.exception: Exception | None = None
        self._answered: Callable[[Any], object]

    def rawlink(self, answered: Callable[[Any], object]) -> None:
        self._answered = answered

    def set(self, value: Any) -> None:
        self.value = value
        self._answered(self)

    def set_exception(self, error: Exception) -> None:
        self.exception = error
        self._answered(self)


class _Handler:
    async_result = _Result


class _Client(KazooClient):  # type: ignore[misc]
    """kazoo's methods, without its connection."""

    def __init__(self, send: Callable[[Any, _Result], object]) -> None:
        self.chroot = ""
        self.handler = _Handler()
        self.default_acl = None
        self._send = send

    def transaction(self) -> TransactionRequest:
        return TransactionRequest(self)

    def _call(self, request: Any, async_object: _Result) -> None:
        self._send(request, async_object)


class SimulatedSession:
    """A session of one process; the arguments but the first are those of `KazooSession`."""

    last_problem = "no answer"

    def __init__(
        self, ensemble: Ensemble, servers: object, options: Any, reactor: Any, in_thread: object, owner: Any
    ) -> None:
        self.process: Process = reactor.process
        self.is_connected = False
        self._ensemble = ensemble
        self._timeout: float = options.session_timeout
        self._owner = owner
        self._client = _Client(self._send)
        self._session: ServerSession | None = None
        self._connection = 0
        self._is_stopped = False
        self._in_flight: dict[_Result, None] = {}
        self._held: deque[Callable[[], None]] = deque()
        self._to_server = self._to_client = 0.0

    def start(self) -> None:
        self.process.reactor.callLater(self._ensemble.delay(), self._connect)

    def submit(self, submission: Callable[[Any], Any], answer: Callable[[Any, Exception | None], object]) -> None:
        result = submission(self._client)
        result.rawlink(lambda done: answer(done.value, done.exception))

    def post(self, call: Callable[[], object]) -> None:
        self.process.reactor.callFromThread(call)

    def stop(self) -> Deferred[None]:
        """Let the server end the session, if it is reached in time."""
        done: Deferred[None] = Deferred()
        if self._is_stopped or not self.is_connected:
            self._is_stopped = True
            done.callback(None)
            return done
        self._is_stopped = True
        self._in_order(self._end_at_server, done)
        self.process.reactor.callLater(_CLOSE_SECONDS_MAX, _fire, done)
        return done

    def _end_at_server(self, done: Deferred[None]) -> None:
        assert self._session is not None
        self._ensemble.expire(self._session)
        self.is_connected = False
        self.process.reactor.callLater(self._ensemble.delay(), _fire, done)

    # requests

    def _send(self, request: Any, result: _Result) -> None:
        self._in_flight[result] = None
        self.process.world.note(f"{self.process.name} {type(request).__name__}\n")
        self._in_order(self._serve, request, result)

    def _in_order(self, call: Callable[..., None], *arguments: Any) -> None:
        """Call at the server, after all that was sent before on this connection."""
        world, ensemble = self.process.world, self._ensemble
        self._to_server = max(self._to_server, world.now + ensemble.network.delay())
        world.call_later(self._to_server - world.now, self._arrived, self._connection, partial(call, *arguments))

    def _arrived(self, connection: int, call: Callable[[], None]) -> None:
        if connection != self._connection:
            return
        if self._held or not self._ensemble.network.reaches(self.process.host, HOST):
            self._held.append(call)
            if len(self._held) == 1:
                self._retry(connection)
        else:
            call()

    def _retry(self, connection: int) -> None:
        self.process.world.call_later(_TICK_SECONDS, self._arrive_again, connection)

    def _arrive_again(self, connection: int) -> None:
        if connection != self._connection:
            return
        if not self._ensemble.network.reaches(self.process.host, HOST):
            self._retry(connection)
            return
        while self._held:
            self._held.popleft()()

    def _serve(self, request: Any, result: _Result) -> None:
        session = self._session
        assert session is not None
        try:
            value = self._ensemble.serve(session, request)
        except kazoo.SessionExpiredError:
            self._answer(self._expired, session)
        except kazoo.ZookeeperError as error:
            self._answer(self._finish, result, None, error)
        else:
            self._answer(self._finish, result, value, None)

    def notify(self, session: ServerSession, call: Callable[[], object]) -> None:
        if session is self._session and self.is_connected:
            self._answer(call)

    def _answer(self, call: Callable[..., object], *arguments: Any) -> None:
        """Call in the process, after all earlier answers."""
        world = self.process.world
        self._to_client = max(self._to_client, world.now + self._ensemble.delay())
        delay = self._to_client - world.now
        self.process.reactor.callLater(delay, self._answered, self._connection, partial(call, *arguments))

    def _answered(self, connection: int, call: Callable[[], object]) -> None:
        if connection == self._connection:
            if self._ensemble.network.reaches(HOST, self.process.host):
                call()
            else:
                self._connection_lost()

    def _finish(self, result: _Result, value: Any, error: Exception | None) -> None:
        self._in_flight.pop(result, None)
        if error is None:
            result.set(value)
        else:
            result.set_exception(error)

    # connections

    def lose(self) -> None:
        """Cut the connection, as the client notices when it runs."""
        self.process.reactor.callLater(0, self._answered_lost, self._connection)

    def _answered_lost(self, connection: int) -> None:
        if connection == self._connection:
            self._connection_lost()

    def _connection_lost(self) -> None:
        self._disconnect()
        self._owner.suspended()
        self.process.reactor.callLater(_CONNECT_SECONDS, self._connect)

    def _disconnect(self) -> None:
        self._connection += 1
        self.is_connected = False
        self._held.clear()
        if self._session is not None:
            self._session.forget_watches()
        in_flight, self._in_flight = self._in_flight, {}
        for result in in_flight:
            self.process.reactor.callFromThread(result.set_exception, kazoo.ConnectionLoss())

    def _connect(self) -> None:
        if self._is_stopped or self.is_connected:
            return
        if not self._ensemble.is_reached_by(self.process):
            self.process.reactor.callLater(_CONNECT_SECONDS, self._connect)
            return
        if self._session is None:
            self._session = self._ensemble.open_session(self, self._timeout)
        if self._session.is_expired:
            self._expired(self._session)
            return
        self.is_connected = True
        self._session.last_heard = self.process.world.now
        self._to_server = self._to_client = self.process.world.now
        self._owner.connected(self._session.number)

    def _expired(self, session: ServerSession) -> None:
        if not self._is_stopped:
            self._is_stopped = True
            self._disconnect()
            self._owner.ended(False)


def _fire(done: Deferred[None]) -> None:
    if not done.called:
        done.callback(None)
