"""Leader replica: checks of requests, and answers."""

from __future__ import annotations

import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import BrokerRegistration
from pylogbroker.replication.follower_fetch import FollowerFetch
from pylogbroker.replication.log import EpochEnd
from tests.replication.leaders import Leader, code_of, live, log_of


@pytest.mark.parametrize(("epoch", "code"), [(4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)])
def test_other_leader_epochs_are_rejected(epoch: int, code: ErrorCode) -> None:
    leader = Leader(log_of(1)).replica
    assert code_of(leader.fetch, FollowerFetch(2, epoch, 1), 0) is code
    assert code_of(leader.check_leader_epoch, epoch) is code
    leader.check_leader_epoch(-1)


@pytest.mark.parametrize("offset", [1, 5])
def test_a_fetch_beyond_the_log_is_out_of_range(offset: int) -> None:
    log = log_of(1, 1, 1, 1)
    log.start_at(2)
    assert code_of(Leader(log).fetch, 2, offset) is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("last_epoch", "offset", "diverging"),
    [
        (3, 4, None),
        (3, 5, EpochEnd(3, 4)),  # the same epoch ended earlier here
        (2, 4, EpochEnd(1, 2)),  # an epoch that is missing here
        (1, 2, None),
        (1, 3, EpochEnd(1, 2)),
    ],
)
def test_a_fetch_shows_where_the_logs_diverge(last_epoch: int, offset: int, diverging: EpochEnd | None) -> None:
    leader = Leader(log_of(1, 1, 3, 3), isr=(1, 2))
    outcome = leader.fetch(2, offset, last_epoch)
    assert outcome.diverging == diverging
    assert leader.replica.high_watermark == (0 if diverging else offset)


def test_a_fetch_before_the_log_start_is_out_of_range_not_diverging() -> None:
    log = log_of(1, 1, 1, 3)
    log.start_at(2)
    assert code_of(Leader(log).fetch, 2, 1, 2) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_fetch_with_an_epoch_after_ours_is_out_of_range() -> None:
    assert code_of(Leader(log_of(1)).fetch, 2, 1, 6) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_acks_all_needs_enough_replicas() -> None:
    leader = Leader(log_of(), isr=(1, 2), min_insync=3).replica
    assert code_of(leader.check_enough_replicas) is ErrorCode.NOT_ENOUGH_REPLICAS
    leader.isr_altered((1, 2, 3), 21, 0)
    leader.check_enough_replicas()


def test_acks_all_never_needs_more_replicas_than_there_are() -> None:
    Leader(log_of(), isr=(1, 2), min_insync=3, replicas=(1, 2)).replica.check_enough_replicas()


def test_acks_all_completes_at_the_high_watermark() -> None:
    leader = Leader(log_of(), isr=(1, 2), min_insync=2, replicas=(1, 2))
    leader.append()
    assert leader.replica.completion(1) is None
    leader.fetch(2, 1)
    assert leader.replica.completion(1) is ErrorCode.NONE


def test_acks_all_fails_after_the_append_if_the_isr_shrinks() -> None:
    leader = Leader(log_of(), isr=(1, 2), min_insync=2)
    leader.append()
    leader.fetch(2, 1)
    leader.replica.isr_altered((1,), 21, 0)
    assert leader.replica.completion(1) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_the_latest_offset_needs_a_high_watermark_in_this_epoch() -> None:
    leader = Leader(log_of(1, 1), isr=(1, 2), high_watermark=1)
    assert code_of(leader.replica.check_offsets_available) is ErrorCode.OFFSET_NOT_AVAILABLE
    leader.fetch(2, 2)
    leader.replica.check_offsets_available()


def test_the_low_watermark_is_that_of_live_replicas() -> None:
    log = log_of(1, 1, 1)
    log.start_at(2)
    leader = Leader(log)
    assert leader.replica.low_watermark == -1
    leader.fetch(2, 3, start=1)
    leader.replica.brokers_changed(live(1, 2), 0)
    assert leader.replica.low_watermark == 1
    leader.fetch(2, 3, start=2)
    assert leader.replica.low_watermark == 2


@pytest.mark.parametrize(
    ("rack", "offset", "chosen"),
    [("", 1, None), ("a", 1, None), ("b", 1, 2), ("b", 2, 3), ("b", 4, None), ("c", 1, None)],
)
def test_consumers_read_from_the_most_caught_up_replica_in_their_rack(
    rack: str, offset: int, chosen: int | None
) -> None:
    leader = Leader(log_of(1, 1, 1))
    racks = {1: "a", 2: "b", 3: "b"}
    brokers = {broker: BrokerRegistration(broker, 1, rack=racks[broker]) for broker in racks}
    leader.replica.brokers_changed(brokers, 0)
    leader.fetch(2, 2, broker_epoch=1)
    leader.fetch(3, 3, start=2, broker_epoch=1)
    assert leader.replica.preferred_read_replica(offset, rack, 0) == chosen


def test_consumers_do_not_read_from_replicas_out_of_sync() -> None:
    leader = Leader(log_of(1), isr=(1,))
    leader.replica.brokers_changed({2: BrokerRegistration(2, 1, rack="b")}, 0)
    leader.fetch(2, 0, broker_epoch=1)
    assert leader.replica.preferred_read_replica(0, "b", 0) is None
