"""The tree over one session: commits that are started together, repeated reads, and the session's end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.broker.membership.controller_tree import COMMITS_STARTED_MAX, RETRY_SECONDS, SessionTree
from pylogbroker.interfaces import BadVersion, Check, Create, Operation, SessionExpired, Unavailable
from tests.broker.membership.harness import begin

WRITES = [[Create(f"/{number}")] for number in range(2 * COMMITS_STARTED_MAX + 1)]


@attrs.define(eq=False)
class SlowTree:
    """A tree whose answers the test gives."""

    session_id: int = 1
    commits: list[tuple[str, Deferred[Any]]] = attrs.field(factory=list)
    reads: list[Deferred[Any]] = attrs.field(factory=list)

    def commit(self, operations: Sequence[Operation]) -> Deferred[Any]:
        self.commits.append((operations[0].path, Deferred()))
        return self.commits[-1][1]

    def get_many(self, paths: Sequence[str]) -> Deferred[Any]:
        self.reads.append(Deferred())
        return self.reads[-1]

    def answer(self, number: int, error: Exception | None = None) -> None:
        if error is None:
            self.commits[number][1].callback([])
        else:
            self.commits[number][1].errback(error)


class SessionTreeTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.slow: Any = SlowTree()
        self.clock = Clock()
        self.tree = SessionTree.of(self.slow, self.clock)

    def test_commits_are_started_together_in_order(self) -> None:
        done = begin(self.tree.commit_each(WRITES))
        self.assertEqual(len(self.slow.commits), COMMITS_STARTED_MAX)
        self.slow.answer(0)
        self.assertEqual(len(self.slow.commits), COMMITS_STARTED_MAX + 1)
        self.slow.answer(1, BadVersion("/1"))
        for number in range(2, len(WRITES)):
            self.slow.answer(number)
        self.assertEqual([path for path, _ in self.slow.commits], [write.path for [write] in WRITES])
        outcomes = self.successResultOf(done)
        self.assertEqual(len(outcomes), len(WRITES))
        self.assertEqual([number for number, error in enumerate(outcomes) if error], [1])

    def test_reads_are_repeated(self) -> None:
        done = begin(self.tree.get_many(["/a"]))
        self.slow.reads[0].errback(Unavailable("/a"))
        self.clock.advance(RETRY_SECONDS)
        self.slow.reads[1].callback([None])
        self.assertEqual(self.successResultOf(done), [None])

    def test_a_check_goes_before_the_read_after_an_unknown_outcome(self) -> None:
        unknown = begin(self.tree.commit_each([[Create("/a")]]))
        self.slow.answer(0, Unavailable("/a"))
        self.assertIsInstance(self.successResultOf(unknown)[0], Unavailable)
        done = begin(self.tree.get_many(["/a"]))
        self.assertEqual((self.slow.commits[1][0], self.slow.reads), (Check("/").path, []))
        self.slow.answer(1)
        self.slow.reads[0].callback([None])
        self.assertEqual(self.successResultOf(done), [None])
        begin(self.tree.get_many(["/a"]))
        self.assertEqual((len(self.slow.commits), len(self.slow.reads)), (2, 2))

    def test_the_end_of_the_session(self) -> None:
        reading = begin(self.tree.get_many(["/a"]))
        self.slow.reads[0].errback(SessionExpired("/a"))
        self.failureResultOf(reading, SessionExpired)
        waiting = begin(self.tree.get_many(["/a"]))
        self.slow.reads[1].errback(Unavailable("/a"))
        self.slow.session_id = 2
        self.clock.advance(RETRY_SECONDS)
        self.failureResultOf(waiting, Unavailable)
        self.assertFalse(self.tree.is_live)
        self.failureResultOf(begin(self.tree.commit_each([[Create("/a")]])), Unavailable)
        self.assertEqual((self.slow.commits, len(self.slow.reads)), ([], 2))
        other = SessionTree.of(self.slow, self.clock)
        other.end()
        self.failureResultOf(begin(other.get_many(["/a"])), Unavailable)
