"""Streams of the page: a search that goes on, and new records as they come.

    event: records      data: {"html": "<tr>...", "more": address to go on from, "matches": 12}
    event: progress     data: {"html": state, "more": ...}                 four a second
    event: bound, rows, end     data: {"html": state, "more": ...}         the last one of a search
    event: live         data: {"html": "<tr>...", "left_out": 3, "after": positions, "time": "14:02:18"}
    event: failed       data: {"html": why}

The HTML is ready to be inserted. A search ends after some million records, or seconds: a link goes on. A viewer who
does not take events stops the work, and so does one who leaves.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, Unpack

import attrs
from markupsafe import escape
from twisted.internet.task import deferLater
from twisted.web.server import Request

from pylogbroker.conditions import Subject
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.web.parameters import Name
from pylogbroker.web.record_search.search import TopicSearch
from pylogbroker.web.topic_records.cells import CellMaker
from pylogbroker.web.topic_records.fragments import rows_html, state_html
from pylogbroker.web.topic_records.paced_response import PacedResponse
from pylogbroker.web.topic_records.page import Matches, QueryFields
from pylogbroker.web.topic_records.query import BadField, RecordQuery, parsed_positions, positions_text
from pylogbroker.web.topic_records.state import End, state_of
from pylogbroker.web.visitors import Visitor

SEARCHED_MAX: Final = 4_000_000
SECONDS_MAX: Final = 20.0
ROWS_MAX: Final = 200
PROGRESS_SECONDS: Final = 0.25
LIVE_ROUND_SECONDS: Final = 0.5
LIVE_ROWS_PER_ROUND: Final = 10
LIVE_ROUND_WORK_SECONDS: Final = 0.1
LIVE_SECONDS_MAX: Final = 600.0
"""Then the browser asks again, and shows its password."""
_SILENCE_SECONDS_MAX: Final = 15.0
_PASSING: Final = (
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NETWORK_EXCEPTION,
)


class EventStream(PacedResponse):
    """Writes events to one viewer."""

    def begin(self) -> None:
        self.start(b"text/event-stream")
        self.write(b"retry: 1000\n\n")

    async def send(self, event: str, **data: Any) -> None:
        """Write an event, whose data have no line break: JSON escapes them."""
        text = json.dumps(data, separators=(",", ":"))
        await self.send_piece(f"event: {event}\ndata: {text}\n\n".encode())

    def stay_open(self) -> None:
        """Write a comment: proxies close silent connections."""
        self.write(b":\n\n")


def _year(visitor: Visitor) -> int:
    return datetime.fromtimestamp(visitor.services.runtime.time_of_day(), UTC).year


def _rendered(maker: CellMaker, names: Sequence[str], records: Sequence[Subject], is_new: bool = False) -> str:
    """Return rows as HTML: two hundred take too long for the reactor thread."""
    return rows_html(maker.query, [maker.row(record) for record in records], names, is_new)


async def search_stream(
    visitor: Visitor, request: Request, topic: Name, matches: Matches = 0, **fields: Unpack[QueryFields]
) -> None:
    """Send matches, and how far the search is."""
    query, stream = RecordQuery(topic, **fields), EventStream(request)
    stream.begin()
    try:
        await _StreamedSearch(visitor, query, stream, matches).run()
    except (BadField, KafkaError) as error:
        await stream.send("failed", html=_failure(error))
    stream.end()


def _failure(error: BadField | KafkaError) -> str:
    return str(escape(error.detail if isinstance(error, KafkaError) else str(error)))


@attrs.define(eq=False, repr=False)
class _StreamedSearch:
    _visitor: Visitor
    _query: RecordQuery
    _stream: EventStream
    _matches: int

    async def run(self) -> None:
        """Search up to a bound; raise BadField or KafkaError."""
        visitor, query = self._visitor, self._query
        runtime = visitor.services.runtime
        columns = query.shown_columns()
        names = [str(column) for column in columns]
        year = _year(visitor)
        maker = CellMaker(query, columns, query.condition(), year)
        search = await TopicSearch.opened(visitor, query.search_request(runtime.now_ms(), ROWS_MAX))
        began = spoke = runtime.clock.seconds()
        before, count = search.looked_at, 0
        waiting: list[Subject] = []
        end: End = "running"
        while end == "running":
            records = await search.advance(ROWS_MAX - count)
            waiting += records
            count += len(records)
            self._matches += len(records)
            now = runtime.clock.seconds()
            if search.is_done:
                end = "end"
            elif count >= ROWS_MAX:
                end = "rows"
            elif search.looked_at - before >= SEARCHED_MAX or now - began >= SECONDS_MAX:
                end = "bound"
            if end != "running" or now - spoke >= PROGRESS_SECONDS or (count and count == len(waiting)):
                if waiting:
                    html = await runtime.in_thread(_rendered, maker, names, waiting)
                    await self._stream.send("records", html=html)
                    waiting = []
                state = state_of(query, search, end, self._matches, now - began, before, year)
                more = query.link("/search", after=state.positions, matches=self._matches, at="", show="")
                event = "progress" if end == "running" else end
                await self._stream.send(event, html=state_html(query, state), more=more)
                spoke = now


async def live_stream(visitor: Visitor, request: Request, topic: Name, **fields: Unpack[QueryFields]) -> None:
    """Send new records of all chosen partitions, the newest first in each round."""
    query, stream = RecordQuery(topic, **fields), EventStream(request)
    runtime = visitor.services.runtime
    stream.begin()
    try:
        viewer = _LiveView.opened(visitor, query, stream)
        end = runtime.clock.seconds() + LIVE_SECONDS_MAX
        while runtime.clock.seconds() < end:
            await viewer.round()
            await deferLater(runtime.clock, LIVE_ROUND_SECONDS, lambda: None)
    except (BadField, KafkaError) as error:
        await stream.send("failed", html=_failure(error))
    stream.end()


@attrs.define(eq=False, repr=False)
class _LiveView:
    _visitor: Visitor
    _query: RecordQuery
    _stream: EventStream
    _maker: CellMaker
    _names: list[str]
    _after: dict[int, int]
    _spoke: float

    @classmethod
    def opened(cls, visitor: Visitor, query: RecordQuery, stream: EventStream) -> _LiveView:
        """Raise BadField."""
        columns = query.shown_columns()
        maker = CellMaker(query, columns, query.condition(), _year(visitor))
        names = [str(column) for column in columns]
        spoke = visitor.services.runtime.clock.seconds()
        return cls(visitor, query, stream, maker, names, parsed_positions(query.after), spoke)

    async def round(self) -> None:
        """Send what is new; raise BadField or KafkaError."""
        runtime = self._visitor.services.runtime
        if runtime.clock.seconds() - self._spoke > _SILENCE_SECONDS_MAX:
            self._stream.stay_open()
            self._spoke = runtime.clock.seconds()
        if self._after and not self._has_new():
            return
        request = attrs.evolve(self._query, after="", order="newest").search_request(
            runtime.now_ms(), LIVE_ROWS_PER_ROUND
        )
        try:
            search = await TopicSearch.opened(self._visitor, attrs.evolve(request, floors=self._after))
            ends = search.ends
            if not self._after:
                self._after = ends
                return
            await self._send_new(search, {**self._after, **ends})
        except KafkaError as error:
            if error.code not in _PASSING:
                raise

    def _has_new(self) -> bool:
        """Return whether a partition that this broker leads has new records, or others lead one."""
        led = self._visitor.services.partitions.led
        for index, offset in self._after.items():
            partition = led.get((self._query.topic, index))
            if partition is None or partition.log.high_watermark > offset:
                return True
        return False

    async def _send_new(self, search: TopicSearch, ends: dict[int, int]) -> None:
        clock = self._visitor.services.runtime.clock
        began = clock.seconds()
        records: list[Subject] = []
        while (
            not search.is_done
            and len(records) < LIVE_ROWS_PER_ROUND
            and clock.seconds() - began < LIVE_ROUND_WORK_SECONDS
        ):
            records += await search.advance(LIVE_ROWS_PER_ROUND - len(records))
        left_out = search.left
        self._after = ends
        if records or left_out:
            html = await self._visitor.services.runtime.in_thread(_rendered, self._maker, self._names, records, True)
            now = self._visitor.services.runtime.time_of_day()
            time = datetime.fromtimestamp(now, UTC).strftime("%H:%M:%S")
            after = positions_text(self._after)
            await self._stream.send("live", html=html, count=len(records), left_out=left_out, after=after, time=time)
            self._spoke = clock.seconds()
