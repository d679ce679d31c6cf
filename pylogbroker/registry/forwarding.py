"""Changes that are made at another broker: the request is sent to the registry there, with its credentials."""

from __future__ import annotations

import http.client
import ssl
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

import attrs

from pylogbroker.registry.errors import RegistryError
from pylogbroker.registry.rest.routes import CONTENT_TYPE
from pylogbroker.registry.site import RegistryAnswer, RegistryRequest

FORWARDED: Final = "X-Forwarded-By-Registry"
"""Header of a request that must not be forwarded again."""
_SECONDS: Final = 15
_ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
_NOT_HERE: Final = (404, 405)


@attrs.frozen
class ForwardedRequest:
    request: RegistryRequest
    authorization: str = attrs.field(repr=False)
    broker_id: int
    """Broker that forwards."""


def forward(url: str, forwarded: ForwardedRequest, ca: str | None) -> RegistryAnswer:
    """Return the answer of another registry; raise RegistryError. Blocks."""
    request, parts = forwarded.request, urlsplit(url)
    pairs = [(name, value) for name, values in request.query.items() for value in values]
    path = request.path + (f"?{urlencode(pairs, quote_via=quote)}" if pairs else "")
    headers = {
        "Accept": CONTENT_TYPE,
        "Content-Type": CONTENT_TYPE,
        FORWARDED: str(forwarded.broker_id),
        "Confluent-Accept-Unknown-Properties": str(request.accepts_unknown_members).lower(),
    }
    if forwarded.authorization:
        headers["Authorization"] = forwarded.authorization
    connection = _connection(parts.scheme, parts.hostname or "", parts.port, ca)
    try:
        connection.request(request.method, path, request.content or None, headers)
        response = connection.getresponse()
        content = response.read(_ANSWER_BYTES_MAX + 1)
    except (OSError, http.client.HTTPException) as error:
        raise RegistryError.not_forwarded(
            f"the schema registry of the broker that leads the schemas, {url}, is not reached: {error or type(error)}"
        ) from error
    finally:
        connection.close()
    if len(content) > _ANSWER_BYTES_MAX:
        raise RegistryError.not_forwarded(f"the answer of {url} has more than {_ANSWER_BYTES_MAX} bytes")
    if b"error_code" not in content and response.status in _NOT_HERE:
        raise RegistryError.not_forwarded(f"there is no schema registry at {url}")
    return RegistryAnswer(response.status, content)


def _connection(scheme: str, host: str, port: int | None, ca: str | None) -> http.client.HTTPConnection:
    if scheme != "https":
        return http.client.HTTPConnection(host, port, timeout=_SECONDS)
    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ValueError) as error:
        raise RegistryError.not_forwarded(f"schema.registry.ssl.ca.location cannot be used: {error}") from error
    return http.client.HTTPSConnection(host, port, timeout=_SECONDS, context=context)
