"""/metrics, for Prometheus."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from twisted.web.server import Request

from pylogbroker.web.late_answers import LateAnswers
from pylogbroker.web.texts import Page, answer_text

_SCRAPES_MAX: Final = 4
"""Scrapes at a time: each holds its text until the client has it."""

_Scrape = Callable[[], Awaitable[Iterable[bytes]]]


class Metrics(Page):
    """`scrape` is None until the broker serves."""

    def __init__(self, content_type: str) -> None:
        super().__init__()
        self._content_type = content_type.encode()
        self.scrape: _Scrape | None = None
        self._answers = LateAnswers(_SCRAPES_MAX)

    def render_GET(self, request: Request) -> bytes | int:
        if self.scrape is None:
            return answer_text(request, "there are no metrics now: the broker starts or stops", 503)
        if self._answers.is_full:
            return answer_text(request, "too many scrapes at a time", 503)
        return self._answers.begin(request, self._answer(request, self.scrape))

    async def _answer(self, request: Request, scrape: _Scrape) -> None:
        chunks = list(await scrape())
        request.setHeader(b"content-type", self._content_type)
        request.setHeader(b"content-length", b"%d" % sum(map(len, chunks)))
        for chunk in chunks:
            request.write(chunk)
        request.finish()
