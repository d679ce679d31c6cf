"""Requests that repeat an earlier one of their connection, handled without decoding and encoding.

A client sends the same request over and over: a produce differs from the one before in its correlation id and its
records, a fetch in its offset. After a usual answer, what is constant in request and answer is remembered as bytes. The
usual path has all rules. A repeated request checks what they depend on, and leaves what is unusual to it, with the same
result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final, Protocol

from twisted.internet.defer import Deferred

from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.wire import Chunk

CORRELATION_ID_AT: Final = 4
"""Position in a frame behind API key and version."""

PREFIX_AT: Final = 8
"""Position in a frame behind API key, version and correlation id."""

NOTHING: Final[tuple[int, list[Chunk]]] = 0, []
"""Number and answers, if no request has the form."""


class Cancellable(Protocol):
    def cancel(self) -> None:
        """End the wait: the connection is lost."""


class AnswerPlace(Protocol):
    """Place of an answer that comes later; `work` is what the connection cancels when it is lost."""

    work: Deferred[Any] | Cancellable | None

    @property
    def correlation_id(self) -> int: ...
    def encoded(self, chunks: list[Chunk], /) -> None:
        """Send an encoded answer."""

    def await_answer(self, answer: Deferred[Any], /) -> None:
        """Encode and send the answer of the usual path."""


class TakePlace(Protocol):
    def __call__(self, correlation_id: int, held: int, requests: int = 1, /) -> AnswerPlace:
        """Return the place of an answer, or of those to several `requests` in a row; these have `held` bytes."""


class RepeatedRequest(Protocol):
    """Form of requests of one version and their answers; `prefix` is how frames begin behind the correlation id."""

    @property
    def prefix(self) -> bytes: ...
    @property
    def context(self) -> RequestContext:
        """Version and client of the requests."""

    @property
    def is_over(self) -> bool:
        """True if no request will have this form any more; another one may be learned instead."""

    @property
    def takes_places(self) -> bool:
        """True if all answers take their places, so that requests may come behind one that waits."""

    @property
    def joinable(self) -> JoinableRequest | None:
        """This form, if requests of several connections may be handled together, and there seem to be several."""

    def answer_run(self, frames: Sequence[memoryview], take_place: TakePlace, /) -> tuple[int, list[Chunk]]:
        """Handle the first requests of `frames` that have this form; return their number and their answers.

        The first one has the API, version and prefix of this form.
        An answer that has to wait takes its place instead. The next request takes the usual path, unless the form
        `takes_places`.
        """


class JoinedRequests(Protocol):
    """First requests of a connection that are handled together with those of others.

    `frames` is the queue of the connection; the first of them may have another form. Without an `outcome` they are
    handled alone.
    """

    @property
    def frames(self) -> deque[memoryview]: ...
    @property
    def form(self) -> Any: ...

    outcome: Any


class JoinableRequest(RepeatedRequest, Protocol):
    """Form of requests that are handled together with those of other connections that change the same `subject`."""

    @property
    def subject(self) -> Any: ...
    def handle_joined(self, joined: Sequence[JoinedRequests], /) -> None:
        """Handle requests of this subject up to the first unusual one.

        Those that are handled are removed from their queues, and an outcome stands for them.
        """

    def answer_joined(self, outcome: Any, take_place: TakePlace, /) -> tuple[int, list[Chunk]]:
        """Return number and answers of requests that were handled; see `answer_run`."""
