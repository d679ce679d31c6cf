"""OpenAPI document of the API, at /openapi.json."""

from __future__ import annotations

from typing import Any, Final

from twisted.web.server import Request

from pylogbroker.broker.services import Services
from pylogbroker.web.records_api.calls import json_line
from pylogbroker.web.records_api.routes import ROUTES as RECORD_ROUTES
from pylogbroker.web.router import ApiDescription, document
from pylogbroker.web.router.routes import JSON
from pylogbroker.web.texts import Page, answer_text
from pylogbroker.web.views import FAULT_ROUTES, ROUTES, PageError, Source
from pylogbroker.web.visitors import NotServed

API: Final = ApiDescription(
    "pylogbroker",
    "Topics, records, groups and brokers of a cluster, asked of one broker. docs/web-ui.md explains it. Paths of "
    "faults exist if testing.faults is true.",
    PageError,
    (400, 401, 403, 404, 409, 413, 415, 416, 429, 503),
    security={"basic": {"type": "http", "scheme": "basic"}},
)


class DescriptionPage(Page):
    """OpenAPI document of the API; a worker thread makes it at the first request, since that takes some 40 ms."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self._source = source
        self._content = b""

    def render_GET(self, request: Request) -> bytes | int:
        if self._content:
            request.setHeader(b"content-type", JSON.encode())
            return self._content
        try:
            services = self._source.open(request, self._source.answers)
        except NotServed as error:
            return answer_text(request, str(error), error.code)
        return self._source.answers.begin(request, self._answer(request, services))

    async def _answer(self, request: Request, services: Services) -> None:
        self._content = await services.runtime.in_thread(lambda: json_line(page_document()))
        request.setHeader(b"content-type", JSON.encode())
        request.setHeader(b"content-length", b"%d" % len(self._content))
        request.write(self._content)
        request.finish()


def page_document() -> dict[str, Any]:
    """Return the OpenAPI document of all routes in JSON."""
    return document(API, (*ROUTES, *FAULT_ROUTES, *RECORD_ROUTES))
