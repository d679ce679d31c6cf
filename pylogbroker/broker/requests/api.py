"""Registration of APIs: `serves` declares the request that a module of `pylogbroker.broker.apis` handles.

`access` declares what its sender must be allowed (see `pylogbroker.broker.security.rules`).

`answer_off` makes the answer of an API that is switched off (`Api.switched`), unless its code says enough.

The annotation of a handler's first parameter, `services`, declares the services that the API uses: a protocol of
`pylogbroker.broker.services`, a class `_Services` that joins several, or `object` for none. The handler and the rules
of access get an object that has these services alone (`pylogbroker.broker.requests.declared_services`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from pylogbroker.broker.requests.declared_services import declared_services, select_services
from pylogbroker.broker.requests.offered_versions import offered_versions, versions_in_3_9
from pylogbroker.errors import ErrorCode
from pylogbroker.features import on_first_use
from pylogbroker.wire import SUPPORTED, Request, Response, Versions

if TYPE_CHECKING:
    from pylogbroker.broker.repeated import RepeatedRequest
    from pylogbroker.broker.requests.context import RequestContext
    from pylogbroker.broker.security import rules
    from pylogbroker.broker.security.rules import Rule, Shortcut
else:
    rules = on_first_use("pylogbroker.broker.security.rules")

Handler = Callable[..., Any]
Learn = Callable[[Any, "RequestContext", memoryview, int, Any, Any], "RepeatedRequest | None"]
AnswerOff = Callable[[Any], Response]
H = TypeVar("H", bound=Handler)

_registered: dict[int, HandledRequest] = {}


def _always() -> bool:
    return True


@attrs.frozen
class HandledRequest:
    """Request and its handler.

    `handle(services, context, request)` runs on the reactor thread. It is a coroutine function if its work may be long
    (see `pylogbroker.long_loops`). Else it returns the response, a Deferred or coroutine of it, or None for no answer.
    The connection's next requests wait while a coroutine is paused, until it first waits for anything else.
    """

    request: type[Request]
    handle: Handler
    services: tuple[str, ...]
    """Names of the services that the handler declares."""
    is_read: bool = False
    """The API changes nothing, so its work stops when the connection closes (see `context`)."""
    access: tuple[Rule, ...] = ()
    shortcut: Shortcut | None = None
    """Way around the rules for requests that are known to be allowed (see `pylogbroker.broker.security.rules`)."""
    learn: Learn | None = None
    """Returns the form of a request that was answered, if it may repeat (see `pylogbroker.broker.repeated`)."""
    answer_off: AnswerOff | None = None
    """Returns the answer to a request while the API is switched off."""


@attrs.define(eq=False, repr=False)
class Api:
    """API that a broker offers; its request and its handler are imported when one of them is needed."""

    key: int
    name: str
    versions: Versions
    module: str
    """The handler's module."""
    cluster_only: bool
    """A broker that is alone in its cluster does not offer the API."""
    _load: Callable[[], HandledRequest]
    is_on: Callable[[], bool] = _always
    """Returns whether ApiVersions names the API now."""

    @classmethod
    def of(cls, request: type[Request], handle: Handler, is_read: bool = False) -> Api:
        """Return an API whose handler is there, without rules of access."""
        name = request.__name__.removesuffix("Request")
        handled = HandledRequest(request, handle, declared_services(handle), is_read)
        return cls(request.api_key, name, offered_versions(request.api_key), handle.__module__, False, lambda: handled)

    @cached_property
    def _handled(self) -> HandledRequest:
        return self._load()

    @property
    def request(self) -> type[Request]:
        return self._handled.request

    @property
    def response(self) -> type[Response]:
        return SUPPORTED[self.key][1]

    @property
    def handle(self) -> Handler:
        return self._handled.handle

    @property
    def services(self) -> tuple[str, ...]:
        return self._handled.services

    def select_services(self, services: Any) -> Any:
        """Return what the handler gets of a broker's services: those that it declares."""
        return select_services(services, self.services)

    @property
    def is_read(self) -> bool:
        return self._handled.is_read

    @property
    def access(self) -> tuple[Rule, ...]:
        return self._handled.access

    @property
    def shortcut(self) -> Shortcut | None:
        return self._handled.shortcut

    @property
    def learn(self) -> Learn | None:
        return self._handled.learn

    def handled_by(self, wrap: Callable[[Api], Handler]) -> Api:
        """Return the API with another handler, which `wrap` makes of this one when it is needed.

        What it answers is not learned: the next answer may be another one.
        """
        load = lambda: attrs.evolve(self._handled, handle=wrap(self), learn=None)  # noqa: E731
        return attrs.evolve(self, load=load)

    def forwarded_by(self, handle: Handler) -> Api:
        """Return the API with a handler that passes requests on to another node: it needs other services."""
        services = declared_services(handle)
        load = lambda: attrs.evolve(self._handled, handle=handle, services=services, learn=None)  # noqa: E731
        return attrs.evolve(self, load=load)

    def as_in_3_9(self) -> Api:
        """Return the API with the versions of Kafka 3.9."""
        return attrs.evolve(self, versions=versions_in_3_9(self.key))

    def guarded(self) -> Api:
        """Return the API as a broker with an authorizer serves it."""

        def load() -> HandledRequest:
            handled = self._handled
            return attrs.evolve(handled, handle=rules.guard(handled.handle, handled.access, handled.shortcut))

        return attrs.evolve(self, load=load)

    def switched(self, is_on: Callable[[], bool]) -> Api:
        """Return the API, which answers UNSUPPORTED_VERSION while it is off: clients may have seen it offered."""

        def load() -> HandledRequest:
            handled = self._handled
            handle, answer_off = handled.handle, handled.answer_off or _unsupported

            def handle_if_on(services: Any, context: RequestContext, request: Any) -> Any:
                return handle(services, context, request) if is_on() else answer_off(request)

            return attrs.evolve(handled, handle=handle_if_on)

        return attrs.evolve(self, load=load, is_on=is_on)


def _unsupported(request: Request) -> Response:
    response: Any = SUPPORTED[request.api_key][1]()
    response.error_code = ErrorCode.UNSUPPORTED_VERSION
    return response  # type: ignore[no-any-return]


def serves(
    request: type[Request],
    *,
    access: Sequence[Rule],
    shortcut: Shortcut | None = None,
    is_read: bool = False,
    learn: Learn | None = None,
    answer_off: AnswerOff | None = None,
) -> Callable[[H], H]:
    """Register a handler; raise ValueError for a second one, and without a rule of access or declared services."""

    def register(handle: H) -> H:
        name = request.__name__.removesuffix("Request")
        services = declared_services(handle)
        handled = HandledRequest(request, handle, services, is_read, tuple(access), shortcut, learn, answer_off)
        if not handled.access:
            raise ValueError(f"{name} does not say what its sender must be allowed")
        if "services" not in handle.__annotations__:
            raise ValueError(f"{name} does not say which services its handler uses")
        other = _registered.setdefault(request.api_key, handled)
        if other is not handled:
            raise ValueError(f"{name} has two handlers: {other.handle.__module__} and {handle.__module__}")
        return handle

    return register


def registered(key: int) -> HandledRequest:
    """Return what has been registered for an API; raise LookupError if nothing has."""
    return _registered[key]
