"""Calls of the records API: what a handler gets, and how it answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
from twisted.internet.defer import DeferredSemaphore, ensureDeferred
from twisted.internet.defer import TimeoutError as BodyTimeout

from pylogbroker.java.text import is_digits
from pylogbroker.web.records_api.cross_origin import CrossOriginRules
from pylogbroker.web.records_api.errors import Rejected
from pylogbroker.web.request_bodies import StreamedBody
from pylogbroker.web.router.requests import content_of
from pylogbroker.web.router.routes import JSON, NDJSON
from pylogbroker.web.site import CheckedRequest
from pylogbroker.web.visitors import Visitor

if TYPE_CHECKING:
    from pylogbroker.web.records_api.feeds import Feeds
    from pylogbroker.web.records_api.news import TopicChanges

T = TypeVar("T")
DOCUMENT_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of a body in JSON, and of one record in a stream."""
DOCUMENT_SECONDS_MAX: Final = 60.0
"""Time for a body in JSON to arrive."""
LARGE_DOCUMENTS_MAX: Final = 4
"""Bodies in JSON of more than a small size that are in memory at a time; others wait for them."""

_DIGITS_MAX: Final = 10
_SMALL_BYTES: Final = 64 * 1024
_INLINE_BYTES: Final = 8 * 1024
"""More bytes are parsed and encoded in a worker thread."""
_ROWS_INLINE: Final = 200


@attrs.define(eq=False, repr=False)
class Shared:
    """State that all calls share."""

    feeds: Feeds
    changes: TopicChanges
    large_documents: DeferredSemaphore = attrs.field(factory=lambda: DeferredSemaphore(LARGE_DOCUMENTS_MAX), init=False)


@attrs.frozen(eq=False, repr=False)
class HttpCall:
    """A request of a visitor; its handler answers it."""

    visitor: Visitor
    request: CheckedRequest
    shared: Shared
    rules: CrossOriginRules

    def header(self, name: str) -> str | None:
        """Return a header of the request."""
        value: str | None = self.request.getHeader(name)
        return value

    def body(self) -> StreamedBody:
        """Return the body while it arrives; raise Rejected for one that is encoded."""
        if (self.header("content-encoding") or "identity").lower() != "identity":
            raise Rejected(415, "a body with Content-Encoding is not read: send it as it is")
        body = self.request.body
        if not self.request.is_streamed:
            body.add(content_of(self.request))
            body.end()
        return body

    async def document(self) -> bytes:
        """Return the whole body; raise Rejected for one that is too long or too late."""
        body = self.body()
        length = self.header("content-length") or ""
        if is_digits(length):
            size = int(length[:_DIGITS_MAX])
            if size > DOCUMENT_BYTES_MAX:
                raise _too_long()
            if size <= _SMALL_BYTES:
                return await self._arrived(body)
        await self.shared.large_documents.acquire()
        try:
            return await self._arrived(body)
        finally:
            self.shared.large_documents.release()

    async def _arrived(self, body: StreamedBody) -> bytes:
        arrival = ensureDeferred(body.take_all(DOCUMENT_BYTES_MAX))
        arrival.addTimeout(DOCUMENT_SECONDS_MAX, self.visitor.services.runtime.clock)
        try:
            data = await arrival
        except BodyTimeout:
            raise Rejected(408, f"the body has not arrived within {DOCUMENT_SECONDS_MAX:.0f} s") from None
        if data is None:
            raise _too_long()
        return data

    async def run(self, size: int, function: Callable[..., T], *arguments: Any) -> T:
        """Return what a function returns about `size` bytes; a worker thread calls it unless they are few."""
        if size <= _INLINE_BYTES:
            return function(*arguments)
        result: T = await self.visitor.services.runtime.in_thread(function, *arguments)
        return result

    async def answer(self, status: int, value: Any, rows: int = 0) -> None:
        """Write a value of JSON with so many rows as the answer, and finish it."""
        body = await self.run(_INLINE_BYTES + 1 if rows > _ROWS_INLINE else 0, json_line, value)
        finish(self.request, status, body)


def _too_long() -> Rejected:
    return Rejected(413, f"a body has at most {DOCUMENT_BYTES_MAX:,} bytes: send many records as lines, with {NDJSON}")


def json_line(value: Any) -> bytes:
    """Return a value as JSON, with the end of a line."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="replace") + b"\n"


def finish(request: CheckedRequest, status: int, body: bytes, content_type: str = JSON) -> None:
    """Write JSON as the answer, and finish it."""
    request.setResponseCode(status)
    request.setHeader(b"content-type", content_type.encode())
    request.setHeader(b"content-length", b"%d" % len(body))
    request.write(body)
    request.finish()
