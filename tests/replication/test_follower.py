"""Follower replica: transcripts of requests, answers and actions."""

from __future__ import annotations

import pytest

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.replication.actions import (
    AdvanceHighWatermark,
    AdvanceLogStart,
    AppendFetched,
    RestartAt,
    RestoreAt,
    TruncateTo,
)
from pylogbroker.replication.follower import (
    FetchedData,
    FetchFrom,
    FindEpochEnd,
    FollowerReplica,
    FollowerRequest,
    FollowerState,
    LeaderOffset,
    ListOffset,
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


def truncate(follower: FollowerReplica, log: ModelLog, offset: int) -> None:
    log.truncate_to(offset)
    follower.truncated()


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


def test_a_request_that_was_not_looked_at_is_repeated_at_once() -> None:
    follower = follower_of(log_of(1, 1))
    request = asked(follower)
    follower.not_answered(request)
    assert asked(follower) == request


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


# Truncation


@pytest.mark.parametrize(
    ("epochs", "diverging", "offset"),
    [
        ((1, 1, 2, 2), EpochEnd(1, 2), 2),  # the leader does not have epoch 2
        ((1, 1, 1, 1), EpochEnd(1, 3), 3),  # its epoch 1 is shorter
        ((1, 1, 3), EpochEnd(2, 5), 2),  # we do not have its epoch 2
        ((1, 1, 1, 1, 3), EpochEnd(2, 3), 3),  # nor agrees what we have of epoch 1 after it
        ((), EpochEnd(2, 3), 0),
        ((3, 3), EpochEnd(2, 1), 0),  # we have nothing up to epoch 2
    ],
)
def test_diverging_logs_are_cut_where_both_may_agree(epochs: tuple[int, ...], diverging: EpochEnd, offset: int) -> None:
    log = log_of(*epochs)
    follower = follower_of(log, 1)
    assert follower.fetched(asked(follower), data(9, diverging=diverging)) == (TruncateTo(offset),)
    assert follower.next_request(0) is None
    assert follower.high_watermark == min(1, offset)
    truncate(follower, log, offset)
    assert asked(follower) == FetchFrom(EPOCH, offset, epochs[0] if offset else -1, 0)


def test_a_cut_below_the_wanted_offset_lowers_the_high_watermark() -> None:
    log = log_of(1, 1, 1, 2)
    follower = follower_of(log, 3)
    follower.fetched(asked(follower), data(diverging=EpochEnd(1, 3)))
    truncate(follower, log, 2)  # where a batch begins
    assert follower.high_watermark == 2


def test_truncation_to_the_log_end_drops_an_epoch_without_records() -> None:
    log = log_of(1, 1)
    log.assign_epoch(4)
    follower = follower_of(log)
    request = asked(follower)
    assert request == FetchFrom(EPOCH, 2, 4, 0)
    assert follower.fetched(request, data(diverging=EpochEnd(1, 2))) == (TruncateTo(2),)
    truncate(follower, log, 2)
    assert asked(follower) == FetchFrom(EPOCH, 2, 1, 0)


def test_a_log_without_epochs_is_cut_to_the_high_watermark() -> None:
    log = log_of(-1, -1, -1)
    follower = FollowerReplica(log, EPOCH, ReplicationSettings(), 1)
    assert follower.begin() == (TruncateTo(1),)
    truncate(follower, log, 1)
    assert asked(follower) == FetchFrom(EPOCH, 1, -1, 0)


def test_before_ibp_27_the_end_is_looked_up_first() -> None:
    log = log_of(1, 1, 2, 2)
    follower = follower_of(log, before_ibp_27=True)
    request = asked(follower)
    assert request == FindEpochEnd(EPOCH, 2)
    assert follower.epoch_end_found(request, EpochEnd(2, 3)) == (TruncateTo(3),)
    truncate(follower, log, 3)
    assert asked(follower) == FetchFrom(EPOCH, 3, -1, 0)


def test_before_ibp_27_the_epoch_lookup_uses_the_local_epoch() -> None:
    log = log_of(1, 1, 3, 3)
    follower = follower_of(log, before_ibp_27=True)
    assert follower.epoch_end_found(asked(follower), EpochEnd(2, 4)) == (TruncateTo(2),)
    truncate(follower, log, 2)
    request = asked(follower)
    assert request == FindEpochEnd(EPOCH, 1)
    assert follower.epoch_end_found(request, EpochEnd(1, 1)) == (TruncateTo(1),)
    truncate(follower, log, 1)
    assert asked(follower) == FetchFrom(EPOCH, 1, -1, 0)


def test_before_ibp_27_an_unknown_end_means_the_high_watermark() -> None:
    follower = follower_of(log_of(1, 1), 1, before_ibp_27=True)
    assert follower.epoch_end_found(asked(follower), EpochEnd(-1, -1)) == (TruncateTo(1),)


# Out of range


def out_of_range(follower: FollowerReplica) -> FollowerRequest:
    follower.request_failed(asked(follower), ErrorCode.OFFSET_OUT_OF_RANGE, 0)
    request = asked(follower)
    assert request == ListOffset(EPOCH, LeaderOffset.LOG_END)
    return request


def test_a_longer_log_is_cut_to_the_leaders_end() -> None:
    log = log_of(1, 1, 1)
    follower = follower_of(log)
    assert follower.offset_listed(out_of_range(follower), 2) == (TruncateTo(2),)
    truncate(follower, log, 2)
    assert asked(follower) == FetchFrom(EPOCH, 2, 1, 0)


def test_a_log_that_ends_before_the_leaders_start_is_restarted_there() -> None:
    log = log_of(1)
    follower = follower_of(log)
    assert follower.offset_listed(out_of_range(follower), 9) == ()
    request = asked(follower)
    assert request == ListOffset(EPOCH, LeaderOffset.LOG_START)
    assert follower.offset_listed(request, 7) == (RestartAt(7),)
    log.restart_at(7)
    follower.truncated()
    assert follower.high_watermark == 7
    assert asked(follower) == FetchFrom(EPOCH, 7, -1, 7)


def moved_to_archive(follower: FollowerReplica) -> FollowerRequest:
    follower.request_failed(asked(follower), ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE, 0)
    request = asked(follower)
    assert request == ListOffset(EPOCH, LeaderOffset.LOCAL_START)
    return request


def test_a_log_that_ends_before_the_leaders_local_part_is_restored_there() -> None:
    log = log_of(1)
    follower = follower_of(log)
    assert follower.offset_listed(moved_to_archive(follower), 7) == (RestoreAt(7),)
    assert follower.next_request(0) is None
    log.restart_at(7)
    follower.truncated()
    assert asked(follower) == FetchFrom(EPOCH, 7, -1, 7)


def tiered_follower(log: ModelLog, *, is_on: bool = True) -> FollowerReplica:
    """Follower with `follower.fetch.last.tiered.offset.enable`, of an archived log."""
    log.is_archived = True
    settings = ReplicationSettings(replica_fetch_backoff_ms=BACKOFF_MS, begins_at_tiered_end=lambda: is_on)
    return FollowerReplica(log, EPOCH, settings, 0)


def answer_moved(follower: FollowerReplica) -> FollowerRequest:
    follower.request_failed(asked(follower), ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE, 0)
    return asked(follower)


def test_a_new_replica_may_begin_behind_the_last_archived_record() -> None:
    log = log_of()
    follower = tiered_follower(log)
    request = answer_moved(follower)
    assert request == ListOffset(EPOCH, LeaderOffset.LAST_TIERED)
    assert follower.offset_listed(request, 6) == (RestoreAt(7),)
    log.restart_at(7)
    follower.truncated()
    assert asked(follower) == FetchFrom(EPOCH, 7, -1, 7)


def test_a_new_replica_begins_at_the_local_start_if_the_leader_knows_no_archived_record() -> None:
    follower = tiered_follower(log_of())
    assert follower.offset_listed(answer_moved(follower), -1) == ()
    assert asked(follower) == ListOffset(EPOCH, LeaderOffset.LOCAL_START)


def test_a_replica_with_records_begins_at_the_leaders_local_start() -> None:
    assert answer_moved(tiered_follower(log_of(1))) == ListOffset(EPOCH, LeaderOffset.LOCAL_START)
    assert answer_moved(tiered_follower(log_of(), is_on=False)) == ListOffset(EPOCH, LeaderOffset.LOCAL_START)


def test_a_failed_restoration_is_tried_again() -> None:
    follower = tiered_follower(log_of())
    assert follower.offset_listed(answer_moved(follower), 6) == (RestoreAt(7),)
    follower.restore_failed(0)
    assert asked(follower, BACKOFF_MS) == FetchFrom(EPOCH, 0, -1, 0)


def test_a_log_within_the_leaders_local_part_is_fetched_on() -> None:
    follower = follower_of(log_of(1, 1))
    assert follower.offset_listed(moved_to_archive(follower), 2) == ()
    assert asked(follower) == FetchFrom(EPOCH, 2, 1, 0)


def test_a_log_that_could_not_be_restored_is_fetched_again_later() -> None:
    follower = follower_of(log_of(1))
    assert follower.offset_listed(moved_to_archive(follower), 7) == (RestoreAt(7),)
    follower.restore_failed(0)
    assert follower.next_request(BACKOFF_MS - 1) is None
    assert asked(follower, BACKOFF_MS) == FetchFrom(EPOCH, 1, 1, 0)


def test_a_log_within_the_leaders_is_fetched_on() -> None:
    follower = follower_of(log_of(1, 1))
    assert follower.offset_listed(out_of_range(follower), 9) == ()
    assert follower.offset_listed(asked(follower), 2) == ()
    assert asked(follower) == FetchFrom(EPOCH, 2, 1, 0)


# Errors


def test_a_fenced_follower_waits_for_the_next_state() -> None:
    follower = follower_of(log_of(1))
    follower.request_failed(asked(follower), ErrorCode.FENCED_LEADER_EPOCH, 0)
    assert follower.state is FollowerState.FENCED
    assert follower.next_request(10 * BACKOFF_MS) is None


@pytest.mark.parametrize("error", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NETWORK_EXCEPTION])
def test_other_errors_are_retried_later(error: ErrorCode) -> None:
    follower = follower_of(log_of(1))
    request = asked(follower)
    follower.request_failed(request, error, 100)
    assert follower.retry_at_ms == 100 + BACKOFF_MS
    assert follower.next_request(99 + BACKOFF_MS) is None
    assert asked(follower, 100 + BACKOFF_MS) == request


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
)
def test_a_leader_that_has_not_heard_of_its_epoch_is_asked_again_soon(error: ErrorCode) -> None:
    follower = follower_of(log_of(1))
    now_ms, pauses = 100, []
    for _ in range(9):
        request = asked(follower, now_ms)
        follower.request_failed(request, error, now_ms)
        assert follower.retry_at_ms is not None
        assert follower.next_request(follower.retry_at_ms - 1) is None
        pauses.append(follower.retry_at_ms - now_ms)
        now_ms = follower.retry_at_ms
    assert pauses == [10, 20, 40, 80, 160, 320, 640, BACKOFF_MS, BACKOFF_MS]


def test_a_short_backoff_is_the_longest_pause() -> None:
    follower = FollowerReplica(log_of(1), EPOCH, ReplicationSettings(replica_fetch_backoff_ms=3), 0)
    follower.request_failed(asked(follower), ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)
    assert follower.retry_at_ms == 3


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


def test_consumers_read_from_the_log_start_and_wait_up_to_the_log_end() -> None:
    log = log_of(1, 1, 1, 1)
    log.start_at(1)
    follower = follower_of(log, 3)
    for offset in (1, 3, 4):
        follower.check_read(offset)
    for offset, code in ((0, ErrorCode.OFFSET_OUT_OF_RANGE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)):
        with pytest.raises(KafkaError) as caught:
            follower.check_read(offset)
        assert caught.value.code is code


def test_the_lag_ends_at_the_leaders_high_watermark() -> None:
    log = log_of(EPOCH, EPOCH)
    follower = follower_of(log)
    assert follower.lag == 0  # the leader has not answered yet
    follower.fetched(asked(follower), data(7))
    assert follower.lag == 5
    log.append([(EPOCH, value) for value in range(5)])
    assert follower.lag == 0
