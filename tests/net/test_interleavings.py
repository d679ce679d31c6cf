"""Requests of all kinds on several connections, in random interleavings: each one is answered, in order.

At the end of an example nothing happens by itself. The test answers what waits, lets the reactor run what is scheduled,
empties full sockets, and delivers input to connections that read. A lost wake-up leaves a request without answer.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from pylogbroker.broker.requests.api import Api
from pylogbroker.broker.requests.deferred_actions import DeferredActions
from pylogbroker.long_loops import give_way, settled
from pylogbroker.net.answer_queue import AnswerQueue
from pylogbroker.net.protocol import KafkaProtocol
from pylogbroker.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tests.net.fakes import FakeFactory, FakeTransport, connect, counted_slices, frame
from tests.net.test_protocol import correlation_ids
from tests.support.examples import examples

CONNECTIONS = 2
VERSION = 9
LONG = 250  # topics of a long request or answer: a few steps
SMALL = {
    "answer_queue.OUT_CHUNKS_MAX": 2,
    "answer_queue.UNSENT_BYTES_MAX": 100,
    "answer_queue._ENCODE_INLINE_STRUCTS_MAX": 9,
    "protocol.OUT_CHUNKS_MAX": 2,
    "protocol._DECODE_INLINE_BYTES_MAX": 1000,
}
"""Limits of a connection, small enough that a few requests exceed them."""

Answer = MetadataResponse | None


@attrs.define
class Server:
    """Handles Metadata in the way that its first topic names; `wake` answers what waits, on all connections."""

    factory: FakeFactory
    waiting: list[tuple[Deferred[Answer], Answer]] = attrs.field(factory=list)

    def handle(self, services: Any, context: Any, request: MetadataRequest) -> Any:
        assert request.topics is not None
        way, _, length = (request.topics[0].name or "").partition(" ")
        answer = MetadataResponse(topics=[MetadataResponseTopic(name="t")] * (LONG if length == "long" else 1))
        return WAYS[way](self, answer)

    def wait(self, answer: Answer) -> Deferred[Answer]:
        later: Deferred[Answer] = Deferred()
        self.waiting.append((later, answer))
        return later

    def wake(self) -> None:
        waiting, self.waiting = self.waiting, []
        for later, answer in waiting:
            later.callback(answer)

    def wake_all(self, answer: Answer) -> Deferred[Answer]:
        """Complete other requests, as a produce request does that completes fetches."""
        later = self.wait(answer)
        self.factory.deferred_actions.defer(self.wake)
        return later


async def steps(answer: Any) -> Any:
    for _ in range(3):
        await give_way()
    return await settled(answer)


WAYS: dict[str, Callable[[Server, Answer], Any]] = {
    "now": lambda server, answer: answer,
    "nothing": lambda server, answer: None,
    "later": Server.wait,
    "later-nothing": lambda server, answer: server.wait(None),
    "steps": lambda server, answer: steps(answer),
    "steps-nothing": lambda server, answer: steps(None),
    "steps-later": lambda server, answer: steps(server.wait(answer)),
    "wake": Server.wake_all,
    "steps-wake": lambda server, answer: steps(server.wake_all(answer)),
}
UNANSWERED = ("nothing", "later-nothing", "steps-nothing")


@attrs.define
class Link:
    """A connection whose peer sends, and may not take its answers."""

    protocol: KafkaProtocol
    transport: FakeTransport
    expected: list[int] = attrs.field(factory=list)
    _input: deque[bytes] = attrs.field(factory=deque)
    _ids: Iterator[int] = attrs.field(factory=itertools.count)

    def send(self, requests: list[tuple[str, bool, bool]], cut: int) -> None:
        """Put requests into the socket, in two pieces."""
        data = b""
        for way, is_long, has_long_answer in requests:
            correlation_id = next(self._ids)
            name = f"{way} long" if has_long_answer else way
            topics = [MetadataRequestTopic(name=name)] * (LONG if is_long else 1)
            data += frame(MetadataRequest(topics), VERSION, correlation_id)
            if way not in UNANSWERED:
                self.expected.append(correlation_id)
        cut %= len(data)
        self._input += [piece for piece in (data[:cut], data[cut:]) if piece]

    def receive(self) -> bool:
        if not (self._input and self.transport.reading):
            return False
        self.protocol.dataReceived(self._input.popleft())
        return True

    def take(self) -> bool:
        """Let the peer take the answers that it has left in the socket."""
        self.transport.full = False
        if not self.transport.kept:
            return False
        self.transport.drain(self.protocol)
        return True


class Run:
    def __init__(self) -> None:
        clock = Clock()
        self.factory = FakeFactory((), clock, deferred_actions=DeferredActions(clock))
        self.server = Server(self.factory)
        self.factory.apis = (Api.of(MetadataRequest, self.server.handle),)
        self.factory.services = SimpleNamespace(runtime=SimpleNamespace(slices=counted_slices(clock)))
        self.links = [Link(*connect(self.factory)) for _ in range(CONNECTIONS)]

    def iterate(self) -> bool:
        """Run the calls that are scheduled, and not those that they schedule."""
        scheduled, self.factory.reactor.calls = self.factory.reactor.calls, []
        for call in scheduled:
            call.func(*call.args)
        return bool(scheduled)

    def answer(self, index: int) -> bool:
        if not self.server.waiting:
            return False
        later, answer = self.server.waiting.pop(index % len(self.server.waiting))
        later.callback(answer)
        return True

    def act(self, action: tuple[Any, ...]) -> None:
        match action:
            case ("send", link, requests, cut):
                self.links[link].send(requests, cut)
            case ("receive", link):
                self.links[link].receive()
            case ("stop taking", link):
                self.links[link].transport.full = True
            case ("take", link):
                self.links[link].take()
            case ("answer", index):
                self.answer(index)
            case ("iterate",):
                self.iterate()

    def finish(self) -> None:
        while any([self.iterate(), self.answer(0), *(link.receive() or link.take() for link in self.links)]):
            pass


LINK = st.integers(0, CONNECTIONS - 1)
REQUEST = st.tuples(st.sampled_from(sorted(WAYS)), st.booleans(), st.booleans())
ACTION = st.one_of(
    st.tuples(st.just("send"), LINK, st.lists(REQUEST, min_size=1, max_size=6), st.integers(0, 10_000)),
    st.tuples(st.sampled_from(["receive", "stop taking", "take"]), LINK),
    st.tuples(st.just("answer"), st.integers(0, 5)),
    st.just(("iterate",)),
)


@pytest.fixture(autouse=True)
def _small_limits() -> Iterator[None]:
    time = itertools.count()
    with ExitStack() as stack:
        for name, limit in SMALL.items():
            stack.enter_context(patch(f"pylogbroker.net.{name}", limit))
        stack.enter_context(patch("pylogbroker.net.protocol.perf_counter", lambda: next(time) / 1000))
        stack.enter_context(patch.object(AnswerQueue, "slots_max", 3))
        yield


@settings(max_examples=examples(300))
@given(st.lists(ACTION, max_size=30))
def test_each_request_is_answered_in_order(actions: list[tuple[Any, ...]]) -> None:
    run = Run()
    for action in actions:
        run.act(action)
    run.finish()
    for link in run.links:
        assert correlation_ids(link.transport) == link.expected
        assert (link.transport.reading, link.transport.closed) == (True, "")
    assert run.factory.memory.total == 0
