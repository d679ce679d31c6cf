"""HTML of the views, by templates that escape all values. It works without JavaScript.

A script of its own follows new records. None is within the HTML, which the page's policy forbids.
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

from pylogbroker.web.charts import HEIGHT, WIDTH, lag_lines
from pylogbroker.web.forms import TOKEN, form_of
from pylogbroker.web.query import Query
from pylogbroker.web.site import BODY_BYTES_MAX
from pylogbroker.web.texts import StaticPage
from pylogbroker.web.views import Source, ViewPage
from pylogbroker.web.visitors import Visitor

_BYTE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


class HtmlPage(ViewPage):
    content_type = b"text/html; charset=utf-8"

    def fields(self, visitor: Visitor, request: Request) -> Query:
        form = form_of(request, BODY_BYTES_MAX)
        self.source.form_tokens.check(visitor.principal, form.text(TOKEN))
        return form

    def body(self, visitor: Visitor, values: dict[str, Any]) -> bytes:
        token = self.source.form_tokens.token(visitor.principal)
        return self._rendered(self.name, {"principal": visitor.principal, TOKEN: token, **values})

    def changed(self, request: Request, visitor: Visitor, values: dict[str, Any]) -> bytes:
        request.setResponseCode(303)
        request.setHeader(b"location", _AFTER[self.name](values).encode())
        return b""

    def error_body(self, code: int, reason: str) -> bytes:
        return self._rendered("error", {"code": code, "reason": reason, "principal": ""})

    def _rendered(self, template: str, values: Mapping[str, Any]) -> bytes:
        return _render(f"{template}.html", {"has_faults": self.source.faults is not None, **values})


def put_pages(root: Resource, source: Source) -> None:
    """Serve the views as HTML, with the topics at the root.

    Templates are compiled now: some 30 ms, which later would hold up the reactor.
    """
    environment = _environment()
    for template in environment.list_templates(extensions=("html",)):
        environment.get_template(template)
    for name in source.names:
        root.putChild(name.encode(), HtmlPage(source, name))
    root.putChild(b"", HtmlPage(source, "topics"))
    root.putChild(b"live.js", StaticPage("live.js", b"text/javascript; charset=utf-8"))
    root.putChild(b"page.css", StaticPage("page.css", b"text/css; charset=utf-8"))


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


_AFTER: Final[Mapping[str, Callable[[dict[str, Any]], str]]] = {
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
