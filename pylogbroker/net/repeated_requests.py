"""Forms of a connection's requests that may repeat (see `pylogbroker.broker.repeated`), found by a frame's prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pylogbroker.broker.repeated import PREFIX_AT

if TYPE_CHECKING:
    from pylogbroker.broker.repeated import RepeatedRequest
    from pylogbroker.broker.requests.context import RequestContext
    from pylogbroker.net.routes import Route

_FORMS_MAX: Final = 64
_LENGTHS_MAX: Final = 4
_PREFIX_BYTES_MAX: Final = 512


class RepeatedRequests:
    """Forms by prefix. Prefixes have few lengths, and each is tried. Later forms are not learned when it is full."""

    __slots__ = ("_by_prefix", "_prefix_ends")

    def __init__(self) -> None:
        self._by_prefix: dict[bytes, tuple[Route, RepeatedRequest]] = {}
        self._prefix_ends: list[int] = []

    def __len__(self) -> int:
        return len(self._by_prefix)

    def find(self, frame: memoryview) -> tuple[Route, RepeatedRequest] | None:
        for end in self._prefix_ends:
            prefix = frame[PREFIX_AT:end].tobytes()
            form = self._by_prefix.get(prefix)
            if form is not None:
                if not form[1].is_over:
                    return form
                del self._by_prefix[prefix]
        return None

    def learn(
        self,
        route: Route,
        context: RequestContext,
        frame: memoryview,
        body_at: int,
        request: Any,
        response: Any,
    ) -> None:
        """Remember the form of a request that was answered, if it has one that is not known."""
        if len(self._by_prefix) >= _FORMS_MAX or route.learn is None or self.find(frame) is not None:
            return
        form = route.learn(route.services, context, frame, body_at, request, response)
        if form is None or len(form.prefix) > _PREFIX_BYTES_MAX:
            return
        end = PREFIX_AT + len(form.prefix)
        if end not in self._prefix_ends:
            if len(self._prefix_ends) == _LENGTHS_MAX:
                return
            self._prefix_ends.append(end)
        self._by_prefix[form.prefix] = route, form
