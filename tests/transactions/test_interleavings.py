"""Producers that begin, end and come again, in any order, while logs wait and fail and the coordinator is killed.

What must hold is read from the logs alone, in the order in which they were written: a marker is written only for a
decision that is stored, says the same, and is for one of its partitions; a transaction is complete only when all of
its partitions have their markers; who has an id and an epoch decides alone how its transactions end, and nobody gets
the same ones. And what a producer was answered is in the logs at that moment.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pylogbroker.errors import ErrorCode
from pylogbroker.long_loops import at_once
from pylogbroker.records import Record
from pylogbroker.transactions import InitResult, TransactionMarker, TransactionSettings, TransactionState, record_schema
from pylogbroker.transactions.metadata import TransactionMetadata
from tests.support.examples import examples
from tests.transactions.harness import Answer, Harness

NAMES = ("x", "y")
PARTITIONS = (("t", 0), ("t", 1), ("u", 0))
GONE = ("u", 0)  # the errors below may mean that this one is gone
SETTINGS = TransactionSettings(partitions=2, expiration_ms=600_000, expiration_interval_ms=60_000)
TIMEOUT = 30_000
AFTER_ONGOING = (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
Pair = tuple[int, int]

actions = st.sampled_from(["init", "add", "add", "commit", "abort"])
names = st.sampled_from(NAMES)
picks = st.integers(0, 3)
subsets = st.sets(st.sampled_from(PARTITIONS), min_size=1)


@attrs.define
class Decision:
    """A transaction whose end is stored, and the partitions that still need its marker."""

    producer_id: int
    producer_epoch: int
    committed: bool
    partitions: frozenset[tuple[str, int]]
    unmarked: set[tuple[str, int]]


class Reader:
    """Follows the logs, and finds what must not be."""

    def __init__(self, lies: bool) -> None:
        self.lies = lies
        self.position = 0
        self.last: dict[str, TransactionMetadata] = {}
        self.open: dict[str, Decision] = {}
        self.given: dict[Pair, tuple[str, Pair]] = {}  # to a producer of that name, which had this pair before
        self.asked: set[tuple[int, int, bool]] = set()  # how the holders of pairs wanted transactions to end
        self.decided: set[tuple[int, int, bool]] = set()  # and how transactions ended

    def follow(self, history: list[Record | tuple[tuple[str, int], TransactionMarker]]) -> None:
        for event in history[self.position :]:
            if isinstance(event, tuple):
                self._marked(*event)
            else:
                self._stored(event)
        self.position = len(history)

    def _marked(self, partition: tuple[str, int], marker: TransactionMarker) -> None:
        decision = next(each for each in self.open.values() if each.producer_id == marker.producer_id)
        assert (decision.producer_epoch, decision.committed) == (marker.producer_epoch, marker.committed)
        assert partition in decision.partitions
        decision.unmarked.discard(partition)

    def _stored(self, record: Record) -> None:
        assert record.key is not None
        name = record_schema.decode_key(record.key)
        assert name is not None
        decision = self.open.get(name)
        if record.value is None:
            assert decision is None
            self.last.pop(name, None)
            return
        present = self.last[name] = record_schema.decode_value(record.value)
        if decision is not None and self.lies and present.state in AFTER_ONGOING:
            assert decision.unmarked == decision.partitions - {GONE}
            del self.open[name]
            decision = None
        if present.state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT):
            assert decision is None
            committed = present.state is TransactionState.PREPARE_COMMIT
            pair = (present.producer_id, present.producer_epoch)
            self.decided.add((*pair, committed))
            assert (*pair, committed) in self.asked or not (committed or pair in self.given)
            self.open[name] = Decision(*pair, committed, present.partitions, set(present.partitions) - {GONE})
        elif decision is not None:
            wanted = TransactionState.COMPLETE_COMMIT if decision.committed else TransactionState.COMPLETE_ABORT
            assert present.state is wanted
            assert not decision.unmarked
            del self.open[name]


class Interleavings(RuleBasedStateMachine):
    lies = False
    """True if records of failed appends may be in the log, as after a failed flush. Another decision may then replace
    one that no client got, while no marker was written for it; and clients may get the state before such a record."""

    def __init__(self) -> None:
        super().__init__()
        self.harness = Harness(SETTINGS)
        self.reader = Reader(self.lies)
        self.pairs: dict[str, list[Pair]] = {name: [] for name in NAMES}
        self.answers: list[Answer[InitResult] | Answer[ErrorCode]] = []
        self.lives = 0

    # -- what producers do -----------------------------------------------------------------------------------------

    @rule(steps=st.lists(st.tuples(actions, names, picks, subsets), min_size=1, max_size=8))
    def producers_work(self, steps: list[tuple[str, str, int, set[tuple[str, int]]]]) -> None:
        for action, name, pick, partitions in steps:
            if action == "init":
                self.init(name, (-1, -1) if pick < 2 else self.pair(name, 3 - pick))
            elif action == "add":
                self.add(name, pick, partitions)
            else:
                self.end(name, pick, committed=action == "commit")

    def init(self, name: str, pair: Pair) -> None:
        def answered(result: InitResult) -> None:
            if result.error:
                assert (result.producer_id, result.producer_epoch) == (-1, -1)
                return
            given = (result.producer_id, result.producer_epoch)
            if given in self.reader.given:  # only to one that asks the same again
                assert pair != (-1, -1)
                assert self.reader.given[given] == (name, pair)
            self.reader.given[given] = (name, pair)
            if given not in self.pairs[name]:
                self.pairs[name].append(given)
            self.reader.follow(self.harness.log_port.history)
            stored = self.reader.last[name]
            assert (stored.producer_id, stored.producer_epoch) == given

        self.listen(self.harness.ask_init(name, pair, TIMEOUT), answered)

    def add(self, name: str, pick: int, partitions: set[tuple[str, int]]) -> None:
        pair, outdated = self.pair(name, pick), self.is_outdated(name, pick)

        def answered(error: ErrorCode) -> None:
            if not error:
                assert not outdated
                self.reader.follow(self.harness.log_port.history)
                if not self.lies:
                    stored = self.reader.last[name]
                    assert (stored.producer_id, stored.producer_epoch) == pair
                    assert stored.state is TransactionState.ONGOING
                    assert stored.partitions >= partitions

        self.listen(self.harness.ask_add(pair, partitions, name), answered)

    def end(self, name: str, pick: int, committed: bool) -> None:
        pair, outdated = self.pair(name, pick), self.is_outdated(name, pick)

        def answered(error: ErrorCode) -> None:
            if not error:
                assert not outdated
                self.reader.follow(self.harness.log_port.history)
                assert (*pair, committed) in self.reader.decided
                if not self.lies:
                    stored = self.reader.last[name]
                    assert (stored.producer_id, stored.producer_epoch) == pair
                    assert stored.state.label in (
                        ("PrepareCommit", "CompleteCommit") if committed else ("PrepareAbort", "CompleteAbort")
                    )

        self.reader.asked.add((*pair, committed))
        self.listen(self.harness.ask_end(pair, committed, name), answered)

    def listen(self, answer: Answer[InitResult] | Answer[ErrorCode], answered: Callable[..., None]) -> None:
        answer.listen(answered)
        self.answers.append(answer)

    def pair(self, name: str, pick: int) -> Pair:
        """The last one, mostly, or one from before."""
        known = self.pairs[name]
        return known[-1 - min(pick // 2, len(known) - 1)] if known else (5, 0)

    def is_outdated(self, name: str, pick: int) -> bool:
        return bool(self.pairs[name]) and self.pair(name, pick) != self.pairs[name][-1]

    # -- what happens to them --------------------------------------------------------------------------------------

    @rule(milliseconds=st.sampled_from([1, 100, 5_000, TIMEOUT, 70_000, 700_000]))
    def time_passes(self, milliseconds: int) -> None:
        self.harness.advance(milliseconds)

    @rule()
    def everything_waits(self) -> None:
        if self.harness.log_port.held is None:
            self.harness.log_port.hold()

    @rule(steps=st.integers(1, 3))
    def something_is_done(self, steps: int) -> None:
        for _ in range(steps):
            if self.harness.log_port.held:
                self.harness.log_port.step()

    @rule()
    def everything_goes_on(self) -> None:
        self.harness.log_port.release()

    @rule(error=st.sampled_from([ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS]), lies=st.booleans())
    def appends_fail_or_not(self, error: ErrorCode, lies: bool) -> None:
        self.harness.log_port.error = error
        self.harness.log_port.lies = lies and self.lies

    @rule(error=st.sampled_from([ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE]))
    def there_are_ids_or_not(self, error: ErrorCode) -> None:
        self.harness.log_port.id_error = error

    @rule(
        partition=st.sampled_from(PARTITIONS),
        error=st.sampled_from([ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
    )
    def markers_fail_or_not(self, partition: tuple[str, int], error: ErrorCode) -> None:
        if partition == GONE or error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self.harness.log_port.marker_errors[partition] = error

    @rule(done=st.integers(0, 3))
    def the_broker_is_killed(self, done: int) -> None:
        """Some requests in flight were carried out without an answer."""
        for _ in range(done):
            if self.harness.log_port.held:
                self.harness.log_port.step(report=False)
        self.lives += 1
        self.harness = self.harness.restarted(self.lives)
        self.answers = []

    @rule()
    def the_coordinator_moves(self) -> None:
        """Everybody is answered, by the old one."""
        self.harness.close()
        self.harness.log_port.release()
        self.check_answers()
        self.lives += 1
        self.harness = self.harness.restarted(self.lives)

    # -- what must hold --------------------------------------------------------------------------------------------

    @invariant()
    def the_logs_are_right(self) -> None:
        self.reader.follow(self.harness.log_port.history)

    @invariant()
    def nothing_is_answered_twice(self) -> None:
        assert all(len(answer.all) <= 1 for answer in self.answers)

    def check_answers(self) -> None:
        assert all(len(answer.all) == 1 for answer in self.answers)
        self.answers = []

    def teardown(self) -> None:
        self.harness.log_port.error = self.harness.log_port.id_error = ErrorCode.NONE
        self.harness.log_port.marker_errors.clear()
        self.harness.log_port.release()
        self.check_answers()
        self.harness.advance(100_000)
        self.the_logs_are_right()
        assert self.reader.open == {}
        for name in NAMES:
            assert self.harness.state(name) in ("", "Empty", "CompleteCommit", "CompleteAbort")
            result = self.harness.init(name)
            assert result.error is ErrorCode.NONE
            assert (result.producer_id, result.producer_epoch) not in self.reader.given
        self.harness.advance(SETTINGS.expiration_ms + SETTINGS.expiration_interval_ms)
        assert at_once(self.harness.coordinator.list()).transactions == ()
        assert at_once(self.harness.restarted().coordinator.list()).transactions == ()


class InterleavingsWithLies(Interleavings):
    lies = True


Interleavings.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)
InterleavingsWithLies.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)
TestInterleavings = Interleavings.TestCase
TestInterleavingsWithLies = InterleavingsWithLies.TestCase
