"""The fetcher: what it asks of which leader, and how it goes on when that one is not it any more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import attrs
import pytest

from pylogbroker.blocking.cluster import BlockingCluster, OffsetAtTime
from pylogbroker.blocking.fetcher import FetchedBatches, PartitionFetcher
from pylogbroker.client.errors import ConnectionLost, OutOfRange, RecordTooLarge, RequestTimedOut, TopicRecreated
from pylogbroker.client.settings import CONSUMER, read
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.wire import NO_ID
from pylogbroker.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from pylogbroker.wire.messages.list_offsets import EARLIEST, LATEST
from tests.spark.topics import Rec, Topics
from tests.support.bad_batches import batch as batch_of
from tests.support.bad_batches import good

THREE = 3  # records in each batch
Asked = tuple[int, int]


def batch(base: int) -> bytes:
    """Three records, of which the first has this offset."""
    return batch_of(good(THREE), THREE, base_offset=base)


@attrs.define(eq=False)
class Leader:
    """A broker that leads t/0, and answers requests in their order."""

    answer: Callable[[Asked], PartitionData | None]
    """None if there is nothing about the partition in the answer."""
    asked: list[Asked] = attrs.field(factory=list)
    in_flight: list[Asked] = attrs.field(factory=list)
    is_open: bool = True
    address: str = "leader:9092"
    topic_id: UUID = NO_ID
    """The id of t, when this broker leads it."""

    def version_of(self, _: object) -> int:
        return 17

    def send(self, request: FetchRequest, *, version: int) -> None:
        [topic] = request.topics
        [partition] = topic.partitions
        assert (topic.topic, partition.partition) == ("t", 0)
        assert version == (12 if topic.topic_id == NO_ID else 17)
        self.asked.append((partition.fetch_offset, partition.partition_max_bytes))
        self.in_flight.append(self.asked[-1])

    def receive(self) -> FetchResponse:
        data = self.answer(self.in_flight.pop(0))
        answered = [] if data is None else [FetchableTopicResponse(topic="t", partitions=[data])]
        return FetchResponse(throttle_time_ms=0 if answered else 10, responses=answered)

    def close(self) -> None:
        self.is_open = False


class FakeCluster(BlockingCluster):
    """Knows one leader after the other: each request gets the next one."""

    def __init__(self, *leaders: Leader, **settings: Any) -> None:
        quick = {"bootstrap.servers": "nobody:1", "retry.backoff.ms": 0}
        super().__init__(read(CONSUMER, {**quick, **{key.replace("_", "."): each for key, each in settings.items()}}))
        self.leaders = list(leaders)
        self.bounds = {EARLIEST: 0, LATEST: 9}

    def leader(self, topic: str, partition: int) -> Any:
        return self.leaders[0]

    def forget(self, topic: str | None = None) -> None:
        if len(self.leaders) > 1:
            self.leaders.pop(0)

    def offsets(
        self, times: Mapping[TopicPartition, int], seconds: float | None = None
    ) -> dict[TopicPartition, OffsetAtTime]:
        return {key: OffsetAtTime(self.bounds[time], -1) for key, time in times.items()}

    def topic_id(self, name: str) -> UUID:
        return self.leaders[0].topic_id


def serving(end: int = 9) -> Callable[[Asked], PartitionData]:
    """A log of three batches."""

    def answer(asked: Asked) -> PartitionData:
        base = asked[0] // THREE * THREE
        return PartitionData(partition_index=0, records=batch(base) if base < end else b"", high_watermark=end)

    return answer


def failing(code: ErrorCode) -> Callable[[Asked], PartitionData]:
    return lambda _: PartitionData(partition_index=0, error_code=code, high_watermark=-1)


def lost(_: Asked) -> PartitionData:
    raise ConnectionLost("gone")


def fetched(cluster: FakeCluster, start: int, end: int, **options: Any) -> list[FetchedBatches]:
    return list(PartitionFetcher(cluster, "t", 0, start, end, **options))


def test_the_next_is_asked_for_before_the_last_is_given_out() -> None:
    leader = Leader(serving())
    fetching = iter(PartitionFetcher(FakeCluster(leader), "t", 0, 1, 8))
    assert next(fetching).position == 1
    assert [offset for offset, _ in leader.asked] == [1, 3]
    assert [(each.position, each.next_offset) for each in fetching] == [(3, 6), (6, 9)]
    assert [offset for offset, _ in leader.asked] == [1, 3, 6]
    assert leader.is_open


def test_closing_early_leaves_no_pending_answer() -> None:
    leader = Leader(serving())
    fetching = iter(PartitionFetcher(FakeCluster(leader), "t", 0, 0, 9))
    next(fetching)
    fetching.close()  # type: ignore[attr-defined]
    assert not leader.is_open


@pytest.mark.parametrize(
    "trouble", [failing(ErrorCode.NOT_LEADER_OR_FOLLOWER), failing(ErrorCode.FENCED_LEADER_EPOCH), lost]
)
def test_a_leader_that_moves_in_the_middle(trouble: Callable[[Asked], PartitionData]) -> None:
    def at_first(asked: Asked) -> PartitionData:
        return serving()(asked) if asked[0] < 3 else trouble(asked)

    old, new = Leader(at_first), Leader(serving())
    assert [each.next_offset for each in fetched(FakeCluster(old, new), 0, 9)] == [3, 6, 9]
    assert [offset for offset, _ in old.asked] == [0, 3]
    assert [offset for offset, _ in new.asked] == [3, 6]


OLD, NEW = UUID(int=1), UUID(int=2)


def test_a_topic_with_an_id_is_asked_for_by_it() -> None:
    """A broker may not know the topic yet."""

    def unknown(_: Asked) -> PartitionData:
        return PartitionData(error_code=ErrorCode.UNKNOWN_TOPIC_ID)

    leaders = [Leader(unknown, topic_id=OLD), Leader(serving(), topic_id=OLD)]
    assert [each.next_offset for each in fetched(FakeCluster(*leaders), 0, 9, topic_id=OLD)] == [3, 6, 9]
    by_name = Leader(serving())
    assert [each.next_offset for each in fetched(FakeCluster(by_name), 0, 9, topic_id=OLD)] == [3, 6, 9]


def test_a_recreated_topic_is_not_read() -> None:
    def gone(asked: Asked) -> PartitionData:
        return serving()(asked) if asked[0] < 3 else PartitionData(error_code=ErrorCode.UNKNOWN_TOPIC_ID)

    old, new = Leader(gone, topic_id=OLD), Leader(serving(), topic_id=NEW)
    fetching = iter(PartitionFetcher(FakeCluster(old, new), "t", 0, 0, 9, topic_id=OLD))
    assert next(fetching).next_offset == 3
    with pytest.raises(TopicRecreated, match=f"topic t was deleted .* its id was {OLD}, and is now {NEW}"):
        next(fetching)
    assert new.asked == []


def test_fatal_errors_are_raised() -> None:
    with pytest.raises(KafkaError) as caught:
        fetched(FakeCluster(Leader(failing(ErrorCode.TOPIC_AUTHORIZATION_FAILED))), 0, 9)
    assert caught.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(KafkaError) as caught:
        fetched(FakeCluster(Leader(failing(ErrorCode.NOT_LEADER_OR_FOLLOWER)), default_api_timeout_ms=200), 0, 9)
    assert caught.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_offsets_that_are_not_there() -> None:
    cluster = FakeCluster(Leader(failing(ErrorCode.OFFSET_OUT_OF_RANGE)))
    cluster.bounds = {EARLIEST: 4, LATEST: 7}
    with pytest.raises(OutOfRange) as caught:
        fetched(cluster, 2, 9)
    assert (caught.value.offset, caught.value.first, caught.value.end) == (2, 4, 7)


def test_an_end_that_is_never_reached() -> None:
    cluster = FakeCluster(Leader(serving(end=6)))
    cluster.bounds[LATEST] = 6
    with pytest.raises(OutOfRange, match="no offset 6"):
        fetched(cluster, 0, 9, stall_timeout=0.02)
    cluster.bounds[LATEST] = 9
    with pytest.raises(RequestTimedOut, match=r"up to offset 9, but nothing after 6 came for 0.02 s"):
        fetched(cluster, 0, 9, stall_timeout=0.02)


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_an_end_that_compaction_has_taken_away(isolation: str) -> None:
    leader = Leader(lambda asked: attrs.evolve(serving(end=6)(asked), high_watermark=12, last_stable_offset=9))
    assert [each.next_offset for each in fetched(FakeCluster(leader, isolation_level=isolation), 0, 9)] == [3, 6, 9]
    assert leader.asked[-2:] == [(6, leader.asked[0][1])] * 2
    leader.asked.clear()
    cluster = FakeCluster(leader, isolation_level=isolation)
    if isolation == "read_committed":
        with pytest.raises(RequestTimedOut):  # what is behind may still be decided
            fetched(cluster, 6, 10, stall_timeout=0.02)
    else:
        assert [len(each.records) for each in fetched(cluster, 6, 10)] == [0]


def test_a_broker_that_is_asked_for_too_much_in_a_short_time() -> None:
    """Kafka answers without any partition, and keeps the next request waiting."""
    answers = iter([True, False] * 9)
    leader = Leader(lambda asked: None if next(answers) else serving()(asked))
    assert [each.next_offset for each in fetched(FakeCluster(leader), 0, 9)] == [3, 6, 9]


def test_a_batch_that_is_cut_off_is_asked_for_again() -> None:
    """Brokers older than Kafka 0.10.1 cut batches off."""

    def cut(asked: Asked) -> PartitionData:
        return PartitionData(partition_index=0, records=batch(0)[: asked[1]], high_watermark=3)

    small = {"max_partition_fetch_bytes": 30, "fetch_max_bytes": 1000}
    leader = Leader(cut)
    assert [each.next_offset for each in fetched(FakeCluster(leader, **small), 0, 3)] == [3]
    assert [limit for _, limit in leader.asked] == [30, 60, 120][: len(leader.asked)]
    assert len(leader.asked) > 1
    with pytest.raises(RecordTooLarge, match=r"t/0 has a batch at offset 0 .* fetch.max.bytes"):
        fetched(FakeCluster(Leader(cut), max_partition_fetch_bytes=30, fetch_max_bytes=40), 0, 3)


def test_aborted_transactions_are_listed_for_read_committed() -> None:
    def answer(asked: Asked) -> PartitionData:
        aborted = [AbortedTransaction(producer_id=7, first_offset=1)]
        return PartitionData(partition_index=0, records=batch(0), high_watermark=3, aborted_transactions=aborted)

    [found] = fetched(FakeCluster(Leader(answer), isolation_level="read_committed"), 0, 3)
    assert found.aborted == ((7, 1),)
    [found] = fetched(FakeCluster(Leader(answer)), 0, 3)
    assert found.aborted is None


def test_batches_of_a_real_broker_are_fetched(topics: Topics) -> None:
    topic = topics.make(2)
    topics.fill(topic, [Rec(b"x" * 1000, partition=1) for _ in range(500)], batch_num_messages=10)
    small = {"bootstrap.servers": topics.bootstrap, "max.partition.fetch.bytes": 20_000}
    with BlockingCluster(read(CONSUMER, small)) as cluster:
        found = list(PartitionFetcher(cluster, topic, 1, 5, 490))
    assert [each.position for each in found] == [5, *(each.next_offset for each in found[:-1])]
    assert len(found) > 5
    assert found[-1].next_offset >= 490
