"""HTML of parts of the page: in the page itself, and sent by streams. Templates escape all values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pylogbroker.web.topic_records.cells import ListedRecord
from pylogbroker.web.topic_records.opened import OpenedRecord
from pylogbroker.web.topic_records.query import RecordQuery
from pylogbroker.web.topic_records.state import SearchState


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("pylogbroker.web.topic_records"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["thousands"] = lambda number: f"{number:,}"
    environment.filters["bytes"] = lambda size: f"{size:,} B"
    return environment


def compile_templates() -> None:
    """Compile the templates, in any thread."""
    environment = _environment()
    for template in environment.list_templates(extensions=("html",)):
        environment.get_template(template)


def _rendered(template: str, **values: Any) -> Markup:
    return Markup(_environment().get_template(template).render(values))


def rows_html(
    query: RecordQuery, rows: Sequence[ListedRecord], shown_columns: Sequence[str], is_new: bool = False
) -> Markup:
    return _rendered("rows.html", rows=rows, columns=shown_columns, at=query.at, is_new=is_new)


def state_html(query: RecordQuery, state: SearchState) -> Markup:
    return _rendered("state.html", query=query, state=state)


def panel_html(query: RecordQuery, opened: OpenedRecord | None, problem: str, form_token: str = "") -> Markup:
    return _rendered("panel.html", query=query, record=opened, problem=problem, form_token=form_token)
