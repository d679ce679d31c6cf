"""Commits on another thread: in turn, and before the tree is closed."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.interfaces import BadVersion, Create, NoNode, OperationResult, SetData
from pylogbroker.tree.database import TreeDatabase, Work
from pylogbroker.tree.embedded import EmbeddedTree
from pylogbroker.tree.transactions import Write
from pylogbroker.tree.tree_file import TreeFile
from tests.tree.conftest import now


class OffloadTests(SynchronousTestCase):
    """The work is done when the test says so."""

    def setUp(self) -> None:
        self.waiting: list[tuple[Work, Deferred[Any]]] = []
        self.tree = EmbeddedTree.open(self.path(), self.offload)

    def path(self) -> str:
        return self.enterContext(TemporaryDirectory())

    def offload(self, work: Work) -> Deferred[Any]:
        done: Deferred[Any] = Deferred()
        self.waiting.append((work, done))
        return done

    def work(self) -> None:
        work, done = self.waiting.pop(0)
        try:
            done.callback(work())
        except Exception:
            done.errback()

    def test_a_change_is_visible_only_after_the_commit(self) -> None:
        committed = ensureDeferred(self.tree.commit([Create("/a")]))
        self.assertNoResult(committed)
        self.assertIsNone(now(self.tree.exists("/a")))
        self.work()
        self.assertEqual(self.successResultOf(committed), [OperationResult("/a")])
        self.assertIsNotNone(now(self.tree.exists("/a")))

    def test_commits_run_one_after_the_other(self) -> None:
        first = ensureDeferred(self.tree.commit([Create("/a", b"first")]))
        second = ensureDeferred(self.tree.commit([SetData("/a", b"second", version=0)]))
        self.assertEqual(len(self.waiting), 1)
        self.work()
        self.successResultOf(first)
        self.work()
        self.successResultOf(second)
        self.assertEqual(now(self.tree.get("/a")).data, b"second")

    def test_after_a_failure_the_next_one_runs(self) -> None:
        bad = ensureDeferred(self.tree.commit([SetData("/none", b"")]))
        good = ensureDeferred(self.tree.commit([Create("/a")]))
        self.work()
        self.failureResultOf(bad, NoNode)
        self.work()
        self.successResultOf(good)

    def test_after_a_failure_of_a_listener_the_next_one_runs(self) -> None:
        database, heard = TreeDatabase(TreeFile.open(self.path(), 0, keeps_sessions=False), self.offload), []
        database.listen(lambda result: {}[result.number])
        database.listen(lambda result: heard.append(result.number))
        for number in (1, 2):
            written = database.write(Write([Create(f"/{number}")]))
            self.work()
            self.assertIsNone(self.successResultOf(written).error)
        self.assertEqual(heard, [1, 2])
        self.assertEqual(len(self.flushLoggedErrors(KeyError)), 2)
        closed = ensureDeferred(database.close())
        self.work()
        self.successResultOf(closed)

    def test_a_version_may_be_used_up_while_waiting(self) -> None:
        for operation in (Create("/a"), SetData("/a", b"x", version=0)):
            done = ensureDeferred(self.tree.commit([operation]))
            self.work()
            self.successResultOf(done)
        late = ensureDeferred(self.tree.commit([SetData("/a", b"y", version=0)]))
        self.work()
        self.failureResultOf(late, BadVersion)

    def test_close_waits_for_running_commits(self) -> None:
        committed = ensureDeferred(self.tree.commit([Create("/a")]))
        closed = ensureDeferred(self.tree.close())
        self.assertNoResult(closed)
        self.work()
        self.successResultOf(committed)
        self.assertNoResult(closed)
        self.work()
        self.successResultOf(closed)
