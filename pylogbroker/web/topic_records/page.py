"""The page as a whole: a search runs for a second, and the page links to where it goes on.

A module in the browser streams the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypedDict, Unpack

import attrs
from markupsafe import Markup

from pylogbroker.conditions import Subject
from pylogbroker.errors import KafkaError
from pylogbroker.web.parameters import Name
from pylogbroker.web.record_search.search import TopicSearch
from pylogbroker.web.router.values import Capped, OneOf
from pylogbroker.web.schema_store import frames_of
from pylogbroker.web.topic_pages.head import TopicPage, topic_head
from pylogbroker.web.topic_records.cells import CellMaker, ListedRecord
from pylogbroker.web.topic_records.fragments import panel_html, rows_html, state_html
from pylogbroker.web.topic_records.opened import Form, OpenedRecord, opened_record, stored_record
from pylogbroker.web.topic_records.query import (
    COLUMNS,
    COLUMNS_DEFAULT,
    BadField,
    RecordQuery,
    parsed_place,
    positions_text,
)
from pylogbroker.web.topic_records.state import SearchState, state_of
from pylogbroker.web.visitors import Visitor

ROWS_MAX: Final = 50
SECONDS_MAX: Final = 1.0
_PENDING_ROWS: Final = 200

Order = Annotated[str, OneOf(("newest", "oldest", "live")), "newest first, oldest first, or new ones as they come"]
Window = Annotated[str, OneOf(("", "hour", "today", "range")), "range: from since until until"]
Shown = Annotated[str, OneOf(("", "json", "text", "hex"))]
Matches = Annotated[int, Capped(), "number of matches on earlier pages"]


class RecordsPage(TopicPage):
    """Values of the page's template; rows, state and panel are HTML. Without the right to read, there are no rows."""

    query: RecordQuery
    columns: list[str]
    column_links: list[tuple[str, str, bool]]
    field: str
    error: str
    rows: Markup
    row_count: int
    state: Markup
    panel: Markup
    stream: str
    goes_on: bool
    """The stream begins by itself: a second was too short to find the rows of a page."""
    is_done: bool


class QueryFields(TypedDict, total=False):
    """Fields of the form, and what its links add: `after`, `at`, `show`."""

    order: Order
    partition: Annotated[str, "numbers like 0,4-7, by default all"]
    time: Window
    since: str
    until: str
    start: Annotated[str, "offset, partition:offset, time of day, -2h or a time"]
    text: Annotated[str, "text in key, value or headers"]
    where: Annotated[str, "condition like value.amount > 10"]
    columns: Annotated[str, "names of columns, and paths like value.status"]
    after: Annotated[str, "positions to go on from"]
    at: Annotated[str, "partition:offset of the opened record"]
    show: Shown


async def topic_records(
    visitor: Visitor, topic: Name, matches: Matches = 0, **fields: Unpack[QueryFields]
) -> RecordsPage:
    """Return the records of a topic that the form selects, and the one that is opened."""
    query = RecordQuery(topic, **fields)
    head = await topic_head(visitor, topic)
    result = Result()
    try:
        if head.rights.read:
            result = await searched(visitor, query, matches)
    except BadField as error:
        result = Result(field=error.field, error=str(error))
    except KafkaError as error:
        result = Result(error=f"{error.detail}.")
    names = [str(column) for column in result.columns]
    return {
        "head": head,
        "query": query,
        "columns": names,
        "column_links": _column_links(query, names),
        "field": result.field,
        "error": result.error,
        "rows": rows_html(query, result.rows, names),
        "row_count": len(result.rows),
        "state": state_html(query, result.state) if result.state is not None else Markup(""),
        "panel": await panel(visitor, query) if query.at and head.rights.read else Markup(""),
        "stream": _stream(query, result, matches),
        "goes_on": result.state is not None and result.state.end == "bound",
        "is_done": result.state is None or result.state.end == "end",
    }


@attrs.frozen
class Result:
    """Rows of a page, or the field that is not understood."""

    rows: Sequence[ListedRecord] = ()
    columns: Sequence[Any] = COLUMNS_DEFAULT
    state: SearchState | None = None
    field: str = ""
    error: str = ""
    live_after: str = ""


async def searched(visitor: Visitor, query: RecordQuery, matches: int) -> Result:
    """Search for a second, or until the rows of a page are there; raise BadField or KafkaError."""
    services = visitor.services
    clock, now_ms = services.runtime.clock, services.runtime.now_ms()
    columns = query.shown_columns()
    request = query.search_request(now_ms, _PENDING_ROWS)
    search = await TopicSearch.opened(visitor, request)
    ends = positions_text(search.ends)
    began, looked_at = clock.seconds(), search.looked_at
    records: list[Subject] = []
    while not search.is_done and len(records) < ROWS_MAX and clock.seconds() - began < SECONDS_MAX:
        records += await search.advance(ROWS_MAX - len(records))
    year = datetime.fromtimestamp(now_ms / 1000, UTC).year
    end = "end" if search.is_done else "rows" if len(records) >= ROWS_MAX else "bound"
    seconds = clock.seconds() - began
    state = state_of(query, search, end, matches + len(records), seconds, looked_at, year)  # type: ignore[arg-type]
    maker = CellMaker(query, columns, query.condition(), year)
    return Result(await rows_of(visitor, maker, records), columns, state, live_after=ends)


async def rows_of(visitor: Visitor, maker: CellMaker, records: Sequence[Subject]) -> list[ListedRecord]:
    """Return rows; long values take a while."""
    return [maker.row(record) async for record in visitor.services.runtime.slices.over(records)]


def _stream(query: RecordQuery, result: Result, matches: int) -> str:
    """Return the address of the stream that goes on."""
    if result.state is None:
        return ""
    if query.is_live:
        return query.link("/live", order="", after=result.live_after, at="", show="")
    if result.state.end == "end":
        return ""
    return query.link("/search", after=result.state.positions, matches=matches + len(result.rows), at="", show="")


def _column_links(query: RecordQuery, names: Sequence[str]) -> list[tuple[str, str, bool]]:
    """Return each column, the address that shows or hides it, and whether it is shown."""
    every = [*COLUMNS, *(name for name in names if name not in COLUMNS)]
    links = []
    for name in every:
        others = [other for other in names if other != name] if name in names else [*names, name]
        links.append((name, query.link(columns=",".join(others), after=""), name in names))
    return links


async def panel(visitor: Visitor, query: RecordQuery) -> Markup:
    """Return the opened record as HTML, or why there is none."""
    in_thread = visitor.services.runtime.in_thread
    try:
        opened = await opened_of(visitor, query)
    except (BadField, KafkaError) as error:
        detail = error.detail if isinstance(error, KafkaError) else str(error)
        return panel_html(query, None, f"{detail.rstrip('.')}.")
    html: Markup = await in_thread(panel_html, query, opened, "")  # a large tree takes long
    return html


async def opened_of(visitor: Visitor, query: RecordQuery) -> OpenedRecord:
    """Raise BadField or KafkaError."""
    partition, offset = parsed_place(query.at)
    stored = await stored_record(visitor, query.topic, partition, offset)
    form: Form = query.show  # type: ignore[assignment]
    runtime, schemas = visitor.services.runtime, visitor.schemas
    if schemas is not None:
        record = stored.record
        await schemas.load(frame.schema for frame in frames_of(record.key, record.value, record.headers).values())
    opened: OpenedRecord = await runtime.in_thread(
        opened_record, query.topic, partition, stored, form, runtime.now_ms(), schemas
    )
    return opened


class RecordPanel(TypedDict):
    """Value of the template of the opened record alone."""

    panel: Markup


async def record_panel(visitor: Visitor, topic: Name, **fields: Unpack[QueryFields]) -> RecordPanel:
    """Return one record in full, as a part of the page."""
    return {"panel": await panel(visitor, RecordQuery(topic, **fields))}
