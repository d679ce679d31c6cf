"""Exactly once, task by task and step by step, without Spark: a killed task is one that does not continue.

Against both brokers; librdkafka reads what is committed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from pylogbroker.blocking.cluster import BlockingCluster
from pylogbroker.blocking.connection import BlockingConnection
from pylogbroker.errors import ConfigError, KafkaError
from pylogbroker.spark.options import WriteOptions
from pylogbroker.spark.writing import sink, transactions
from pylogbroker.spark.writing.producer import IdempotentProducer
from pylogbroker.spark.writing.producer_ids import WriterIdentity
from pylogbroker.spark.writing.task import TaskWriter
from pylogbroker.spark.writing.transactions import (
    Done,
    Task,
    TransactionLost,
    WrongBatch,
    abandon,
    abort,
    add_partitions,
    begin,
    commit,
    mark,
)
from pylogbroker.wire.messages.list_offsets import LATEST
from tests.spark.rows import VALUES, batches, options, read, values
from tests.spark.short_times import in_time
from tests.spark.topics import Topics
from tests.support.waiting import wait_until


class Query:
    """A stream that writes to a topic of one partition."""

    def __init__(self, topics: Topics, **settings: Any) -> None:
        self.topic = topics.make()
        self._topics = topics
        self._name = topics.fresh_name()
        self._bootstrap = topics.bootstrap
        self.options: WriteOptions = options(topics.bootstrap, self.topic, **settings)

    def cluster(self) -> BlockingCluster:
        """Return a cluster, as a process of its own has it."""
        return BlockingCluster(self.options.settings)

    def task(self, batch: int, number: int) -> Task:
        return Task("test-", self._name, batch, number)

    def run(self, batch: int, number: int, rows: Sequence[bytes]) -> Done:
        """A task, from its beginning to its end."""
        task = self.task(batch, number)
        with self.cluster() as cluster:
            identity = begin(cluster, task)
            if identity is not None:
                self.write(cluster, identity, rows)
                mark(cluster, identity, task)
            return Done(task, identity, is_committed=identity is None)

    def write(self, cluster: BlockingCluster, identity: WriterIdentity, rows: Sequence[bytes]) -> None:
        with IdempotentProducer(cluster, identity, lambda keys: add_partitions(cluster, identity, keys)) as producer:
            TaskWriter(self.options, VALUES, cluster, producer).write(batches(rows))

    def commit(self, *done: Done) -> None:
        """Do the driver's work, in another process."""
        with self.cluster() as cluster:
            commit(cluster, done)

    def committed(self) -> list[bytes]:
        """Return the committed values, after all transactions have ended."""
        self._topics.wait_for_markers(self.topic)
        return sorted(values(self._bootstrap, self.topic))

    def readable(self) -> list[bytes]:
        """Return the committed values up to the first open transaction."""
        return values(self._bootstrap, self.topic)


@pytest.fixture
def query(topics: Topics) -> Query:
    return Query(topics)


def test_a_batch_is_to_be_read_when_the_driver_has_committed_it(query: Query) -> None:
    for batch in range(3):
        before = query.committed()
        done = [query.run(batch, number, [b"%d-%d" % (batch, number)]) for number in range(2)]
        assert query.readable() == before
        query.commit(*done)
    assert query.committed() == [b"0-0", b"0-1", b"1-0", b"1-1", b"2-0", b"2-1"]


def test_the_driver_is_killed_before_it_commits(query: Query) -> None:
    for attempt in range(3):
        done = [query.run(0, number, [b"%d" % number]) for number in range(2)]
        assert all(each.open is not None for each in done), attempt
        assert query.readable() == []
    query.commit(*done)
    assert query.committed() == [b"0", b"1"]


@pytest.mark.parametrize("ended", [0, 1, 2, 3])
def test_the_driver_is_killed_while_it_commits(query: Query, monkeypatch: pytest.MonkeyPatch, ended: int) -> None:
    rows = [[b"0a", b"0b"], [b"1a"], [b"2a"]]
    with monkeypatch.context() as patch:
        patch.setattr(transactions, "_end", _killed_after(ended))
        with pytest.raises(KeyboardInterrupt):
            query.commit(*(query.run(0, number, each) for number, each in enumerate(rows)))
    again = [query.run(0, number, each) for number, each in enumerate(rows)]
    assert [each.open is None for each in again] == [number < ended for number in range(3)]
    query.commit(*again)
    assert query.committed() == [b"0a", b"0b", b"1a", b"2a"]
    query.commit(query.run(1, 0, [b"next"]))
    assert query.committed() == [b"0a", b"0b", b"1a", b"2a", b"next"]


def test_a_task_is_killed_in_the_middle(query: Query) -> None:
    with query.cluster() as cluster:
        identity = begin(cluster, query.task(0, 0))
        assert identity is not None
        query.write(cluster, identity, [b"half"])
    query.commit(query.run(0, 0, [b"half", b"whole"]), query.run(0, 1, [b"other"]))
    assert query.committed() == [b"half", b"other", b"whole"]


def test_a_task_that_was_thought_dead_goes_on(query: Query) -> None:
    with query.cluster() as cluster:
        zombie = begin(cluster, query.task(0, 0))
        assert zombie is not None
        query.write(cluster, zombie, [b"zombie"])
        done = query.run(0, 0, [b"new"])
        with pytest.raises(KafkaError):
            query.write(cluster, zombie, [b"zombie"])
        with pytest.raises(KafkaError):
            mark(cluster, zombie, query.task(0, 0))
    with pytest.raises(TransactionLost, match="Another attempt"):
        query.commit(Done(query.task(0, 0), zombie))
    query.commit(done)
    assert query.committed() == [b"new"]


def test_a_task_learns_that_another_attempt_has_taken_its_place(query: Query) -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        yield from batches([b"old"])
        query.commit(query.run(0, 0, [b"new"]))

    with pytest.raises(TransactionLost, match="Another attempt has taken its place"):
        sink._write_once(query.options, VALUES, query.task(0, 0), rows())
    assert query.committed() == [b"new"]


def test_a_batch_that_is_committed_is_run_again(query: Query) -> None:
    query.commit(*(query.run(4, number, [b"%d" % number]) for number in range(2)))
    again = [query.run(4, number, [b"%d" % number]) for number in range(2)]
    assert [each.open for each in again] == [None, None]
    query.commit(*again)
    assert query.committed() == [b"0", b"1"]


def test_tasks_without_rows_do_nothing(query: Query) -> None:
    query.commit(Done(query.task(0, 0)), query.run(0, 1, [b"1"]), Done(query.task(0, 2)))
    query.commit(Done(query.task(1, 0)), Done(query.task(1, 1)))
    query.commit()
    assert query.committed() == [b"1"]


def test_aborted_rows_are_invisible_and_do_not_hold_back_readers(query: Query) -> None:
    with query.cluster() as cluster:
        abort(cluster, [query.run(0, 0, [b"0"]), Done(query.task(0, 1))])
    query.commit(query.run(0, 0, [b"0"]))
    assert query.committed() == [b"0"]


def test_an_abort_waits_for_requests_in_flight(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it could begin a transaction that nobody ends."""
    made: list[BlockingConnection] = []
    connect = BlockingCluster.connect

    def connected(*arguments: Any) -> BlockingConnection:
        made.append(connect(*arguments))
        return made[-1]

    def rows() -> Iterator[pa.RecordBatch]:
        yield from batches([b"x" * 500_000] * 20)
        assert any(connection.in_flight for connection in made)
        raise ValueError("a row that cannot be computed")

    waiting: list[int] = []
    abandoned = lambda *_: waiting.extend(connection.in_flight for connection in made)  # noqa: E731
    monkeypatch.setattr(BlockingCluster, "connect", connected)
    monkeypatch.setattr(BlockingConnection, "close", lambda connection: None)
    monkeypatch.setattr(sink, "abandon", abandoned)
    with pytest.raises(ValueError, match="cannot be computed"):
        sink._write_once(query.options, VALUES, query.task(0, 0), rows())
    assert waiting == [0]


def test_an_attempt_that_is_over_does_not_abort_the_next_one(query: Query) -> None:
    with query.cluster() as cluster:
        older = begin(cluster, query.task(0, 0))
        assert older is not None
        query.write(cluster, older, [b"old"])
        newer = query.run(0, 0, [b"new"])
        abandon(cluster, older)
    query.commit(newer)
    assert query.committed() == [b"new"]


def test_a_driver_that_reaches_nobody_does_not_try_to_abort_for_ever(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", transactions.__name__)
    monkeypatch.setattr(transactions, "_ABORT_SECONDS_MAX", 0.2)
    opened = Done(Task("test-", "query", 0, 0), WriterIdentity(1, 0, "nobody's"))
    with BlockingCluster(options("127.0.0.1:1", max_block_ms=1000).settings) as cluster:
        abort(cluster, [opened] * 10)
    assert "9 transactions are left to their timeouts" in caplog.text


@pytest.mark.parametrize("tasks", [1, 3])
def test_a_batch_that_was_committed_in_part_has_to_have_as_many_tasks(
    query: Query, monkeypatch: pytest.MonkeyPatch, tasks: int
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(transactions, "_end", _killed_after(1))
        with pytest.raises(KeyboardInterrupt):
            query.commit(*(query.run(7, number, [b"%d" % number]) for number in range(2)))
    done = [query.run(7, number, [b"%d" % number]) for number in range(tasks)]
    with pytest.raises(WrongBatch, match=f"with 2 tasks, and has {tasks} now"):
        query.commit(*done)
    with query.cluster() as cluster:
        abort(cluster, done)  # as Spark does it then
    query.commit(*(query.run(7, number, [b"%d" % number]) for number in range(2)))
    assert query.committed() == [b"0", b"1"]


def test_an_uncommitted_batch_may_be_written_with_other_rows(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(transactions, "_end", _killed_after(0))
        with pytest.raises(KeyboardInterrupt):
            query.commit(*(query.run(7, number, [b"%d" % number]) for number in range(2)))
    query.commit(*(query.run(7, number, [b"new-%d" % number]) for number in range(3)))
    assert query.committed() == [b"new-0", b"new-1", b"new-2"]


@pytest.mark.parametrize("ended", [0, 1, 2])
def test_a_batch_that_was_begun_to_be_committed_long_ago(
    query: Query, topics: Topics, monkeypatch: pytest.MonkeyPatch, ended: int
) -> None:
    """Brokers have forgotten the markers by then: here because the test deletes them."""

    def run() -> list[Done]:
        return [query.run(7, number, [b"%d" % number]) for number in range(2)]

    with monkeypatch.context() as patch:
        patch.setattr(transactions, "_end", _killed_after(ended))
        with pytest.raises(KeyboardInterrupt):
            query.commit(*run())
    for each in run():
        if each.is_committed:
            topics.forget_group(each.task.name)
    done = run()
    assert not any(each.is_committed for each in done)
    monkeypatch.setattr(transactions, "_MARKER_AGE_MS_MAX", -1)
    with pytest.raises(WrongBatch, match=r"batch 7 was about to be committed at 20.*offsets\.retention\.minutes"):
        query.commit(*done)
    with query.cluster() as cluster:
        abort(cluster, done)
    assert query.committed() == [b"0", b"1"][:ended]


def test_a_partly_committed_batch_is_completed(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(transactions, "_end", _killed_after(1))
        with pytest.raises(KeyboardInterrupt):
            query.commit(*(query.run(7, number, [b"%d" % number]) for number in range(2)))
    monkeypatch.setattr(transactions, "_MARKER_AGE_MS_MAX", -1)
    query.commit(*(query.run(7, number, [b"%d" % number]) for number in range(2)))
    assert query.committed() == [b"0", b"1"]


def test_plans_are_kept_for_longer_than_markers(query: Query, topics: Topics) -> None:
    """Plans lie in __consumer_offsets: an offset, the time of its commit, and the time until it is kept."""
    query.commit(query.run(0, 0, [b"0"]))
    group = "test-" + query.task(0, 0).query
    everything = "read_uncommitted"  # open transactions of other tests end what committed readers see
    found = read(topics.bootstrap, "__consumer_offsets", [_place_of(group, topics)], everything)
    [value] = [message.value() or b"" for message in found if group.encode() == (message.key() or b"")[4:-24]]
    version, offset, length = struct.unpack_from(">hqh", value)
    assert (version, offset) == (1, 1)
    committed, expires = struct.unpack_from(">qq", value, 12 + length)
    assert expires - committed > 9 * 365 * 86_400_000


def test_a_checkpoint_older_than_the_committed_batch_is_an_error(query: Query) -> None:
    query.commit(query.run(5, 0, [b"5"]))
    with pytest.raises(WrongBatch, match="batch 4 is to be written, but batch 5 of this query is committed already"):
        query.run(4, 0, [b"4"])


def test_a_driver_that_others_have_gone_on_from(query: Query) -> None:
    """A late driver's state would overwrite that of a newer batch."""
    before = query.run(4, 0, [b"4"])
    query.commit(query.run(5, 1, [b"5"]))
    with pytest.raises(WrongBatch, match=r"batch 5 of this query .* or another driver runs the query"):
        query.commit(before)
    with query.cluster() as cluster:
        abort(cluster, [before])
    assert query.committed() == [b"5"]


def test_a_driver_that_comes_too_late(topics: Topics) -> None:
    def begun(milliseconds: int) -> tuple[Query, int, Done]:
        query = Query(topics, transaction_timeout_ms=milliseconds)
        return query, milliseconds, query.run(0, 0, [b"late"])

    query, milliseconds, done = in_time(begun)
    wait_until(lambda: _is_over(query))
    with pytest.raises(TransactionLost, match=rf"kafka\.transaction\.timeout\.ms, which is {milliseconds}"):
        query.commit(done)

    def is_committed() -> bool:
        try:
            query.commit(query.run(0, 0, [b"in time"]))
        except (KafkaError, TransactionLost):  # that was too late again
            return False
        return True

    wait_until(is_committed)
    assert query.committed() == [b"in time"]


def test_a_timeout_that_brokers_do_not_allow(topics: Topics) -> None:
    query = Query(topics, transaction_timeout_ms=901_000)
    with pytest.raises(ConfigError, match=r"901000 is longer than the brokers allow by transaction\.max\.timeout\.ms"):
        query.run(0, 0, [b"x"])


def test_the_coordinator_is_busy_with_the_batch_before(query: Query) -> None:
    for batch in range(15):
        query.commit(query.run(batch, 0, [b"%02d" % batch]))
    assert query.committed() == [b"%02d" % batch for batch in range(15)]


def _killed_after(ended: int) -> Callable[..., None]:
    """`_end` that ends so many transactions, and then the process."""
    left, end = [None] * ended, transactions._end

    def ending(*arguments: Any, **named: Any) -> None:
        if left:
            left.pop()
            end(*arguments, **named)
        if not left:
            raise KeyboardInterrupt

    def at_once(*arguments: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    return ending if ended else at_once


def _is_over(query: Query) -> bool:
    """True if there is a marker behind the record."""
    with query.cluster() as cluster:
        return cluster.offsets({(query.topic, 0): LATEST})[query.topic, 0].offset > 1


def _place_of(group: str, topics: Topics) -> int:
    """The partition of __consumer_offsets that has a group: by the absolute value of its name's hash in Java."""
    code = 0
    for letter in group.encode():
        code = (31 * code + letter) & 0xFFFFFFFF
    return min(code, (1 << 32) - code) % topics.count("__consumer_offsets")
