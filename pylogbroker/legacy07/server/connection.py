"""Connections of Kafka 0.7 clients: frames without numbers, answered in order.

Each request waits for the previous one: clients may produce to a new topic and fetch from it at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine
from typing import Any, Final

import attrs
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.broker.requests.declared_services import declared_services, select_services
from pylogbroker.errors import KafkaError, ProtocolViolation
from pylogbroker.legacy07.server import requests
from pylogbroker.legacy07.wire import (
    MULTI_FETCH,
    Legacy07Request,
    Produce,
    decode_in_steps,
    decode_legacy07_request,
    has_parts,
)
from pylogbroker.long_loops import settled
from pylogbroker.net.answer_queue import AnswerQueue
from pylogbroker.net.protocol import KafkaProtocol
from pylogbroker.net.response_slots import ResponseEncoder
from pylogbroker.net.service import KafkaFactory
from pylogbroker.wire import SUPPORTED, Chunk, WireError, decode_request_header

log = Logger()

_SERVICES: Final = declared_services(requests.handle)


@attrs.frozen
class _Encoded:
    is_read: bool
    name: str = "the simple protocol"
    response_type: Any = list
    errors: Counter[int] = attrs.field(factory=Counter, eq=False)
    has_error_code: bool = False

    def encode_if_short(self, correlation_id: int, answer: list[Chunk], structs_max: int) -> list[Chunk]:
        return answer

    async def encode_in_steps(self, correlation_id: int, answer: list[Chunk]) -> list[Chunk]:
        raise NotImplementedError("no answer is long")


_READ = _Encoded(is_read=True)
_CHANGE = _Encoded(is_read=False)


class Legacy07Answers(AnswerQueue):
    """Answers that have no error of a request as a whole."""

    __slots__ = ()
    slots_max = 1

    def failed(self, route: ResponseEncoder, failure: Failure) -> None:
        """Close the connection: the protocol has no error response here."""
        if failure.check(ProtocolViolation, KafkaError):
            self._connection.violated(f"bad request: {failure.value}")
        else:
            log.failure("a request of {peer} failed", failure, peer=self._connection.peer)
            self._connection.close_because(f"a request failed: {failure.value}")


class Legacy07Protocol(KafkaProtocol):
    """Broker's side of one connection."""

    answers_type = Legacy07Answers

    def connectionMade(self) -> None:
        super().connectionMade()
        self._services = select_services(self.factory.services, _SERVICES)

    def _request(self, frame: memoryview) -> None:
        if has_parts(frame):
            route = _READ if frame[1] == MULTI_FETCH else _CHANGE
            self._run(route, 0, self._handle_parts(frame), len(frame))
            return
        try:
            request = decode_legacy07_request(frame)
        except ProtocolViolation as violation:
            self.violated(self._with_hint(f"bad request: {violation}", frame))
            return
        route = _CHANGE if isinstance(request, Produce) else _READ
        try:
            answer = self._answer(request)
        except Exception:
            self._answers.failed(route, Failure())
            return
        if isinstance(answer, Coroutine):
            self._run(route, 0, answer, len(frame))
        elif answer is not None:
            self._answers.send(answer)

    async def _handle_parts(self, frame: memoryview) -> requests.Answer:
        """Decode and handle a request of several parts, which may be very many."""
        try:
            request = await decode_in_steps(frame)
        except ProtocolViolation as violation:
            raise ProtocolViolation(self._with_hint(str(violation), frame)) from None
        return await settled(self._answer(request))

    def _answer(self, request: Legacy07Request) -> requests.Answer | Coroutine[Any, Any, requests.Answer]:
        return requests.handle(self._services, request, self._caller, self._headers.access)

    def _describe_other_protocol(self, frame: memoryview) -> str | None:
        return describe_kafka_request(frame)


class Legacy07Factory(KafkaFactory):
    protocol_class = Legacy07Protocol


def describe_kafka_request(frame: memoryview) -> str | None:
    """Describe a frame that resembles a request of later versions; else None."""
    try:
        header, _ = decode_request_header(frame)
    except WireError:
        return None
    client, api = header.client_id, SUPPORTED.get(header.api_key)
    if api is None or (client is not None and not client.isprintable()):
        return None
    name = api[0].__name__.removesuffix("Request")
    return (
        f"this looks like {name} {header.api_version} of Kafka's protocol, from the client {client!r}, and this "
        "listener speaks that of Kafka 0.7: connect to another listener"
    )
