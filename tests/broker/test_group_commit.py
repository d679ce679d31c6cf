"""Group commit: who comes while an fsync runs is served by the next one, all of them together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.broker.partitions.group_commit import GroupCommit
from pylogbroker.errors import StorageFailure


class Log:
    def sync(self) -> None:
        """Called by nobody here: the worker threads below only remember it."""


class GroupCommitTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.runs: list[tuple[Callable[[], Any], Deferred[Any]]] = []
        self.commit = GroupCommit(self.in_thread)
        self.log: Any = Log()

    def in_thread(self, call: Callable[[], Any]) -> Deferred[Any]:
        self.runs.append((call, Deferred()))
        return self.runs[-1][1]

    def finish(self, run: int, result: Any = None) -> None:
        self.runs[run][1].callback(result)

    def test_syncs_requested_during_a_run_share_the_next_one(self) -> None:
        first = self.commit.sync(self.log)
        others = [self.commit.sync(self.log) for _ in range(63)]
        self.assertEqual([call for call, _ in self.runs], [self.log.sync])
        self.finish(0)
        self.successResultOf(first)
        for other in others:
            self.assertNoResult(other)
        self.assertEqual(len(self.runs), 2)
        self.finish(1)
        for other in others:
            self.successResultOf(other)
        self.assertEqual(len(self.runs), 2)

    def test_logs_do_not_wait_for_each_other(self) -> None:
        self.commit.sync(self.log)
        self.commit.sync(Log())  # type: ignore[arg-type]
        self.assertEqual(len(self.runs), 2)

    def test_a_failed_sync_fails_only_its_own_waiters(self) -> None:
        first, second = self.commit.sync(self.log), self.commit.sync(self.log)
        self.runs[0][1].errback(StorageFailure("the disk is gone"))
        self.failureResultOf(first, StorageFailure)
        self.assertNoResult(second)
        self.finish(1)
        self.successResultOf(second)

    def test_after_a_run_the_next_call_starts_another(self) -> None:
        self.commit.sync(self.log)
        self.finish(0)
        self.commit.sync(self.log)
        self.assertEqual(len(self.runs), 2)
