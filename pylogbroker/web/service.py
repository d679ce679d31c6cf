"""Addresses that the HTTP server listens on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
from twisted.internet.defer import maybeDeferred
from twisted.internet.error import ConnectionDone
from twisted.internet.tcp import Port
from twisted.python.failure import Failure
from twisted.web.resource import Resource

from pylogbroker.config import BrokerConfig, Endpoint
from pylogbroker.web.site import AllowedHosts, CheckedSite, LimitedFactory


@attrs.define(eq=False)
class HttpListeners:
    _reactor: Any
    _config: BrokerConfig
    _root: Resource
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
        return [
            attrs.evolve(endpoint, port=port.getHost().port)
            for endpoint, port in zip(self._config.http_listeners, self._ports, strict=False)
        ]

    def start(self) -> None:
        """Bind all addresses; raise CannotListenError."""
        for endpoint in self._config.http_listeners:
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
