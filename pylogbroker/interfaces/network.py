"""Network of a reactor's own, in memory: brokers and clients on such a reactor use no sockets."""

# ruff: noqa: N805  (the methods of an interface have no self)

from __future__ import annotations

from typing import Any

from zope.interface import Interface


class INetwork(Interface):
    """Part of a reactor."""

    def client_endpoint(host: str, port: int) -> Any:
        """Return an IStreamClientEndpoint of connections to an address."""

    def listen(host: str, port: int, factory: Any) -> Any:
        """Accept connections, and return an IListeningPort; port 0 takes a free one. Raise CannotListenError."""
