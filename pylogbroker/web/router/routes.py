"""Routes: method, path and handler; and the router that finds one of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Final
from urllib.parse import unquote

import attrs

from pylogbroker.web.router.parameters import BadRequest, Parameters

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
EVENTS: Final = "text/event-stream"
HTML: Final = "text/html"
FILE: Final = "application/octet-stream"
"""A file, which the handler writes in its own type."""
_BODILESS: Final = ("GET", "DELETE")
_LISTED_MAX: Final = 8
_HIDDEN: Final = frozenset(("self", "visitor", "request", "call"))
"""Parameters of handlers that no request gives."""


class NoRoute(LookupError):
    """No route has the path; the message names likely ones."""


class MethodNotAllowed(LookupError):
    """The path has other methods, which `allowed` names."""

    def __init__(self, message: str, allowed: Sequence[str]) -> None:
        super().__init__(message)
        self.allowed = allowed


@attrs.frozen(slots=False)
class HttpRoute:
    """`declared` has the parameters in place of `handle`, `answer` the type of the answer.

    With `body`, the type of a body as a whole, all parameters but those of the path are in the query.
    """

    method: str
    path: str
    handle: Callable[..., Any]
    media: str = attrs.field(default=JSON, kw_only=True)
    declared: Callable[..., Any] | None = attrs.field(default=None, kw_only=True)
    answer: Any = attrs.field(default=None, kw_only=True)
    body: Any = attrs.field(default=None, kw_only=True)
    lines: Any = attrs.field(default=None, kw_only=True)
    """Type of a line, if the body may also be a stream of lines."""
    other_answers: Mapping[str, Any] = attrs.field(factory=dict, kw_only=True)
    """Types of answers in other media, by these."""
    other_statuses: Mapping[int, str] = attrs.field(factory=dict, kw_only=True)
    """Other statuses of answers that are no errors, with descriptions."""
    error: Any = attrs.field(default=None, kw_only=True)
    """Type of errors that are not those of the API."""
    hidden: frozenset[str] = attrs.field(default=_HIDDEN, kw_only=True)
    operation: str = attrs.field(default="", kw_only=True)
    """Name of the operation, by default that of the function."""
    is_shared: bool = attrs.field(default=False, kw_only=True)
    """Whether the work of an answer is done for all who look at the same: they count apart from others."""

    @cached_property
    def segments(self) -> tuple[str, ...]:
        return tuple(self.path.split("/")[1:])

    @cached_property
    def placeholders(self) -> tuple[str, ...]:
        return tuple(segment[1:-1] for segment in self.segments if segment.startswith("{"))

    @cached_property
    def parameters(self) -> Parameters:
        return Parameters(self.declared or self.handle, self.hidden)

    @property
    def name(self) -> str:
        return self.operation or getattr(self.declared or self.handle, "__name__", "").strip("_")

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.declared or self.handle) or "").partition("\n\n")[0].replace("\n", " ")

    @property
    def answer_type(self) -> Any:
        return self.parameters.answer if self.answer is None else self.answer

    @property
    def has_body(self) -> bool:
        return self.method not in _BODILESS

    def match(self, segments: Sequence[str]) -> dict[str, str] | None:
        """Return the parts of a path in braces, None for another path."""
        if len(segments) != len(self.segments):
            return None
        parts = {}
        for own, given in zip(self.segments, segments, strict=True):
            if own.startswith("{") and given:
                parts[own[1:-1]] = unquote(given)
            elif own != given:
                return None
        return parts

    def arguments(
        self, parts: Mapping[str, str], texts: Mapping[str, str], members: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the handler's arguments: parts of the path, texts of a query or form, members of a body.

        Raise BadRequest.
        """
        for name in parts:
            if name in texts or name in members:
                raise BadRequest(f"{name} is given twice: it is a part of the path")
        return self.parameters.read({**texts, **parts}, members)


class HttpRouter:
    """Finds routes; of two whose path matches, the one with fewer placeholders is taken."""

    def __init__(
        self, routes: Sequence[HttpRoute], description: str = "/openapi.json", others: Sequence[HttpRoute] = ()
    ) -> None:
        """Take routes; `others`, which another router has, are only named as hints."""
        self.routes = tuple(sorted(routes, key=lambda route: len(route.placeholders)))
        self._description = description
        self._paths = sorted({route.path for route in (*routes, *others)})

    def find(self, method: str, path: str) -> tuple[HttpRoute, dict[str, str]]:
        """Return the route of a request, and the parts of its path in braces.

        Raise NoRoute or MethodNotAllowed. HEAD is answered like GET.
        """
        segments = path.split("/")[1:]
        allowed: list[str] = []
        for route in self.routes:
            parts = route.match(segments)
            if parts is None:
                continue
            if route.method == ("GET" if method == "HEAD" else method):
                return route, parts
            allowed.append(route.method)
        if not allowed:
            raise NoRoute(self._no_route(path))
        if "GET" in allowed:
            allowed.append("HEAD")
        raise MethodNotAllowed(f"{path} has no {method}: it has {', '.join(sorted(allowed))}", sorted(allowed))

    def has_path(self, path: str) -> bool:
        """Return whether a path has a route of any method."""
        segments = path.split("/")[1:]
        return any(route.match(segments) is not None for route in self.routes)

    def _no_route(self, path: str) -> str:
        paths = self._paths
        likely = get_close_matches(path, paths, 1)
        hint = f": did you mean {likely[0]}?" if likely else ""
        below = [candidate for candidate in paths if candidate.startswith(f"{path.rstrip('/')}/")]
        if below:
            hint = f"; there are {', '.join(below[:_LISTED_MAX])}"
        return f"there is no {path}{hint} (see {self._description})"
