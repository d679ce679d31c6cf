"""Places of answers that are not ready, or wait for earlier ones: answers leave in the order of the requests."""

from __future__ import annotations

from collections import Counter
from typing import Any, Protocol

import attrs
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.broker.repeated import Cancellable
from pylogbroker.errors import KafkaError, ProtocolViolation
from pylogbroker.net.latencies import MeasuredWait
from pylogbroker.net.limits import MemoryLimit
from pylogbroker.wire import Chunk

log = Logger()


class ResponseEncoder(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def response_type(self) -> Any: ...
    @property
    def is_read(self) -> bool: ...
    @property
    def errors(self) -> Counter[int]: ...
    @property
    def has_error_code(self) -> bool: ...
    def encode_if_short(self, correlation_id: int, answer: Any, structs_max: int, /) -> list[Chunk] | None: ...
    async def encode_in_steps(self, correlation_id: int, answer: Any, /) -> list[Chunk]: ...


class AnswerTaker(Protocol):
    """Queue of a connection's answers."""

    def answer_ready(self, slot: ResponseSlot, answer: Any, /) -> None: ...
    def answer_encoded(self, slot: ResponseSlot, chunks: list[Chunk], /) -> None: ...
    def answer_failed(self, slot: ResponseSlot, failure: Failure, /) -> None: ...
    def answer_broken(self, failure: Failure, /) -> None: ...


@attrs.define(eq=False, repr=False)
class ResponseSlot:
    """Place of an answer that is not ready, or waits for earlier ones.

    stage     work                      is_encoding  chunks  held: bytes of
    --------  ------------------------  -----------  ------  -----------------------------------
    handled   None; then of the handler False        None    the request
    encoding  of the encoder            True         None    the request
    encoded   None                      either       yes     the answer, if it waits for others

    A short answer is never in the stage `encoding`. Without `answers` the connection is lost, in any stage.
    """

    answers: AnswerTaker | None  # None: the connection is lost
    route: ResponseEncoder
    correlation_id: int
    held: int
    measured: MeasuredWait | None = None
    chunks: list[Chunk] | None = None
    work: Deferred[Any] | Cancellable | None = None
    is_encoding: bool = False

    def await_answer(self, work: Deferred[Any]) -> None:
        self.work = work
        work.addCallbacks(self.ready, self._failed)

    def await_encoding(self, work: Deferred[list[Chunk]]) -> None:
        self.work, self.is_encoding = work, True
        work.addCallback(self.encoded).addErrback(self._broken)

    def detach(self, memory: MemoryLimit) -> int:
        """Cancel reads and encoding; return the bytes that stay in use until the work is done."""
        self.answers = None
        work, self.work = self.work, None
        if work is None:
            return 0
        if self.route.is_read or self.is_encoding or not isinstance(work, Deferred):
            work.cancel()
            return 0
        work.addBoth(lambda _: memory.released(self.held))
        return self.held

    def ready(self, answer: Any) -> None:
        if self.answers is not None:
            try:  # an errback of its own would cost each answer more
                self.answers.answer_ready(self, answer)
            except Exception:
                self._broken(Failure())

    def _failed(self, failure: Failure) -> None:
        if self.answers is not None:
            try:
                self.answers.answer_failed(self, failure)
            except Exception:
                self._broken(Failure())
        elif not failure.check(CancelledError, KafkaError, ProtocolViolation):
            log.failure("{api} failed after its connection was closed", failure, api=self.route.name)

    def encoded(self, chunks: list[Chunk]) -> None:
        if self.answers is not None:
            self.answers.answer_encoded(self, chunks)

    def _broken(self, failure: Failure) -> None:
        if self.answers is not None:
            self.answers.answer_broken(failure)
