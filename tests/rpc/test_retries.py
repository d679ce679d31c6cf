"""Retries by the clock."""

from __future__ import annotations

from math import inf
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.client.errors import (
    Closed,
    ConnectionLost,
    NoBrokers,
    NotConnected,
    OutOfRange,
    PluginFailed,
    RequestTimedOut,
    is_retriable,
)
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.rpc.backoff import Backoff
from pylogbroker.rpc.errors import error_of
from pylogbroker.rpc.retries import Pauses, retrying


class TestRetrying(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.pauses = Pauses(self.clock)
        self.outcomes: list[Any] = []
        self.tries = 0
        self.failures: list[Exception] = []

    async def work(self) -> Any:
        self.tries += 1
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return await outcome if isinstance(outcome, Deferred) else outcome

    def start(self, *outcomes: Any, seconds: float = 10) -> Deferred[Any]:
        self.outcomes = list(outcomes)
        backoff = Backoff(0.1, 1.0, lambda: 0.5)
        return ensureDeferred(
            retrying(self.work, self.pauses, backoff, seconds, retriable=is_retriable, failed=self.failures.append)
        )

    def test_a_first_success_needs_no_pause(self) -> None:
        self.assertEqual(self.successResultOf(self.start(7)), 7)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_retries_follow_pauses(self) -> None:
        trying = self.start(ConnectionLost("a"), ConnectionLost("b"), 7)
        self.clock.advance(0.09)
        self.assertEqual(self.tries, 1)
        self.clock.advance(0.02)
        self.assertEqual(self.tries, 2)
        self.clock.advance(0.18)
        self.assertEqual(self.tries, 2)
        self.clock.advance(0.03)
        self.assertEqual(self.successResultOf(trying), 7)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_each_retried_error_is_passed_on(self) -> None:
        first, second = ConnectionLost("a"), ConnectionLost("b")
        trying = self.start(first, second, KafkaError("no"), seconds=inf)
        self.clock.pump([0.1] * 4)
        self.failureResultOf(trying, KafkaError)
        self.assertEqual(self.failures, [first, second])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_fatal_error_is_not_retried(self) -> None:
        self.failureResultOf(self.start(KafkaError("no")), KafkaError)
        self.assertEqual(self.tries, 1)

    def test_the_last_error_is_reported_when_time_is_up(self) -> None:
        trying = self.start(ConnectionLost("first"), ConnectionLost("later"), seconds=2)
        self.clock.pump([0.01] * 199)
        self.assertNoResult(trying)
        self.clock.pump([0.01] * 2)
        self.assertEqual(self.failureResultOf(trying, ConnectionLost).getErrorMessage(), "later")
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_work_that_does_not_end_is_abandoned(self) -> None:
        aborted: list[int] = []
        trying = self.start(Deferred(lambda _: aborted.append(1)), seconds=2)
        self.clock.advance(2.1)
        self.failureResultOf(trying, RequestTimedOut)
        self.assertEqual(aborted, [1])

    def test_an_attempt_after_an_error_times_out_with_that_error(self) -> None:
        trying = self.start(NoBrokers("none"), Deferred(), seconds=2)
        self.clock.pump([0.2] * 11)
        self.assertEqual(self.failureResultOf(trying, NoBrokers).getErrorMessage(), "none")

    def test_closing_the_client_ends_retries(self) -> None:
        trying = self.start(ConnectionLost("a"))
        self.pauses.close()
        self.failureResultOf(trying, Closed)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.failureResultOf(self.pauses.pause(1), Closed)

    def test_a_cancelled_retry_leaves_no_timer(self) -> None:
        trying = self.start(ConnectionLost("a"))
        trying.addErrback(lambda _: None)
        trying.cancel()
        self.assertEqual(self.clock.getDelayedCalls(), [])


class TestErrors(SynchronousTestCase):
    def test_retriable_and_fatal_errors(self) -> None:
        again = [ConnectionLost(""), NotConnected(""), RequestTimedOut(""), NoBrokers(""), error_of(6)]
        never = [Closed(""), PluginFailed("mine", "broke"), error_of(29), ValueError(""), OutOfRange("t", 0, 5, 1, 3)]
        self.assertEqual([is_retriable(error) for error in again], [True] * 5)
        self.assertEqual([is_retriable(error) for error in never], [False] * 5)

    def test_codes(self) -> None:
        self.assertEqual(error_of(3).code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self.assertEqual(error_of(3, "why").detail, "why")
        newer = error_of(12345)
        self.assertEqual(newer.code, ErrorCode.UNKNOWN_SERVER_ERROR)
        self.assertIn("12345", str(newer))

    def test_out_of_range_reports_the_range(self) -> None:
        error = OutOfRange("t", 2, 50, 10, 40)
        self.assertEqual((error.code, error.first, error.end), (ErrorCode.OFFSET_OUT_OF_RANGE, 10, 40))
        self.assertIn("t/2 has no offset 50: it has those from 10 to 40", str(error))
