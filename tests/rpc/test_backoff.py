"""Backoff and blocking retries; time stands still except in pauses."""

from __future__ import annotations

import time
from unittest.mock import patch

from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.client.errors import ConnectionLost, is_retriable
from pylogbroker.client.settings import CLIENT, read
from pylogbroker.errors import KafkaError
from pylogbroker.rpc.backoff import Backoff, retry_blocking


class TestBackoff(SynchronousTestCase):
    def test_backoff_doubles_up_to_its_maximum(self) -> None:
        backoff = Backoff(0.1, 1.0, lambda: 0.5)
        pauses = [round(backoff.pause(failures), 3) for failures in (1, 2, 3, 4, 5, 6, 1000)]
        self.assertEqual(pauses, [0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0])

    def test_backoff_has_jitter(self) -> None:
        self.assertAlmostEqual(Backoff(0.1, 1.0, lambda: 0.0).pause(1), 0.08)
        self.assertAlmostEqual(Backoff(0.1, 1.0, lambda: 1.0).pause(1), 0.12)

    def test_fixed_pauses_have_no_jitter(self) -> None:
        self.assertEqual([Backoff.fixed(2.0).pause(failures) for failures in (1, 2, 50)], [2.0, 2.0, 2.0])

    def test_the_settings(self) -> None:
        backoff = Backoff.of(read(CLIENT, {"retry.backoff.ms": 300, "retry.backoff.max.ms": 200}))
        self.assertEqual((backoff.first, backoff.longest), (0.3, 0.3))
        self.assertEqual(Backoff.of(read(CLIENT), "reconnect.backoff").first, 0.05)


class TestRetryBlocking(SynchronousTestCase):
    def setUp(self) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []
        self.failures: list[Exception] = []
        self.tries = 0
        for name, fake in (("monotonic", lambda: self.now), ("sleep", self.sleep)):
            patcher = patch.object(time, name, fake)
            patcher.start()
            self.addCleanup(patcher.stop)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(round(seconds, 3))
        self.now += seconds

    def retry(self, *outcomes: object, seconds: float = 10.0) -> object:
        def work() -> object:
            outcome = outcomes[min(self.tries, len(outcomes) - 1)]
            self.tries += 1
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        backoff = Backoff(0.1, 1.0, lambda: 0.5)
        return retry_blocking(work, backoff, seconds, retriable=is_retriable, failed=self.failures.append)

    def test_a_first_success_needs_no_pause(self) -> None:
        self.assertEqual((self.retry(7), self.pauses), (7, []))

    def test_retries_follow_growing_pauses(self) -> None:
        first, second = ConnectionLost("a"), ConnectionLost("b")
        self.assertEqual(self.retry(first, second, 7), 7)
        self.assertEqual((self.pauses, self.failures), ([0.1, 0.2], [first, second]))

    def test_a_fatal_error_is_not_retried(self) -> None:
        self.assertRaises(KafkaError, self.retry, KafkaError("no"))
        self.assertEqual((self.tries, self.failures), (1, []))

    def test_the_last_attempt_begins_at_the_deadline(self) -> None:
        last = ConnectionLost("last")
        error = self.assertRaises(
            ConnectionLost, self.retry, ConnectionLost("a"), ConnectionLost("b"), last, seconds=0.25
        )
        self.assertIs(error, last)
        self.assertEqual(self.pauses, [0.1, 0.15])
