"""What a handler knows of a request beside its body."""

from __future__ import annotations

import attrs


@attrs.frozen
class RequestContext:
    """Who asks, over which listener and at which of its addresses, in which version.

    One value serves all requests that a connection sends with the same API, version and client id.
    """

    api_version: int
    client_id: str | None = None
    client_host: str = ""
    local_host: str = ""
    listener: str = "PLAINTEXT"
    principal: str = "User:ANONYMOUS"
