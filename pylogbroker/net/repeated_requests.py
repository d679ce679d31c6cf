"""Forms of a connection's requests that may repeat, found by how a frame begins (see `pylogbroker.broker.repeated`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from twisted.internet.defer import Deferred

from pylogbroker.broker.repeated import CORRELATION_ID_AT, PREFIX_AT

if TYPE_CHECKING:
    from pylogbroker.broker.repeated import RepeatedRequest
    from pylogbroker.broker.requests.context import RequestContext
    from pylogbroker.net.routes import Route

_FORMS_MAX: Final = 64
_LENGTHS_MAX: Final = 4
_PREFIX_BYTES_MAX: Final = 512
_AWAITED_READ_BYTES_MAX: Final = 1024
_AWAITED_WRITE_BYTES_MAX: Final = 32 * 1024
"""A request whose answer waits is copied; a larger one teaches less."""
_FAILURES_MAX: Final = 1000
"""After so many requests in a row that have no form, the connection learns nothing more."""


class RepeatedRequests:
    """Forms by API, version and prefix. Prefixes have few lengths: each is tried, the longest, most exact one first.

    When it is full, later forms are learned in the place of those that are over. `last` has route and form of the
    last request that had any.
    """

    __slots__ = ("_by_start", "_failures", "_prefix_ends", "last")

    def __init__(self) -> None:
        self._by_start: dict[bytes, tuple[Route, RepeatedRequest]] = {}
        self._prefix_ends: list[int] = []
        self._failures = 0
        self.last: tuple[Route, RepeatedRequest] | tuple[()] = ()

    def __len__(self) -> int:
        return len(self._by_start)

    def find(self, frame: memoryview) -> tuple[Route, RepeatedRequest] | None:
        start = frame[:CORRELATION_ID_AT].tobytes()
        for end in self._prefix_ends:
            key = start + frame[PREFIX_AT:end]
            form = self._by_start.get(key)
            if form is not None:
                if not form[1].is_over:
                    self.last = form
                    return form
                del self._by_start[key]
        return None

    def learn(
        self, route: Route, context: RequestContext, frame: memoryview, body_at: int, request: Any, answer: Any
    ) -> None:
        """Remember the form of a request, if it has one that is not known, when its answer is there.

        Large requests are not kept until then: they have a form only if that needs no answer.
        """
        if self._failures == _FAILURES_MAX or self._is_full() or self.find(frame) is not None:
            return
        if not isinstance(answer, Deferred):
            self._add(route, context, frame, body_at, request, answer)
        elif len(frame) > (_AWAITED_READ_BYTES_MAX if route.is_read else _AWAITED_WRITE_BYTES_MAX):
            self._add(route, context, frame, body_at, request, None)
        else:
            copy = memoryview(bytes(frame))  # the frame is part of a larger buffer

            def learn_from(response: Any) -> Any:
                if isinstance(response, route.response_type):
                    self._add(route, context, copy, body_at, request, response)
                return response

            answer.addCallback(learn_from)

    def _is_full(self) -> bool:
        if len(self._by_start) >= _FORMS_MAX:
            self._by_start = {key: form for key, form in self._by_start.items() if not form[1].is_over}
        return len(self._by_start) >= _FORMS_MAX

    def _add(
        self, route: Route, context: RequestContext, frame: memoryview, body_at: int, request: Any, response: Any
    ) -> None:
        form = None if route.learn is None else route.learn(route.services, context, frame, body_at, request, response)
        if form is None or len(form.prefix) > _PREFIX_BYTES_MAX:
            self._failures += 1
            return
        self._failures = 0
        end = PREFIX_AT + len(form.prefix)
        if end not in self._prefix_ends:
            if len(self._prefix_ends) == _LENGTHS_MAX:
                return
            self._prefix_ends = sorted([*self._prefix_ends, end], reverse=True)
        self._by_start[frame[:CORRELATION_ID_AT].tobytes() + form.prefix] = route, form
