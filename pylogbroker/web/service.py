"""Addresses that the HTTP server listens on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import attrs
from twisted.internet.defer import maybeDeferred
from twisted.internet.error import CannotListenError, ConnectionDone
from twisted.internet.tcp import Port
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import Resource

from pylogbroker.config import BrokerConfig, Endpoint
from pylogbroker.config.http_settings import HTTP
from pylogbroker.web.site import AllowedHosts, CheckedSite, LimitedFactory

log = Logger()


@attrs.define(eq=False)
class HttpListeners:
    """Binds the addresses of `http.listeners`, or without the setting the first free one of `defaults`."""

    _reactor: Any
    _config: BrokerConfig
    _root: Resource
    _defaults: Sequence[Endpoint] = ()
    _ports: list[Port] = attrs.field(factory=list, init=False)
    _factory: LimitedFactory = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        config = self._config
        hosts = AllowedHosts((*config.http_allowed_hosts, *(listener.host for listener in config.http_listeners)))
        site = CheckedSite(self._reactor, self._root, hosts)
        self._factory = LimitedFactory(site, config.http_max_connections)

    @property
    def addresses(self) -> Sequence[Endpoint]:
        """Addresses with the actual ports."""
        return [Endpoint(HTTP, port.interface, port.getHost().port) for port in self._ports]

    def start(self) -> None:
        """Bind all addresses; raise CannotListenError for one of the setting."""
        for endpoint in self._config.http_listeners:
            self._bind(endpoint)
        for endpoint in self._defaults:
            with suppress(CannotListenError):
                self._bind(endpoint)
                return
        if self._defaults:
            log.warn("the web UI is not served: its ports are taken; choose another one with http.listeners")

    def _bind(self, endpoint: Endpoint) -> None:
        self._ports.append(self._reactor.listenTCP(endpoint.port, self._factory, interface=endpoint.host))

    async def stop(self) -> None:
        ports, self._ports = self._ports, []
        for port in ports:
            if self._reactor.running:
                await maybeDeferred(port.stopListening)
            else:  # nothing else closes the socket
                port.stopReading()
                port.connectionLost(Failure(ConnectionDone()))
        for connection in tuple(self._factory.protocols):
            connection.transport.abortConnection()
