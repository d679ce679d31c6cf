"""Handlers of a broker with faults: each API's own handler, and what faults do before, after or instead of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import isawaitable, iscoroutine
from typing import Any, Protocol

import attrs
from twisted.internet.defer import Deferred

from pylogbroker.broker.requests.api import Api
from pylogbroker.broker.security.rules import with_fields
from pylogbroker.errors import ErrorCode, ProtocolViolation
from pylogbroker.testing.faults.answers import ErrorAnswers, merge
from pylogbroker.testing.faults.criteria import Call, Criteria
from pylogbroker.testing.faults.fault import CloseMoment, Fault
from pylogbroker.wire.messages.fetch import FetchRequest
from pylogbroker.wire.messages.produce import ProduceRequest

Work = Callable[[Call], Any]


class Layer(Protocol):
    """Changes what a broker does; layers are around its handlers."""

    async def handle(self, call: Call, work: Work, /) -> Any:
        """Return the answer, as a rule that of `await work(call)`."""


async def _own_work(call: Call) -> Any:
    """Run the API's own handler to its end."""
    slices, connection = call.services.runtime.slices, call.connection
    answer = call.api.handle(call.api.select_services(call.services), call.context, call.request)
    if iscoroutine(answer):
        on_waiting = () if connection is None else (connection.pause, connection.go_on)
        answer = slices.attempt(answer, *on_waiting)
    return await answer if isinstance(answer, Deferred) else answer


def layered(layers: Sequence[Layer]) -> Work:
    work: Work = _own_work
    for layer in reversed(layers):
        work = _inside(layer, work)
    return work


def _inside(layer: Layer, work: Work) -> Work:
    async def handle(call: Call) -> Any:
        return await layer.handle(call, work)

    return handle


async def paused(call: Call, waiting: Any) -> Any:
    """Wait; handle no other request of the connection meanwhile, as Kafka handles one at a time."""
    if call.connection is None:
        return await waiting
    call.connection.pause()
    try:
        return await waiting
    finally:
        call.connection.go_on()


async def strike(fault: Fault, call: Call, work: Work) -> Any:
    """Let a fault act on a request that it has noted."""
    action, code = fault.action, fault.error
    if not action.after:
        await _wait(fault, call)
    if action.on_hit is not None:
        action.on_hit(call)
    if action.close is CloseMoment.BEFORE:
        return _closed(call)
    answer = await _answer(fault, code, call, work)
    if action.after:
        await _wait(fault, call)
    if action.close is CloseMoment.AFTER:
        return _closed(call)
    if answer is not None and action.throttle_ms and hasattr(answer, "throttle_time_ms"):
        answer.throttle_time_ms = action.throttle_ms
    if answer is not None and action.close is CloseMoment.MID_FRAME and call.connection is not None:
        call.connection.cut(answer)
    return answer


async def _wait(fault: Fault, call: Call) -> None:
    action = fault.action
    if action.delay:
        await paused(call, _sleep(call, action.delay))
    if action.hold:
        await paused(call, fault.released())


def _sleep(call: Call, seconds: float) -> Deferred[None]:
    clock = call.services.runtime.clock if call.connection is None else call.connection.timers
    waiting: Deferred[None] = Deferred(lambda _: later.cancel())
    later = clock.callLater(seconds, lambda: waiting.callback(None))
    return waiting


def _closed(call: Call) -> None:
    if call.connection is not None:
        call.connection.close_now()


async def _answer(fault: Fault, code: ErrorCode | None, call: Call, work: Work) -> Any:
    scripted = fault.action.answer
    if callable(scripted):
        scripted = scripted(call.context, call.request)
        scripted = await scripted if isawaitable(scripted) else scripted
    if scripted is not None:
        return scripted
    if code is None:
        return await work(call)
    return await answer_with(code, fault.criteria, call, work, after=fault.action.after)


async def answer_with(code: ErrorCode, criteria: Criteria, call: Call, work: Work, after: bool = False) -> Any:
    """Return an answer with an error for the elements that the criteria select; the others are real."""
    errors = ErrorAnswers(call, criteria, code)
    if errors.target is None:
        raise ProtocolViolation(f"{call.api.name} {call.context.api_version} has no field for {code.name}")
    if after:
        answer = await work(call)
        if answer is not None:
            errors.overwrite(answer)
        return answer
    if isinstance(call.request, ProduceRequest) and call.request.acks == 0:
        raise ProtocolViolation(f"a produce with acks=0 failed: {code.name}, by a fault")
    if errors.concerns_whole_request:
        return errors.mirrored()
    if call.api.is_read:
        return await _read(errors, call, work)
    rest = errors.rest()
    if rest is None:
        return errors.mirrored()
    return merge(await work(attrs.evolve(call, request=rest)), errors.mirrored(), call.topic_names)


async def _read(errors: ErrorAnswers, call: Call, work: Work) -> Any:
    """Read at once, and put the error into the answer: so a session learns which partitions are fetched."""
    immediate = call
    if isinstance(call.request, FetchRequest):
        immediate = attrs.evolve(call, request=with_fields(call.request, max_wait_ms=0))
    mirrored = errors.mirrored()
    answer = await work(immediate)
    errors.overwrite(answer)
    return merge(answer, mirrored, call.topic_names)


def faulty(api: Api, handle: Callable[[Api, Any, Any], Any]) -> Api:
    """Return an API whose handler is `handle`."""
    return api.handled_by(lambda own: lambda services, context, request: handle(own, context, request))
