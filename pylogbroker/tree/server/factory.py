"""The server: connections that share a tree's database, sessions and watches."""

from __future__ import annotations

from copy import copy
from typing import Final

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IReactorTime
from twisted.internet.protocol import Factory
from twisted.logger import Logger

from pylogbroker.peer_log_limit import PeerLogLimit
from pylogbroker.tree.database import TreeDatabase
from pylogbroker.tree.server.connection import ServerConnection, ServerContext
from pylogbroker.tree.server.login_limit import LoginLimit
from pylogbroker.tree.server.sessions import Sessions
from pylogbroker.tree.server.watch_manager import WatchManager
from pylogbroker.tree.transactions import WriteResult

log = Logger()
CONNECTIONS_MAX: Final = 1000


@attrs.frozen
class ServerSettings:
    """`super_digest`: id, in the scheme digest, of who may do everything; empty for nobody."""

    least_timeout_ms: int = 1000
    most_timeout_ms: int = 60_000
    super_digest: str = ""


class ZooKeeperFactory(Factory):
    """Serve a database, which the caller closes after `stop`."""

    noisy = False

    def __init__(self, database: TreeDatabase, clock: IReactorTime, settings: ServerSettings | None = None) -> None:
        settings = settings or ServerSettings()
        self._database = database
        self._clock = clock
        self._watches = WatchManager()
        self._expiries = PeerLogLimit(clock, "{count} more sessions from {host} have expired within a minute")
        self._sessions = Sessions(
            database, clock, settings.least_timeout_ms, settings.most_timeout_ms, self._expiries.is_due
        )
        self._bad_requests = PeerLogLimit(
            clock, "closed {count} more connections to the tree from {host} for bad requests within a minute"
        )
        self._context = self._make_context(settings.super_digest)
        database.listen(lambda result: self._watches.fire(result.events))

    def buildProtocol(self, addr: IAddress | None) -> ServerConnection | None:
        if len(self._context.connections) >= CONNECTIONS_MAX:
            if self._bad_requests.is_due(str(getattr(addr, "host", addr))):
                log.warn("a connection of {peer} is rejected: there are {most}", peer=addr, most=CONNECTIONS_MAX)
            return None
        connection = ServerConnection(self._context)
        connection.factory = self
        return connection

    def restricted(self, super_digest: str) -> ZooKeeperFactory:
        """Return a factory for the same tree, whose clients must log in by this id and then may do everything."""
        factory = copy(self)
        factory._context = self._make_context(super_digest, requires_super=True)
        return factory

    def _make_context(self, super_digest: str, *, requires_super: bool = False) -> ServerContext:
        return ServerContext(
            self._database,
            self._sessions,
            self._watches,
            self._bad_requests,
            LoginLimit(self._clock),
            super_digest,
            requires_super,
        )

    def end_session(self, session_id: int) -> Deferred[WriteResult] | None:
        """End a session whose client is known to be gone; the result, if any, comes once its nodes are deleted."""
        return self._sessions.end_of_gone(session_id)

    def stop(self) -> None:
        """Close all connections; sessions go on when their clients find the server again."""
        self._sessions.stop()
        self._bad_requests.log_suppressed()
        self._expiries.log_suppressed()
        for connection in tuple(self._context.connections):
            connection.drop()
