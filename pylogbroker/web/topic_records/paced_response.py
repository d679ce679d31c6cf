"""Response that is written piece by piece, as fast as the client takes it."""

from __future__ import annotations

from functools import partial

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IPushProducer
from twisted.web.server import Request
from zope.interface import implementer


@implementer(IPushProducer)
@attrs.define(eq=False, repr=False)
class PacedResponse:
    """`send_piece` waits while the client does not take what was written."""

    _request: Request
    _resumed: Deferred[None] = attrs.field(factory=partial(succeed, None), init=False)

    def start(self, content_type: bytes, disposition: bytes = b"") -> None:
        self._request.setHeader(b"content-type", content_type)
        if disposition:
            self._request.setHeader(b"content-disposition", disposition)
        self._request.registerProducer(self, True)

    def write(self, data: bytes) -> None:
        self._request.write(data)

    async def send_piece(self, data: bytes) -> None:
        self.write(data)
        await self._resumed

    def end(self) -> None:
        self._request.unregisterProducer()
        self._request.finish()

    def pauseProducing(self) -> None:
        if self._resumed.called:
            self._resumed = Deferred()

    def resumeProducing(self) -> None:
        if not self._resumed.called:
            self._resumed.callback(None)

    def stopProducing(self) -> None:
        """Do nothing: the end of the connection cancels the work."""
