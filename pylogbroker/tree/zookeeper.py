"""The coordination tree in ZooKeeper. Importing this module imports kazoo.

| state     | calls                                      | ends by                                             |
|-----------|--------------------------------------------|-----------------------------------------------------|
| STARTING  | raise SessionExpired                       | connection: CONNECTED; timeout or rejection: error  |
| CONNECTED | are sent, up to `in_flight_max` at a time  | lost connection: SUSPENDED; expiry: EXPIRED         |
| SUSPENDED | wait for the connection timeout, then fail | connection: CONNECTED; expiry: EXPIRED              |
| EXPIRED   | raise SessionExpired                       | `new_session`: STARTING                             |
| CLOSED    | raise Unavailable                          |                                                     |

Calls that were sent when the connection was lost raise Unavailable: whether a commit was applied is unknown, and its
caller reads again and compares. kazoo does not set watches again after a reconnection, so all are called then.

ZooKeeper takes transactions of up to 1 MB (`jute.maxbuffer`); it answers a larger one by closing the connection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from importlib import import_module
from math import inf
from typing import Any, Final

import attrs
from kazoo import exceptions as kazoo
from kazoo.client import KazooClient
from kazoo.protocol import serialization
from kazoo.protocol.states import EventType
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import implementer

from pylogbroker.background import run_in_background
from pylogbroker.errors import StartupError
from pylogbroker.extras import required_by
from pylogbroker.interfaces import (
    Acl,
    CoordinationError,
    Delete,
    ITree,
    Node,
    NotEmpty,
    Operation,
    OperationResult,
    Permission,
    SessionEvent,
    SessionExpired,
    SessionListener,
    SessionState,
    Stat,
    Unavailable,
    Watch,
)
from pylogbroker.tree.kazoo_session import InThread, KazooSession, Submission
from pylogbroker.tree.kazoo_values import (
    CONSEQUENCES,
    error_at,
    kazoo_acl,
    operation_error,
    request_of,
    result_of,
    stat_of,
)
from pylogbroker.tree.watches import notify
from pylogbroker.tree.zookeeper_calls import Call, CallQueue, ManyReads, ReadOfMany, SetWatch, SingleCall
from pylogbroker.tree.zookeeper_options import ZooKeeperOptions, ZooKeeperServers, check_tls

log = Logger()
_FIRST_REPORT_SECONDS: Final = 3.0  # of a start, until the log says that ZooKeeper is unreachable
_REPORT_SECONDS: Final = 30.0  # between log lines about that
_PATHS_AT_ONCE: Final = 200


class _State(Enum):
    STARTING = "starting"
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    EXPIRED = "expired"
    CLOSED = "closed"


@implementer(ITree)
@attrs.define(eq=False, repr=False)
class ZooKeeperTree:
    """`in_thread` runs blocking work on another thread. The reactor must run before `connect` is called."""

    _servers: ZooKeeperServers
    _options: ZooKeeperOptions
    _reactor: Any
    _in_thread: InThread
    session_id: int = attrs.field(init=False, default=0)
    earlier_sessions: list[int] = attrs.field(init=False, factory=list)
    _state: _State = attrs.field(init=False, default=_State.STARTING)
    _session: KazooSession = attrs.field(init=False)
    _starting: Deferred[None] = attrs.field(init=False)
    _calls: CallQueue = attrs.field(init=False)
    _connections: int = attrs.field(init=False, default=0)
    _watches: dict[SetWatch, None] = attrs.field(init=False, factory=dict)
    _listeners: list[SessionListener] = attrs.field(init=False, factory=list)
    _timers: list[Any] = attrs.field(init=False, factory=list)
    _logged: dict[str, float] = attrs.field(init=False, factory=dict)
    _is_rejected: bool = attrs.field(init=False, default=False)
    _may_wait: bool = attrs.field(init=False, default=True)

    @_calls.default
    def _no_calls(self) -> CallQueue:
        return CallQueue(self._options.in_flight_max)

    @classmethod
    async def connect(
        cls, servers: ZooKeeperServers, options: ZooKeeperOptions, reactor: Any, in_thread: InThread
    ) -> ZooKeeperTree:
        """Start a session, create a missing chroot if the options say so; raise StartupError or ConfigError.

        An unreachable ZooKeeper is tried again until the connection timeout.
        """
        if options.sasl is not None:
            with required_by("SASL with ZooKeeper"):
                import_module("puresasl")  # kazoo imports it, and would not say what is missing
        if options.tls is not None:
            check_tls(options.tls)
        tree = cls(servers, options, reactor, in_thread)
        try:
            await tree._start()
            await tree._create_chroot()
        except CoordinationError as error:
            await tree.close()
            raise StartupError(f"ZooKeeper at {servers}: {tree._why_not_started(error)}") from error
        except GeneratorExit:  # a collected coroutine must not await
            raise
        except BaseException:
            await tree.close()
            raise
        return tree

    def watch_session(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    async def new_session(self) -> None:
        if self._state is _State.EXPIRED:
            self._state = _State.STARTING
            await self._session.stop()
            if self._state is _State.STARTING:  # not closed meanwhile
                await self._start()

    async def close(self) -> None:
        if self._state is _State.CONNECTED and not self._calls.is_empty:
            self._may_wait = False
            await self._calls.drain()
        was_starting = self._state is _State.STARTING
        self._state = _State.CLOSED
        self._cancel_timers()
        self._watches.clear()
        self._listeners.clear()
        self._calls.fail_all(Unavailable)
        if was_starting and not self._starting.called:
            self._starting.errback(Unavailable(f"{self._servers} (closed)"))
        await self._session.stop()

    # reads

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        data, stat = await self._read(path, KazooClient.get_async, watch)
        return Node(data, stat_of(stat))

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        stat = await self._read(path, KazooClient.exists_async, watch)
        return None if stat is None else stat_of(stat)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        return sorted(await self._read(path, KazooClient.get_children_async, watch))

    async def acl(self, path: str) -> tuple[Acl, ...]:
        acls, _stat_of_node = await self._call(path, lambda client: client.get_acls_async(self._absolute(path)))
        return tuple(Acl(acl.id.scheme, acl.id.id or "", Permission(acl.perms)) for acl in acls)

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        nodes: list[Node | None] = []
        for start in range(0, len(paths), _PATHS_AT_ONCE):  # others' calls are sent in between
            some = paths[start : start + _PATHS_AT_ONCE]
            many = ManyReads([None] * len(some), len(some))
            for index, path in enumerate(some):
                self._submit(ReadOfMany.of(path, self._absolute(path), many, index))
            nodes += await many.done
        return nodes

    async def children_with_data(self, path: str) -> dict[str, Node]:
        names = await self.children(path)
        prefix = "" if path == "/" else path
        nodes = await self.get_many([f"{prefix}/{name}" for name in names])
        return {name: node for name, node in zip(names, nodes, strict=True) if node is not None}

    def _read(self, path: str, method: Callable[..., Any], watch: Watch | None = None) -> Deferred[Any]:
        absolute = self._absolute(path)
        if watch is None:
            return self._call(path, lambda client: method(client, absolute))
        set_watch, session = SetWatch(path, watch), self._session

        def notified(event: Any) -> None:  # in kazoo's thread
            if event.type != EventType.NONE:
                session.post(partial(self._fire, set_watch))

        return self._call(path, lambda client: method(client, absolute, notified), set_watch)

    # commits

    async def commit(self, operations: Sequence[Operation]) -> list[OperationResult]:
        if not operations:
            return []
        if any(isinstance(operation, Delete) and operation.path == "/" for operation in operations):
            raise NotEmpty("/")  # with a chroot, ZooKeeper could do it
        default_acl = self._options.default_acl
        requests = [request_of(operation, self._absolute(operation.path), default_acl) for operation in operations]
        answers = await self._call(operations[0].path, partial(_transaction, requests))
        for operation, answer in zip(operations, answers, strict=True):
            if isinstance(answer, Exception) and not isinstance(answer, CONSEQUENCES):
                raise operation_error(operation, answer)
        chroot_length = len(self._servers.chroot)
        return [result_of(*answered, chroot_length) for answered in zip(operations, answers, strict=True)]

    def _absolute(self, path: str) -> str:
        return self._servers.chroot + path if path != "/" else self._servers.chroot or "/"

    async def _create_chroot(self) -> None:
        if await self.exists("/") is not None:
            return
        if not self._options.creates_chroot:
            raise StartupError(
                f"ZooKeeper at {self._servers.hosts} has no node {self._servers.chroot}: check the path at the end of "
                "zookeeper.connect"
            )
        names = self._servers.chroot.split("/")[1:]
        acls = list(map(kazoo_acl, self._options.default_acl("/")))
        for length in range(1, len(names) + 1):
            path = "/" + "/".join(names[:length])
            requests = [serialization.Create(path, None, acls, 0)]
            [answer] = await self._call(path, partial(_transaction, requests))
            if isinstance(answer, Exception) and not isinstance(answer, kazoo.NodeExistsError):
                raise error_at(path, answer)

    # calls

    def _call(self, path: str, submission: Submission, watch: SetWatch | None = None) -> Deferred[Any]:
        call = SingleCall(path, submission, watch)
        self._submit(call)
        return call.done

    def _submit(self, call: Call) -> None:
        if self._state in (_State.EXPIRED, _State.STARTING):
            call.fail(SessionExpired(call.path))
        elif self._state is _State.CLOSED or not self._may_wait:
            call.fail(Unavailable(f"{call.path} (no connection to ZooKeeper)"))
        else:
            self._calls.add(call)
            self._send()

    def _send(self) -> None:
        while self._state is _State.CONNECTED and (call := self._calls.send_next(self._connections)) is not None:
            self._session.submit(call.submission, partial(self._answered, call))

    def _answered(self, call: Call, value: Any, error: Exception | None) -> None:
        connection = self._calls.remove(call)
        if connection is None:
            return  # failed before, at the end of the session or of its timeout
        if isinstance(error, kazoo.ConnectionLoss) and connection == self._connections:
            self.suspended()  # kazoo reports that next, and until then it would fail new calls
        if error is not None:
            call.fail(error_at(call.path, error))
        else:
            if call.watch is not None:
                self._watches[call.watch] = None
            call.succeed(value)
        self._send()
        self._calls.check_idle()

    def _fire(self, set_watch: SetWatch) -> None:
        if set_watch in self._watches:
            del self._watches[set_watch]
            notify([set_watch.watch], set_watch.path)

    # the session

    async def _start(self) -> None:
        self._state = _State.STARTING
        self._starting = Deferred()
        self._session = KazooSession(self._servers, self._options, self._reactor, self._in_thread, self)
        self._session.start()
        self._report_after(_FIRST_REPORT_SECONDS)
        seconds = self._options.connection_seconds
        self._timers.append(self._reactor.callLater(seconds, self._start_timed_out))
        try:
            await self._starting
        except GeneratorExit:  # a collected coroutine must not await
            self._start_failed()
            raise
        except BaseException:
            self._start_failed()
            await self._session.stop()
            raise

    def _start_failed(self) -> None:
        self._cancel_timers()
        if self._state is _State.STARTING:
            self._state = _State.EXPIRED

    def _start_timed_out(self) -> None:
        self._starting.errback(
            Unavailable(
                f"not connected within {self._options.connection_seconds:g} s ({self._session.last_problem}): "
                "check that it runs, and zookeeper.connect"
            )
        )

    def connected(self, session_id: int) -> None:
        was_starting = self._state is _State.STARTING
        self.session_id = session_id
        self._connections += 1
        self._state = _State.CONNECTED
        self._may_wait = not self._calls.is_draining
        self._cancel_timers()
        if was_starting or self._is_due("connected"):
            log.info(
                "connected to ZooKeeper at {servers}, session {id:#x}", servers=self._servers, id=unsigned(session_id)
            )
        self._notify(SessionState.CONNECTED)
        if was_starting:
            self._starting.callback(None)
        for set_watch in list(self._watches):  # changes may have been missed
            self._fire(set_watch)
        self._send()

    def suspended(self) -> None:
        if self._state is not _State.CONNECTED:
            return
        self._state = _State.SUSPENDED
        if self._is_due("suspended"):
            log.warn("lost the connection to ZooKeeper at {servers}: trying again", servers=self._servers)
        if self._calls.is_draining:  # closing
            self._calls.fail_all(Unavailable)
            return
        self._report_after(_REPORT_SECONDS)
        self._timers.append(self._reactor.callLater(self._options.connection_seconds, self._stop_waiting))
        self._notify(SessionState.SUSPENDED)

    def ended(self, is_rejected: bool) -> None:
        was_starting = self._state is _State.STARTING
        self._is_rejected = is_rejected
        self._state = _State.EXPIRED
        self._cancel_timers()
        self._watches.clear()
        if was_starting:
            self._starting.errback(Unavailable(self._session.last_problem))
            return
        self.earlier_sessions.append(self.session_id)
        log.warn(
            "session {id:#x} with ZooKeeper at {servers} has ended, and with it its ephemeral nodes",
            id=unsigned(self.session_id),
            servers=self._servers,
        )
        ended = self._session  # a listener may start another
        self._notify(SessionState.EXPIRED)
        self._calls.fail_all(SessionExpired)
        run_in_background(log, ended.stop(), "the connection of an ended session was not closed")

    def _why_not_started(self, error: CoordinationError) -> str:
        if self._is_rejected:
            return "the login was rejected: check user name and password"
        return error.path if isinstance(error, Unavailable) else f"the chroot cannot be created: {error}"

    def _notify(self, state: SessionState) -> None:
        for listener in list(self._listeners):
            try:
                listener(SessionEvent(state, self.session_id))
            except Exception:  # other listeners must be called
                log.failure("a listener of the session with ZooKeeper failed")

    def _stop_waiting(self) -> None:
        self._may_wait = False
        self._calls.fail_all(Unavailable)

    def _report_after(self, seconds: float) -> None:
        self._timers = [timer for timer in self._timers if timer.active()]
        self._timers.append(self._reactor.callLater(seconds, self._report))

    def _report(self) -> None:
        log.warn(
            "ZooKeeper at {servers} is unreachable: {problem}; trying again. Check that it runs, and zookeeper.connect",
            servers=self._servers,
            problem=self._session.last_problem,
        )
        self._report_after(_REPORT_SECONDS)

    def _is_due(self, about: str) -> bool:
        """Limit log lines: a connection may be lost many times."""
        now = self._reactor.seconds()
        is_due: bool = now - self._logged.get(about, -inf) >= _REPORT_SECONDS
        if is_due:
            self._logged[about] = now
        return is_due

    def _cancel_timers(self) -> None:
        for timer in self._timers:
            if timer.active():
                timer.cancel()
        self._timers.clear()


def unsigned(session_id: int) -> int:
    """Return a session's number as ZooKeeper writes it; kazoo has it with a sign."""
    return session_id % (1 << 64)


def _transaction(requests: Sequence[Any], client: KazooClient) -> Any:
    transaction = client.transaction()
    transaction.operations.extend(requests)  # its methods do not take null data
    return transaction.commit_async()
