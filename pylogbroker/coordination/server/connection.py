"""One client's connection to the server.

| state      | frame                 | next state                                                           |
|------------|-----------------------|----------------------------------------------------------------------|
| NEW        | connect               | CONNECTING for a new session; CONNECTED for one that goes on; CLOSED |
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
from pylogbroker.coordination import acls
from pylogbroker.coordination.acls import Identity
from pylogbroker.coordination.database import TreeDatabase
from pylogbroker.coordination.server import jute, messages
from pylogbroker.coordination.server.four_letter_words import WORDS, answer_word
from pylogbroker.coordination.server.jute import Malformed
from pylogbroker.coordination.server.login_limit import LoginLimit
from pylogbroker.coordination.server.messages import (
    Auth,
    Change,
    Close,
    Connect,
    Error,
    Multi,
    Ping,
    Request,
)
from pylogbroker.coordination.server.reads import Reads
from pylogbroker.coordination.server.replies import change_body, multi_body
from pylogbroker.coordination.server.sessions import LiveSession, Sessions
from pylogbroker.coordination.server.watch_manager import WatchManager
from pylogbroker.coordination.transactions import TreeEvent, Write, WriteResult
from pylogbroker.interfaces import CoordinationError

log = Logger()
FRAME_BYTES_MAX: Final = 0xFFFFF  # ZooKeeper's jute.maxbuffer
WAITING_MAX: Final = 1000  # requests of a connection, changes under way included; more are not received


@attrs.define(eq=False)
class ServerContext:
    """Parts that connections share; `super_digest` identifies who may do everything.

    With `login_limit`, nobody else is served: the first request must be that login.
    """

    database: TreeDatabase
    sessions: Sessions
    watches: WatchManager
    super_digest: str = ""
    login_limit: LoginLimit | None = None
    connections: set[ServerConnection] = attrs.field(factory=set)  # open ones

    @property
    def requires_super(self) -> bool:
        return self.login_limit is not None


class _State(Enum):
    NEW = auto()
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
        self._has_begun_session = False
        self._waiting: deque[tuple[int, Request]] = deque()
        self._changes = 0  # under way
        self._is_paused = False  # the client does not take its answers
        self._identities: frozenset[Identity] = frozenset()
        self._reads = Reads(context.database, context.watches, self)

    # -- connection --------------------------------------------------------------------------------------------------

    def connectionMade(self) -> None:
        self._context.connections.add(self)
        if self._context.login_limit is not None:
            self._context.login_limit.start(self)
        self._identities = frozenset({("ip", getattr(self.transport.getPeer(), "host", "127.0.0.1"))})
        self.transport.registerProducer(self, True)

    def connectionLost(self, reason: Failure | None = None) -> None:
        self._state = _State.CLOSED
        self._context.connections.discard(self)
        self._context.watches.remove_all(self)
        self._waiting.clear()
        if self._context.login_limit is not None:
            self._context.login_limit.stop(self)
        if self._live is not None:
            self._context.sessions.detach(self._live, self)
            self._end_useless(self._live)

    def expel(self) -> None:
        """Close the connection at once: it has not logged in."""
        self.drop()
        self.transport.abortConnection()

    def _end_useless(self, live: LiveSession) -> None:
        """End a session that began here, and without a login has no use."""
        sessions, session = self._context.sessions, live.session
        if self._has_begun_session and self._lacks_login and sessions.find(session.id, session.password) is live:
            sessions.end(live)

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
            log.warn("{peer}: a frame of {length} bytes; the connection is closed", peer=self._peer, length=length)
        self.drop()

    def stringReceived(self, frame: bytes) -> None:
        try:
            if self._state is _State.NEW:
                self._on_connect(messages.decode_connect(frame))
            elif self._state in (_State.CONNECTING, _State.CONNECTED):
                self._waiting.append(messages.decode(frame))
                self._go_on()
        except Malformed as error:
            log.warn("{peer}: malformed frame ({error}); the connection is closed", peer=self._peer, error=error)
            self.drop()

    @property
    def _peer(self) -> str:
        peer: Any = self.transport.getPeer()
        return f"{getattr(peer, 'host', peer)}:{getattr(peer, 'port', '')}"

    # -- session -----------------------------------------------------------------------------------------------------

    def _on_connect(self, connect: Connect) -> None:
        self._state = _State.CONNECTING
        sessions, seen, last = self._context.sessions, connect.last_zxid_seen, self._context.database.last
        if seen > last:
            log.warn(
                "{peer} has seen transaction {seen}, the last one here is {last}: was the tree replaced?",
                peer=self._peer, seen=seen, last=last,
            )  # fmt: skip
            self.drop()
        elif connect.session_id == 0:
            run_in_background(log, self._begin_session(connect), "no session for {peer}", peer=self._peer)
        elif (live := sessions.find(connect.session_id, connect.password)) is not None:
            self._on_session(live, connect)
        else:
            self._send(messages.connect_answer(0, 0, bytes(16), connect.has_read_only))
            self.drop()

    def _on_session(self, live: LiveSession, connect: Connect) -> None:
        if self._state is _State.CLOSED:
            self._end_useless(live)
            return  # others end with their time limit
        self._state, self._live = _State.CONNECTED, live
        self._context.sessions.attach(live, self)
        session = live.session
        answer = messages.connect_answer(session.timeout_ms, session.id, session.password, connect.has_read_only)
        self._send(answer)
        self._go_on()

    async def _begin_session(self, connect: Connect) -> None:
        try:
            live = await self._context.sessions.create(connect.timeout_ms)
        except CoordinationError as error:
            log.error("no session for {peer}: {error}", peer=self._peer, error=error)
            self.drop()
        else:
            self._has_begun_session = True
            self._on_session(live, connect)

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
            self._reject(xid, live)
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
                self._authenticate(xid, request, live)
            case _:
                error, body = self._reads.answer(request, live.session.id, self._identities)
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

    def _reject(self, xid: int, live: LiveSession) -> None:
        """Answer who has not logged in as the only user here, and end the session."""
        log.warn("{peer}: the login of this server's brokers is missing; the connection is closed", peer=self._peer)
        self._answer(xid, Error.AUTH_FAILED)
        self._context.sessions.end(live)
        self.drop()

    def _authenticate(self, xid: int, auth: Auth, live: LiveSession) -> None:
        if auth.scheme != "digest":
            self._answer(xid, Error.AUTH_FAILED)
            self.drop()
            return
        name = acls.digest(auth.credentials.decode(errors="replace"))
        added: set[Identity] = {("digest", name)}
        if name == self._context.super_digest:
            added.add(acls.SUPER)
            if self._context.login_limit is not None:
                self._context.login_limit.stop(self)
        elif self._context.requires_super:
            self._reject(xid, live)
            return
        self._identities |= added
        self._answer(xid)

    def _answer(self, xid: int, error: Error = Error.OK, body: bytes = b"") -> None:
        self._send(messages.answer(xid, self._context.database.last, error, body))

    def send_event(self, event: TreeEvent) -> None:
        self._send(messages.event(event))
