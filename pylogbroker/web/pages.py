"""HTML of the views, by templates that escape all values. It works without JavaScript.

Scripts are files of their own. None is within the HTML, which the page's policy forbids.

A page is a route, too: /NAME has the template NAME, and what a form changes shows another page then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from twisted.web.resource import Resource
from twisted.web.server import Request

from pylogbroker.errors import PylogbrokerError
from pylogbroker.web.access.routes import ACCESS_PAGES
from pylogbroker.web.brokers.routes import BROKER_PAGES
from pylogbroker.web.charts import HEIGHT, WIDTH, rate_chart, spark_lines
from pylogbroker.web.description import DescriptionPage
from pylogbroker.web.fault_pages import FAULT_PAGES
from pylogbroker.web.figures import FigureStreams
from pylogbroker.web.formats import (
    ago_text,
    clock_text,
    count_text,
    duration_text,
    moment_text,
    number_text,
    quota_text,
    range_text,
    rate_text,
    second_text,
    size_rate_text,
    size_text,
    time_text,
)
from pylogbroker.web.forms import TOKEN, form_of
from pylogbroker.web.frame import TimesPage, frame_of
from pylogbroker.web.going import go
from pylogbroker.web.group_pages.routes import GROUP_PAGES
from pylogbroker.web.links import link, path_of, topic_link
from pylogbroker.web.mirror_views import mirrors
from pylogbroker.web.overview import overview
from pylogbroker.web.page_routes import EMPTY_FORM, FormRoute, MovedRoute, PageRoute, Preview
from pylogbroker.web.page_routes import page as _page
from pylogbroker.web.records_api.confluent_older import OlderConfluentResource, is_older_confluent
from pylogbroker.web.records_api.resource import RecordsResource
from pylogbroker.web.records_api.routes import ROUTES as RECORD_ROUTES
from pylogbroker.web.router import BadRequest, HttpRoute
from pylogbroker.web.router.routes import EVENTS, FILE, HTML, JSON
from pylogbroker.web.schema_pages.routes import SCHEMA_PAGES
from pylogbroker.web.site import BODY_BYTES_MAX, CheckedRequest
from pylogbroker.web.texts import StaticPage
from pylogbroker.web.topic_pages.routes import TOPIC_PAGES
from pylogbroker.web.topic_records.downloads import download_records, record_value
from pylogbroker.web.topic_records.fragments import compile_templates
from pylogbroker.web.topic_records.page import record_panel, topic_records
from pylogbroker.web.topic_records.streams import live_stream, search_stream
from pylogbroker.web.topic_table import topic_table
from pylogbroker.web.transaction_pages import TRANSACTION_PAGES
from pylogbroker.web.views import (
    FAULT_ROUTES,
    ROUTES,
    AskedChange,
    Presentation,
    Source,
    ViewResource,
    status_of,
)
from pylogbroker.web.visitors import Visitor

_SCRIPT: Final = b"text/javascript; charset=utf-8"
_STATIC: Final = {
    **dict.fromkeys(("ui.css", "records.css"), b"text/css; charset=utf-8"),
    "icon.svg": b"image/svg+xml",
    **dict.fromkeys(("theme.js", "keys.js", "charts.js", "parts.js", "tables.js", "figures.js", "records.js"), _SCRIPT),
}
_STYLE_TIME_MS: Final = 1_700_000_000_000
_STYLE_RATES: Final = (2e6, 3e6, 2.5e6, 4e6, 3.5e6, 5e6)


async def style(visitor: Visitor) -> dict[str, Any]:
    """Return a made-up chart: the page shows each element of the design."""
    times = [_STYLE_TIME_MS + 30_000 * number for number in range(len(_STYLE_RATES))]
    return {"chart": rate_chart(times, _STYLE_RATES, [2 * rate for rate in _STYLE_RATES])}


PAGES: Final = (
    _page("/", overview, "overview", is_live=True),
    _page("/topics", topic_table, is_live=True),
    *TOPIC_PAGES,
    _page("/topics/{topic}/records", topic_records, "topic-records"),
    _page("/topics/{topic}/records/opened", record_panel, "topic-record"),
    HttpRoute("GET", "/topics/{topic}/records/search", search_stream, media=EVENTS),
    HttpRoute("GET", "/topics/{topic}/records/live", live_stream, media=EVENTS),
    HttpRoute("GET", "/topics/{topic}/records/download", download_records, media=FILE),
    HttpRoute("GET", "/topics/{topic}/records/value", record_value, media=FILE),
    *GROUP_PAGES,
    *BROKER_PAGES,
    *ACCESS_PAGES,
    *TRANSACTION_PAGES,
    *SCHEMA_PAGES,
    _page("/mirrors", mirrors),
    _page("/go", go),
    _page("/style", style),
)


class HtmlPresentation(Presentation):
    content_type = b"text/html; charset=utf-8"

    def parameters(self, source: Source, visitor: Visitor, request: Request) -> tuple[dict[str, str], dict[str, Any]]:
        form = form_of(request, BODY_BYTES_MAX)
        source.form_tokens.check(visitor.principal, form.pop(TOKEN, ""))
        return form, {}

    async def body(
        self, request: Request, source: Source, visitor: Visitor, route: HttpRoute, values: Mapping[str, Any]
    ) -> bytes:
        if isinstance(route, MovedRoute):
            request.setResponseCode(301)
            request.setHeader(b"location", values["location"].encode())
            return b""
        return await _rendered(visitor, prepare_page(request, source, visitor, route, values))

    def changed(self, request: Request, route: HttpRoute, values: Mapping[str, Any]) -> bytes:
        assert isinstance(route, FormRoute), "other routes change nothing"
        request.setResponseCode(303)
        request.setHeader(b"location", route.after(values).encode())
        return b""

    async def rejected(
        self, request: Request, source: Source, visitor: Visitor, change: AskedChange, error: Exception
    ) -> bytes:
        assert isinstance(change.route, FormRoute), "other routes change nothing"
        try:
            values = await change.route.again(visitor, change.parts, change.texts, error)
        except (BadRequest, PylogbrokerError) as failure:
            raise (failure if isinstance(error, Preview) else error) from None
        request.setResponseCode(200 if isinstance(error, Preview) else status_of(error))
        return await _rendered(visitor, prepare_page(request, source, visitor, change.route.page, values))

    def error_body(self, request: Request, source: Source, code: int, reason: str) -> bytes:
        frame = frame_of(request, None, source.faults is not None)
        return _render("error.html", {"frame": frame, "code": code, "reason": reason}).encode(errors="replace")


def prepare_page(
    request: Request, source: Source, visitor: Visitor, route: HttpRoute, values: Mapping[str, Any]
) -> Callable[[], str]:
    """Return what renders the page of a route, in any thread."""
    template, is_live = (route.template, route.is_live) if isinstance(route, PageRoute) else ("error", False)
    frame = frame_of(request, visitor, source.faults is not None, is_live)
    token = source.form_tokens.token(visitor.principal)
    return partial(_render, f"{template}.html", {"frame": frame, TOKEN: token, "form": EMPTY_FORM, **values})


async def _rendered(visitor: Visitor, render: Callable[[], str]) -> bytes:
    """Render a page in a worker thread: two hundred rows take too long for the reactor thread."""
    html: str = await visitor.services.runtime.in_thread(render)
    return html.encode(errors="replace")


class PageRoot(Resource):
    """Root of the HTTP server: what is not put below it is a page or the API."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        pages: Sequence[HttpRoute] = PAGES if source.faults is None else (*PAGES, *FAULT_PAGES)
        streams = FigureStreams(lambda request, *shown: prepare_page(request, source, *shown))
        live = [streams.route_of(page) for page in pages if isinstance(page, PageRoute) and page.is_live]
        routes = (*ROUTES, *(() if source.faults is None else FAULT_ROUTES), *pages, *live)
        in_json, in_html = Presentation(), HtmlPresentation()
        presentations = {JSON: in_json, EVENTS: in_json, FILE: in_html, HTML: in_html}
        self._views = ViewResource(source, routes, presentations, RECORD_ROUTES)
        for name, content_type in _STATIC.items():
            self.putChild(name.encode(), StaticPage(name, content_type))
        self.putChild(b"times", TimesPage())
        self.records = RecordsResource(source)
        self._older_confluent = OlderConfluentResource()
        self.putChild(b"openapi.json", DescriptionPage(source))

    def getChild(self, path: bytes, request: CheckedRequest) -> Resource:
        if is_older_confluent(request):
            return self._older_confluent
        return self.records if self.records.serves(request.path) else self._views


def compile_pages() -> None:
    """Compile the templates, in any thread: some hundred milliseconds, and else each page's first request waits."""
    environment = _environment()
    for template in environment.list_templates(extensions=("html",)):
        environment.get_template(template)
    compile_templates()


def _render(template: str, values: Mapping[str, Any]) -> str:
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("pylogbroker.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(size=size_text, time=_shown_time, number=number_text, duration=duration_text)
    environment.filters.update(rate=rate_text, size_rate=size_rate_text, count=count_text, spark_lines=spark_lines)
    environment.filters.update(range_text=range_text, quota=quota_text, moment=_shown_moment, ago=ago_text)
    environment.globals.update(
        link=link,
        path_of=path_of,
        topic_link=topic_link,
        clock=clock_text,
        second=second_text,
        chart_width=WIDTH,
        chart_height=HEIGHT,
    )
    return environment


@pass_context
def _shown_moment(context: Context, milliseconds: int) -> str:
    return moment_text(milliseconds, context["frame"].is_local)


@pass_context
def _shown_time(context: Context, milliseconds: int) -> str:
    return time_text(milliseconds, context["frame"].is_local)
