"""Recovery points that are lowered before cuts: many logs share a write of the checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.broker.partitions.recovery_points import RecoveryPointWrites


@attrs.define
class CutLog:
    recovery_point: int

    def lower_recovery_point(self, offset: int) -> bool:
        is_higher = self.recovery_point > offset
        self.recovery_point = min(self.recovery_point, offset)
        return is_higher


class RecoveryPointTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.runs: list[Deferred[Any]] = []
        self.written: list[list[int]] = []
        self.logs: list[Any] = [CutLog(10) for _ in range(20)]
        self.writes = RecoveryPointWrites(self.in_thread, self.save)

    def save(self) -> None:
        self.written.append([log.recovery_point for log in self.logs])

    def in_thread(self, call: Callable[[], Any]) -> Deferred[Any]:
        self.runs.append(Deferred())
        return self.runs[-1].addCallback(lambda _: call())

    def test_logs_that_are_cut_during_a_write_share_the_next_one(self) -> None:
        first, *others = [self.writes.lower(log, 4) for log in self.logs]
        self.assertEqual(len(self.runs), 1)
        self.runs[0].callback(None)
        self.successResultOf(first)
        for other in others:
            self.assertNoResult(other)
        self.runs[1].callback(None)
        for other in others:
            self.successResultOf(other)
        self.assertEqual((len(self.runs), self.written[-1]), (2, [4] * 20))
        again = self.writes.lower(self.logs[0], 3)
        self.runs[2].callback(None)
        self.successResultOf(again)

    def test_nothing_is_written_for_a_log_that_was_not_synced_so_far(self) -> None:
        self.successResultOf(self.writes.lower(self.logs[0], 10))
        self.assertEqual(self.runs, [])

    def test_a_log_that_is_cut_twice_waits_for_the_write_of_the_first_cut(self) -> None:
        self.writes.lower(self.logs[0], 4)
        second = self.writes.lower(self.logs[0], 6)
        self.assertNoResult(second)
        for run in self.runs:
            run.callback(None)
        self.successResultOf(second)

    def test_a_failed_write_fails_only_its_own_logs(self) -> None:
        first, second = (self.writes.lower(log, 4) for log in self.logs[:2])
        self.runs[0].errback(MemoryError())
        self.failureResultOf(first, MemoryError)
        self.runs[1].callback(None)
        self.successResultOf(second)
