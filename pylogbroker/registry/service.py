"""Schema registry that is a part of a broker.

request --> RegistryService: who sends it, which broker answers
              question, or this broker leads _schemas   --> RegistryApi, on the state of the topic
              change, and another broker leads it       --> forwarded there
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qs

import attrs
from twisted.internet.defer import DeferredSemaphore, maybeDeferred
from twisted.internet.task import deferLater
from twisted.internet.tcp import Port
from twisted.logger import Logger
from twisted.web.server import Request

from pylogbroker.broker.services import Services
from pylogbroker.config import BrokerConfig, Endpoint, TopicConfig
from pylogbroker.config.registry_settings import HTTPS
from pylogbroker.errors import KafkaError
from pylogbroker.registry.browsing import RegistryBrowser
from pylogbroker.registry.callers import OPEN, RegistryCaller
from pylogbroker.registry.errors import RegistryError
from pylogbroker.registry.forwarding import FORWARDED, ForwardedRequest, forward
from pylogbroker.registry.https import TlsFactory
from pylogbroker.registry.levels import LEVELS
from pylogbroker.registry.registry import SchemaRegistry
from pylogbroker.registry.schemas_topic import NotPrimary, SchemasTopic
from pylogbroker.registry.site import (
    RegistryAnswer,
    RegistryApi,
    RegistryRequest,
    RegistryResource,
    error_answer,
    error_content,
)
from pylogbroker.registry.validation import TopicValidation, validation_of
from pylogbroker.rpc.answer_rows import sole_row
from pylogbroker.schemas.registry_address import ADVERTISED, LISTENERS, advertised_url
from pylogbroker.schemas.registry_client import Answer
from pylogbroker.security.tls.contexts import server_context
from pylogbroker.security.tls.engine import TlsEngine
from pylogbroker.security.tls.settings import TlsSettings
from pylogbroker.web.connections import HttpFactory
from pylogbroker.web.hosted_registry import RegistrySender, ShownVersion, SubjectSummary, SubjectVersions
from pylogbroker.web.site import AllowedHosts, CheckedRequest, CheckedSite
from pylogbroker.web.visitors import NotServed, principal_of
from pylogbroker.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pylogbroker.wire.resource_types import ResourceType

log = Logger()

BODY_BYTES_MAX: Final = 4 * 1024 * 1024
REQUESTS_MAX: Final = 50
"""Requests in work at a time."""
FORWARDS_MAX: Final = 4
"""Requests that are forwarded at a time, each of which takes a worker thread; others wait."""
_QUESTIONS: Final = ("GET", "HEAD")
_QUESTION_POSTS: Final = "/compatibility/"
_RETRY_SECONDS: Final = 10
_PAUSE_SECONDS: Final = 0.25


class _RegistryRequest(CheckedRequest):
    body_bytes_max = BODY_BYTES_MAX


@attrs.define(eq=False, repr=False)
class RegistryService:
    """Runs from `start` to `stop`, in a broker that serves."""

    _reactor: Any
    _services: Services
    topic: SchemasTopic = attrs.field(init=False)
    registry: SchemaRegistry = attrs.field(init=False)
    _api: RegistryApi = attrs.field(init=False)
    _ports: list[Port] = attrs.field(factory=list, init=False)
    _factories: list[HttpFactory] = attrs.field(factory=list, init=False)
    _in_work: int = attrs.field(default=0, init=False)
    _forwards: DeferredSemaphore = attrs.field(factory=lambda: DeferredSemaphore(FORWARDS_MAX), init=False)
    _urls: dict[int, str] = attrs.field(factory=dict, init=False)
    """Addresses of the registries of other brokers, as far as they were needed."""

    def __attrs_post_init__(self) -> None:
        runtime = self._services.runtime
        self.topic = SchemasTopic(self._services)
        self.registry = SchemaRegistry(self.topic, runtime.in_thread, runtime.slices.run)
        self._api = RegistryApi(self.registry, self._services.node.cluster_id)

    # addresses

    @property
    def addresses(self) -> Sequence[Endpoint]:
        """Addresses with the actual ports."""
        listeners = self._services.config.schema_registry_listeners
        return [
            Endpoint(listener.name, port.interface, port.getHost().port)
            for listener, port in zip(listeners, self._ports, strict=True)
        ]

    async def start(self) -> None:
        """Listen; raise ConfigError or CannotListenError."""
        config = self._services.config
        hosts = [listener.host for listener in config.schema_registry_listeners]
        advertised = [listener.advertised_host for listener in config.listeners]
        allowed = AllowedHosts((*config.http_allowed_hosts, *hosts, *advertised))
        context = None
        for listener in config.schema_registry_listeners:
            site = CheckedSite(
                self._reactor,
                RegistryResource(self._respond),
                allowed,
                make_request=_RegistryRequest,
                error_content=error_content,
            )
            factory = HttpFactory(_do_nothing, config.http_max_connections)
            factory.serve(site)
            self._factories.append(factory)
            served: Any = factory
            if listener.name == HTTPS:
                if context is None:
                    context = await self._services.runtime.in_thread(_context, config)
                served = TlsFactory(self._reactor, factory, partial(TlsEngine, context, is_server=True))
            self._ports.append(self._reactor.listenTCP(listener.port, served, interface=listener.host))

    async def stop(self) -> None:
        ports, self._ports = self._ports, []
        for port in ports:
            await maybeDeferred(port.stopListening)
        for factory in self._factories:
            factory.close_connections()

    @property
    def record_checks(self) -> Callable[[str, TopicConfig], TopicValidation]:
        """Factory of the checks of topics' records."""
        return validation_of(self.registry, self._services.runtime)

    # requests

    async def _respond(self, request: RegistryRequest, http: Request) -> RegistryAnswer:
        with self._counted():
            caller = await self._caller(http)
            authorization = http.getHeader("authorization") or ""
            return await self._answer(request, caller, authorization, is_forwarded=bool(http.getHeader(FORWARDED)))

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Count a request in work; raise RegistryError for one too many."""
        if self._in_work >= REQUESTS_MAX:
            raise RegistryError(503, "too many requests at a time: try again")
        self._in_work += 1
        try:
            yield
        finally:
            self._in_work -= 1

    async def ask(self, method: str, path: str, content: bytes | None) -> Answer:
        """Return the answer to a question of this broker itself, which may read everything."""
        answer = await self._api.answer(RegistryRequest(method, path, content=content or b""), OPEN)
        return Answer(answer.status, answer.content)

    async def ask_for(self, sender: RegistrySender, method: str, path: str, content: bytes | None) -> Answer:
        """Return the answer to a request of the HTTP server's visitor, whose rights decide."""
        where, _, query = path.partition("?")
        request = RegistryRequest(method, where, parse_qs(query, keep_blank_values=True), content or b"")
        try:
            with self._counted():
                answer = await self._answer(request, _caller_of(sender), sender.authorization, is_forwarded=False)
        except RegistryError as error:
            answer = error_answer(error)
        return Answer(answer.status, answer.content)

    # what the web UI shows

    @property
    def levels(self) -> Sequence[str]:
        return LEVELS

    async def subjects(self, sender: RegistrySender, search: str = "") -> Sequence[str]:
        return await self._browser(sender).subjects(search)

    async def summaries(self, sender: RegistrySender, subjects: Sequence[str]) -> Sequence[SubjectSummary]:
        return await self._browser(sender).summaries(subjects)

    async def versions(self, sender: RegistrySender, subject: str) -> SubjectVersions:
        return await self._browser(sender).versions(subject)

    async def version(self, sender: RegistrySender, subject: str, number: int) -> ShownVersion:
        return await self._browser(sender).version(subject, number)

    async def default_level(self) -> str:
        return await RegistryBrowser(self.registry, OPEN).default_level()

    def _browser(self, sender: RegistrySender) -> RegistryBrowser:
        return RegistryBrowser(self.registry, _caller_of(sender))

    # answers, here or at the leader

    async def _answer(
        self, request: RegistryRequest, caller: RegistryCaller, authorization: str, *, is_forwarded: bool
    ) -> RegistryAnswer:
        """Answer here or at the leader; after an election, another broker is the leader."""
        clock = self._services.runtime.clock
        ends_at = clock.seconds() + _RETRY_SECONDS
        while True:
            try:
                if _is_question(request):
                    return await self._api.answer(request, caller)
                leader = await self.topic.leader()
                if leader == self._services.node.id:
                    answer = await self._api.answer(request, caller)
                elif is_forwarded:
                    return error_answer(NotPrimary())
                else:
                    answer = await self._forwarded(leader, request, authorization)
            except RegistryError as error:
                answer = error_answer(error)
            if not _may_try_again(request, answer) or clock.seconds() >= ends_at:
                return answer
            await deferLater(clock, _PAUSE_SECONDS)

    async def _forwarded(self, leader: int, request: RegistryRequest, authorization: str) -> RegistryAnswer:
        url = self._urls.get(leader) or await self._url_of(leader)
        ca = self._services.config.schema_registry_ssl_ca_location
        forwarded = ForwardedRequest(request, authorization, self._services.node.id)
        try:
            answer: RegistryAnswer = await self._forwards.run(
                self._services.runtime.in_thread, forward, url, forwarded, ca
            )
        except RegistryError:
            self._urls.pop(leader, None)
            raise
        self._urls[leader] = url
        return answer

    async def _url_of(self, broker_id: int) -> str:
        """Return the address of another broker's registry; raise RegistryError."""
        resource = DescribeConfigsResource(ResourceType.BROKER, str(broker_id), [ADVERTISED, LISTENERS])
        try:
            answer = await self._services.peers.send(broker_id, DescribeConfigsRequest([resource]))
            row = sole_row(answer, "results", broker_id, resource_name=str(broker_id))
            settings = {config.name: config.value for config in row.configs}
        except KafkaError as error:
            raise RegistryError.not_forwarded(f"broker {broker_id}, which leads the schemas, fails: {error}") from error
        registration = self._services.metadata.image.brokers.get(broker_id)
        listeners = () if registration is None else tuple(registration.listeners.values())
        host = listeners[0].host if listeners else ""
        url = advertised_url(settings.get(ADVERTISED), settings.get(LISTENERS), host)
        if url is None:
            raise RegistryError.no_primary(
                f"broker {broker_id}, which leads the schemas, has no schema registry: set {LISTENERS} for it, or let"
                " another broker lead _schemas-0"
            )
        return url

    # who sends a request

    async def _caller(self, http: Request) -> RegistryCaller:
        """Return who sends a request; raise RegistryError."""
        services = self._services
        if services.sasl is not None and not http.isSecure() and not _is_local(http):
            raise RegistryError(
                403, "passwords are taken by https, or from this machine: add an https address to " + LISTENERS
            )
        try:
            principal = await principal_of(services, http)
        except NotServed as error:
            raise RegistryError(error.code, str(error)) from None
        if services.authorizer is None:
            return RegistryCaller(principal)
        access = services.authorizer.access(principal, http.getClientAddress().host)
        return RegistryCaller(principal, access.allows)


def _caller_of(sender: RegistrySender) -> RegistryCaller:
    return RegistryCaller(sender.principal, None if sender.access is None else sender.access.allows)


def _is_question(request: RegistryRequest) -> bool:
    """Return whether a request changes nothing: a POST may be a check, or a look-up."""
    if request.method in _QUESTIONS:
        return True
    parts = [part for part in request.path.split("/") if part]
    is_look_up = not parts or (len(parts) >= 2 and parts[-2] == "subjects")
    return request.method == "POST" and (is_look_up or _QUESTION_POSTS in f"{request.path}/")


def _may_try_again(request: RegistryRequest, answer: RegistryAnswer) -> bool:
    """Return whether no broker made a change, or the same change again does no harm."""
    is_elsewhere = answer.status == 500 and (b"50004" in answer.content or b"50003" in answer.content)
    return is_elsewhere and request.method != "DELETE"


def _is_local(http: Request) -> bool:
    try:
        return ipaddress.ip_address(http.getClientAddress().host).is_loopback
    except (AttributeError, ValueError):
        return False


def _context(config: BrokerConfig) -> Any:
    """Return the context of TLS of the broker's own certificate; raise ConfigError. Blocks."""
    return server_context(TlsSettings.of(config))


def _do_nothing() -> None:
    pass
