"""The table of flow control, and a model of a connection: what begins, what leaves, and when the connection is read.

The model is a list of places for answers and a few reasons why no request may begin. It knows nothing of the states.
"""

from __future__ import annotations

import itertools
import re
import struct
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from pylogbroker.broker.requests.api import Api
from pylogbroker.broker.requests.deferred_actions import DeferredActions
from pylogbroker.errors import ProtocolViolation
from pylogbroker.long_loops import give_way
from pylogbroker.net import flow_control
from pylogbroker.net.answer_queue import AnswerQueue
from pylogbroker.net.flow_control import TRANSITIONS, FlowEvent, FlowState
from pylogbroker.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tests.net.fakes import FakeFactory, connect, counted_slices, frame
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
LONG = 130  # topics of a long request or answer: decoded and encoded with one pause
LARGE_NAME = "n" * 700
SLOTS_MAX = 3
UNSENT_BYTES_MAX = 60
OUT_CHUNKS_MAX = 4
ROUNDS_WITHOUT_PROGRESS_MAX = 30
SMALL = {
    "answer_queue.OUT_CHUNKS_MAX": OUT_CHUNKS_MAX,
    "answer_queue.UNSENT_BYTES_MAX": UNSENT_BYTES_MAX,
    "answer_queue._ENCODE_INLINE_STRUCTS_MAX": 9,
    "protocol.OUT_CHUNKS_MAX": OUT_CHUNKS_MAX,
    "protocol._DECODE_INLINE_BYTES_MAX": 300,
    "protocol.LARGE_REQUEST_BYTES_MIN": 600,
}
"""Limits of a connection, small enough that a few requests exceed them."""


@attrs.frozen
class Kind:
    """Way, size and answer of a request."""

    way: str
    size: str
    is_answer_long: bool

    @property
    def has_answer(self) -> bool:
        return "nothing" not in self.way


WAYS = (
    "now",
    "nothing",
    "later",
    "later-nothing",
    "steps",
    "steps-later",
    "wake",
    "coroutine-wake",
    "mute",
    "later-mute",
)
KINDS = [
    *itertools.starmap(Kind, itertools.product(WAYS, ("short", "short", "long", "large"), (False, False, True))),
    *[Kind(way, "short", False) for way in ("now", "nothing")] * 10,
    Kind("violation", "short", False),
]
NUMBER = b"######"


@cache
def template(kind: Kind) -> bytes:
    """Return the frame of a request; its number is to be filled in."""
    name = f"{NUMBER.decode()} {KINDS.index(kind)} {LARGE_NAME if kind.size == 'large' else ''}"
    others = [MetadataRequestTopic(name="t")] * (LONG if kind.size == "long" else 0)
    return frame(MetadataRequest([MetadataRequestTopic(name=name), *others]), VERSION, 0)


def numbered(kind: Kind, number: int) -> bytes:
    data = template(kind)
    return data[:8] + number.to_bytes(4, "big") + data[12:].replace(NUMBER, b"%06d" % number)


SHORT_ANSWER = MetadataResponse(topics=[MetadataResponseTopic(name="t")])
LONG_ANSWER = MetadataResponse(topics=[MetadataResponseTopic(name="t")] * LONG)


@attrs.define(eq=False)
class Place:
    """Place of an answer. A long answer is ready when it leaves: it is encoded in slices."""

    number: int
    kind: Kind
    is_ready: bool = False

    @property
    def answer(self) -> MetadataResponse | None:
        if not self.kind.has_answer:
            return None
        return LONG_ANSWER if self.kind.is_answer_long else SHORT_ANSWER

    def take_answer(self) -> MetadataResponse | None:
        self.is_ready = self.answer is not LONG_ANSWER
        return self.answer


class Connection(RuleBasedStateMachine):
    """One connection with its peer, its handlers and its model."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = ExitStack()
        time = itertools.count()
        self.tick = 0.0
        for name, limit in SMALL.items():
            self.patches.enter_context(patch(f"pylogbroker.net.{name}", limit))
        self.patches.enter_context(patch("pylogbroker.net.protocol.perf_counter", lambda: next(time) * self.tick))
        self.patches.enter_context(patch.object(AnswerQueue, "slots_max", SLOTS_MAX))
        self.clock = Clock()
        self.factory = FakeFactory((), self.clock, deferred_actions=DeferredActions(self.clock))
        self.factory.apis = (Api.of(MetadataRequest, self.handle),)
        self.factory.services = SimpleNamespace(
            runtime=SimpleNamespace(slices=counted_slices(self.clock), in_thread=None)
        )
        self.factory.quotas = SimpleNamespace(meters=SimpleNamespace(handle=self.handle_with_quota))
        self.protocol, self.transport = connect(self.factory)
        self.socket: deque[bytes] = deque()
        self.numbers = itertools.count()
        self.waiting: list[tuple[Deferred[Any], Place]] = []
        self.others_in_line = 0
        self.mistakes: list[str] = []
        self.chunks_seen = 0
        self.unparsed = b""
        self.out: list[int] = []
        # the model
        self.kinds: list[Kind] = []
        self.received = b""  # of an incomplete request
        self.arrived: list[int] = []
        self.begun: list[int] = []
        self.places: list[Place] = []
        self.left: list[int] = []
        self.steps = 0  # of handlers that run in slices, or have just ended
        self.ended_steps = 0
        self.muted_until = 0.0
        self.is_finishing = self.is_closed = self.is_lost = False
        self.iterations = 0

    # -- handlers ------------------------------------------------------------------------------------------------

    def handle_with_quota(
        self,
        handler: Any,
        services: Any,
        context: Any,
        request: MetadataRequest,
        size: int,
        mute: Callable[[int], None],
    ) -> Any:
        number, kind = self.read_name(request)
        answer = handler(services, context, request)
        if kind.way == "mute":
            self.mute(number, mute)
        elif kind.way == "later-mute":
            answer.addCallback(lambda result: self.mute(number, mute) or result)
        return answer

    def mute(self, number: int, mute: Callable[[int], None]) -> None:
        seconds = 0.25 + number % 3
        self.muted_until = max(self.muted_until, self.clock.seconds() + seconds)
        mute(round(1000 * seconds))

    def read_name(self, request: MetadataRequest) -> tuple[int, Kind]:
        assert request.topics is not None
        number, kind = (request.topics[0].name or "").split(" ")[:2]
        return int(number), KINDS[int(kind)]

    def handle(self, services: Any, context: Any, request: MetadataRequest, /) -> Any:
        number, kind = self.read_name(request)
        self.check_begin(number)
        place = Place(number, kind)
        match kind.way:
            case "nothing":
                return None
            case "now" | "mute":
                self.places.append(place)
                return place.take_answer()
            case "violation":
                self.end_model()
                raise ProtocolViolation("a test")
        self.places.append(place)
        match kind.way:
            case "coroutine-wake":
                return self.wake_first(place)
            case "steps" | "steps-later":
                self.steps += 1
                return self.step(place)
            case "wake":
                self.factory.deferred_actions.defer(self.wake)
        return self.wait(place)

    def check_begin(self, number: int) -> None:
        """Note whether this request may begin now: the connection answers what handlers raise."""
        self.take_out()
        self.begun.append(number)
        reasons = {
            "order": self.begun != self.arrived[: len(self.begun)],
            "finishing": self.is_finishing,
            "closed": self.is_closed,
            "steps": self.steps > 0,
            "answers in line": len(self.left) - len(self.out) > OUT_CHUNKS_MAX,
        }
        if self.kinds[number].size != "long":  # else its decoding began earlier
            reasons["muted"] = self.clock.seconds() < self.muted_until
            reasons["places"] = len(self.places) >= SLOTS_MAX
            reasons["unsent"] = self.transport.unsent_bytes > UNSENT_BYTES_MAX
        self.mistakes += [f"{number} begins: {reason}" for reason, is_there in reasons.items() if is_there]

    def wait(self, place: Place) -> Deferred[Any]:
        later: Deferred[Any] = Deferred()
        self.waiting.append((later, place))
        return later

    async def step(self, place: Place) -> Any:
        for _ in range(3):
            await give_way()
        self.ended_steps += 1
        return await self.wait(place) if place.kind.way == "steps-later" else place.take_answer()

    async def wake_first(self, place: Place) -> Any:
        self.wake()
        return place.take_answer()

    def wake(self) -> None:
        waiting, self.waiting = self.waiting, []
        for later, place in waiting:
            later.callback(place.take_answer())

    # -- the peer, and time --------------------------------------------------------------------------------------

    @rule(
        kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=6),
        cuts=st.lists(st.integers(1, 1500), max_size=3),
        most=st.integers(0, 5),
    )
    def send(self, kinds: list[Kind], cuts: list[int], most: int) -> None:
        """Let the peer send requests; deliver pieces of what it has sent."""
        self.kinds += kinds
        data = b"".join(numbered(kind, next(self.numbers)) for kind in kinds)
        edges = [0, *sorted({cut for cut in cuts if cut < len(data)}), len(data)]
        self.socket += [data[start:end] for start, end in itertools.pairwise(edges)]
        self.receive(most)

    @precondition(lambda self: self.may_receive)
    @rule(most=st.integers(1, 5))
    def receive(self, most: int) -> None:
        """Deliver pieces while the connection reads."""
        for _ in range(most):
            if self.may_receive:
                self.receive_piece()

    @property
    def may_receive(self) -> bool:
        return bool(self.socket) and self.transport.reading and not self.is_lost

    def receive_piece(self) -> None:
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

    @initialize(tick=st.sampled_from((0.0, 0.003)))
    def let_time_pass(self, tick: float) -> None:
        """Let requests take no time, or a round have time for two."""
        self.tick = tick

    @precondition(lambda self: not self.transport.full)
    @rule()
    def stop_taking(self) -> None:
        self.transport.full = True

    @precondition(lambda self: self.transport.full and not self.is_lost)
    @rule()
    def take(self) -> None:
        """Let the peer take the answers that it has left in the socket."""
        self.transport.full = False
        if self.transport.kept:
            self.transport.drain(self.protocol)

    @precondition(lambda self: self.waiting)
    @rule(index=st.integers(0, 5))
    def answer(self, index: int) -> None:
        later, place = self.waiting.pop(index % len(self.waiting))
        later.callback(place.take_answer())

    @precondition(lambda self: not self.others_in_line)
    @rule()
    def use_line_of_large_requests(self) -> None:
        """Let another connection handle a large request in this iteration."""
        self.others_in_line += 1
        self.factory.large_requests.run(self.leave_line)

    def leave_line(self) -> None:
        self.others_in_line -= 1

    @rule(seconds=st.sampled_from((0.0, 0.0, 0.0, 0.5, 3.0)), times=st.integers(1, 3))
    def iterate_often(self, seconds: float, times: int) -> None:
        for _ in range(times):
            self.iterate(seconds)
            seconds = 0.0

    def iterate(self, seconds: float) -> None:
        """Run the calls that are due, as the reactor does: not those that they schedule or put off."""
        self.iterations += 1
        self.clock.rightNow += seconds
        ended, self.ended_steps = self.ended_steps, 0
        self.steps -= ended
        for call in [call for call in self.clock.calls if call.getTime() <= self.clock.seconds()]:
            if call.active() and call.getTime() <= self.clock.seconds():
                self.clock.calls.remove(call)
                call.called = 1
                call.func(*call.args, **call.kw)

    @precondition(lambda self: self.iterations > 5 and not self.is_lost)
    @rule(how=st.sampled_from(("finish", "finish", "close", "lose")))
    def end(self, how: str) -> None:
        """Let the connection end, after some iterations."""
        if how == "finish":
            self.is_finishing = True
            self.arrived = self.begun[:]
            self.protocol.finish()
            return
        self.end_model()
        if how == "close":
            self.protocol.close_because("a test")
        else:
            self.is_lost = True
            self.protocol.connectionLost()

    # -- checks --------------------------------------------------------------------------------------------------

    def end_model(self) -> None:
        """Let nothing begin or leave any more."""
        self.take_out()
        self.is_closed = True
        self.arrived = self.begun[:]

    def parse_out(self) -> None:
        """Read the numbers of the answers that have left since the last call, from their bytes."""
        chunks = (self.transport.sent + self.transport.kept)[self.chunks_seen :]
        self.chunks_seen += len(chunks)
        self.unparsed = b"".join([self.unparsed, *map(bytes, chunks)])
        while self.unparsed:
            size, number = struct.unpack_from(">ii", self.unparsed)
            self.out.append(number)
            self.unparsed = self.unparsed[4 + size :]

    def take_out(self) -> None:
        """Remove the places of answers that have left."""
        self.parse_out()
        while self.places and not self.is_closed:
            first = self.places[0]
            if not (
                first.is_ready or (first.answer is LONG_ANSWER and first.number in self.out[-OUT_CHUNKS_MAX * 2 :])
            ):
                break
            del self.places[0]
            if first.kind.has_answer:
                self.left.append(first.number)

    @invariant()
    def requests_begin_in_order_when_they_may(self) -> None:
        assert self.mistakes == []

    @invariant()
    def answers_leave_in_order_and_at_once(self) -> None:
        self.take_out()
        assert self.out == self.left

    @invariant()
    def reading_is_paused_exactly_when_no_request_may_begin(self) -> None:
        if self.is_closed:
            return
        self.take_out()
        if self.is_finishing:
            assert not self.transport.reading or self.transport.closed
            assert (self.transport.closed == "after sending") == (not self.places)
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
    def only_requests_that_have_not_begun_are_queued(self) -> None:
        assert self.protocol.requests_queued <= len(self.arrived) - len(self.begun)

    @invariant()
    def memory_counts_what_is_held(self) -> None:
        if self.is_closed:
            return
        counted = self.factory.memory.total
        incomplete = int.from_bytes(self.received[:4], "big") if len(self.received) >= 4 else len(self.received)
        held = self.transport.unsent_bytes + incomplete
        if self.places or len(self.begun) < len(self.arrived):
            assert counted >= held
        elif not self.is_finishing:
            assert counted == held

    def check(self) -> None:
        self.requests_begin_in_order_when_they_may()
        self.answers_leave_in_order_and_at_once()
        self.reading_is_paused_exactly_when_no_request_may_begin()
        self.only_requests_that_have_not_begun_are_queued()
        self.memory_counts_what_is_held()

    def teardown(self) -> None:
        try:
            self.come_to_rest()
            assert self.begun == self.arrived
            assert self.is_closed or not self.places
            if not self.is_lost:
                self.protocol.connectionLost()
            assert self.factory.memory.total == 0
        finally:
            self.patches.close()

    def come_to_rest(self) -> None:
        """Deliver, take and answer all; fail if that ends nowhere."""
        rounds_without_progress = 0
        while self.is_at_work:
            before = self.progress
            if self.is_closed or self.is_finishing:
                self.socket.clear()
            elif self.may_receive:
                self.receive_piece()
                self.check()
            self.iterate(1.0)
            if not self.is_lost:
                self.take()
            if self.waiting:
                self.answer(0)
            self.check()
            rounds_without_progress = rounds_without_progress + 1 if before == self.progress else 0
            assert rounds_without_progress < ROUNDS_WITHOUT_PROGRESS_MAX
        self.check()

    @property
    def is_at_work(self) -> bool:
        return bool(self.socket or self.waiting or self.clock.calls or (self.transport.kept and not self.is_lost))

    @property
    def progress(self) -> tuple[int, ...]:
        return len(self.socket), len(self.waiting), len(self.begun), len(self.out), self.others_in_line


TestConnection = Connection.TestCase
TestConnection.settings = settings(max_examples=examples(1000, 60), stateful_step_count=40, deadline=None)
