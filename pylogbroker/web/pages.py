"""HTML of the views, by templates that escape all values. It works without JavaScript.

A script of its own follows new records. None is within the HTML, which the page's policy forbids.

A page is a route, too: /NAME has the template NAME, and what a form changes shows another page then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from twisted.web.resource import Resource
from twisted.web.server import Request

from pylogbroker.web.acl_views import acls, add_acl, delete_acl
from pylogbroker.web.changes import create_topic, produce
from pylogbroker.web.charts import HEIGHT, WIDTH, lag_lines
from pylogbroker.web.cluster_views import brokers, topic, topics
from pylogbroker.web.fault_views import add_fault_of_form, faults, release_fault, remove_fault
from pylogbroker.web.form_changes import (
    alter_quota,
    alter_topic,
    delete_topic_confirmed,
    delete_user_confirmed,
    fence_producer_confirmed,
)
from pylogbroker.web.forms import TOKEN, form_of
from pylogbroker.web.group_reset import preview_reset, reset_group
from pylogbroker.web.group_views import group, groups
from pylogbroker.web.log_directory_views import log_directory
from pylogbroker.web.quota_views import quotas
from pylogbroker.web.record_views import records
from pylogbroker.web.router import HttpRoute
from pylogbroker.web.router.routes import EVENTS, HTML, JSON
from pylogbroker.web.site import BODY_BYTES_MAX
from pylogbroker.web.texts import StaticPage
from pylogbroker.web.transaction_views import abort_transaction, producers, transaction, transactions
from pylogbroker.web.user_views import set_password, users
from pylogbroker.web.views import FAULT_ROUTES, ROUTES, DescriptionPage, Presentation, Source, ViewResource
from pylogbroker.web.visitors import Visitor

_BYTE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_FIRST: Final = "topics"


def _page(path: str, view: Callable[..., Any]) -> HttpRoute:
    return HttpRoute("GET", path, view, media=HTML)


def _form(path: str, change: Callable[..., Any]) -> HttpRoute:
    return HttpRoute("POST", path, change, media=HTML)


PAGES: Final = (
    _page("/", topics),
    _page("/topics", topics),
    _page("/topic", topic),
    _page("/records", records),
    _page("/groups", groups),
    _page("/group", group),
    _page("/reset-group", preview_reset),
    _page("/brokers", brokers),
    _page("/log-directory", log_directory),
    _page("/users", users),
    _page("/acls", acls),
    _page("/quotas", quotas),
    _page("/transactions", transactions),
    _page("/transaction", transaction),
    _page("/producers", producers),
    _form("/create-topic", create_topic),
    _form("/alter-topic", alter_topic),
    _form("/delete-topic", delete_topic_confirmed),
    _form("/produce", produce),
    _form("/reset-group", reset_group),
    _form("/set-password", set_password),
    _form("/delete-user", delete_user_confirmed),
    _form("/add-acl", add_acl),
    _form("/delete-acl", delete_acl),
    _form("/set-quota", alter_quota),
    _form("/fence-producer", fence_producer_confirmed),
    _form("/abort-transaction", abort_transaction),
)
FAULT_PAGES: Final = (
    _page("/faults", faults),
    _form("/add-fault", add_fault_of_form),
    _form("/release-fault", release_fault),
    _form("/remove-fault", remove_fault),
)


class HtmlPresentation(Presentation):
    content_type = b"text/html; charset=utf-8"

    def parameters(self, source: Source, visitor: Visitor, request: Request) -> tuple[dict[str, str], dict[str, Any]]:
        form = form_of(request, BODY_BYTES_MAX)
        source.form_tokens.check(visitor.principal, form.pop(TOKEN, ""))
        return form, {}

    def body(self, source: Source, visitor: Visitor, route: HttpRoute, values: Mapping[str, Any]) -> bytes:
        token = source.form_tokens.token(visitor.principal)
        template = route.path.strip("/") or _FIRST
        return self._rendered(source, template, {"principal": visitor.principal, TOKEN: token, **values})

    def changed(self, request: Request, route: HttpRoute, values: Mapping[str, Any]) -> bytes:
        request.setResponseCode(303)
        request.setHeader(b"location", _AFTER[route.path.strip("/")](values).encode())
        return b""

    def error_body(self, source: Source, code: int, reason: str) -> bytes:
        return self._rendered(source, "error", {"code": code, "reason": reason, "principal": ""})

    def _rendered(self, source: Source, template: str, values: Mapping[str, Any]) -> bytes:
        return _render(f"{template}.html", {"has_faults": source.faults is not None, **values})


class PageRoot(Resource):
    """Root of the HTTP server: what is not put below it is a page or the API."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        routes = (*ROUTES, *PAGES) if source.faults is None else (*ROUTES, *FAULT_ROUTES, *PAGES, *FAULT_PAGES)
        in_json = Presentation()
        self._views = ViewResource(source, routes, {JSON: in_json, EVENTS: in_json, HTML: HtmlPresentation()})
        self.putChild(b"live.js", StaticPage("live.js", b"text/javascript; charset=utf-8"))
        self.putChild(b"page.css", StaticPage("page.css", b"text/css; charset=utf-8"))
        self.putChild(b"openapi.json", DescriptionPage(source))
        _compile()

    def getChild(self, path: bytes, request: Request) -> Resource:
        return self._views


def _compile() -> None:
    """Compile the templates now: some 30 ms, which later would hold up the reactor."""
    environment = _environment()
    for template in environment.list_templates(extensions=("html",)):
        environment.get_template(template)


def _render(template: str, values: Mapping[str, Any]) -> bytes:
    return _environment().get_template(template).render(values).encode(errors="replace")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("pylogbroker.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(size=size_text, time=time_text, number=number_text, duration=duration_text)
    environment.filters.update(rate=rate_text, size_rate=size_rate_text, lag_lines=lag_lines)
    environment.globals.update(link=link, chart_width=WIDTH, chart_height=HEIGHT)
    return environment


def link(path: str, /, **parameters: object) -> str:
    """Return a relative address with those parameters that are not empty."""
    given = {name: value for name, value in parameters.items() if value not in ("", None)}
    return f"{path}?{urlencode(given)}" if given else path


_AFTER: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "create-topic": lambda done: link("topic", name=done["name"]),
    "alter-topic": lambda done: link("topic", name=done["name"]),
    "delete-topic": lambda done: "topics",
    "produce": lambda done: link("records", topic=done["topic"], partition=done["partition"], offset=done["offset"]),
    "reset-group": lambda done: link("group", id=done["id"]),
    "set-password": lambda done: "users",
    "delete-user": lambda done: "users",
    "add-acl": lambda done: link("acls", resource=done["resource"], name=done["name"]),
    "delete-acl": lambda done: "acls",
    "set-quota": lambda done: "quotas",
    "fence-producer": lambda done: link("transaction", id=done["id"]),
    "add-fault": lambda done: "faults",
    "release-fault": lambda done: "faults",
    "remove-fault": lambda done: "faults",
    "abort-transaction": lambda done: link("producers", topic=done["topic"], partition=done["partition"]),
}
"""Pages that show what has changed."""


def size_text(count: int | None) -> str:
    if count is None:
        return "unknown"
    size = float(count)
    for unit in _BYTE_UNITS:
        if size < 1024 or unit == _BYTE_UNITS[-1]:
            break
        size /= 1024
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


def rate_text(rate: float | None) -> str:
    """Return a number per second, with three digits or more; the empty text if it is not known yet."""
    return "" if rate is None else f"{rate:.0f}/s" if rate >= 100 or not rate else f"{rate:.3g}/s"


def size_rate_text(rate: float | None) -> str:
    return "" if rate is None else f"{size_text(round(rate))}/s"


def duration_text(milliseconds: int | None) -> str:
    """Return a duration in its two largest units; the empty text for none."""
    if milliseconds is None:
        return ""
    seconds = milliseconds // 1000
    for unit, name, smaller, smaller_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= unit:
            return f"{seconds // unit} {name} {seconds % unit // smaller} {smaller_name}"
    return f"{milliseconds / 1000:g} s"


def number_text(number: float) -> str:
    """Return a number without a fraction that is zero."""
    return str(int(number)) if number.is_integer() else repr(number)


def time_text(milliseconds: int) -> str:
    """Return a time in UTC; a timestamp that is none as its number."""
    try:
        time = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
    return "none" if milliseconds < 0 else time.isoformat(" ", "milliseconds").removesuffix("+00:00")
