"""A client's own connection to ZooKeeper, by the setting `zookeeper.connect`.

    zookeeper = zookeeper_of(settings, coordination, reactor)      # None without the setting
    await zookeeper.close()                                        # the client's, at its end

| state     | calls                          | ends by                                               |
|-----------|--------------------------------|-------------------------------------------------------|
| CLOSED    | raise Closed                   |                                                       |
| UNOPENED  | `open` first                   | success: OPEN; failure: UNOPENED, the next call tries |
| OPEN      | go to the tree                 | expiry: EXPIRED; `close`: CLOSED                      |
| EXPIRED   | raise SessionExpired           | a new session, tried again and again: OPEN            |

Settings have the names and defaults of Kafka 0.8's consumers. kazoo is imported when the connection is opened.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

import attrs
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from pylogbroker.background import run_in_background
from pylogbroker.client.errors import Closed, ZooKeeperUnreachable
from pylogbroker.client.single_flight import SingleFlight
from pylogbroker.config import Values
from pylogbroker.errors import ConfigError, StartupError
from pylogbroker.features import on_first_use
from pylogbroker.interfaces import (
    Acl,
    CoordinationError,
    ITree,
    Node,
    Operation,
    OperationResult,
    SessionEvent,
    SessionListener,
    SessionState,
    Stat,
    Watch,
)
from pylogbroker.rpc.retries import Pauses
from pylogbroker.tree.zookeeper_options import ZooKeeperOptions, ZooKeeperServers, parse_connect

if TYPE_CHECKING:
    from pylogbroker.tree import zookeeper
else:
    zookeeper = on_first_use("pylogbroker.tree.zookeeper")

log = Logger()
_ConnectTree = Callable[[ZooKeeperServers, ZooKeeperOptions, Any], Awaitable[ITree]]
_RENEWAL_SECONDS: Final = 1.0  # between attempts to replace an expired session


@implementer(ITree)
@attrs.define(eq=False, repr=False)
class ClientZooKeeper:
    """Tree that the client opens on first use, and closes; an expired session is replaced."""

    _servers: ZooKeeperServers
    _options: ZooKeeperOptions
    _reactor: Any
    _connect: _ConnectTree
    _pauses: Pauses = attrs.field(init=False)
    _opening: SingleFlight = attrs.field(init=False, factory=SingleFlight)
    _connecting: Deferred[ITree] | None = attrs.field(init=False, default=None)
    _tree: ITree | None = attrs.field(init=False, default=None)
    _listeners: list[SessionListener] = attrs.field(init=False, factory=list)
    _is_closed: bool = attrs.field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self._pauses = Pauses(self._reactor)

    @property
    def session_id(self) -> int:
        return 0 if self._tree is None else self._tree.session_id

    @property
    def earlier_sessions(self) -> Sequence[int]:
        return () if self._tree is None else self._tree.earlier_sessions

    async def open(self) -> ITree:
        """Connect, unless that is done; raise ZooKeeperUnreachable, with the reason."""
        if self._is_closed:
            raise Closed("the connection to ZooKeeper is closed")
        if self._tree is None:
            await self._opening.run(self._open)
        assert self._tree is not None
        return self._tree

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._pauses.close()
        if self._connecting is not None:
            self._connecting.cancel()
        await self._opening.over()
        if self._tree is not None:
            await self._tree.close()

    def watch_session(self, listener: SessionListener) -> None:
        """Call the listener also when the first session begins."""
        self._listeners.append(listener)

    async def new_session(self) -> None:
        """Do nothing: an expired session is replaced anyway."""

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        return await (await self.open()).get(path, watch)

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        return await (await self.open()).exists(path, watch)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        return await (await self.open()).children(path, watch)

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        return await (await self.open()).get_many(paths)

    async def children_with_data(self, path: str) -> dict[str, Node]:
        return await (await self.open()).children_with_data(path)

    async def acl(self, path: str) -> tuple[Acl, ...]:
        return await (await self.open()).acl(path)

    async def commit(self, operations: Sequence[Operation]) -> list[OperationResult]:
        return await (await self.open()).commit(operations)

    async def _open(self) -> None:
        self._connecting = ensureDeferred(_awaited(self._connect(self._servers, self._options, self._reactor)))
        try:
            tree = await self._connecting
        except StartupError as error:
            raise ZooKeeperUnreachable(str(error)) from error
        except CancelledError:
            raise Closed("the connection to ZooKeeper is closed") from None
        finally:
            self._connecting = None
        self._tree = tree
        tree.watch_session(self._session_changed)
        self._session_changed(SessionEvent(SessionState.CONNECTED, tree.session_id))

    def _session_changed(self, event: SessionEvent) -> None:
        if self._is_closed:
            return
        if event.state is SessionState.EXPIRED:
            run_in_background(log, self._renew(), "no new session with ZooKeeper was begun")
        for listener in list(self._listeners):
            listener(event)

    async def _renew(self) -> None:
        try:
            await self._pauses.pause(0)  # the tree fails its calls first
            while not await self._has_renewed():
                await self._pauses.pause(_RENEWAL_SECONDS)
        except Closed:
            return

    async def _has_renewed(self) -> bool:
        try:
            await (await self.open()).new_session()
        except CoordinationError:  # the tree logs why
            return False
        return True


def zookeeper_of(settings: Values, coordination: ITree | None, reactor: Any) -> ClientZooKeeper | None:
    """Return the connection that the settings name; raise ConfigError for a bad one, or a second tree."""
    connect = settings.optional_text("zookeeper.connect")
    if connect is None:
        return None
    servers = parse_connect(connect)
    if coordination is not None:
        raise ConfigError("zookeeper.connect: a coordination tree is given, too; leave one of them out")
    wait_ms = settings["zookeeper.connection.timeout.ms"]
    options = ZooKeeperOptions(
        session_timeout=settings.integer("zookeeper.session.timeout.ms") / 1000,
        connection_timeout=wait_ms / 1000 if isinstance(wait_ms, int) else None,
        creates_chroot=False,
    )
    return ClientZooKeeper(servers, options, reactor, _connect_by_kazoo)


async def _connect_by_kazoo(servers: ZooKeeperServers, options: ZooKeeperOptions, reactor: Any) -> ITree:
    """Return a tree of kazoo's once the reactor runs; raise StartupError."""
    connect = zookeeper.ZooKeeperTree.connect
    running: Deferred[None] = Deferred()
    reactor.callWhenRunning(running.callback, None)
    await running
    return await connect(servers, options, reactor, partial(_in_thread, reactor))


def _in_thread(reactor: Any, work: Callable[[], None]) -> Deferred[None]:
    """Work in a daemon thread: one of the reactor's pool would keep a program from ending."""
    done: Deferred[None] = Deferred()

    def run() -> None:
        try:
            work()
        except Exception:
            reactor.callFromThread(done.errback, Failure())
        else:
            reactor.callFromThread(done.callback, None)

    Thread(target=run, name="pylogbroker ZooKeeper", daemon=True).start()
    return done


async def _awaited(connecting: Awaitable[ITree]) -> ITree:
    return await connecting
