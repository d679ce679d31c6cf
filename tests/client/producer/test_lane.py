"""One partition's batches: kept in order, not lost and not doubled, with a leader that checks as Kafka does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.client.producer.batch import Batch
from pylogbroker.client.producer.lane import Lane
from pylogbroker.client.producer.sequences import LAST_EPOCH, Identity, sequence_at
from tests.client.producer.leaders import Leader, Way

PRODUCER = Identity(1000, 0)


def batch_of(*values: bytes) -> Batch:
    batch = Batch(0.0, 1.0, 0.0)
    batch.values.extend(values)
    batch.timestamps.extend([0] * len(values))
    batch.sinks.extend([None] * len(values))
    return batch


def lane_with(*batches: Batch, identity: Identity = PRODUCER, may_renew: bool = True) -> Lane:
    lane = Lane("topic", 0, True, may_renew)
    lane.adopt(identity)
    lane.queue.extend(batches)
    return lane


def three() -> tuple[Lane, Way]:
    """A lane whose three batches of two records are all under way."""
    lane = lane_with(batch_of(b"a", b"b"), batch_of(b"c", b"d"), batch_of(b"e", b"f"))
    lane.is_known = True
    way = Way(lane, Leader(epoch=PRODUCER.epoch))
    way.send(5)
    return lane, way


def test_sequences_count_records() -> None:
    lane, way = three()
    assert [lane.sequence(batch) for batch in way.under_way] == [0, 2, 4]


def test_sequences_begin_again_behind_the_largest() -> None:
    assert sequence_at(2**31 - 1, 0) == 2**31 - 1
    assert sequence_at(2**31, 0) == 0
    assert sequence_at(2**31 + 7, 3) == 4


def test_no_more_than_the_window_leave() -> None:
    lane = lane_with(*(batch_of(b"%d" % number) for number in range(5)))
    way = Way(lane, Leader())
    way.send(3)
    way.arrive()
    way.send(3)
    assert len(way.under_way) == 3
    way.arrive()
    way.send(3)
    assert [batch.values for batch in way.under_way] == [[b"2"], [b"3"], [b"4"]]


def test_a_leader_that_has_nothing_yet_gets_one_batch() -> None:
    """It would take the second one after it has put off the first one."""
    lane = lane_with(batch_of(b"a"), batch_of(b"b"))
    way = Way(lane, Leader())
    for _ in range(3):
        way.send(5)
        way.put_off()
    while not lane.idle:
        way.send(5)
        way.arrive()
    assert way.leader.log == way.acknowledged == [b"a", b"b"]
    lane.adopt(Identity(1000, 1))
    lane.queue.extend([batch_of(b"c"), batch_of(b"d")])
    way.send(5)
    assert len(way.under_way) == 1


def test_what_a_leader_takes_that_had_nothing_proves_nothing() -> None:
    lane = lane_with(batch_of(b"a"), batch_of(b"b"))
    way = Way(lane, Leader())
    way.send(5)
    way.break_after(0)
    way.give_up()
    way.send(5)
    assert [(batch.identity, lane.sequence(batch)) for batch in way.under_way] == [(Identity(1000, 1), 0)]


def test_a_new_leader_waits_for_the_old_ones_answers() -> None:
    lane = lane_with(batch_of(b"a"), batch_of(b"b"))
    first = lane.queue[0]
    lane.take(first, 1)
    assert lane.sendable(5, 2) is None
    lane.succeeded(first)
    assert lane.sendable(5, 2) is not None


def test_what_came_back_leaves_in_its_order_when_all_is_answered() -> None:
    lane, way = three()
    way.put_off()
    assert lane.sendable(5, 1) is None
    way.arrive()
    way.arrive()
    way.send(5)
    assert [batch.values[0] for batch in way.under_way] == [b"a", b"c", b"e"]
    for _ in range(3):
        way.arrive()
    assert way.leader.log == way.acknowledged == [b"a", b"b", b"c", b"d", b"e", b"f"]


def test_a_lost_answer_is_asked_for_again() -> None:
    lane, way = three()
    way.break_after(2)
    way.send(5)
    for _ in range(3):
        way.arrive()
    assert way.leader.log == way.acknowledged == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert lane.identity == PRODUCER


def test_what_follows_a_batch_that_was_never_written_takes_its_numbers() -> None:
    lane, way = three()
    way.refuse()
    way.arrive()
    way.arrive()
    way.send(5)
    assert [lane.sequence(batch) for batch in way.under_way] == [0, 2]
    way.arrive()
    way.arrive()
    assert way.leader.log == [b"c", b"d", b"e", b"f"]
    assert lane.identity == PRODUCER


def test_what_came_back_from_before_a_batch_that_was_never_written_keeps_its_numbers() -> None:
    lane, way = three()
    way.put_off()
    way.refuse()
    way.arrive()
    way.send(5)
    assert [(batch.values[0], lane.sequence(batch)) for batch in way.under_way] == [(b"a", 0), (b"e", 2)]


def test_what_may_have_been_written_and_forgotten_is_not_written_again() -> None:
    lane, way = three()
    way.break_after(1)
    way.leader.forget(all_but=0)
    way.give_up()
    way.leader.expected = 99
    way.send(5)
    way.arrive()
    way.arrive()
    assert way.failed == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert lane.identity == Identity(1000, 1)


def test_a_batch_of_which_nobody_knows_ends_the_epoch() -> None:
    lane, way = three()
    way.break_after(0)
    for _ in range(3):
        way.give_up()
    lane.queue.append(batch_of(b"g"))
    way.send(5)
    assert way.under_way[0].identity == Identity(1000, 1)
    assert lane.sequence(way.under_way[0]) == 0


def test_others_show_that_a_batch_was_written_of_which_nobody_knew() -> None:
    lane, way = three()
    way.break_after(1)
    way.give_up()
    way.send(5)
    way.arrive()
    way.arrive()
    lane.queue.append(batch_of(b"g"))
    way.send(5)
    assert lane.identity == PRODUCER
    assert lane.sequence(way.under_way[0]) == 6


def test_a_later_batch_proves_those_before_it() -> None:
    """After a clean restart Kafka remembers the last batch alone, and takes the others for out of order."""
    lane, way = three()
    way.break_after(3)
    way.leader.forget(all_but=1)
    way.send(5)
    for _ in range(3):
        way.arrive()
    assert way.acknowledged == way.leader.log == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert lane.idle


def test_a_split_batch_keeps_its_numbers() -> None:
    lane, way = three()
    way.split()
    way.arrive()
    way.arrive()
    way.send(5)
    assert [(lane.sequence(batch), batch.count) for batch in way.under_way] == [(0, 1), (1, 1), (2, 2), (4, 2)]
    for _ in range(4):
        way.arrive()
    assert way.leader.log == [b"a", b"b", b"c", b"d", b"e", b"f"]


def test_an_id_without_epochs_is_given_back() -> None:
    lane = lane_with(batch_of(b"a"), identity=Identity(7, LAST_EPOCH))
    way = Way(lane, Leader())
    way.send(1)
    way.break_after(0)
    way.give_up()
    assert lane.identity is None
    assert lane.spent == 7


def test_in_a_transaction_no_epoch_begins_by_itself() -> None:
    lane = lane_with(batch_of(b"a"), batch_of(b"b"), may_renew=False)
    way = Way(lane, Leader())
    way.send(1)
    way.break_after(0)
    way.give_up()
    assert lane.identity == PRODUCER
    assert lane.sendable(5, 1) is None
    lane.adopt(Identity(1000, 1))
    assert lane.sendable(5, 1) is not None


ACTIONS = ("arrive", "arrive", "arrive", "put_off", "refuse", "split", "break", "give_up", "send", "append", "forget")


@given(
    st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 5)), max_size=60),
    st.integers(1, 5),
)
def test_whatever_happens(story: list[tuple[str, int]], window: int) -> None:
    lane = lane_with()
    way = Way(lane, Leader())
    sent: list[bytes | None] = []
    for action, number in story:
        _do(action, number, lane, way, window, sent)
    for _ in range(200):
        if lane.idle:
            break
        way.send(window)
        if way.under_way:
            way.arrive()
    assert lane.idle
    _judge(way, sent)


def _do(action: str, number: int, lane: Lane, way: Way, window: int, sent: list[bytes | None]) -> None:
    match action:
        case "append":
            values = [b"%d" % (len(sent) + place) for place in range(number + 1)]
            sent += values
            lane.queue.append(batch_of(*values))
        case "send":
            way.send(window)
        case "break":
            way.break_after(number)
        case "forget":
            way.leader.forget(all_but=number)
        case "give_up":
            way.give_up()
        case _ if way.under_way:
            getattr(way, action)()


def _judge(way: Way, sent: list[bytes | None]) -> None:
    log = way.leader.log
    assert log == [value for value in sent if value in set(log)], "doubled, or out of order"
    assert set(way.acknowledged) <= set(log), "acknowledged, and lost"
    assert sorted(way.acknowledged + way.failed) == sorted(sent), "not all were told, or some twice"
    assert not set(way.surely_not_written) & set(log)
