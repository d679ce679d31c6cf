"""Share sessions: epochs, the limit, and their end with the connection."""

from __future__ import annotations

from uuid import UUID

import pytest

from pylogbroker.config.value_kinds import INT_MAX
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.share.sessions import FINAL_EPOCH, ShareSession, ShareSessions

CONNECTION = "connection"
ONE, TWO = (UUID(int=1), 0), (UUID(int=1), 1)


@pytest.fixture
def sessions() -> ShareSessions:
    return ShareSessions(sessions_max=2)


def opened(sessions: ShareSessions, member: str = "member", connection: str = CONNECTION) -> ShareSession:
    session = sessions.open("group", member, connection)
    assert isinstance(session, ShareSession)
    return session


def test_epochs_follow_each_other(sessions: ShareSessions) -> None:
    session = opened(sessions)
    for epoch in (1, 2, 3):
        assert sessions.go_on("group", "member", CONNECTION, epoch) is session


@pytest.mark.parametrize("epoch", [0, 2, 5, -2])
def test_another_epoch_is_rejected(sessions: ShareSessions, epoch: int) -> None:
    session = opened(sessions)
    assert sessions.go_on("group", "member", CONNECTION, epoch) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert sessions.go_on("group", "member", CONNECTION, 1) is session


def test_epoch_begins_again_after_the_largest(sessions: ShareSessions) -> None:
    session = opened(sessions)
    session.next_epoch = INT_MAX
    assert sessions.go_on("group", "member", CONNECTION, INT_MAX) is session
    assert sessions.go_on("group", "member", CONNECTION, 1) is session


def test_session_of_another_connection_is_not_found(sessions: ShareSessions) -> None:
    opened(sessions)
    assert sessions.go_on("group", "member", "another", 1) is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert sessions.go_on("group", "stranger", CONNECTION, 1) is ErrorCode.SHARE_SESSION_NOT_FOUND


def test_final_request_finds_the_session_until_it_is_closed(sessions: ShareSessions) -> None:
    session = opened(sessions)
    assert sessions.go_on("group", "member", CONNECTION, FINAL_EPOCH) is session
    sessions.close(session)
    assert sessions.go_on("group", "member", CONNECTION, FINAL_EPOCH) is ErrorCode.SHARE_SESSION_NOT_FOUND


def test_sessions_above_the_limit_are_rejected(sessions: ShareSessions) -> None:
    first = opened(sessions, "first")
    opened(sessions, "second")
    assert sessions.open("group", "third", CONNECTION) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    sessions.close(first)
    opened(sessions, "third")


def test_lost_connection_ends_its_sessions_alone(sessions: ShareSessions) -> None:
    lost = opened(sessions, "first")
    kept = opened(sessions, "second", "another")
    assert sessions.close_connection(CONNECTION) == [lost]
    assert sessions.close_connection(CONNECTION) == []
    assert sessions.find("group", "second") is kept
    assert len(sessions) == 1


def test_partitions_are_added_forgotten_and_rotated(sessions: ShareSessions) -> None:
    session = opened(sessions)
    session.update([ONE, TWO, ONE], [])
    assert list(session.partitions) == [ONE, TWO]
    session.rotate(ONE)
    assert list(session.partitions) == [TWO, ONE]
    session.update([], [TWO, (UUID(int=9), 9)])
    assert list(session.partitions) == [ONE]
    session.rotate(TWO)
    assert list(session.partitions) == [ONE]
