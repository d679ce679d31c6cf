"""Figures of open pages, which are sent as they change.

    GET /figures/topics?sort=-size     the stream of the page /topics?sort=-size

    event: figures   data: {"time": "14:02:18", "cells": {"size-orders": ["2.7 GiB", "n"]}, "gone": ["size-old"]}
    event: failed    data: {"html": why}       the last event

The route of a page says whether it has a stream: `_page("/topics", topic_table, is_live=True)`. Its template says which
elements are cells, by `data-live` after the class, if there is one, and the `id`:

    <td class="n" id="size-{{ topic.name }}" data-live>{{ topic.bytes | size }}</td>

The first event has the content and the class of all cells, later ones those that have changed since. Nothing else of a
page changes. So an id has the name of the thing and not the number of its row, and is unique in the page. A cell has
neither links nor fields in it, nor an element of its own kind.

Each tick, a page is rendered once for all viewers with the same parameters and rights. The pages of all viewers take
at most half a percent of a processor: ticks are longer than two seconds if they must be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Generator, Hashable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from time import thread_time
from types import coroutine
from typing import Any, Final

import attrs
from markupsafe import escape
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.web.server import Request

from pylogbroker.background import run_in_background
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.errors import KafkaError, PylogbrokerError
from pylogbroker.web.frame import is_local
from pylogbroker.web.router import HttpRoute
from pylogbroker.web.router.routes import EVENTS
from pylogbroker.web.topic_records.streams import EventStream
from pylogbroker.web.visitors import Visitor

log = Logger()

TICK_SECONDS: Final = 2.0
PROCESSOR_SHARE_MAX: Final = 0.005
STREAM_SECONDS_MAX: Final = 600.0
"""Then the browser asks again, and shows its password."""
PREFIX: Final = "/figures"

_CELL: Final = re.compile(
    r'<(?P<tag>[a-z]+)(?: class="(?P<kind>[^"]*)")? id="(?P<id>[^"]*)" data-live(?: [^<>]*)?>'
    r"(?P<content>.*?)</(?P=tag)>",
    re.DOTALL,
)

Cell = tuple[str, str]
"""Content as HTML, and class."""
Cells = Mapping[str, Cell]
Prepare = Callable[[Request, Visitor, HttpRoute, Mapping[str, Any]], Callable[[], str]]
"""Returns what renders a page as HTML, in any thread."""


def cells_of(html: str) -> dict[str, Cell]:
    """Return the cells of a page by their ids. Values in it are escaped: none has quotes or angle brackets."""
    return {match["id"]: (match["content"].strip(), match["kind"] or "") for match in _CELL.finditer(html)}


class FiguresFailed(PylogbrokerError):
    """A page cannot be rendered any more."""


@attrs.frozen
class RenderedFigures:
    time: str
    cells: Cells


@attrs.define(eq=False, repr=False)
class _Viewer:
    visitor: Visitor
    request: Request
    next: Deferred[RenderedFigures] | None = None
    """Figures that the viewer waits for; None while earlier ones are on their way to it."""


@attrs.define(eq=False, repr=False)
class _OpenPage:
    """A page that somebody looks at, with its parameters."""

    route: HttpRoute
    arguments: Mapping[str, Any]
    viewers: list[_Viewer] = attrs.field(factory=list)

    def publish(self, figures: RenderedFigures) -> None:
        for waiting in self._take_waiting():
            waiting.callback(figures)

    def fail(self, error: FiguresFailed) -> None:
        for waiting in self._take_waiting():
            waiting.errback(error)

    def _take_waiting(self) -> list[Deferred[RenderedFigures]]:
        waiting = [viewer.next for viewer in self.viewers if viewer.next is not None]
        for viewer in self.viewers:
            viewer.next = None
        return waiting


@attrs.define(eq=False, repr=False)
class FigureStreams:
    """Renders open pages one after the other, as long as there are viewers."""

    _prepare: Prepare
    _pages: dict[Hashable, _OpenPage] = attrs.field(factory=dict, init=False)
    _is_ticking: bool = attrs.field(default=False, init=False)
    _pause: Deferred[None] = attrs.field(factory=partial(succeed, None), init=False)
    """The time until the next tick."""

    def route_of(self, page: HttpRoute) -> HttpRoute:
        """Return the route of a page's stream."""

        async def stream(visitor: Visitor, request: Request, **arguments: Any) -> None:
            await self._stream(page, visitor, request, arguments)

        return HttpRoute("GET", PREFIX + page.path, stream, media=EVENTS, declared=page.handle, is_shared=True)

    async def _stream(self, route: HttpRoute, visitor: Visitor, request: Request, arguments: Mapping[str, Any]) -> None:
        stream, clock = EventStream(request), visitor.services.runtime.clock
        rights = visitor.principal, visitor.context.client_host
        key = route.path, rights, is_local(request), tuple(sorted(arguments.items()))
        page = self._pages.setdefault(key, _OpenPage(route, arguments))
        viewer = _Viewer(visitor, request)
        page.viewers.append(viewer)
        stream.begin()
        try:
            sent: Cells = {}
            end = clock.seconds() + STREAM_SECONDS_MAX
            while clock.seconds() < end:
                following = viewer.next = Deferred[RenderedFigures]()
                if not self._is_ticking:
                    run_in_background(log, self._tick(visitor.services.runtime), "figures are not sent any more")
                figures = await following
                cells = {cell_id: cell for cell_id, cell in figures.cells.items() if sent.get(cell_id) != cell}
                gone = [cell_id for cell_id in sent if cell_id not in figures.cells]
                await stream.send("figures", time=figures.time, cells=cells, gone=gone)
                sent = figures.cells
        except FiguresFailed as error:
            await stream.send("failed", html=str(escape(str(error))))
        except GeneratorExit:  # a stream that nobody refers to any more: the ticks may be gone before it
            self._pause = succeed(None)
            raise
        finally:
            page.viewers.remove(viewer)
            if not page.viewers:
                del self._pages[key]
            if not self._pages:
                self._pause.cancel()
        stream.end()

    async def _tick(self, runtime: Runtime) -> None:
        """Render all pages again and again, until there are none."""
        self._is_ticking = True
        try:
            while self._pages:
                spent = 0.0
                for page in tuple(self._pages.values()):
                    spent += await self._render_page(runtime, page)
                if self._pages:
                    seconds = max(TICK_SECONDS, spent / PROCESSOR_SHARE_MAX)
                    self._pause = deferLater(runtime.clock, seconds, lambda: None)
                    with suppress(CancelledError):  # the last viewer has gone
                        await self._pause
        finally:
            self._is_ticking = False

    async def _render_page(self, runtime: Runtime, page: _OpenPage) -> float:
        """Render a page for those who look at it; return the processor time that it took."""
        if not page.viewers:
            return 0.0
        viewer, work = page.viewers[0], _MeasuredWork()
        cells: Cells = {}
        try:
            values = await work.run(page.route.handle(viewer.visitor, **page.arguments))
            render = self._prepare(viewer.request, viewer.visitor, page.route, values)
            cells, seconds = await runtime.in_thread(_measured_cells, render)
            work.seconds += seconds
        except KafkaError as error:
            if not error.code.retriable:
                page.fail(FiguresFailed(error.detail))
        except PylogbrokerError as error:
            page.fail(FiguresFailed(str(error)))
        except Exception:
            log.failure("the figures of {page} cannot be rendered", page=page.route.path)
            page.fail(FiguresFailed("they cannot be rendered: see the broker's log"))
        if cells:
            now = datetime.fromtimestamp(runtime.time_of_day(), UTC)
            shown = now.astimezone() if is_local(viewer.request) else now
            page.publish(RenderedFigures(shown.strftime("%H:%M:%S"), cells))
        return work.seconds


def _measured_cells(render: Callable[[], str]) -> tuple[Cells, float]:
    """Return the cells of a page, and the processor time that they took."""
    began = thread_time()
    return cells_of(render()), thread_time() - began


@attrs.define(eq=False, repr=False)
class _MeasuredWork:
    """Runs a coroutine, and adds up the processor time of its steps."""

    seconds: float = attrs.field(default=0.0, init=False)

    @coroutine
    def run(self, work: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        value: Any = None
        error: BaseException | None = None
        while True:
            began = thread_time()
            try:
                waited = work.send(value) if error is None else work.throw(error)
            except StopIteration as end:
                return end.value
            finally:
                self.seconds += thread_time() - began
            value = error = None
            try:
                value = yield waited
            except BaseException as thrown:
                error = thrown
