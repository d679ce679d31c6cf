"""Questions to other brokers, those that wait for a broker in one request.

    add --> waiting --one request for all--> in flight --answered, or failed--> the answer of each question fires
               ^                                 |
               +-------- added meanwhile --------+

One request to a broker is in flight at a time. Nothing is retried: only the asker knows whether it still wants to know.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.replication.leader_requests import RequestChannel
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.errors import KafkaError
from pylogbroker.rpc.channel_pool import ChannelPool
from pylogbroker.rpc.errors import Closed

log = Logger()


class Question(Protocol):
    @property
    def answer(self) -> Deferred[Any]: ...


Q = TypeVar("Q", bound=Question)
T = TypeVar("T")


@attrs.define(eq=False, repr=False)
class BrokerBatches(Generic[Q]):
    """`open_channel` raises NotConnected for a broker that is not alive; `ask` fires the answers, or raises."""

    _open_channel: Callable[[int], RequestChannel]
    _ask: Callable[[RequestChannel, Sequence[Q]], Awaitable[None]]
    _runtime: Runtime
    _waiting: dict[int, list[Q]] = attrs.field(factory=dict, init=False)
    _channels: ChannelPool[RequestChannel] = attrs.field(init=False)
    _running: dict[int, None] = attrs.field(factory=dict, init=False)
    _is_closed: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._channels = ChannelPool(self._open_channel)

    def add(self, broker_id: int, question: Q) -> None:
        """Ask soon, together with other questions; `answer` fails if the broker does not answer."""
        self._waiting.setdefault(broker_id, []).append(question)
        if broker_id not in self._running:
            self._running[broker_id] = None
            self._runtime.deferred_actions.defer(partial(self._start, broker_id))

    def disconnect(self, broker_id: int) -> None:
        """Fail the request to a broker that is gone, or has another address."""
        self._channels.disconnect(broker_id)

    def close(self) -> None:
        self._is_closed = True
        self._channels.close()

    def _start(self, broker_id: int) -> None:
        run_in_background(log, self._run(broker_id), "requests to broker {broker} end", broker=broker_id)

    async def _run(self, broker_id: int) -> None:
        try:
            while questions := self._waiting.pop(broker_id, []):
                await self._ask_all(broker_id, questions)
        finally:
            del self._running[broker_id]

    async def _ask_all(self, broker_id: int, questions: Sequence[Q]) -> None:
        error: Exception = KafkaError("the response has no answer to it")
        try:
            await self._ask(self._channel(broker_id), questions)
        except Exception as why:
            error = why
            self.disconnect(broker_id)
        for question in questions:
            if not question.answer.called:
                question.answer.errback(error)

    def _channel(self, broker_id: int) -> RequestChannel:
        if self._is_closed:
            raise Closed("the broker stops")
        return self._channels.channel(broker_id)


def batches_without_repetition(questions: Iterable[T], name: Callable[[T], object]) -> list[list[T]]:
    """Divide questions into lists in which each name occurs once, as responses are found by it."""
    batches: list[dict[object, T]] = []
    for question in questions:
        free = next((batch for batch in batches if name(question) not in batch), None)
        if free is None:
            batches.append({name(question): question})
        else:
            free[name(question)] = question
    return [list(batch.values()) for batch in batches]
