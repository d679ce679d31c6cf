"""Headers of one connection's requests: the route and the context of each.

Requests of a client have few different headers. Their bytes, without the correlation id, are remembered once they are
checked.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from pylogbroker.broker.requests.context import Caller, RequestContext
from pylogbroker.broker.services import Authorization
from pylogbroker.errors import ProtocolViolation
from pylogbroker.net.repeated_requests import RepeatedRequests
from pylogbroker.net.routes import Route, Routes, has_client_id, read_client_id
from pylogbroker.net.transport import ChunkServer
from pylogbroker.security.principals import ANONYMOUS

if TYPE_CHECKING:
    from pylogbroker.broker.security.access import Access

_KNOWN_MAX: Final = 64
_ID_SIZE: Final = struct.Struct(">h")
_KNOWN_ID_BYTES_MAX: Final = 249  # longer client ids are not remembered: they may have 32 KB


class RequestHeaders:
    """Routes and contexts by header; `checked` has those by API, version and bytes of the client id.

    They depend on the connection's identity: `identify` and `use` forget what is known.
    """

    __slots__ = (
        "_access",
        "_authorizer",
        "_by_token",
        "_caller",
        "_host",
        "_listener",
        "_transport",
        "checked",
        "principal",
        "repeated",
        "routes",
    )

    def __init__(
        self,
        routes: Routes,
        caller: Caller,
        host: str,
        listener: str,
        authorizer: Authorization | None,
        transport: ChunkServer,
    ) -> None:
        self.routes = routes
        self.checked: dict[tuple[int, int, bytes], tuple[Route, RequestContext]] = {}
        self.repeated = RepeatedRequests()
        self.principal = ANONYMOUS
        self._by_token = False
        self._access: Access | None = None
        self._caller = caller
        self._host = host
        self._listener = listener
        self._authorizer = authorizer
        self._transport = transport

    def identify(self, principal: str, by_token: bool = False) -> None:
        """Handle requests as those of `principal` from now on."""
        self.principal, self._by_token = principal, by_token
        self._forget()

    def use(self, routes: Routes) -> None:
        """Find requests in other routes from now on."""
        self.routes = routes
        self._forget()

    def _forget(self) -> None:
        self.checked.clear()
        self.repeated = RepeatedRequests()

    @property
    def access(self) -> Access | None:
        """Permissions of the connection's principal; None without an authorizer."""
        authorizer = self._authorizer
        if authorizer is not None and (self._access is None or self._access.principal != self.principal):
            self._access = authorizer.access(self.principal, self._host)
        return self._access

    def resolve(
        self, frame: memoryview, key: int, version: int, id_size: int
    ) -> tuple[tuple[Route, RequestContext], int]:
        """Check a header that is not known; return its route and context, and the end of the client id."""
        id_size, client_id, position = read_client_id(frame, key, version, id_size)
        route = self.routes.find(key, version)
        try:
            name = client_id.decode() if id_size >= 0 else None
        except UnicodeDecodeError:
            raise ProtocolViolation("the client id is not UTF-8") from None
        local = self._transport.getHost().host
        who = self.principal, self._caller, self.access, self._by_token
        resolved = route, RequestContext(version, name, self._host, local, self._listener, *who)
        if id_size <= _KNOWN_ID_BYTES_MAX and has_client_id(key, version):
            if len(self.checked) >= _KNOWN_MAX:
                self.checked.clear()
            self.checked[key, version, _ID_SIZE.pack(id_size) + client_id] = resolved
        return resolved, position
