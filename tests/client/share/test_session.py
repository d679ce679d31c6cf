"""Requests of a share session, as transcripts."""

from __future__ import annotations

from uuid import UUID

from pylogbroker.client.share.session import ClientShareSession, TopicIdPartition
from pylogbroker.wire.messages.share_acknowledge import ShareAcknowledgeRequest
from pylogbroker.wire.messages.share_fetch import AcknowledgementBatch, ShareFetchRequest

T, U = UUID(int=1), UUID(int=2)
A, B, C = (T, 0), (T, 1), (U, 0)
Rows = list[tuple[UUID, int, list[AcknowledgementBatch]]]


def fetch(
    session: ClientShareSession,
    *partitions: TopicIdPartition,
    sent: dict[TopicIdPartition, list[AcknowledgementBatch]] | None = None,
) -> tuple[int, Rows, list[tuple[UUID, list[int]]]]:
    """Return the epoch, partitions and forgotten partitions of a fetch."""
    request = ShareFetchRequest("g", "m")
    session.fill_fetch(request, partitions, sent or {})
    rows = [
        (topic.topic_id, partition.partition_index, partition.acknowledgement_batches)
        for topic in request.topics
        for partition in topic.partitions
    ]
    forgotten = [(topic.topic_id, topic.partitions) for topic in request.forgotten_topics_data]
    return request.share_session_epoch, rows, forgotten


def test_a_request_holds_changes() -> None:
    session = ClientShareSession()
    assert fetch(session, A, B) == (0, [(T, 0, []), (T, 1, [])], [])
    session.answered()
    assert fetch(session, A, B) == (1, [], [])
    session.answered()
    accepted = [AcknowledgementBatch(1, 2, [1])]
    assert fetch(session, B, C, sent={A: accepted}) == (2, [(T, 0, accepted), (U, 0, [])], [(T, [0])])
    session.answered()
    assert fetch(session, B, C) == (3, [], [])


def test_a_broken_session_begins_again() -> None:
    session = ClientShareSession()
    fetch(session, A)
    session.answered()
    session.broken()
    assert not session.is_open
    assert fetch(session, A) == (0, [(T, 0, [])], [])


def test_epochs_go_round_without_zero() -> None:
    session = ClientShareSession(2**31 - 1)
    session.answered()
    assert session.epoch == 1


def test_the_last_request_closes_the_session() -> None:
    session = ClientShareSession(4)
    request = ShareAcknowledgeRequest("g", "m")
    session.fill_acknowledge(request, {A: [AcknowledgementBatch(1, 1, [2])]}, is_final=False)
    assert request.share_session_epoch == 4
    [topic] = request.topics
    assert [(row.partition_index, row.acknowledgement_batches) for row in topic.partitions] == [
        (0, [AcknowledgementBatch(1, 1, [2])])
    ]
    session.fill_acknowledge(request, {}, is_final=True)
    assert (request.share_session_epoch, request.topics) == (-1, [])
