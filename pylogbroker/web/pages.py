"""HTML of the views, by templates that escape all values. It works without JavaScript, and has none."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from twisted.web.resource import Resource
from twisted.web.server import Request

from pylogbroker.web.texts import Page
from pylogbroker.web.views import VIEWS, Source, ViewPage

_STYLE: Final = "page.css"
_BYTE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


class HtmlPage(ViewPage):
    content_type = b"text/html; charset=utf-8"

    def body(self, values: dict[str, Any]) -> bytes:
        return _render(f"{self.name}.html", values)

    def error_body(self, code: int, reason: str) -> bytes:
        return _render("error.html", {"code": code, "reason": reason})


class StylePage(Page):
    """The style sheet."""

    def render_GET(self, request: Request) -> bytes | int:
        request.setHeader(b"content-type", b"text/css; charset=utf-8")
        return files("pylogbroker.web").joinpath("templates", _STYLE).read_bytes()


def put_pages(root: Resource, source: Source) -> None:
    """Serve the views as HTML, with the topics at the root.

    Templates are compiled now: some 30 ms, which later would hold up the reactor.
    """
    environment = _environment()
    for template in environment.list_templates(extensions=("html",)):
        environment.get_template(template)
    for name in VIEWS:
        root.putChild(name.encode(), HtmlPage(source, name))
    root.putChild(b"", HtmlPage(source, "topics"))
    root.putChild(_STYLE.encode(), StylePage())


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
    environment.filters.update(size=size_text, time=time_text)
    environment.globals["link"] = link
    return environment


def link(path: str, **parameters: object) -> str:
    """Return a relative address with those parameters that are not empty."""
    given = {name: value for name, value in parameters.items() if value not in ("", None)}
    return f"{path}?{urlencode(given)}" if given else path


def size_text(count: int | None) -> str:
    if count is None:
        return "unknown"
    size = float(count)
    for unit in _BYTE_UNITS:
        if size < 1024 or unit == _BYTE_UNITS[-1]:
            break
        size /= 1024
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


def time_text(milliseconds: int) -> str:
    """Return a time in UTC; a timestamp that is none as its number."""
    try:
        time = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
    return "none" if milliseconds < 0 else time.isoformat(" ", "milliseconds").removesuffix("+00:00")
