"""Two nodes with several connections each: one joins the reads of an iteration, the other handles request by request.

The second node gets each request in the order in which the first one began them, from the same connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from pylogbroker.net.protocol import KafkaProtocol
from pylogbroker.wire import Request
from tests.broker.nodes import Node
from tests.broker.repeated.pairs import Side, opened_pair, sent_bytes
from tests.net.fakes import FakeTransport, connect

Sent = tuple[Request, int, int]
"""Request, version and correlation id."""


class BegunRequests(deque[memoryview]):
    """Queue that notes which requests have left it, with their connection."""

    def __init__(self, number: int, begun: list[tuple[int, bytes]]) -> None:
        super().__init__()
        self._number, self._begun = number, begun

    def popleft(self) -> memoryview:
        request = super().popleft()
        self._begun.append((self._number, bytes(request)))
        return request


@attrs.define
class Connections:
    """Connections of one node."""

    side: Side
    opened: list[tuple[KafkaProtocol, FakeTransport]] = attrs.field(factory=list)

    def connect(self, count: int) -> None:
        self.opened = [connect(self.side.factory) for _ in range(count)]

    def protocol(self, number: int) -> KafkaProtocol:
        return self.opened[number][0]

    def requests(self) -> list[list[tuple[int, str, int, Any]]]:
        """Return how many requests and errors each connection had."""
        return [
            [(version, route.name, route.requests, route.errors) for version, route in iter(protocol._headers.routes)]
            for protocol, _ in self.opened
        ]

    def answers(self) -> list[tuple[bytes, str]]:
        """Return what each connection was sent since the last call, and how it was closed."""
        self.side.node.clock.advance(0)
        answers: list[tuple[bytes, str]] = []
        for _, transport in self.opened:
            sent, transport.sent = transport.sent, []
            data = sent_bytes(sent).replace(b"/ordinary/", b"/learning/")
            answers.append(self.side.without_ids(data, transport.closed))
        return answers


@attrs.define
class Crowd:
    """Both nodes; `begun` has the requests of the last iteration, with the numbers of their connections."""

    joining: Connections
    single: Connections
    begun: list[tuple[int, bytes]] = attrs.field(factory=list)

    def connect(self, count: int) -> None:
        for side in (self.joining, self.single):
            side.connect(count)
        for number, (protocol, _) in enumerate(self.joining.opened):
            protocol._requests.frames = BegunRequests(number, self.begun)

    def each(self, change: Callable[[Node], Any]) -> None:
        for side in (self.joining, self.single):
            change(side.side.node)

    def iterate(self, *reads: tuple[int, Sequence[Sent]] | Callable[[Connections], None]) -> list[tuple[bytes, str]]:
        """Let connections read requests in one iteration; return the answers of each, which are those of both nodes.

        A call between the reads changes the joining node during the iteration, and the other one at its end.
        """
        joining = self.joining
        joined_reads = joining.side.factory.joined_reads
        self.begun.clear()
        joined_reads.is_open = True
        for read in reads:
            if callable(read):
                read(joining)
            else:
                number, requests = read
                joining.protocol(number).dataReceived(b"".join(joining.side.frame(*request) for request in requests))
        joined_reads.close()
        answers = joining.answers()
        for number, request in tuple(self.begun):
            for name, topic_id in joining.side.ids.items():
                request = request.replace(topic_id.bytes, self.single.side.ids[name].bytes)
            self.single.protocol(number).dataReceived(len(request).to_bytes(4) + request)
        for read in reads:
            if callable(read):
                read(self.single)
        assert self.single.answers() == answers
        return answers

    def check(self, *topics: str) -> None:
        assert self.joining.side.state(*topics) == self.single.side.state(*topics)
        assert self.joining.requests() == self.single.requests()


@contextmanager
def opened_crowd(path: Path, settings: dict[str, str] | None = None) -> Iterator[Crowd]:
    with opened_pair(path, settings) as pair:
        yield Crowd(Connections(pair.learning), Connections(pair.usual))
