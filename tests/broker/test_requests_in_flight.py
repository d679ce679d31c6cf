"""Produce requests in flight on one connection, while replicas leave and leaders change: no record is stored twice.

A leader and a producer exchange frames through a connection in memory. The producer does what librdkafka does with
errors, and takes an answer only when the test says so:

    answer                       action of the producer
    ---------------------------  -----------------------------------------------------------------------------------
    a retriable error            sends nothing more to the partition until all its answers are here, then repeats it
    OUT_OF_ORDER_SEQUENCE_NUMBER if an earlier batch is open: begins a new epoch when no answer is missing, and sends
                                 all open batches under new numbers; else it stops for ever
    no error                     stops for ever if an earlier batch is known to have failed: one that was perhaps
                                 written, in another request or connection, is taken for written
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from pylogbroker.errors import ErrorCode
from pylogbroker.records import Record, build
from tests.broker.produce_links import PARTITIONS, PRODUCER_ID, LeaderTests, Link
from tests.support.examples import examples

IN_FLIGHT_MAX = 5
_IN_DOUBT = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


@attrs.define
class Batches:
    """Knowledge of the producer about one partition: batch n is its n-th, of one record."""

    values: int = 0
    acknowledged: int = 0
    """Batches that are acknowledged."""
    sent: int = 0
    """Batches that are sent, or acknowledged; a repetition begins again at `acknowledged`."""
    base: int = 0
    """Batch whose sequence number is 0."""
    in_flight: int = 0
    drains: bool = False
    failed: int | None = None
    """First batch that is known to have failed, and not to be written."""
    unknown_outcomes: set[int] = attrs.field(factory=set)
    """Batches that were perhaps written, which no later error takes back."""


class Producer:
    def __init__(self, leader: LeaderTests) -> None:
        self._leader = leader
        self._link = Link(leader)
        self._partitions = [Batches() for _ in range(PARTITIONS)]
        self._in_flight: dict[int, dict[int, int]] = {}
        self._epoch = 0
        self._begins_epoch = False
        self._ids = 0

    @property
    def is_done(self) -> bool:
        return all(each.acknowledged == each.values for each in self._partitions)

    def produce(self, indexes: Iterable[int]) -> None:
        """Have one more batch for each of these partitions, and send what may be sent."""
        for index in indexes:
            self._partitions[index].values += 1
        self.send(indexes)

    def send(self, indexes: Iterable[int]) -> None:
        """Send the next batch of each of these partitions in one request."""
        if self._begins_epoch or len(self._in_flight) >= IN_FLIGHT_MAX:
            return
        batches: dict[int, int] = {}
        for index in indexes:
            known = self._partitions[index]
            if not known.drains and known.sent < known.values:
                batches[index] = known.sent
                known.sent += 1
                known.in_flight += 1
        if batches:
            self._ids += 1
            self._in_flight[self._ids] = batches
            self._link.send(self._ids, {index: self._batch(index, number) for index, number in batches.items()})

    def _batch(self, index: int, number: int) -> bytes:
        value = b"%d:%d" % (index, number)
        sequence = number - self._partitions[index].base
        return build(
            [Record(0, 1, None, value)], producer_id=PRODUCER_ID, producer_epoch=self._epoch, base_sequence=sequence
        )

    def deliver(self) -> None:
        self._link.deliver()

    def receive(self) -> bool:
        """Take the next answer; return whether there was one."""
        answer = self._link.answer()
        if answer is None:
            return False
        correlation_id, codes = answer
        for index, number in self._in_flight.pop(correlation_id).items():
            self._answered(index, number, codes[index])
        self._begin_epoch()
        return True

    def _answered(self, index: int, number: int, code: ErrorCode) -> None:
        known = self._partitions[index]
        known.in_flight -= 1
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            if known.failed is not None and known.failed < number:
                raise AssertionError(f"batch {number} is written, and {known.failed} before it failed")
            known.acknowledged = max(known.acknowledged, number + 1)
        elif code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            if number <= known.acknowledged:
                raise AssertionError(f"batch {number} is out of order, {known.acknowledged} are acknowledged")
            known.drains = self._begins_epoch = True
        elif code.retriable:
            known.drains = True
            if code in _IN_DOUBT:
                known.unknown_outcomes.add(number)
            elif known.failed is None and number not in known.unknown_outcomes:
                known.failed = number
        else:
            raise AssertionError(code)
        self._drained(known)

    def _drained(self, known: Batches) -> None:
        if not known.in_flight:
            known.drains = False
            known.failed = None
            known.sent = known.acknowledged

    def _begin_epoch(self) -> None:
        if self._begins_epoch and not self._in_flight:
            self._begins_epoch = False
            self._epoch += 1
            for known in self._partitions:
                known.base = known.acknowledged

    def lose_connection(self) -> None:
        """Connect again: all that is in flight is in doubt."""
        self._link.lose()
        self._link = Link(self._leader)
        for batches in self._in_flight.values():
            for index, number in batches.items():
                self._partitions[index].unknown_outcomes.add(number)
        self._in_flight.clear()
        for known in self._partitions:
            known.in_flight = 0
            self._drained(known)
        self._begin_epoch()


Event = tuple[str, int]
_OF_PRODUCER = ("produce", "produce", "produce both", "send", "deliver", "deliver", "receive", "lose")
_OF_LEADER = ("shrink", "expand", "replicate", "leave", "come_back", "expire")
EVENTS = st.tuples(st.sampled_from(_OF_PRODUCER + _OF_LEADER), st.integers(0, PARTITIONS - 1))


def run(events: Sequence[Event]) -> None:
    leader = LeaderTests()
    leader.setUp()
    try:
        producer = Producer(leader)
        for name, index in events:
            _happen(leader, producer, name, index)
        _come_to_rest(leader, producer)
        for index in range(PARTITIONS):
            wanted = [b"%d:%d" % (index, number) for number in range(producer._partitions[index].values)]
            assert leader.stored(index) == wanted
    finally:
        leader.doCleanups()


def _happen(leader: LeaderTests, producer: Producer, name: str, index: int) -> None:
    match name:
        case "produce":
            producer.produce([index])
        case "produce both":
            producer.produce(range(PARTITIONS))
        case "send":
            producer.send([index])
        case "deliver":
            producer.deliver()
        case "receive":
            producer.receive()
        case "lose":
            producer.lose_connection()
        case "expire":
            leader.expire()
        case _:
            getattr(leader, name)(index)


def _come_to_rest(leader: LeaderTests, producer: Producer) -> None:
    for _ in range(1000):
        for index in range(PARTITIONS):
            leader.come_back(index)
            leader.expand(index)
            producer.send([index])
        producer.deliver()
        for index in range(PARTITIONS):
            leader.replicate(index)
        producer.receive()
        if producer.is_done:
            return
    raise AssertionError("the producer does not come to an end")


def test_a_batch_in_doubt_is_not_sent_again_under_a_new_epoch() -> None:
    """Let a batch time out for the producer, while those of the other partition are rejected and taken again."""
    run(
        [
            ("produce", 1),
            ("deliver", 0),
            ("replicate", 1),
            ("receive", 0),
            ("produce", 0),
            ("produce", 1),
            ("produce", 1),
            ("deliver", 0),
            ("shrink", 1),
            ("deliver", 0),
            ("expand", 1),
            ("deliver", 0),
            ("expire", 0),
            *[("receive", 0)] * 3,
        ]
    )


def test_a_batch_that_was_written_by_a_lost_connection_may_fail_before_a_later_one() -> None:
    run(
        [
            ("produce", 0),
            ("lose", 0),
            ("produce", 1),
            *[("produce", 0)] * 9,
            ("deliver", 0),
            ("lose", 0),
            *[("produce", 0)] * 2,
            ("produce", 1),
            *[("deliver", 0)] * 2,
            ("shrink", 1),
            ("deliver", 0),
        ]
    )


def test_batches_behind_one_that_another_leader_has_and_one_that_no_leader_took() -> None:
    """Let a batch time out that is replicated after all, and reject the next one while this broker does not lead."""
    run(
        [
            *[("produce", 0)] * 3,
            ("deliver", 0),
            ("expire", 0),
            ("replicate", 0),
            ("leave", 0),
            ("deliver", 0),
        ]
    )


def test_batches_behind_a_repetition_that_no_leader_took_though_another_leader_has_it() -> None:
    """Let a connection end when a batch is written, and reject its repetition while this broker does not lead."""
    run(
        [
            ("produce", 0),
            ("deliver", 0),
            ("lose", 0),
            ("replicate", 0),
            ("produce", 0),
            ("leave", 0),
            ("produce", 0),
            *[("deliver", 0)] * 2,
        ]
    )


def test_a_batch_that_times_out_after_a_later_one_was_rejected() -> None:
    run([*[("produce", 0)] * 3, ("deliver", 0), ("shrink", 0), ("deliver", 0), ("expire", 0)])


@settings(max_examples=examples(600))
@given(st.lists(EVENTS, max_size=40))
def test_no_record_is_stored_twice(events: list[Event]) -> None:
    run(events)
