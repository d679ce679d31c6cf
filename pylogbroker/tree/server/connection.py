"""One client's connection to the server.

| state      | frame                 | next state                                                           |
|------------|-----------------------|----------------------------------------------------------------------|
| NEW        | connect               | CONNECTING for a new session; CONNECTED for one that goes on; CLOSED |
|            |                       | LOGGING_IN for a new one, where a login is required                  |
| LOGGING_IN | the login             | CONNECTING if it is right; CLOSED otherwise, and for other requests  |
| CONNECTING | requests wait         | CONNECTED once the session is on the disk                            |
| CONNECTED  | requests are answered | CLOSING by close; CLOSED by a protocol error or the session's end    |
| CLOSING    | is ignored            | CLOSED once the session's end is answered, after all before it       |

Requests are answered in their order. Changes are passed on at once, one behind the other; a read waits until the
connection's earlier changes are made. A change behind a close would make nodes of a session that has ended, so it is
ignored. Four letters instead of a frame ask for the server's state.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import Any, Final

import attrs
from twisted.internet.interfaces import IPushProducer
from twisted.logger import Logger
from twisted.protocols.basic import Int32StringReceiver
from twisted.python.failure import Failure
from zope.interface import implementer

from pylogbroker.background import run_in_background
from pylogbroker.interfaces import CoordinationError
from pylogbroker.peer_log_limit import PeerLogLimit
from pylogbroker.tree import acls, jute
from pylogbroker.tree.acls import Identity
from pylogbroker.tree.database import TreeDatabase
from pylogbroker.tree.jute import Malformed
from pylogbroker.tree.server import messages
from pylogbroker.tree.server.four_letter_words import WORDS, answer_word
from pylogbroker.tree.server.login_limit import LoginLimit
from pylogbroker.tree.server.messages import (
    Auth,
    Change,
    Close,
    Connect,
    Error,
    Multi,
    Ping,
    Request,
)
from pylogbroker.tree.server.reads import Reads
from pylogbroker.tree.server.replies import change_body, multi_body
from pylogbroker.tree.server.sessions import LiveSession, Sessions
from pylogbroker.tree.server.watch_manager import WatchManager
from pylogbroker.tree.transactions import Session, TreeEvent, Write, WriteResult

log = Logger()
FRAME_BYTES_MAX: Final = 0xFFFFF  # ZooKeeper's jute.maxbuffer
IDENTITIES_MAX: Final = 100  # of a connection
WATCHES_MAX: Final = 100_000  # of a connection that need not log in
WAITING_MAX: Final = 1000  # requests of a connection, changes under way included; more are not received


@attrs.define(eq=False, repr=False)
class ServerContext:
    """Parts that connections share; `super_digest` identifies who may do everything.

    With `requires_super`, nobody else is served: the first request must be that login. Only then the session begins.
    `bad_requests` limits log lines about peers.
    """

    database: TreeDatabase
    sessions: Sessions
    watches: WatchManager
    bad_requests: PeerLogLimit
    login_limit: LoginLimit
    super_digest: str = ""
    requires_super: bool = False
    connections: set[ServerConnection] = attrs.field(factory=set)  # open ones


class _State(Enum):
    NEW = auto()
    LOGGING_IN = auto()
    CONNECTING = auto()
    CONNECTED = auto()
    CLOSING = auto()
    CLOSED = auto()


@implementer(IPushProducer)
class ServerConnection(Int32StringReceiver):
    MAX_LENGTH = FRAME_BYTES_MAX
    transport: Any

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._state = _State.NEW
        self._live: LiveSession | None = None
        self._offered: Session | None = None  # begins with the login
        self._waiting: deque[tuple[int, Request]] = deque()
        self._changes = 0  # under way
        self._is_paused = False  # the client does not take its answers
        self._identities: frozenset[Identity] = frozenset()
        self._reads = Reads(context.database, context.watches, self)

    # -- connection --------------------------------------------------------------------------------------------------

    def connectionMade(self) -> None:
        self._context.connections.add(self)
        self._context.login_limit.start(self)
        self._identities = frozenset({("ip", self._host)})
        self.transport.registerProducer(self, True)

    def connectionLost(self, reason: Failure | None = None) -> None:
        self._state = _State.CLOSED
        self._context.connections.discard(self)
        self._context.watches.remove_all(self)
        self._waiting.clear()
        self._context.login_limit.stop(self)
        if self._live is not None:
            self._context.sessions.detach(self._live, self)

    def expel(self) -> None:
        """Close the connection at once: it has not logged in, or not even begun."""
        self.drop()
        self.transport.abortConnection()

    @property
    def _lacks_login(self) -> bool:
        return self._context.requires_super and acls.SUPER not in self._identities

    def drop(self) -> None:
        if self._state is not _State.CLOSED:
            self._state = _State.CLOSED
            self._context.watches.remove_all(self)
            self.transport.unregisterProducer()  # the transport would wait for a paused one for ever
            self.transport.loseConnection()

    def pauseProducing(self) -> None:
        self._is_paused = True
        self._control_receiving()

    def resumeProducing(self) -> None:
        self._is_paused = False
        self._control_receiving()

    def stopProducing(self) -> None:
        pass

    def _control_receiving(self) -> None:
        if self._is_paused or len(self._waiting) + self._changes > WAITING_MAX:
            self.transport.pauseProducing()
        elif self._state is not _State.CLOSED:
            self.transport.resumeProducing()

    # -- frames ------------------------------------------------------------------------------------------------------

    def lengthLimitExceeded(self, length: int) -> None:
        word = length.to_bytes(4, "big")
        if self._state is _State.NEW and word in WORDS and not self._context.requires_super:
            context = self._context
            answer = answer_word(word, context.database, len(context.connections), len(context.sessions))
            self.transport.write(answer)
        else:
            self._warn("a frame of {length} bytes; the connection is closed", length=length)
        self.drop()

    def stringReceived(self, frame: bytes) -> None:
        try:
            if self._state is _State.NEW:
                self._on_connect(messages.decode_connect(frame))
            elif self._state is _State.LOGGING_IN and self._offered is not None:
                self._on_login(*messages.decode(frame), self._offered)
            elif self._state in (_State.CONNECTING, _State.CONNECTED):
                self._waiting.append(messages.decode(frame))
                self._go_on()
        except Malformed as error:
            self._warn("malformed frame ({error}); the connection is closed", error=error)
            self.drop()

    def _warn(self, what: str, **values: Any) -> None:
        """Log what the peer did; peers can do the same again and again."""
        if self._context.bad_requests.is_due(self._host):
            log.warn(f"{{peer}}: {what}", peer=self._peer, **values)

    @property
    def _host(self) -> str:
        return str(getattr(self.transport.getPeer(), "host", "127.0.0.1"))

    @property
    def _peer(self) -> str:
        peer: Any = self.transport.getPeer()
        return f"{getattr(peer, 'host', peer)}:{getattr(peer, 'port', '')}"

    # -- session -----------------------------------------------------------------------------------------------------

    def _on_connect(self, connect: Connect) -> None:
        self._state = _State.CONNECTING
        if not self._context.requires_super:
            self._context.login_limit.stop(self)
        sessions, seen, last = self._context.sessions, connect.last_zxid_seen, self._context.database.last
        if seen > last:
            self._warn(
                "it has seen transaction {seen}, the last one here is {last}: was the tree replaced?",
                seen=seen,
                last=last,
            )
            self.drop()
        elif connect.session_id == 0 and self._context.requires_super:
            self._state, self._offered = _State.LOGGING_IN, sessions.offer(connect.timeout_ms)
            self._answer_connect(self._offered, connect)
        elif connect.session_id == 0:
            run_in_background(log, self._begin_unnamed(connect), "no session for {peer}", peer=self._peer)
        elif (live := sessions.find(connect.session_id, connect.password)) is not None:
            self._answer_connect(live.session, connect)
            self._on_session(live)
        else:
            self._send(messages.connect_answer(0, 0, bytes(16), connect.has_read_only))
            self.drop()

    def _answer_connect(self, session: Session, connect: Connect) -> None:
        answer = messages.connect_answer(session.timeout_ms, session.id, session.password, connect.has_read_only)
        self._send(answer)

    def _on_session(self, live: LiveSession) -> None:
        self._state, self._live = _State.CONNECTED, live
        self._context.sessions.attach(live, self)
        self._go_on()

    async def _begin_unnamed(self, connect: Connect) -> None:
        """Begin the session of a client that may be anybody, so there are not too many."""
        sessions, host = self._context.sessions, self._host
        if not sessions.may_begin(host):
            self._warn("there are too many sessions; the connection is closed")
            self.drop()
            return
        live = await self._begin(sessions.offer(connect.timeout_ms), host)
        if live is not None:
            self._answer_connect(live.session, connect)
            self._on_session(live)

    async def _begin(self, session: Session, host: str = "") -> LiveSession | None:
        """Return the session once it is on the disk; None if that fails, or the connection has ended meanwhile."""
        try:
            live = await self._context.sessions.begin(session, host)
        except CoordinationError as error:
            self._warn("no session: {error}", error=error)
            self.drop()
            return None
        return None if self._state is _State.CLOSED else live  # it ends with its time limit

    def _on_login(self, xid: int, request: Request, offered: Session) -> None:
        if (
            not isinstance(request, Auth)
            or request.scheme != "digest"
            or _digest(request) != self._context.super_digest
        ):
            self._reject(xid)
        else:
            self._state, self._offered = _State.CONNECTING, None
            self._identities |= {("digest", self._context.super_digest), acls.SUPER}
            self._context.login_limit.stop(self)
            run_in_background(log, self._begin_named(xid, offered), "no session for {peer}", peer=self._peer)

    async def _begin_named(self, xid: int, session: Session) -> None:
        live = await self._begin(session)
        if live is not None:
            self._answer(xid)
            self._on_session(live)

    def _send(self, frame: bytes) -> None:
        self.transport.write(jute.buffer(frame))

    # -- requests ----------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Handle waiting requests, up to a read that must wait for changes."""
        while self._waiting and self._state is _State.CONNECTED and self._live is not None:
            self._context.sessions.touch(self._live)
            xid, request = self._waiting[0]
            is_change = isinstance(request, Change | Multi | Close)
            if self._changes and not is_change and not isinstance(request, Ping):
                break
            self._waiting.popleft()
            self._handle(xid, request, self._live)
        self._control_receiving()

    def _handle(self, xid: int, request: Request, live: LiveSession) -> None:
        if self._lacks_login and not isinstance(request, Auth):
            self._reject(xid)
            return
        match request:
            case Change():
                self._change([request], xid, request, live)
            case Multi():
                self._change(request.changes, xid, request, live)
            case Close():
                self._state = _State.CLOSING
                self._waiting.clear()
                self._context.sessions.end(live).addCallback(self._on_closed, xid)
            case Auth():
                self._authenticate(xid, request)
            case _:
                self._read(xid, request, live)

    def _read(self, xid: int, request: Request, live: LiveSession) -> None:
        error, body = self._reads.answer(request, live.session.id, self._identities)
        if not self._context.requires_super and self._context.watches.count(self) > WATCHES_MAX:
            self._warn("more than {most} watches; the connection is closed", most=WATCHES_MAX)
            self.drop()
        else:
            self._answer(xid, error, body)

    def _change(self, changes: Any, xid: int, request: Change | Multi, live: LiveSession) -> None:
        self._changes += 1
        write = Write([change.operation for change in changes], live.session.id, self._identities)
        self._context.database.write(write).addCallback(self._on_changed, xid, request)

    def _on_changed(self, result: WriteResult, xid: int, request: Change | Multi) -> None:
        self._changes -= 1
        if self._state is _State.CLOSED:
            return
        nodes = self._context.database.nodes
        if isinstance(request, Multi):
            self._answer(xid, Error.OK, multi_body(request.changes, result, nodes))
        elif result.error is not None:
            self._answer(xid, messages.error_of(result.error))
        else:
            [done], [row] = result.results, result.rows
            self._answer(xid, Error.OK, change_body(request.op, done.path, row, nodes))
        self._go_on()

    def _on_closed(self, result: WriteResult, xid: int) -> None:
        if self._state is not _State.CLOSED:
            self._answer(xid)
            self.drop()

    def _reject(self, xid: int) -> None:
        """Answer who has not logged in as the only user here, and end the session, if there is one."""
        self._warn("the login of this server's brokers is missing; the connection is closed")
        self._answer(xid, Error.AUTH_FAILED)
        if self._live is not None:
            self._context.sessions.end(self._live)
        self.drop()

    def _authenticate(self, xid: int, auth: Auth) -> None:
        if len(self._identities) > IDENTITIES_MAX:
            self._warn("more than {most} logins; the connection is closed", most=IDENTITIES_MAX)
            self.drop()
            return
        if auth.scheme != "digest":
            self._answer(xid, Error.AUTH_FAILED)
            self.drop()
            return
        name = _digest(auth)
        added: set[Identity] = {("digest", name)}
        if name == self._context.super_digest:
            added.add(acls.SUPER)
            self._context.login_limit.stop(self)
        elif self._context.requires_super:
            self._reject(xid)
            return
        self._identities |= added
        self._answer(xid)

    def _answer(self, xid: int, error: Error = Error.OK, body: bytes = b"") -> None:
        self._send(messages.answer(xid, self._context.database.last, error, body))

    def send_event(self, event: TreeEvent) -> None:
        self._send(messages.event(event))


def _digest(auth: Auth) -> str:
    return acls.digest(auth.credentials.decode(errors="replace"))
