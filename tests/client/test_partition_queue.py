"""One partition's batches: kept in order, not lost and not doubled, with a leader that checks as Kafka does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.client.partition_queue import LAST_EPOCH, PartitionQueue, ProducerIdentity, sequence_at
from pylogbroker.client.producer.batch import Batch
from tests.client.leader_model import Leader, LeaderConnection

PRODUCER = ProducerIdentity(1000, 0)


def batch_of(*values: bytes) -> Batch:
    batch = Batch(0.0, 1.0, 0.0)
    batch.values.extend(values)
    batch.timestamps.extend([0] * len(values))
    return batch


def queue_with(*batches: Batch, identity: ProducerIdentity = PRODUCER, may_bump_epoch: bool = True) -> PartitionQueue:
    queue = PartitionQueue("topic", 0, True, may_bump_epoch)
    queue.start_epoch(identity)
    queue.unsent.extend(batches)
    return queue


def three() -> tuple[PartitionQueue, LeaderConnection]:
    """A partition queue whose three batches of two records are all in flight."""
    queue = queue_with(batch_of(b"a", b"b"), batch_of(b"c", b"d"), batch_of(b"e", b"f"))
    queue.is_known = True
    connection = LeaderConnection(queue, Leader(epoch=PRODUCER.epoch))
    connection.send(5)
    return queue, connection


def test_sequences_count_records() -> None:
    queue, connection = three()
    assert [queue.sequence(batch) for batch in connection.under_way] == [0, 2, 4]


def test_sequences_begin_again_behind_the_largest() -> None:
    assert sequence_at(2**31 - 1, 0) == 2**31 - 1
    assert sequence_at(2**31, 0) == 0
    assert sequence_at(2**31 + 7, 3) == 4


def test_no_more_than_the_window_leave() -> None:
    queue = queue_with(*(batch_of(b"%d" % number) for number in range(5)))
    connection = LeaderConnection(queue, Leader())
    connection.send(3)
    connection.arrive()
    connection.send(3)
    assert len(connection.under_way) == 3
    connection.arrive()
    connection.send(3)
    assert [batch.values for batch in connection.under_way] == [[b"2"], [b"3"], [b"4"]]


def test_a_leader_that_has_nothing_yet_gets_one_batch() -> None:
    """A leader would append the second batch after it has put off the first one."""
    queue = queue_with(batch_of(b"a"), batch_of(b"b"))
    connection = LeaderConnection(queue, Leader())
    for _ in range(3):
        connection.send(5)
        connection.put_off()
    while not queue.idle:
        connection.send(5)
        connection.arrive()
    assert connection.leader.log == connection.acknowledged == [b"a", b"b"]
    queue.start_epoch(ProducerIdentity(1000, 1))
    queue.unsent.extend([batch_of(b"c"), batch_of(b"d")])
    connection.send(5)
    assert len(connection.under_way) == 1


def test_a_leader_that_lost_its_state_proves_nothing() -> None:
    queue = queue_with(batch_of(b"a"), batch_of(b"b"))
    connection = LeaderConnection(queue, Leader())
    connection.send(5)
    connection.break_after(0)
    connection.abort()
    connection.send(5)
    assert [(batch.identity, queue.sequence(batch)) for batch in connection.under_way] == [
        (ProducerIdentity(1000, 1), 0)
    ]


def test_a_new_leader_waits_for_the_old_ones_answers() -> None:
    queue = queue_with(batch_of(b"a"), batch_of(b"b"))
    first = queue.unsent[0]
    queue.take(first, 1)
    assert queue.sendable(5, 2) is None
    queue.succeeded(first)
    assert queue.sendable(5, 2) is not None


def test_requeued_batches_are_resent_in_order_when_all_are_answered() -> None:
    queue, connection = three()
    connection.put_off()
    assert queue.sendable(5, 1) is None
    connection.arrive()
    connection.arrive()
    connection.send(5)
    assert [batch.values[0] for batch in connection.under_way] == [b"a", b"c", b"e"]
    for _ in range(3):
        connection.arrive()
    assert connection.leader.log == connection.acknowledged == [b"a", b"b", b"c", b"d", b"e", b"f"]


def test_a_lost_answer_is_asked_for_again() -> None:
    queue, connection = three()
    connection.break_after(2)
    connection.send(5)
    for _ in range(3):
        connection.arrive()
    assert connection.leader.log == connection.acknowledged == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert queue.identity == PRODUCER


def test_batches_after_a_rejected_one_take_its_sequence_numbers() -> None:
    queue, connection = three()
    connection.reject()
    connection.arrive()
    connection.arrive()
    connection.send(5)
    assert [queue.sequence(batch) for batch in connection.under_way] == [0, 2]
    connection.arrive()
    connection.arrive()
    assert connection.leader.log == [b"c", b"d", b"e", b"f"]
    assert queue.identity == PRODUCER


def test_batches_requeued_before_a_rejected_one_keep_their_numbers() -> None:
    queue, connection = three()
    connection.put_off()
    connection.reject()
    connection.arrive()
    connection.send(5)
    assert [(batch.values[0], queue.sequence(batch)) for batch in connection.under_way] == [(b"a", 0), (b"e", 2)]


def test_a_batch_with_unknown_outcome_is_not_written_again() -> None:
    queue, connection = three()
    connection.break_after(1)
    connection.leader.forget(all_but=0)
    connection.abort()
    connection.leader.expected = 99
    connection.send(5)
    connection.arrive()
    connection.arrive()
    assert connection.failed == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert queue.identity == ProducerIdentity(1000, 1)


def test_a_batch_of_which_nobody_knows_ends_the_epoch() -> None:
    queue, connection = three()
    connection.break_after(0)
    for _ in range(3):
        connection.abort()
    queue.unsent.append(batch_of(b"g"))
    connection.send(5)
    assert connection.under_way[0].identity == ProducerIdentity(1000, 1)
    assert queue.sequence(connection.under_way[0]) == 0


def test_later_answers_confirm_a_batch_with_unknown_outcome() -> None:
    queue, connection = three()
    connection.break_after(1)
    connection.abort()
    connection.send(5)
    connection.arrive()
    connection.arrive()
    queue.unsent.append(batch_of(b"g"))
    connection.send(5)
    assert queue.identity == PRODUCER
    assert queue.sequence(connection.under_way[0]) == 6


def test_a_later_batch_confirms_earlier_ones() -> None:
    """Kafka remembers the last batch alone after a clean restart, and takes the others for out of order."""
    queue, connection = three()
    connection.break_after(3)
    connection.leader.forget(all_but=1)
    connection.send(5)
    for _ in range(3):
        connection.arrive()
    assert connection.acknowledged == connection.leader.log == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert queue.idle


def test_a_split_batch_keeps_its_numbers() -> None:
    queue, connection = three()
    connection.split()
    connection.arrive()
    connection.arrive()
    connection.send(5)
    assert [(queue.sequence(batch), batch.count) for batch in connection.under_way] == [(0, 1), (1, 1), (2, 2), (4, 2)]
    for _ in range(4):
        connection.arrive()
    assert connection.leader.log == [b"a", b"b", b"c", b"d", b"e", b"f"]


def test_an_id_without_epochs_is_given_back() -> None:
    queue = queue_with(batch_of(b"a"), identity=ProducerIdentity(7, LAST_EPOCH))
    connection = LeaderConnection(queue, Leader())
    connection.send(1)
    connection.break_after(0)
    connection.abort()
    assert queue.identity is None
    assert queue.exhausted_id == 7


def test_in_a_transaction_no_epoch_begins_by_itself() -> None:
    queue = queue_with(batch_of(b"a"), batch_of(b"b"), may_bump_epoch=False)
    connection = LeaderConnection(queue, Leader())
    connection.send(1)
    connection.break_after(0)
    connection.abort()
    assert queue.identity == PRODUCER
    assert queue.sendable(5, 1) is None
    queue.start_epoch(ProducerIdentity(1000, 1))
    assert queue.sendable(5, 1) is not None


ACTIONS = ("arrive", "arrive", "arrive", "put_off", "reject", "split", "break", "give_up", "send", "append", "forget")


@given(
    st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 5)), max_size=60),
    st.integers(1, 5),
    st.booleans(),
)
def test_queue_invariants_hold_in_random_histories(
    story: list[tuple[str, int]], window: int, may_bump_epoch: bool
) -> None:
    """The owner begins epochs in transactions, and in Spark's part: here as soon as nothing is on its way."""
    queue = queue_with(may_bump_epoch=may_bump_epoch)
    connection = LeaderConnection(queue, Leader())
    sent: list[bytes | None] = []
    for action, number in story:
        _do(action, number, queue, connection, window, sent)
    for _ in range(200):
        if queue.idle:
            break
        if queue.is_stuck and not queue.in_flight and not queue.requeued and queue.identity is not None:
            queue.start_epoch(queue.identity.bumped() or PRODUCER)
        connection.send(window)
        if connection.under_way:
            connection.arrive()
    assert queue.idle
    _judge(connection, sent)


def _do(
    action: str, number: int, queue: PartitionQueue, connection: LeaderConnection, window: int, sent: list[bytes | None]
) -> None:
    match action:
        case "append":
            values = [b"%d" % (len(sent) + place) for place in range(number + 1)]
            sent += values
            queue.unsent.append(batch_of(*values))
        case "send":
            connection.send(window)
        case "break":
            connection.break_after(number)
        case "forget":
            connection.leader.forget(all_but=number)
        case "give_up":
            connection.abort()
        case _ if connection.under_way:
            getattr(connection, action)()


def _judge(connection: LeaderConnection, sent: list[bytes | None]) -> None:
    log = connection.leader.log
    assert log == [value for value in sent if value in set(log)], "doubled, or out of order"
    assert set(connection.acknowledged) <= set(log), "acknowledged, and lost"
    assert sorted(connection.acknowledged + connection.failed) == sorted(sent), "not all were told, or some twice"
    assert not set(connection.surely_not_written) & set(log)
