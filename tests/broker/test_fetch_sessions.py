"""Fetch sessions, case by case as in KIP-227."""

from __future__ import annotations

from uuid import UUID

import pytest

from pylogbroker.broker.fetch.session import FetchSession, many_requested_partitions, requested_partitions
from pylogbroker.broker.fetch.sessions import MIN_IDLE_MS, FetchSessions
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.long_loops import STEP_ITEMS, at_once
from pylogbroker.wire.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

ID = UUID(int=7)


def request(session: int = 0, epoch: int = 0, **topics: list[int]) -> FetchRequest:
    asked = [FetchTopic(topic=name, partitions=[FetchPartition(i) for i in parts]) for name, parts in topics.items()]
    return FetchRequest(session_id=session, session_epoch=epoch, topics=asked)


def enter(sessions: FetchSessions, request: FetchRequest, now_ms: int, by_id: bool = False) -> FetchSession | None:
    return sessions.enter(request, requested_partitions(request, by_id), now_ms, by_id)


def keys(session: FetchSession) -> list[tuple[object, int]]:
    return list(session.partitions)


def begin(sessions: FetchSessions, now_ms: int = 0) -> FetchSession:
    session = enter(sessions, request(t=[0, 1]), now_ms)
    assert session is not None
    return session


def test_a_request_without_a_session_begins_none() -> None:
    sessions = FetchSessions(10)
    assert enter(sessions, request(epoch=-1, t=[0]), 0) is None
    assert len(sessions) == 0


def test_an_incremental_request_adds_changes_and_forgets() -> None:
    sessions = FetchSessions(10)
    session = begin(sessions)
    change = request(session.id, 1, t=[1], u=[5])
    change.topics[0].partitions[0].fetch_offset = 99
    change.forgotten_topics_data = [ForgottenTopic(topic="t", partitions=[0])]
    assert enter(sessions, change, 0) is session
    assert keys(session) == [("t", 1), ("u", 5)]
    assert session.partitions["t", 1].partition.fetch_offset == 99


def test_another_leader_epoch_lets_all_be_sent_again() -> None:
    sessions = FetchSessions(10)
    session = begin(sessions)
    asked, answer = session.partitions["t", 1], PartitionData(1, high_watermark=5)
    assert [asked.changed(answer), asked.changed(answer)] == [True, False]
    change = request(session.id, 1, t=[1])
    change.topics[0].partitions[0].current_leader_epoch = 3  # its follower dropped the answer in the former one
    assert enter(sessions, change, 0) is session
    assert session.partitions["t", 1].changed(answer)
    assert keys(session) == [("t", 0), ("t", 1)]


def test_a_diverging_epoch_lets_the_high_watermark_be_sent_again() -> None:
    """A follower takes none from such an answer."""
    asked, answer = begin(FetchSessions(10)).partitions["t", 1], PartitionData(1, high_watermark=5)
    assert asked.changed(answer)
    diverging = PartitionData(1, high_watermark=5, diverging_epoch=EpochEndOffset(0, 3))
    assert [asked.changed(diverging), asked.changed(diverging)] == [True, True]
    assert [asked.changed(answer), asked.changed(answer)] == [True, False]


def test_epochs_go_up_by_one_and_round_to_one() -> None:
    sessions = FetchSessions(10)
    session = begin(sessions)
    for epoch in (1, 2, 3):
        assert enter(sessions, request(session.id, epoch), 0) is session
    with pytest.raises(KafkaError) as caught:
        enter(sessions, request(session.id, 3), 0)
    assert caught.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    session.epoch = 2**31 - 1
    enter(sessions, request(session.id, 2**31 - 1), 0)
    assert session.epoch == 1


def test_an_unknown_session_is_not_found() -> None:
    with pytest.raises(KafkaError) as caught:
        enter(FetchSessions(10), request(17, 1), 0)
    assert caught.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("epoch", [-1, 0])
def test_a_full_request_ends_the_session_that_it_names(epoch: int) -> None:
    sessions = FetchSessions(10)
    session = begin(sessions)
    enter(sessions, request(session.id, epoch, t=[0]), 0)
    with pytest.raises(KafkaError):
        enter(sessions, request(session.id, 1), 0)


def test_names_and_ids_do_not_mix_in_one_session() -> None:
    sessions = FetchSessions(10)
    session = begin(sessions)
    by_id = FetchRequest(
        session_id=session.id, session_epoch=1, topics=[FetchTopic(topic_id=ID, partitions=[FetchPartition(0)])]
    )
    with pytest.raises(KafkaError) as caught:
        enter(sessions, by_id, 0, by_id=True)
    assert caught.value.code is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_full_cache_gives_no_session_until_one_is_idle() -> None:
    sessions = FetchSessions(2)
    first, second = begin(sessions, 0), begin(sessions, 10)
    assert enter(sessions, request(t=[0]), 20) is None
    enter(sessions, request(first.id, 1), MIN_IDLE_MS)
    assert enter(sessions, request(t=[0]), MIN_IDLE_MS + 10) is not None  # in the place of the second
    with pytest.raises(KafkaError):
        enter(sessions, request(second.id, 1), MIN_IDLE_MS + 10)
    assert enter(sessions, request(first.id, 2), MIN_IDLE_MS + 10) is first


def test_no_session_begins_when_all_together_have_too_many_partitions() -> None:
    sessions = FetchSessions(10, partitions_max=5)
    first = begin(sessions)
    begin(sessions)
    assert enter(sessions, request(t=[0, 1]), 0) is None
    assert enter(sessions, request(first.id, -1), 0) is None  # the first one ends
    begin(sessions)


def test_a_session_that_grows_too_large_ends() -> None:
    sessions = FetchSessions(10, partitions_max=5)
    growing, other = begin(sessions), begin(sessions)
    assert enter(sessions, request(growing.id, 1, t=[2]), 0) is growing
    assert enter(sessions, request(growing.id, 2, t=[0, 1, 2]), 0) is growing
    with pytest.raises(KafkaError) as caught:
        enter(sessions, request(growing.id, 3, u=[0]), 0)
    assert caught.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert enter(sessions, request(other.id, 1, u=[0, 1, 2]), 0) is other


def test_a_partition_named_twice_is_read_once_as_it_was_named_last() -> None:
    twice = request(epoch=-1, t=[0, 1, 0])
    twice.topics[0].partitions[2].fetch_offset = 9
    found = requested_partitions(twice, by_id=False)
    assert [(key, asked.partition.fetch_offset) for key, asked in found.items()] == [(("t", 0), 9), (("t", 1), 0)]


def test_many_partitions_are_collected_with_pauses() -> None:
    many = request(epoch=-1, t=[*range(2 * STEP_ITEMS), 0], u=[3])
    assert len(list(many_requested_partitions(many, by_id=False).__await__())) == 3
    found = at_once(many_requested_partitions(many, by_id=False))
    assert list(found) == [*(("t", index) for index in range(2 * STEP_ITEMS)), ("u", 3)]
    assert found["t", 0].partition is many.topics[0].partitions[-1]
    assert list(found) == list(requested_partitions(many, by_id=False))


def test_partitions_that_were_sent_data_go_to_the_end() -> None:
    session = begin(FetchSessions(1))
    session.move_to_end(("t", 0))
    assert keys(session) == [("t", 1), ("t", 0)]


def test_an_incremental_answer_lists_changed_partitions() -> None:
    session = begin(FetchSessions(1))
    asked = session.partitions["t", 0]
    quiet = PartitionData(0, high_watermark=5, log_start_offset=0, records=b"")
    assert asked.changed(quiet)
    assert not asked.changed(quiet)
    assert asked.changed(PartitionData(0, high_watermark=6, log_start_offset=0, records=b""))
    assert asked.changed(PartitionData(0, high_watermark=6, log_start_offset=2, records=b""))
    assert asked.changed(PartitionData(0, high_watermark=6, log_start_offset=2, records=b"data"))
    assert asked.changed(PartitionData(0, error_code=ErrorCode.KAFKA_STORAGE_ERROR, high_watermark=6, records=b""))
    assert asked.changed(PartitionData(0, high_watermark=6, log_start_offset=2, records=b""))
