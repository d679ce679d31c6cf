"""Coroutines that nobody waits for."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger, LogLevel
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.background import run_in_background, with_cleanup


class BackgroundTests(SynchronousTestCase):
    def test_an_error_is_logged_once_when_it_happens(self) -> None:
        waiting: Deferred[None] = Deferred()

        async def work() -> None:
            await waiting

        events: list[dict[str, object]] = []
        run_in_background(Logger(observer=events.append), work(), "copying {path} failed", path="/a")  # type: ignore[arg-type]
        self.assertEqual(events, [])
        error = ValueError("no space")
        waiting.errback(error)
        [event] = events
        self.assertEqual((event["log_format"], event["path"]), ("copying {path} failed", "/a"))
        self.assertEqual((event["log_level"], event["log_failure"].value), (LogLevel.critical, error))  # type: ignore[attr-defined]

    def test_results_are_dropped(self) -> None:
        async def work() -> int:
            return 1

        run_in_background(Logger(), work(), "the work failed")


class CleanupTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.work: Deferred[int] = Deferred()
        self.cleaning: Deferred[None] = Deferred()
        self.calls: list[str] = []

    def begin(self) -> Coroutine[Deferred[Any], Any, int]:
        async def work() -> int:
            return await self.work

        async def cleanup() -> None:
            self.calls.append("cleanup")
            await self.cleaning

        return with_cleanup(work(), cleanup)

    def test_the_result_comes_after_the_cleanup(self) -> None:
        done = ensureDeferred(self.begin())
        self.work.callback(7)
        self.assertNoResult(done)
        self.cleaning.callback(None)
        self.assertEqual((self.successResultOf(done), self.calls), (7, ["cleanup"]))

    def test_each_error_comes_after_the_cleanup(self) -> None:
        for error in (ValueError(), SystemExit()):
            self.setUp()
            done = ensureDeferred(self.begin())
            self.work.errback(error)
            self.assertNoResult(done)
            self.cleaning.callback(None)
            self.failureResultOf(done, type(error))

    def test_a_collected_coroutine_awaits_no_cleanup(self) -> None:
        running = self.begin()
        running.send(None)
        running.close()  # as the collector does; raises RuntimeError if the coroutine awaits again
        self.assertEqual(self.calls, [])
