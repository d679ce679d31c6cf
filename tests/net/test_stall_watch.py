"""Long iterations of a real reactor, and the lines logged about them."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest
from twisted.internet import reactor
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import capturedLogs, eventAsText

from pylogbroker.broker.apis import APIS, metadata
from pylogbroker.broker.requests.api import Api
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.net import stall_watch
from pylogbroker.net.stall_watch import StallWatch
from pylogbroker.system import thread_timer
from pylogbroker.wire.messages.metadata import MetadataRequest
from tests.support.reactor_run import run
from tests.support.reactor_stalls import STALL

LIMIT_MS = 100
ENOUGH_SECONDS = 60.0
BROKER = SimpleNamespace(node=SimpleNamespace(address=lambda context: ("here", 9092)))


def watched(step: Callable[[], object], limit_ms: int = LIMIT_MS, apis: tuple[Api, ...] = ()) -> list[str]:
    """Run one iteration of a watched reactor; return the lines logged until its end."""
    watch = StallWatch(reactor, limit_ms, apis)

    async def work() -> None:
        watch.start()
        over: Deferred[None] = Deferred()
        reactor.callLater(0, step)  # type: ignore[attr-defined]
        reactor.callLater(0, over.callback, None)  # type: ignore[attr-defined]
        await over

    with capturedLogs() as events:
        try:
            run(work)
        finally:
            ensureDeferred(watch.stop())
    lines = [eventAsText(event, includeTimestamp=False, includeSystem=False) for event in events]
    return [line for line in lines if STALL in line]


def compute(until: Callable[[], bool]) -> None:
    """Use processor time until a condition holds, or that took much too long."""
    end = time.thread_time() + ENOUGH_SECONDS
    while not until() and time.thread_time() < end:
        pass


class Reported(Exception):
    """The report was made: nothing more is to be done."""


class Reports:
    """Counts the reports of a watch, while they are made as ever."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        report = StallWatch._report

        def counted(*arguments: Any) -> None:
            report(*arguments)
            self.count += 1

        monkeypatch.setattr(StallWatch, "_report", counted)


def test_the_line_of_a_long_iteration_is_logged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = Reports(monkeypatch)

    def busy() -> None:
        end = time.thread_time() + ENOUGH_SECONDS
        while reports.count < 3:
            if time.thread_time() > end:
                break

    (line,) = watched(busy)
    found = re.search(r"busy for (\d+) ms of processor time at (\S+):\d+ in test_the_line.*busy$", line)
    assert found, line
    assert int(found[1]) >= LIMIT_MS
    assert found[2] == "tests/net/test_stall_watch.py"


def test_a_stall_names_the_api_and_our_calling_line(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = Reports(monkeypatch)

    def slow(*anything: object) -> None:
        compute(lambda: reports.count > 0)
        raise Reported

    monkeypatch.setattr(metadata, "_all_or", slow)
    request = MetadataRequest()

    def ask() -> None:
        with suppress(Reported):
            metadata.handle(cast(Any, BROKER), RequestContext(12), request).send(None)

    (line,) = watched(ask, apis=APIS)
    assert re.search(r"called from pylogbroker/broker/apis/metadata.py:\d+ in handle, handling Metadata$", line), line


def test_an_iteration_that_waits_without_computing_is_not_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = threading.Semaphore(0)

    def counted(thread: int) -> Callable[[], float]:
        processor_time = thread_timer(thread)

        def look() -> float:
            looks.release()
            return processor_time()

        return look

    monkeypatch.setattr(stall_watch, "thread_timer", counted)

    def wait() -> None:
        assert all(looks.acquire(timeout=ENOUGH_SECONDS) for _ in range(20))

    assert watched(wait) == []


def test_without_a_limit_there_is_no_thread() -> None:
    before = set(threading.enumerate())
    watch = StallWatch(reactor, 0, APIS)
    watch.start()
    assert set(threading.enumerate()) <= before


def test_a_watch_stopped_before_the_reactor_runs_does_not_start() -> None:
    before = set(threading.enumerate())
    watch = StallWatch(reactor, LIMIT_MS, APIS)
    ensureDeferred(watch.stop())
    watch.start()
    assert set(threading.enumerate()) <= before


def test_a_stopped_watch_has_no_thread() -> None:
    before = set(threading.enumerate())
    for _ in range(20):
        watch = StallWatch(reactor, LIMIT_MS, APIS)
        watch.start()
        ensureDeferred(watch.stop())
        assert set(threading.enumerate()) <= before
