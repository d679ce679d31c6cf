"""WebSockets that follow a topic (RFC 6455), by wsproto: the handshake, and frames both ways.

A client has nothing to say but control frames: other ones end the connection with the code 1003.
"""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any, Final

from wsproto.frame_protocol import CloseReason, FrameProtocol, Opcode, ParseFailed
from wsproto.utilities import generate_accept_token

from pylogbroker.web.records_api.errors import Rejected
from pylogbroker.web.records_api.framing import FramedConnection
from pylogbroker.web.site import CheckedRequest

_VERSION: Final = "13"
_KEY_BYTES: Final = 16


def handshake(request: CheckedRequest, headers: list[bytes]) -> bytes:
    """Return the answer to a handshake, with other headers; raise Rejected."""
    if "upgrade" not in (request.getHeader("connection") or "").lower() or request.method != b"GET":
        raise Rejected(400, "a WebSocket begins with GET and the header Connection: Upgrade")
    if request.getHeader("sec-websocket-version") != _VERSION:
        request.setHeader(b"sec-websocket-version", _VERSION.encode())
        raise Rejected(426, f"the version of WebSockets is {_VERSION}")
    key = request.getHeader("sec-websocket-key") or ""
    try:
        is_key = len(b64decode(key, validate=True)) == _KEY_BYTES
    except ValueError:
        is_key = False
    if not is_key:
        raise Rejected(400, f"Sec-WebSocket-Key must have {_KEY_BYTES} bytes in base64")
    lines = [
        b"HTTP/1.1 101 Switching Protocols",
        b"Upgrade: websocket",
        b"Connection: Upgrade",
        b"Sec-WebSocket-Accept: " + generate_accept_token(key.encode()),
        *headers,
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n"


class WebSocketFraming:
    """Messages of text."""

    def opening(self, payload: bytes, positions: str) -> bytes:
        return self.frame(payload, positions)

    def frame(self, payload: bytes, positions: str) -> bytes:
        return bytes(_protocol().send_data(payload.decode(), fin=True))

    def note(self, kind: str, data: bytes, positions: str) -> bytes:
        return self.frame(b'{"%s":%s,"next":"%s"}' % (kind.encode(), data, positions.encode()), positions)

    def ping(self) -> bytes:
        return bytes(_protocol().ping())

    def ended(self, reason: str) -> bytes:
        message = self.frame(json.dumps({"error": reason}).encode(), "")
        return message + bytes(_protocol().close(CloseReason.GOING_AWAY))

    def received(self, connection: FramedConnection, data: bytes) -> None:
        """Answer control frames."""
        if connection.parser is None:
            connection.parser = _protocol()
        parser: FrameProtocol = connection.parser
        parser.receive_bytes(data)
        try:
            for frame in parser.received_frames():
                payload: Any = frame.payload
                if frame.opcode is Opcode.PING:
                    connection.reply(bytes(parser.pong(payload)))
                elif frame.opcode is Opcode.CLOSE:
                    _close(connection, CloseReason.NORMAL_CLOSURE, "")
                    return
                elif frame.opcode is not Opcode.PONG:
                    _close(connection, CloseReason.UNSUPPORTED_DATA, "nothing is expected from a client that follows")
                    return
        except ParseFailed as error:
            _close(connection, error.code, str(error))


def _close(connection: FramedConnection, code: int, reason: str) -> None:
    connection.write(bytes(_protocol().close(code, reason)))
    connection.close()


def _protocol() -> FrameProtocol:
    return FrameProtocol(client=False, extensions=[])


FRAMING: Final = WebSocketFraming()
