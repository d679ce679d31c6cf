"""Checks of credentials run for one address after another, and few of an address wait."""

from __future__ import annotations

from functools import partial

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.broker.security.login_queue import LOGIN_THREADS, WAITING_PER_HOST_MAX, LoginQueue, TooManyLogins
from tests.broker.nodes import Threads


class LoginQueueTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.threads = Threads(holding=True)
        self.queue = LoginQueue(self.threads)
        self.began: list[str] = []

    def run_login(self, host: str) -> Deferred[str]:
        return self.queue.run(host, partial(self._check, host))

    def _check(self, host: str) -> str:
        self.began.append(host)
        return host

    def finish(self) -> None:
        while self.threads.held:
            self.threads.run_one()

    def test_a_flood_of_one_address_delays_the_others_by_one_login(self) -> None:
        flood = [self.run_login("flood") for _ in range(20)]
        others = [self.run_login("a"), self.run_login("b"), self.run_login("a")]
        self.assertEqual(len(self.threads.held), LOGIN_THREADS)
        self.finish()
        self.assertEqual([self.successResultOf(each) for each in [*flood, *others]], ["flood"] * 20 + ["a", "b", "a"])
        self.assertEqual(self.began[:7], ["flood"] * LOGIN_THREADS + ["flood", "a", "b", "flood", "a"])

    def test_excess_logins_of_one_address_fail_at_once(self) -> None:
        waiting = [self.run_login("flood") for _ in range(LOGIN_THREADS + WAITING_PER_HOST_MAX)]
        self.failureResultOf(self.run_login("flood"), TooManyLogins)
        other = self.run_login("other")
        self.threads.run_one()
        waiting.append(self.run_login("flood"))
        self.finish()
        for each in (*waiting, other):
            self.successResultOf(each)

    def test_a_cancelled_login_does_not_run(self) -> None:
        first, second, third = (self.run_login(host) for host in ("a", "a", "b"))
        cancelled = self.run_login("b")
        for each in (first, cancelled):  # the first runs already
            each.cancel()
            self.failureResultOf(each, CancelledError)
        self.finish()
        self.assertEqual([self.successResultOf(each) for each in (second, third)], ["a", "b"])
        self.assertEqual(self.began, ["a", "a", "b"])
        self.successResultOf(self._after())

    def _after(self) -> Deferred[str]:
        found = self.run_login("c")
        self.finish()
        return found

    def test_a_failed_check_lets_the_next_one_run(self) -> None:
        self.threads.holding = False
        for _ in range(LOGIN_THREADS + 1):
            self.failureResultOf(self.queue.run("a", partial(int, "no number")), ValueError)
        self.successResultOf(self.run_login("a"))
