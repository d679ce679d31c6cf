"""The table of flow control, and a model of a connection: what begins, what leaves, and when the connection is read.

The model is a list of places for answers and a few reasons why no request may begin. It knows nothing of the states.
"""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from pylogbroker.broker.api import Api
from pylogbroker.broker.deferred_actions import DeferredActions
from pylogbroker.broker.slices import Slices
from pylogbroker.long_loops import give_way, settled
from pylogbroker.net import flow_control
from pylogbroker.net.answer_queue import AnswerQueue
from pylogbroker.net.flow_control import TRANSITIONS, FlowEvent, FlowState
from pylogbroker.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tests.net.fakes import FakeFactory, connect, frame
from tests.net.test_protocol import correlation_ids
from tests.support.examples import examples

ROW = re.compile(r"^    (?P<state>\S.*?|) {2,}(?P<event>[A-Z]+) {2,}(?P<next>[A-Z_]+)(  |$)", re.MULTILINE)


def drawn() -> dict[FlowState, dict[FlowEvent, FlowState]]:
    """Return the transitions that the module's docstring draws."""
    transitions: dict[FlowState, dict[FlowEvent, FlowState]] = {state: {} for state in FlowState}
    states: list[FlowState] = []
    for row in ROW.finditer(flow_control.__doc__ or ""):
        if row["state"] == "these five":
            states = [state for state in FlowState if state not in (FlowState.FINISHING, FlowState.CLOSED)]
        elif row["state"] == "all but CLOSED":
            states = [state for state in FlowState if state is not FlowState.CLOSED]
        elif row["state"]:
            states = [FlowState[row["state"]]]
        for state in states:
            transitions[state][FlowEvent[row["event"]]] = FlowState[row["next"]]
    return transitions


def test_the_table_in_the_docstring_is_that_of_the_code() -> None:
    assert drawn() == {state: dict(events) for state, events in TRANSITIONS.items()}


def test_each_event_is_in_the_table() -> None:
    assert {event for events in TRANSITIONS.values() for event in events} == set(FlowEvent)


VERSION = 9
LONG = 250  # topics of a long request or answer: a few steps
SLOTS_MAX = 3
UNSENT_BYTES_MAX = 100
OUT_CHUNKS_MAX = 4
SMALL = {
    "answer_queue.OUT_CHUNKS_MAX": OUT_CHUNKS_MAX,
    "answer_queue.UNSENT_BYTES_MAX": UNSENT_BYTES_MAX,
    "answer_queue._ENCODE_INLINE_STRUCTS_MAX": 9,
    "protocol.OUT_CHUNKS_MAX": OUT_CHUNKS_MAX,
    "protocol._DECODE_INLINE_BYTES_MAX": 1000,
    "protocol.LARGE_REQUEST_BYTES_MIN": 5000,
}
"""Limits of a connection, small enough that a few requests exceed them."""

LARGE_NAME = "n" * 6000
WAYS = ("now", "nothing", "later", "later-nothing", "steps", "steps-later", "wake", "mute", "later-mute")
SIZES = ("short", "long", "large")


@attrs.define(eq=False)
class Place:
    """Place of an answer. One `in_slices` is ready when it leaves."""

    number: int
    has_answer: bool = True
    is_ready: bool = False
    in_slices: bool = False


class Connection(RuleBasedStateMachine):
    """One connection with its peer, its handlers and its model."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = ExitStack()
        time = itertools.count()
        for name, limit in SMALL.items():
            self.patches.enter_context(patch(f"pylogbroker.net.{name}", limit))
        self.patches.enter_context(patch("pylogbroker.net.protocol.perf_counter", lambda: next(time) / 1000))
        self.patches.enter_context(patch.object(AnswerQueue, "slots_max", SLOTS_MAX))
        self.clock = Clock()
        self.factory = FakeFactory((), self.clock, deferred_actions=DeferredActions(self.clock))
        self.factory.apis = (Api.of(MetadataRequest, self.handle),)
        self.factory.services = SimpleNamespace(runtime=SimpleNamespace(slices=Slices(self.clock, 0), in_thread=None))
        self.factory.quotas = SimpleNamespace(meters=self)
        self.protocol, self.transport = connect(self.factory)
        self.socket: deque[bytes] = deque()
        self.numbers = itertools.count()
        self.waiting: list[tuple[Deferred[Any], Any, Place]] = []
        # the model
        self.sizes: dict[int, str] = {}
        self.arrived: list[int] = []
        self.received: bytes = b""
        self.begun: list[int] = []
        self.places: list[Place] = []
        self.left: list[int] = []
        self.steps = 0  # of handlers that run in slices, or have just ended
        self.ended_steps = 0
        self.muted_until = 0.0
        self.is_finishing = self.is_closed = self.is_lost = False
        self.rounds = 0

    # -- handlers ------------------------------------------------------------------------------------------------

    def handle_metered(self, request: MetadataRequest) -> Any:
        assert request.topics is not None
        way, has_long_answer, number = (request.topics[0].name or "").split(" ")[:3]
        self.check_begin(int(number))
        place = Place(int(number), "nothing" not in way, in_slices=has_long_answer == "True")
        answer = MetadataResponse(topics=[MetadataResponseTopic(name="t")] * (LONG if place.in_slices else 1))
        match way:
            case "now" | "mute":
                place.is_ready = not place.in_slices
                if self.places or place.in_slices:
                    self.places.append(place)
                else:
                    self.left.append(place.number)
                return answer
            case "nothing":
                return None
        self.places.append(place)
        match way:
            case "later" | "later-mute":
                return self.wait(answer, place)
            case "later-nothing":
                return self.wait(None, place)
            case "wake":
                self.factory.deferred_actions.defer(self.wake)
                return self.wait(answer, place)
            case "steps":
                return self.step(place, lambda: self.make_ready(place, answer))
            case _:
                return self.step(place, lambda: self.wait(answer, place))

    def handle(self, services: Any, context: Any, request: MetadataRequest, /) -> Any:
        """Handle a request, or be the meters' handle; both have the same name."""
        return self.handle_metered(request)

    def check_begin(self, number: int) -> None:
        """Check that this request may begin now."""
        self.begun.append(number)
        assert self.begun == self.arrived[: len(self.begun)]
        assert not (self.is_finishing)
        assert not (self.is_closed)
        assert not self.steps
        if self.sizes[number] != "long":  # else its decoding began earlier
            assert self.clock.seconds() >= self.muted_until
            self.take_out()
            assert len(self.places) < SLOTS_MAX
            assert self.transport.unsent_bytes <= UNSENT_BYTES_MAX

    def wait(self, answer: Any, place: Place) -> Deferred[Any]:
        later: Deferred[Any] = Deferred()
        self.waiting.append((later, answer, place))
        return later

    def make_ready(self, place: Place, answer: Any) -> Any:
        place.is_ready = not (place.in_slices and place.has_answer)
        return answer

    def step(self, place: Place, end: Callable[[], Any]) -> Coroutine[Any, Any, Any]:
        self.steps += 1

        async def running() -> Any:
            for _ in range(3):
                await give_way()
            self.ended_steps += 1
            return await settled(end())

        return running()

    def wake(self) -> None:
        waiting, self.waiting = self.waiting, []
        for later, answer, place in waiting:
            later.callback(self.make_ready(place, answer))

    # -- the peer, and time --------------------------------------------------------------------------------------

    @initialize()
    def use_meters(self) -> None:
        def handle(handler: Any, services: Any, context: Any, request: Any, size: int, mute: Any) -> Any:
            def throttled(answer: Any) -> Any:
                self.muted_until = max(self.muted_until, self.clock.seconds() + 0.5)
                mute(500)
                return answer

            answer = handler(services, context, request)
            way = (request.topics[0].name or "").split(" ")[0]
            if way == "later-mute":
                return answer.addCallback(throttled)
            return throttled(answer) if way == "mute" else answer

        self.factory.quotas.meters = SimpleNamespace(handle=handle)

    @rule(
        requests=st.lists(
            st.tuples(st.sampled_from(WAYS), st.sampled_from(SIZES), st.booleans()), min_size=1, max_size=6
        ),
        cuts=st.lists(st.integers(1, 10_000), max_size=3),
    )
    def send(self, requests: list[tuple[str, str, bool]], cuts: list[int]) -> None:
        data = b""
        for way, size, has_long_answer in requests:
            number = next(self.numbers)
            name = f"{way} {has_long_answer} {number} {LARGE_NAME if size == 'large' else ''}"
            topics = [MetadataRequestTopic(name=name)] * (LONG if size == "long" else 1)
            self.sizes[number] = "long" if size == "large" else size  # a large one is decoded in slices, too
            data += frame(MetadataRequest(topics), VERSION, number)
        edges = [0, *sorted({cut for cut in cuts if cut < len(data)}), len(data)]
        self.socket += [data[start:end] for start, end in itertools.pairwise(edges)]

    @precondition(lambda self: self.socket and self.transport.reading and not self.is_lost)
    @rule()
    def receive(self) -> None:
        """Deliver a piece as the transport does."""
        data = self.socket.popleft()
        rest = self.protocol.receive_buffer()
        part = data if rest is None else data[: len(rest)]
        if part != data:
            self.socket.appendleft(data[len(part) :])
        if not (self.is_finishing or self.is_closed):
            self.note_arrived(part)
        if rest is None:
            self.protocol.dataReceived(part)
        else:
            rest[: len(part)] = part
            self.protocol.buffer_filled(len(part))

    def note_arrived(self, data: bytes) -> None:
        self.received += data
        while len(self.received) >= 4:
            end = 4 + int.from_bytes(self.received[:4], "big")
            if len(self.received) < end:
                break
            self.arrived.append(int.from_bytes(self.received[8:12], "big"))
            self.received = self.received[end:]

    @rule()
    def stop_taking(self) -> None:
        self.transport.full = True

    @precondition(lambda self: not self.is_lost)
    @rule()
    def take(self) -> None:
        """Let the peer take the answers that it has left in the socket."""
        had_kept = bool(self.transport.kept)
        self.transport.full = False
        if had_kept:
            self.transport.drain(self.protocol)

    @precondition(lambda self: self.waiting)
    @rule(index=st.integers(0, 5))
    def answer(self, index: int) -> None:
        later, answer, place = self.waiting.pop(index % len(self.waiting))
        later.callback(self.make_ready(place, answer))

    @rule()
    def use_line_of_large_requests(self) -> None:
        """Let another connection handle a large request in this iteration."""
        self.factory.large_requests.run(lambda: None)

    @property
    def may_end(self) -> bool:
        """True after some iterations: most examples go on for long."""
        return self.rounds > 8 and not self.is_lost

    @rule(seconds=st.sampled_from((0.0, 0.0, 0.0, 0.3, 0.6)))
    def iterate(self, seconds: float = 0.0) -> None:
        """Run the calls that are due, and not those that they schedule."""
        self.rounds += 1
        self.clock.rightNow += seconds
        due = [call for call in self.clock.calls if call.getTime() <= self.clock.seconds()]
        ended, self.ended_steps = self.ended_steps, 0
        self.steps -= ended
        for call in due:
            if call.active():
                self.clock.calls.remove(call)
                call.called = 1
                call.func(*call.args, **call.kw)

    @precondition(lambda self: self.may_end)
    @rule()
    def finish(self) -> None:
        self.is_finishing = True
        self.arrived = self.begun[:]
        self.protocol.finish()

    @precondition(lambda self: self.may_end)
    @rule()
    def close(self) -> None:
        self.is_closed = True
        self.arrived = self.begun[:]
        self.protocol.close_because("a test")

    @precondition(lambda self: self.may_end)
    @rule()
    def lose(self) -> None:
        self.is_closed = self.is_lost = True
        self.arrived = self.begun[:]
        self.protocol.connectionLost()

    # -- checks --------------------------------------------------------------------------------------------------

    def out(self) -> list[int]:
        transport = self.transport
        return correlation_ids(SimpleNamespace(sent=transport.sent + transport.kept))  # type: ignore[arg-type]

    def take_out(self) -> None:
        """Remove the places of answers that have left."""
        out: set[int] | None = None
        while self.places:
            first = self.places[0]
            if first.in_slices and first.has_answer:
                out = set(self.out()) if out is None else out
                first.is_ready = first.number in out
            if not first.is_ready:
                break
            del self.places[0]
            if first.has_answer:
                self.left.append(first.number)

    @invariant()
    def answers_leave_in_order_and_at_once(self) -> None:
        if self.is_closed:
            assert self.out() == self.left[: len(self.out())]
        else:
            self.take_out()
            assert self.out() == self.left

    @invariant()
    def reading_is_paused_exactly_when_no_request_may_begin(self) -> None:
        if self.is_closed:
            return
        self.take_out()
        if self.is_finishing:
            assert not self.transport.reading or self.transport.closed
            assert (self.transport.closed == "after sending") == (not self.places)
            self.is_closed = bool(self.transport.closed)
            return
        must_wait = (
            len(self.begun) < len(self.arrived)
            or self.steps > 0
            or self.clock.seconds() < self.muted_until
            or len(self.places) >= SLOTS_MAX
            or self.transport.unsent_bytes > UNSENT_BYTES_MAX
            or self.transport.unsent_chunks > OUT_CHUNKS_MAX
        )
        assert self.transport.reading is not must_wait

    @invariant()
    def memory_counts_what_is_unsent(self) -> None:
        if not self.is_closed:
            assert self.factory.memory.total >= self.transport.unsent_bytes

    def teardown(self) -> None:
        try:
            for _ in range(1000):
                if not (self.socket or self.waiting or self.clock.calls or self.transport.kept):
                    break
                if self.socket and self.transport.reading and not self.is_closed:
                    self.receive()
                elif self.is_closed or self.is_finishing:
                    self.socket.clear()
                self.iterate(0.6)
                if not self.is_lost:
                    self.take()
                if self.waiting:
                    self.answer(0)
            assert not (self.socket)
            assert not (self.waiting)
            assert not (self.transport.kept)
            if not self.is_closed:
                self.answers_leave_in_order_and_at_once()
                self.reading_is_paused_exactly_when_no_request_may_begin()
                assert self.begun == self.arrived
                assert not self.places
            if (self.transport.closed or self.is_closed) and not self.is_lost:
                self.protocol.connectionLost()
            assert self.factory.memory.total == (0 if self.is_closed else len(self.received))
        finally:
            self.patches.close()


TestConnection = Connection.TestCase
TestConnection.settings = settings(max_examples=examples(200), stateful_step_count=60, deadline=None)
