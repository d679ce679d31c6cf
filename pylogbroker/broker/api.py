"""Registration of APIs: `serves` declares the request that a module of `pylogbroker.broker.apis` handles.

`access` declares what its sender must be allowed (see `pylogbroker.broker.security.rules`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import attrs

from pylogbroker.broker.security.rules import Rule, Shortcut, guard
from pylogbroker.wire import SUPPORTED, Request, Response, Versions

Handler = Callable[..., Any]
H = TypeVar("H", bound=Handler)

_registered: dict[int, Api] = {}


@attrs.frozen
class Api:
    """An API and its handler.

    `handle(broker, context, request)` runs on the reactor thread. It returns the response, an awaitable of it, a
    generator of steps that returns one of these, or None for no answer. The connection's next requests wait for a
    generator.
    """

    request: type[Request]
    handle: Handler
    is_read: bool = False
    """The API changes nothing, so its work stops when the connection closes (see `context`)."""
    cluster_only: bool = False
    """A broker that is alone in its cluster does not offer the API."""
    access: tuple[Rule, ...] = ()
    shortcut: Shortcut | None = None
    """Way around the rules for requests that are known to be allowed (see `pylogbroker.broker.security.rules`)."""

    @property
    def key(self) -> int:
        return self.request.api_key

    @property
    def response(self) -> type[Response]:
        return SUPPORTED[self.key][1]

    @property
    def versions(self) -> Versions:
        return self.request.versions

    @property
    def name(self) -> str:
        return self.request.__name__.removesuffix("Request")

    def guarded(self) -> Api:
        """Return the API as a broker with an authorizer serves it; raise ValueError without a rule."""
        if not self.access:
            raise ValueError(f"{self.name} does not say what its sender must be allowed")
        return attrs.evolve(self, handle=guard(self.handle, self.access, self.shortcut))


def serves(
    request: type[Request],
    *,
    access: Sequence[Rule],
    shortcut: Shortcut | None = None,
    is_read: bool = False,
    cluster_only: bool = False,
) -> Callable[[H], H]:
    def register(handle: H) -> H:
        api = Api(request, handle, is_read, cluster_only, tuple(access), shortcut)
        other = _registered.setdefault(api.key, api)
        if other is not api:
            raise ValueError(f"{api.name} has two handlers: {other.handle.__module__} and {handle.__module__}")
        return handle

    return register


def registered() -> tuple[Api, ...]:
    return tuple(_registered[key] for key in sorted(_registered))
