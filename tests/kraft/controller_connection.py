"""Connections to a model of a controller: frames to requests, one at a time, and their answers."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from twisted.internet.protocol import Factory, Protocol

from pylogbroker.wire import (
    SUPPORTED,
    RequestHeader,
    Response,
    decode_request_header,
    request_codec,
    response_codec,
)
from pylogbroker.wire.headers import response_header_format

_SIZE: Final = struct.Struct(">i")
Done = Callable[[Response | None], None]
Answer = Callable[[Any, int, Done], None]
"""Gets a request, its version, and what to call with the response; with None the connection is closed."""


def connections_to(answer: Answer) -> Factory:
    made = Factory.forProtocol(ControllerConnection)
    made.answer = answer
    return made


def encoded(answer: Response, header: RequestHeader) -> bytes:
    """Return a response with its header, without its size."""
    head = struct.pack(">" + response_header_format(header.api_key, header.api_version), header.correlation_id)
    return head + response_codec(header.api_key, header.api_version).encode(answer)


class ControllerConnection(Protocol):
    """Handles a request when the one before is answered, as Kafka's network threads do."""

    def __init__(self) -> None:
        self._received = b""
        self._frames: deque[bytes] = deque()
        self._is_busy = False

    def dataReceived(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= _SIZE.size:
            end = _SIZE.size + _SIZE.unpack_from(self._received)[0]
            if len(self._received) < end:
                break
            self._frames.append(self._received[_SIZE.size : end])
            self._received = self._received[end:]
        self._go_on()

    def _go_on(self) -> None:
        while self._frames and not self._is_busy:
            self._handle(memoryview(self._frames.popleft()))

    def _handle(self, frame: memoryview) -> None:
        header, position = decode_request_header(frame)
        version = min(header.api_version, SUPPORTED[header.api_key][0].versions.last)
        request = request_codec(header.api_key, version).decode(frame, position)
        self._is_busy = True

        def done(answer: Response | None) -> None:
            self._is_busy = False
            if answer is None:
                self._frames.clear()
                self.transport.loseConnection()
                return
            data = encoded(answer, header)
            self.transport.write(_SIZE.pack(len(data)) + data)
            self._go_on()

        self.factory.answer(request, version, done)
