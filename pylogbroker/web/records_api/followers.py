"""Connections that follow a topic: server-sent events and WebSockets.

    id: 0:18,1:4
    data: {"topic":"T","records":[...],"next":"0:18,1:4"}

A WebSocket has the same data in its messages. The browser sends the last id when it connects again (`Last-Event-ID`),
so no record is missed and none comes twice.

Once the request is answered, the connection belongs to a follower, and the objects of HTTP are released. A follower has
no buffer: it sends from the feed's chunks, which all followers share, and goes on when the connection takes more.

    state      event      next     meaning
    ---------  ---------  -------  ----------------------------------------------------------
    WAITING    CONNECTED  BEHIND   the connection is the follower's
    BEHIND     CAUGHT_UP  AT_HEAD  its positions are those of a chunk's end that the feed has
    AT_HEAD    TOO_LATE   BEHIND   the feed has dropped chunks that it has not sent
    any        ENDED      OVER     the connection is lost, or the feed has ended

Whether the connection takes more is apart from that: in BEHIND it reads nothing meanwhile, in AT_HEAD it sends nothing.
"""

from __future__ import annotations

import json
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, TypedDict

import attrs
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.interfaces import IProtocol, IPullProducer
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from pylogbroker.background import run_in_background
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.extras import MissingExtra, required_by
from pylogbroker.features import on_first_use
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.follower_counts import EndedBy
from pylogbroker.web.offsets import offsets_at
from pylogbroker.web.records_api.calls import HttpCall
from pylogbroker.web.records_api.errors import Rejected
from pylogbroker.web.records_api.feeds import (
    CHUNK_CHARACTERS_MAX,
    PARTITIONS_MAX,
    Feed,
    feed_key,
    payload_of,
    too_many_partitions,
)
from pylogbroker.web.records_api.fetching import MemberForm, PieceSelection, out_of_range, read_piece
from pylogbroker.web.records_api.framing import EVENT_FRAMING, Framing
from pylogbroker.web.records_api.news import PASSING, REMOTE_SECONDS, sleep
from pylogbroker.web.records_api.positions import EARLIEST, LATEST, Positions, resolve
from pylogbroker.web.router import BadRequest
from pylogbroker.web.router.routes import EVENTS
from pylogbroker.web.router.values import NUMBER_MAX
from pylogbroker.web.site import CheckedRequest
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.list_offsets import LATEST as END_OFFSET

if TYPE_CHECKING:
    from pylogbroker.web.records_api import websockets
else:
    websockets = on_first_use("pylogbroker.web.records_api.websockets")

log = Logger()

_PASSED_ON: Final = (b"access-control-allow-origin", b"access-control-allow-credentials", b"vary")
"""Headers of the answer that are set before."""
_EVENT_HEAD: Final = (
    b"HTTP/1.1 200 OK",
    b"Content-Type: text/event-stream",
    b"Cache-Control: no-store",
    b"Connection: close",
    b"X-Content-Type-Options: nosniff",
    b"X-Accel-Buffering: no",  # proxies would keep events until they have many
)
_RETRY_MS: Final = 1000
_RETRY_LATER_MS: Final = 3000
_DONE: Final[Deferred[Any]] = succeed(None)
"""Stands for work that is over."""


class FollowedRecords(TypedDict):
    """Data of an event, and a message of a WebSocket: `next` is the id of the event."""

    topic: str
    records: list[dict[str, Any]]
    next: str


class FollowingState(Enum):
    WAITING = auto()
    BEHIND = auto()
    AT_HEAD = auto()
    OVER = auto()


def wants_to_follow(request: CheckedRequest) -> bool:
    if request.method == b"HEAD":  # it is answered without a body
        return False
    return is_websocket(request) or EVENTS in (request.getHeader("accept") or "")


def wants_events(request: CheckedRequest) -> bool:
    return wants_to_follow(request) and not is_websocket(request)


def is_websocket(request: CheckedRequest) -> bool:
    return (request.getHeader("upgrade") or "").lower() == "websocket"


async def follow(
    call: HttpCall, topic: str, positions: Positions, form: MemberForm, *, is_new: bool, has_all: bool
) -> None:
    """Let the connection follow a topic; raise Rejected or KafkaError.

    A follower of new records begins at the head of the feed. One of all partitions gets those that are added.
    """
    request, visitor = call.request, call.visitor
    if len(positions) > PARTITIONS_MAX:
        raise BadRequest(too_many_partitions(topic))
    framing: Framing = EVENT_FRAMING
    if is_websocket(request):
        call.rules.check_page(request)
        head, framing = _websocket(request)
    else:
        head = _event_head(request)
    key = feed_key(topic, positions, form, has_all)
    begun = call.shared.feeds.find(key)
    ends = positions
    if begun is not None:
        ends = begun.positions
    elif not is_new:
        ends = await resolve(visitor, topic, [*positions], LATEST, "from")
    if not is_new and any(offset > ends.get(index, 0) for index, offset in positions.items()):
        await _check_ends(visitor, topic, positions)
    feed = call.shared.feeds.feed(visitor.services, key, ends)
    if is_new:
        positions = feed.positions
    transport, connections = request.channel.transport, request.channel.site.connections
    following = feed.text_of(positions)
    head += framing.opening(payload_of(topic, (), following), following)
    follower = ConnectionFollower(visitor, transport, feed, framing, head, positions)
    feed.add(follower)
    # not at once: to lose its request would cancel this coroutine
    visitor.services.runtime.clock.callLater(0, connections.switch, transport, follower)


async def _check_ends(visitor: Visitor, topic: str, positions: Positions) -> None:
    """Raise KafkaError for a position beyond the end of its partition."""
    ends = await offsets_at(visitor, [(topic, index) for index in positions], END_OFFSET)
    for (_, index), end in ends.items():
        if positions[index] > end:
            raise out_of_range(topic, index, positions[index], None, end)


def _websocket(request: CheckedRequest) -> tuple[bytes, Framing]:
    """Return the answer to a handshake, and the form of events; raise Rejected."""
    try:
        with required_by("A WebSocket"):
            head: bytes = websockets.handshake(request, answer_headers(request))
            framing: Framing = websockets.FRAMING
    except MissingExtra as error:
        raise Rejected(501, f"{error}. Server-sent events need nothing: Accept: {EVENTS}") from None
    return head, framing


def _event_head(request: CheckedRequest) -> bytes:
    head = b"\r\n".join([*_EVENT_HEAD, *answer_headers(request)])
    return head + b"\r\n\r\nretry: %d\n" % _RETRY_MS


def retry_later(reason: str) -> bytes:
    """Return a body of events for what fails now: browsers connect again after it, and after no other status."""
    return b"retry: %d\n: %s\n\n" % (_RETRY_LATER_MS, " ".join(reason.split()).encode(errors="replace"))


def answer_headers(request: CheckedRequest) -> list[bytes]:
    return [
        b"%s: %s" % (name, value) for name in _PASSED_ON for value in request.responseHeaders.getRawHeaders(name, ())
    ]


@implementer(IProtocol, IPullProducer)
@attrs.define(eq=False, repr=False)
class ConnectionFollower:
    """Sends the events of a feed to a connection, which is its own."""

    _visitor: Visitor
    _transport: Any
    _feed: Feed
    _framing: Framing
    _pending: bytes
    """Bytes that are being sent, with those that are; at first the head of the answer."""
    positions: Positions
    parser: Any = attrs.field(default=None, init=False)
    """State of the framing that reads what the client sends."""
    _sent: int = attrs.field(default=0, init=False)
    """Number of the pending bytes that are sent."""
    _next: int = attrs.field(default=-1, init=False)
    """Number of the feed's chunk that comes next, at the head."""
    _state: FollowingState = attrs.field(default=FollowingState.WAITING, init=False)
    _is_taking: bool = attrs.field(default=False, init=False)
    _sent_at: float = attrs.field(default=0.0, init=False)
    _throttled_until: float = attrs.field(default=0.0, init=False)
    _resumed: Deferred[Any] = attrs.field(default=_DONE, init=False)
    """Called back when the connection takes more."""
    _reading: Deferred[Any] = attrs.field(default=_DONE, init=False)
    """Work that catches up."""

    # -- the connection ---------------------------------------------------------------------------------------------

    def makeConnection(self, transport: Any) -> None:
        if self._state is FollowingState.OVER:
            transport.loseConnection()
            return
        self._state = FollowingState.BEHIND
        transport.registerProducer(self, False)
        if not self._is_taking:
            self.resumeProducing()
        self._begin_catching_up()

    def connectionMade(self) -> None:
        """Do nothing: `makeConnection` has begun."""

    def dataReceived(self, data: bytes) -> None:
        self._framing.received(self, data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._leave("client")
        self._feed.remove(self)

    def resumeProducing(self) -> None:
        """Send what is pending, and what has come since: the connection takes more."""
        self._is_taking = True
        self._flush()
        if self._is_taking:
            if not self._resumed.called:
                self._resumed.callback(None)
            self.send_new()

    def stopProducing(self) -> None:
        """Do nothing: `connectionLost` follows."""

    def write(self, data: bytes) -> None:
        """Send bytes behind those that are pending."""
        rest = self._pending[self._sent :]
        self._pending, self._sent = (rest + data if rest else data), 0
        self._sent_at = self._visitor.services.runtime.clock.seconds()
        if self._is_taking:
            self._flush()

    def reply(self, data: bytes) -> None:
        """Send bytes unless others are pending: a client that reads nothing gets no replies."""
        if self._is_taking:
            self.write(data)

    def _flush(self) -> None:
        """Give pending bytes to the socket; if it does not take all, wait until it does."""
        transport, pending = self._transport, self._pending
        if not pending:
            return
        socket = getattr(transport, "socket", None)
        if socket is None:  # one without a buffer of the system
            transport.write(pending[self._sent :])
            self._pending, self._sent = b"", 0
            return
        try:
            self._sent += socket.send(memoryview(pending)[self._sent :] if self._sent else pending)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            transport.abortConnection()
            self._is_taking = False
            return
        if self._sent < len(pending):
            self._is_taking = False
            transport.startWriting()  # which calls resumeProducing when it takes more
        else:
            self._pending, self._sent = b"", 0

    # -- the feed ---------------------------------------------------------------------------------------------------

    def is_allowed(self, memory: dict[tuple[str, str], bool]) -> bool:
        context = self._visitor.context
        key = context.principal, context.client_host
        if key not in memory:
            memory[key] = self._visitor.allows(AclOperation.READ, AclResourceType.TOPIC, self._feed.topic)
        return memory[key]

    def send_new(self) -> None:
        if self._state is not FollowingState.AT_HEAD or not self._is_taking or self._is_throttled():
            return
        chunks = self._feed.chunks_from(self._next)
        if chunks is None:
            self._state = FollowingState.BEHIND
            self._begin_catching_up()
            return
        for chunk in chunks:
            self._next = chunk.number + 1
            self.positions = chunk.positions
            data = chunk.frame(self._framing)
            self.write(data)
            self._count(chunk.records, len(data))
            if not self._is_taking or self._is_throttled():
                return

    def stay_open(self, silent_since: float) -> None:
        if self._is_taking and self._sent_at <= silent_since:
            self.write(self._framing.ping())

    def end(self, reason: str) -> None:
        former = self._state
        self._leave("broker")
        if former in (FollowingState.WAITING, FollowingState.OVER):
            return
        self.write(self._framing.ended(reason))
        self.close()

    def close(self) -> None:
        """Close the connection; what it does not take now is lost."""
        self._leave("client")
        self._transport.unregisterProducer()
        self._transport.loseConnection()

    def _leave(self, ended_by: EndedBy) -> None:
        if self._state is not FollowingState.OVER:
            self._feed.counts.ended[ended_by] += 1
        self._state = FollowingState.OVER
        reading, self._reading = self._reading, _DONE
        reading.cancel()

    def _count(self, records: int, size: int) -> None:
        """Count what was sent, for metrics and the visitor's quota."""
        counts = self._feed.counts
        counts.records += records
        counts.bytes += size
        services = self._visitor.services
        meters = services.quotas.meters
        if meters is None:
            return
        throttle_ms = meters.count_fetched(self._visitor.context, size)
        if throttle_ms:
            clock = services.runtime.clock
            self._throttled_until = clock.seconds() + throttle_ms / 1000
            clock.callLater(throttle_ms / 1000, self.send_new)

    def _is_throttled(self) -> bool:
        return self._throttled_until > 0 and self._visitor.services.runtime.clock.seconds() < self._throttled_until

    # -- records of before ------------------------------------------------------------------------------------------

    def _begin_catching_up(self) -> None:
        work = run_in_background(log, self._catch_up(), "a follower of {topic} failed", topic=self._feed.topic)
        self._reading = _DONE if work.called else work

    async def _catch_up(self) -> None:
        """Send records up to the feed's head."""
        reason = ""
        try:
            while not reason and self._state is FollowingState.BEHIND:
                reason = await self._catch_up_once()
        except CancelledError:  # the connection is lost
            return
        self._reading = _DONE
        if reason:
            self.end(reason)
            self._feed.remove(self)
        else:
            self.send_new()

    async def _catch_up_once(self) -> str:
        """Send records up to where the feed's head is now; return why that fails for good, or nothing."""
        feed = self._feed
        number, head = feed.next_number, feed.positions
        if len(self.positions) < len(head):  # the others were added, or had no leader
            self.positions = {**dict.fromkeys(head, 0), **self.positions}
        behind = [index for index, offset in self.positions.items() if offset < head.get(index, 0)]
        has_failed = False
        for index in behind:
            try:
                await self._read(index, head[index])
            except KafkaError as error:
                if error.code not in PASSING:
                    return str(error)
                has_failed = True
        if has_failed:
            await sleep(self._visitor.services, REMOTE_SECONDS)
        elif not behind:
            if any(index not in head or offset > head[index] for index, offset in self.positions.items()):
                await feed.advanced()
            else:
                self._next, self._state = number, FollowingState.AT_HEAD
        return ""

    async def _read(self, index: int, upto: int) -> None:
        """Send the records of a partition up to an offset."""
        services, feed = self._visitor.services, self._feed
        while self.positions[index] < upto:
            await self._taking()
            offset = self.positions[index]
            selection = PieceSelection(index, offset, upto, NUMBER_MAX, CHUNK_CHARACTERS_MAX, feed.form)
            await feed.readers.acquire()
            try:
                piece = await read_piece(services, feed.topic, selection)
            except KafkaError as error:
                if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                await self._skip(index, upto, error)
                continue
            finally:
                feed.readers.release()
            next_offset = upto if piece is None or piece.next_offset <= offset else piece.next_offset
            self.positions = {**self.positions, index: next_offset}
            if piece is not None and piece.texts:
                following = feed.text_of(self.positions)
                data = self._framing.frame(payload_of(feed.topic, piece.texts, following), following)
                self.write(data)
                self._count(len(piece.texts), len(data))
            if self._is_throttled():
                await sleep(services, self._throttled_until - services.runtime.clock.seconds())

    async def _taking(self) -> None:
        """Wait until the connection takes more."""
        while not self._is_taking:
            self._resumed = Deferred()
            await self._resumed

    async def _skip(self, index: int, upto: int, error: KafkaError) -> None:
        """Go on at the first record that a partition still has, and say so; raise the error if none is later."""
        topic, offset = self._feed.topic, self.positions[index]
        [start] = (await resolve(self._visitor, topic, [index], EARLIEST, "from")).values()
        if start <= offset:
            raise error
        next_offset = min(start, upto)
        self._feed.counts.skipped += next_offset - offset
        self.positions = {**self.positions, index: next_offset}
        note = {"partition": index, "from": offset, "to": next_offset, "reason": "these records are deleted"}
        self.write(self._framing.note("skipped", json.dumps(note).encode(), self._feed.text_of(self.positions)))
