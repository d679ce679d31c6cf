"""Coroutines that nobody waits for."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.logger import Logger, LogLevel
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.background import run_in_background


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
