"""Clients of a node in the test's process that has quotas, on a clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from pylogbroker.broker.apis import APIS
from pylogbroker.metadata.delta import NewTopic
from pylogbroker.net.protocol import KafkaProtocol
from pylogbroker.security.quotas.entities import DEFAULT, QuotaEntity, Quotas
from pylogbroker.wire import Request, request_codec, response_codec
from pylogbroker.wire.headers import decode_response_header
from tests.broker.nodes import Node, opened_node
from tests.broker.trees import now
from tests.net.fakes import FakeFactory, FakeTransport, connect

ANYBODY = QuotaEntity(DEFAULT)


@attrs.define
class Client:
    """A connection to the node, which sends one request after the other."""

    protocol: KafkaProtocol
    transport: FakeTransport

    def send(self, request: Request, version: int, client_id: str = "app") -> int:
        """Send a request; return its bytes without the size."""
        chunks = request_codec(request.api_key, version).frame(1, client_id, request)
        frame = b"".join(map(bytes, chunks))
        self.protocol.dataReceived(frame)
        return len(frame) - 4

    def answer(self, request: Request, version: int) -> Any:
        """Return the answer that has come to a request; None if there is none."""
        sent = self.transport.sent
        data = b"".join(bytes(each if isinstance(each, bytes | memoryview) else each.read()) for each in sent)
        sent.clear()
        if not data:
            return None
        frame = memoryview(data)[4:]
        _, position = decode_response_header(frame, request.api_key, version)
        return response_codec(request.api_key, version).decode(frame, position)

    def ask(self, request: Request, version: int, client_id: str = "app") -> Any:
        self.send(request, version, client_id)
        return self.answer(request, version)

    @property
    def is_muted(self) -> bool:
        return not self.transport.reading


def client(node: Node) -> Client:
    factory = FakeFactory(APIS, node.clock, node.broker, quotas=node.broker.quotas, max_request_bytes=100_000_000)
    return Client(*connect(factory))


def set_quotas(node: Node, entity: QuotaEntity, quotas: Quotas) -> None:
    now(node.broker.quotas.store.alter(entity, lambda before: quotas))


@contextmanager
def node_with_topic(directory: Path) -> Iterator[Node]:
    """A node that has a topic t with one partition."""
    with opened_node((str(directory),)) as opened:
        now(opened.broker.controller.create_topic(NewTopic("t", 1, 1)))
        yield opened
