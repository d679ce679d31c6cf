"""Visitors of the page: who asks, and what they may do.

A broker with a listener of SASL asks for a user and a password of its listeners, by HTTP's Basic authentication. Other
brokers let visitors in as ANONYMOUS, if a client can connect so. An authorizer then decides, as for clients.

Passwords and records would pass in clear, so only connections from this machine are served.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, Final

import attrs
from twisted.internet.task import deferLater
from twisted.logger import Logger

from pylogbroker.broker.requests.api import Api, Handler
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.access import Access
from pylogbroker.broker.security.login_queue import TooManyLogins
from pylogbroker.broker.security.rules import by_handler, guard
from pylogbroker.broker.services import Services
from pylogbroker.config import Listener
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.long_loops import settled
from pylogbroker.rpc.answer_rows import sole_row
from pylogbroker.rpc.errors import raise_for
from pylogbroker.security.acls.bindings import CLUSTER_NAME, AclOperation, AclResourceType
from pylogbroker.security.principals import ANONYMOUS
from pylogbroker.web.fault_port import FaultPort
from pylogbroker.web.follower_counts import FollowedTopics
from pylogbroker.web.hosted_registry import RegistrySender
from pylogbroker.web.samples import Samples
from pylogbroker.web.schema_store import SchemaStore
from pylogbroker.wire import Request, UnsupportedVersion

if TYPE_CHECKING:
    from twisted.web.server import Request as HttpRequest

    from pylogbroker.broker.security.sasl_listeners import SaslListeners

log = Logger()

_CLIENT_ID: Final = "pylogbroker-page"
_DENIED: Final = {
    AclResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AclResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    AclResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}


class NotServed(Exception):
    """Request of a visitor who is not let in; `code` is the status of the answer."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


@attrs.frozen(eq=False, repr=False)
class Visitor:
    services: Services
    context: RequestContext
    samples: Samples
    faults: FaultPort | None = None
    """None unless testing is on."""
    schemas: SchemaStore | None = None
    """None without a schema registry."""
    authorization: str = ""
    """Header Authorization, for what another broker does in the visitor's name."""

    following: FollowedTopics | None = None
    """Connections that follow topics by HTTP; None where nobody asks for them."""

    @property
    def registry_sender(self) -> RegistrySender:
        return RegistrySender(self.principal, self.context.access, self.authorization)

    @property
    def principal(self) -> str:
        return self.context.principal

    def allows(self, operation: AclOperation, kind: AclResourceType, name: str) -> bool:
        """Return whether the visitor may do this; a denial is not logged."""
        access = self.context.access
        return access is None or access.allows(operation, kind, name, quietly=True)

    def sees_topic(self, name: str) -> bool:
        return self.allows(AclOperation.DESCRIBE, AclResourceType.TOPIC, name)

    def sees_group(self, group_id: str) -> bool:
        return self.allows(AclOperation.DESCRIBE, AclResourceType.GROUP, group_id)

    @property
    def sees_broker_settings(self) -> bool:
        return self.allows(AclOperation.DESCRIBE_CONFIGS, AclResourceType.CLUSTER, CLUSTER_NAME)

    def sees_samples_of(self, group_id: str) -> bool:
        """Return whether the visitor may see a group, and all topics that count in its samples."""
        if self.context.access is None:
            return True
        pace = self.samples.group_lags.paces.get(group_id)
        return pace is not None and self.sees_group(group_id) and all(map(self.sees_topic, pace.topics))

    def check(self, operation: AclOperation, kind: AclResourceType, name: str = CLUSTER_NAME) -> None:
        """Raise KafkaError for what the visitor may not do."""
        access = self.context.access
        if access is not None and not access.allows(operation, kind, name):
            what = kind.name.lower() if kind is AclResourceType.CLUSTER else f"{kind.name.lower()} {name}"
            raise KafkaError(f"{self.principal} has no right to {operation.name} on the {what}", _DENIED[kind])

    async def ask(self, request: Request, broker_id: int | None = None, version: int | None = None) -> Any:
        """Return the answer to a request of Kafka's protocol, which a broker handles as a client's.

        By default, that is this broker. Another one trusts it: the rules of the API for the visitor hold here.
        Raise UnsupportedVersion for an API that this broker does not offer.
        """
        api = next((candidate for candidate in self.services.apis if candidate.key == request.api_key), None)
        if api is None:
            name = type(request).__name__.removesuffix("Request")
            raise UnsupportedVersion(f"this broker does not offer {name}, by api.versions.release")
        context = attrs.evolve(self.context, api_version=api.versions.last if version is None else version)
        handle, services = self._handler(api, broker_id, version), api.select_services(self.services)
        return await self.services.runtime.slices.run(settled(handle(services, context, request)))

    async def ask_as_client(
        self, request: Request, size: int, broker_id: int | None = None, version: int | None = None
    ) -> Any:
        """Like `ask`, for a request of `size` bytes that counts for the visitor's quotas; wait while it is throttled.

        The quotas are those of this broker, whatever broker handles the request.
        """
        meters = self.services.quotas.meters
        if meters is None:
            return await self.ask(request, broker_id, version)
        api = next(candidate for candidate in self.services.apis if candidate.key == request.api_key)
        context = attrs.evolve(self.context, api_version=api.versions.last if version is None else version)
        throttles: list[int] = []
        answer = meters.handle(
            self._handler(api, broker_id, version),
            api.select_services(self.services),
            context,
            request,
            size,
            throttles.append,
        )
        answer = await self.services.runtime.slices.run(settled(answer))
        if throttles:
            await deferLater(self.services.runtime.clock, max(throttles) / 1000, lambda: None)
        return answer

    def _handler(self, api: Api, broker_id: int | None, version: int | None) -> Handler:
        if broker_id is None or broker_id == self.services.node.id:
            return api.handle
        return self._forwarding(api, broker_id, version)

    async def ask_one(self, request: Request, path: str, broker_id: int | None = None, **fields: object) -> Any:
        """Return the one row of an answer with these fields; raise KafkaError for an error of the answer as a whole.

        `path` names the lists that the row is in. A broker that answers with other rows has WrongRows raised.
        """
        answer = await self.ask(request, broker_id)
        raise_for(getattr(answer, "error_code", 0), getattr(answer, "error_message", None))
        return sole_row(answer, path, self.services.node.id if broker_id is None else broker_id, **fields)

    async def send(self, broker_id: int, request: Request, version: int | None = None) -> Any:
        """Return the answer of another broker, whose rights the caller has checked; raise KafkaError without one."""
        if broker_id not in self.services.metadata.image.brokers:
            raise KafkaError(f"there is no broker {broker_id} now", ErrorCode.BROKER_NOT_AVAILABLE)
        return await self.services.peers.send(broker_id, request, version)

    def _forwarding(self, api: Api, broker_id: int, version: int | None) -> Handler:
        """Return what lets another broker handle requests; raise ValueError for an API without rules of its own."""
        if by_handler in api.access:
            raise ValueError(f"{api.name} checks rights where it is handled")

        async def forward(services: object, context: RequestContext, request: Request) -> Any:
            return await self.send(broker_id, request, version)

        return forward if self.context.access is None else guard(forward, api.access)


def check_address(request: HttpRequest) -> None:
    """Raise NotServed unless the connection is from this machine."""
    try:
        hosts = [address.host for address in (request.getHost(), request.getClientAddress())]
        is_local = all(ipaddress.ip_address(host).is_loopback for host in hosts)
    except (AttributeError, ValueError):
        is_local = False
    if not is_local:
        raise NotServed(403, "connections from this machine alone are served: HTTP does not encrypt")


async def visitor_of(
    services: Services, samples: Samples, faults: FaultPort | None, schemas: SchemaStore | None, request: HttpRequest
) -> Visitor:
    """Return who sent a request; raise NotServed."""
    principal = await principal_of(services, request)
    host = request.getClientAddress().host
    authorizer = services.authorizer
    access: Access | None = None if authorizer is None else authorizer.access(principal, host)
    local = request.getHost().host
    context = RequestContext(0, _CLIENT_ID, host, local, principal=principal, access=access)
    authorization = request.getHeader("authorization") or ""
    return Visitor(services, context, samples, faults, schemas, authorization)


async def principal_of(services: Services, request: HttpRequest) -> str:
    """Return the principal of a request by its user and password; raise NotServed."""
    if services.sasl is not None:
        return f"User:{await _user(services, services.sasl, request)}"
    if not any(_takes_anonymous(services, listener) for listener in services.config.listeners):
        raise NotServed(403, "clients of this broker have certificates, which this server cannot ask for")
    return ANONYMOUS


def _takes_anonymous(services: Services, listener: Listener) -> bool:
    settings = services.config.of_listener(listener)
    return not (listener.security.has_tls and settings.ssl_client_auth == "required")


async def _user(services: Services, sasl: SaslListeners, request: HttpRequest) -> str:
    if not sasl.has_passwords:
        raise NotServed(403, "users of this broker have tokens and no passwords, which this server asks for")
    user, password = request.getUser(), request.getPassword()
    if not user and not password:
        raise NotServed(401, "send a user and a password of the broker, by HTTP's Basic authentication")
    name, secret = _text(user), _text(password)
    clock = services.runtime.clock
    began = clock.seconds()
    host = request.getClientAddress().host
    try:
        if name and secret and await sasl.check_password(host, name, secret):
            return name
    except TooManyLogins as error:
        raise NotServed(503, str(error)) from None
    if services.runtime.may_log("page login"):
        log.warn("a login at the page by {host} failed", host=host)
    delay = services.config.connection_failed_authentication_delay_ms / 1000
    await deferLater(clock, max(0.0, delay - (clock.seconds() - began)), lambda: None)
    raise NotServed(401, "the user or the password is wrong")


def _text(data: bytes) -> str:
    """Return a text that is empty if it is not UTF-8: no user or password is."""
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        return ""
