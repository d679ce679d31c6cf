"""Follower replica: transcripts of requests, answers and actions."""

from __future__ import annotations

import pytest

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.replication.actions import (
    AdvanceHighWatermark,
    AdvanceLogStart,
    AppendFetched,
)
from pylogbroker.replication.follower import (
    FetchedData,
    FetchFrom,
    FollowerReplica,
    FollowerRequest,
    FollowerState,
)
from pylogbroker.replication.log import EpochEnd
from pylogbroker.replication.settings import ReplicationSettings
from tests.replication.model_log import ModelLog

EPOCH = 5
BACKOFF_MS = 1_000


def log_of(*epochs: int, flushes: bool = False) -> ModelLog:
    log = ModelLog(flushes)
    log.append([(epoch, value) for value, epoch in enumerate(epochs)])
    log.sync()
    return log


def follower_of(log: ModelLog, high_watermark: int = 0, *, before_ibp_27: bool = False) -> FollowerReplica:
    settings = ReplicationSettings(replica_fetch_backoff_ms=BACKOFF_MS, truncates_on_fetch=not before_ibp_27)
    follower = FollowerReplica(log, EPOCH, settings, high_watermark)
    assert follower.begin() == ()
    return follower


def asked(follower: FollowerReplica, now_ms: int = 0) -> FollowerRequest:
    request = follower.next_request(now_ms)
    assert request is not None
    assert follower.next_request(now_ms) is None  # one is in flight
    return request


def data(
    high_watermark: int = 0, start: int = 0, records: bool = False, diverging: EpochEnd | None = None
) -> FetchedData:
    return FetchedData(high_watermark, start, records, diverging)


# Fetching


def test_records_are_appended_before_the_high_watermark_rises() -> None:
    log = log_of(1, 1)
    follower = follower_of(log)
    request = asked(follower)
    assert request == FetchFrom(EPOCH, 2, 1, 0)
    assert follower.fetched(request, data(9, records=True)) == (AppendFetched(),)
    assert follower.next_request(0) is None
    log.append([(5, 2)])
    assert follower.appended() == (AdvanceHighWatermark(3),)
    assert asked(follower) == FetchFrom(EPOCH, 3, 5, 0)


def test_an_empty_answer_keeps_the_last_epoch() -> None:
    follower = follower_of(log_of(1, 1))
    assert follower.fetched(asked(follower), data(1)) == (AdvanceHighWatermark(1),)
    assert asked(follower) == FetchFrom(EPOCH, 2, 1, 0)


def test_the_high_watermark_does_not_fall_with_that_of_a_new_leader() -> None:
    follower = follower_of(log_of(1, 1), 2)
    assert follower.fetched(asked(follower), data(1)) == ()
    assert follower.high_watermark == 2


def test_the_log_start_rises_first() -> None:
    follower = follower_of(log_of(1, 1, 1))
    actions = follower.fetched(asked(follower), data(3, start=2))
    assert actions == (AdvanceLogStart(2), AdvanceHighWatermark(3))


def test_the_next_fetch_waits_for_the_sync() -> None:
    log = log_of(1, flushes=True)
    follower = follower_of(log)
    follower.fetched(asked(follower), data(1, records=True))
    log.append([(5, 1)])
    follower.appended()
    assert follower.state is FollowerState.SYNCING
    follower.synced()
    assert follower.next_request(0) is None
    log.sync()
    follower.synced()
    assert asked(follower) == FetchFrom(EPOCH, 2, 5, 0)


def test_the_first_fetch_waits_for_the_sync_too() -> None:
    log = log_of(1, flushes=True)
    log.append([(1, 1)])
    assert follower_of(log).next_request(0) is None


def test_an_answer_to_another_request_is_ignored() -> None:
    follower = follower_of(log_of(1))
    first = asked(follower)
    follower.request_failed(first, ErrorCode.NETWORK_EXCEPTION, 0)
    second = asked(follower, BACKOFF_MS)
    assert second == first
    assert follower.fetched(first, data(1)) == ()
    assert follower.fetched(second, data(1)) == (AdvanceHighWatermark(1),)
    assert follower.fetched(second, data(1, start=1)) == ()


# Errors


def test_a_fenced_follower_waits_for_the_next_state() -> None:
    follower = follower_of(log_of(1))
    follower.request_failed(asked(follower), ErrorCode.FENCED_LEADER_EPOCH, 0)
    assert follower.state is FollowerState.FENCED
    assert follower.next_request(10 * BACKOFF_MS) is None


@pytest.mark.parametrize(
    "error", [ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NETWORK_EXCEPTION]
)
def test_other_errors_are_retried_later(error: ErrorCode) -> None:
    follower = follower_of(log_of(1))
    request = asked(follower)
    follower.request_failed(request, error, 100)
    assert follower.retry_at_ms == 100 + BACKOFF_MS
    assert follower.next_request(99 + BACKOFF_MS) is None
    assert asked(follower, 100 + BACKOFF_MS) == request


def test_a_failed_append_is_fetched_again_later() -> None:
    follower = follower_of(log_of(1))
    request = asked(follower)
    follower.fetched(request, data(records=True))
    follower.append_failed(0)
    assert follower.next_request(0) is None
    assert asked(follower, BACKOFF_MS) == request


def test_a_failed_log_is_not_fetched() -> None:
    follower = follower_of(log_of(1))
    request = asked(follower)
    follower.log_failed()
    assert follower.fetched(request, data(1)) == ()
    assert follower.next_request(10 * BACKOFF_MS) is None


# Consumers


def test_consumers_read_from_the_log_start_to_the_high_watermark() -> None:
    log = log_of(1, 1, 1, 1)
    log.start_at(1)
    follower = follower_of(log, 3)
    follower.check_read(1)
    follower.check_read(3)
    for offset, code in ((0, ErrorCode.OFFSET_OUT_OF_RANGE), (4, ErrorCode.OFFSET_NOT_AVAILABLE)):
        with pytest.raises(KafkaError) as caught:
            follower.check_read(offset)
        assert caught.value.code is code
