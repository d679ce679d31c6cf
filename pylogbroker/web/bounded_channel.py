"""HTTP connections whose requests have bounds of size and time; what breaks one is answered, and closed.

    phase     bytes arrive          bound            beyond it
    --------  --------------------  ---------------  --------------------------------
    IDLE      HEAD                  IDLE_SECONDS     closed: there is no request
    HEAD      BODY, STREAM, ANSWER  HEAD_SECONDS     408
                                    HEAD_BYTES_MAX   414 for the first line, else 431
                                    HEADERS_MAX      431
    BODY      ANSWER                BODY_SECONDS     408
    STREAM    ANSWER                IDLE_SECONDS     closed: its handler may have begun to answer
    ANSWER    none are read         none
    REJECTED  none are read         LINGER_SECONDS   closed

Twisted's own channel closes such connections without an answer, or with one that has no reason, and lets a client that
sends a byte every minute stay for days.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, Final

from twisted.internet.interfaces import IDelayedCall
from twisted.protocols.basic import LineReceiver
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel

HEAD_BYTES_MAX: Final = 16 * 1024
"""Bytes of the request line and the headers together."""
HEADERS_MAX: Final = 500
HEAD_SECONDS: Final = 30
BODY_SECONDS: Final = 60
"""Time for a body that is handled when it is complete."""
IDLE_SECONDS: Final = 75
LINGER_SECONDS: Final = 5
"""How long a connection reads on whose answer was complete before the request: a reset would discard the answer."""
_PHRASES: Final = {
    400: "Bad Request",
    408: "Request Timeout",
    413: "Content Too Large",
    414: "URI Too Long",
    431: "Request Header Fields Too Large",
}


class Phase(Enum):
    IDLE = auto()
    HEAD = auto()
    BODY = auto()
    STREAM = auto()
    ANSWER = auto()
    REJECTED = auto()


class BoundedChannel(HTTPChannel):
    """Connection of a CheckedSite."""

    MAX_LENGTH = totalHeadersSize = HEAD_BYTES_MAX
    maxHeaders = HEADERS_MAX
    site: Any
    """The CheckedSite."""
    transport: Any
    _phase = Phase.IDLE

    def dataReceived(self, data: bytes) -> None:
        if self._phase is Phase.IDLE:
            self._phase = Phase.HEAD
            self.setTimeout(HEAD_SECONDS)
        elif self._phase is Phase.STREAM:
            self.resetTimeout()
        LineReceiver.dataReceived(self, data)

    def lineLengthExceeded(self, line: bytes) -> None:
        self._reject_head()

    def lineReceived(self, line: bytes) -> None:
        if self._receivedHeaderSize + len(line) > HEAD_BYTES_MAX:
            self._reject_head()
        else:
            super().lineReceived(line)

    def headerReceived(self, line: bytes) -> bool:
        if self._receivedHeaderCount < HEADERS_MAX:
            return bool(super().headerReceived(line))
        self.reject(431, f"a request has at most {HEADERS_MAX} headers")
        return False

    def allHeadersReceived(self) -> None:
        super().allHeadersReceived()
        if self._phase is Phase.REJECTED or self.length == 0:
            return
        is_streamed = self.requests[-1].is_streamed
        self._phase = Phase.STREAM if is_streamed else Phase.BODY
        self.setTimeout(IDLE_SECONDS if is_streamed else BODY_SECONDS)

    def allContentReceived(self) -> None:
        if self._phase is Phase.REJECTED:
            return
        self._phase = Phase.ANSWER
        self.setTimeout(IDLE_SECONDS)  # which Twisted sets again behind the answer
        super().allContentReceived()

    def requestDone(self, request: object) -> None:
        if self._phase is Phase.ANSWER:
            self._phase = Phase.IDLE
        super().requestDone(request)

    def timeoutConnection(self) -> None:
        if self._phase is Phase.HEAD:
            self.reject(408, f"the head of a request has {HEAD_SECONDS} s to arrive")
        elif self._phase is Phase.BODY:
            self.reject(408, f"the body has not arrived within {BODY_SECONDS} s")
        else:
            super().timeoutConnection()

    def reject(self, status: int, reason: str) -> None:
        """Answer a request that is not complete, and close the connection."""
        if self._phase is Phase.REJECTED:
            return
        self._phase = Phase.REJECTED
        path = getattr(self, "_path", b"").partition(b"?")[0]
        media, content = self.site.error_content(path, status, reason)
        head = (
            f"HTTP/1.1 {status} {_PHRASES[status]}\r\nConnection: close\r\nContent-Type: {media}\r\n"
            f"Content-Length: {len(content)}\r\n\r\n"
        )
        self.transport.write(head.encode() + content)
        self.linger()

    def linger(self) -> None:
        """Close the connection for writing, and drop what comes for some seconds."""
        self._phase = Phase.REJECTED
        self.clearLineBuffer()
        self.transport.unregisterProducer()
        self.setTimeout(None)
        ends: IDelayedCall = self.callLater(LINGER_SECONDS, self.transport.abortConnection)
        lose = self.connectionLost

        def lost(reason: Failure) -> None:
            if ends.active():
                ends.cancel()
            lose(reason)

        self.dataReceived = _drop  # type: ignore[method-assign]  # the rest of the connection's life
        self.connectionLost = lost  # type: ignore[method-assign]
        self.transport.resumeProducing()
        self.transport.loseWriteConnection()

    def _send100Continue(self) -> None:
        if self._phase is not Phase.REJECTED:
            super()._send100Continue()

    def _reject_head(self) -> None:
        if hasattr(self, "_path"):
            self.reject(431, f"a request line and headers have at most {HEAD_BYTES_MAX:,} bytes together")
        else:
            self.reject(
                414, f"a request line has at most {HEAD_BYTES_MAX:,} bytes: send long parameters in several requests"
            )

    def _respondToBadRequestAndDisconnect(self) -> None:
        """Answer what Twisted's channel does not understand."""
        if self._phase is Phase.STREAM:  # its handler may have begun to answer
            self.transport.abortConnection()
        else:
            self.reject(400, "this is no request of HTTP/1.1: its head, a length, a chunk or a form is malformed")


def _drop(data: bytes) -> None:
    """Do nothing with what a client goes on to send."""
