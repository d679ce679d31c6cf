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

from pylogbroker.config import Endpoint
from pylogbroker.config.http_settings import HTTP
from pylogbroker.web.connections import HttpFactory

log = Logger()


@attrs.define(eq=False, repr=False)
class HttpListeners:
    """Binds the addresses of `http.listeners`, or without the setting the first free one of `defaults`."""

    _reactor: Any
    _factory: HttpFactory
    _configured: Sequence[Endpoint]
    _defaults: Sequence[Endpoint] = ()
    _ports: list[Port] = attrs.field(factory=list, init=False)

    @property
    def addresses(self) -> Sequence[Endpoint]:
        """Addresses with the actual ports."""
        return [Endpoint(HTTP, port.interface, port.getHost().port) for port in self._ports]

    def start(self) -> None:
        """Bind all addresses; raise CannotListenError for one of the setting."""
        for endpoint in self._configured:
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
        self._factory.close_connections()
