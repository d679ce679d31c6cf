"""Leader replica: high watermark and in-sync replicas, one rule in each test."""

from __future__ import annotations

from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import PartitionState
from pylogbroker.replication.actions import AdvanceHighWatermark, AlterIsr, AssignEpoch, IsrChange
from pylogbroker.replication.leader import ISR_RETRY_MS
from tests.replication.leaders import EPOCH, LAG_MS, Leader, code_of, live, log_of

# High watermark


def test_leadership_begins_an_epoch_and_keeps_the_high_watermark() -> None:
    leader = Leader(log_of(1, 1))
    assert leader.begun == (AssignEpoch(EPOCH),)
    assert leader.replica.epoch_start_offset == 2


def test_an_isr_of_one_raises_the_high_watermark_at_once() -> None:
    leader = Leader(log_of(1, 1), isr=(1,), replicas=(1,))
    assert leader.begun == (AssignEpoch(EPOCH), AdvanceHighWatermark(2))
    assert leader.append() == (AdvanceHighWatermark(3),)


def test_the_high_watermark_is_the_smallest_offset_of_the_isr() -> None:
    leader = Leader(log_of(1, 1, 1))
    assert leader.fetch(2, 3).actions == ()
    assert leader.fetch(3, 1).actions == (AdvanceHighWatermark(1),)
    assert leader.fetch(3, 3).actions == (AdvanceHighWatermark(3),)


def test_the_high_watermark_never_falls() -> None:
    leader = Leader(log_of(1, 1, 1), isr=(1, 2), high_watermark=2)
    assert leader.fetch(2, 1).actions == ()
    assert leader.replica.high_watermark == 2


def test_a_leader_counts_only_synced_records() -> None:
    log = log_of(1, flushes=True)
    leader = Leader(log, isr=(1, 2), high_watermark=1)
    leader.append()
    assert leader.fetch(2, 2).actions == ()
    log.sync()
    assert leader.replica.log_advanced(0) == (AdvanceHighWatermark(2),)


def test_the_high_watermark_stays_below_min_insync_replicas() -> None:
    leader = Leader(log_of(1), isr=(1,), min_insync=2)
    leader.replica.brokers_changed({}, 0)
    assert leader.append() == ()
    leader.replica.isr_altered((1, 2), 21, 0)
    assert leader.fetch(2, 2).actions == (AdvanceHighWatermark(2),)


def test_the_high_watermark_waits_for_a_follower_about_to_join() -> None:
    leader = Leader(log_of(), isr=(1, 2))
    leader.fetch(3, 0, now_ms=0)  # proposes to add 3
    assert leader.replica.isr.pending is not None
    leader.replica.isr_change_failed(leader.replica.isr.pending, ErrorCode.INELIGIBLE_REPLICA, 0)
    leader.append()
    assert leader.fetch(2, 1, now_ms=1).actions == ()
    assert leader.replica.brokers_changed(live(1, 2), 1) == (AdvanceHighWatermark(1),)


# In-sync replicas


def expansion(*isr: int, broker_epochs: tuple[int, ...]) -> AlterIsr:
    return AlterIsr(IsrChange(EPOCH, 20, isr, broker_epochs))


def test_a_follower_with_all_committed_records_joins_the_isr() -> None:
    leader = Leader(log_of(1, 1), isr=(1, 2), high_watermark=2)
    assert leader.fetch(3, 1, broker_epoch=30).actions == ()
    assert leader.fetch(3, 2, broker_epoch=30).actions == (expansion(1, 2, 3, broker_epochs=(-1, -1, 30)),)


def test_a_follower_below_the_epoch_start_does_not_join() -> None:
    leader = Leader(log_of(1, 1), isr=(1, 2), high_watermark=0)
    assert leader.fetch(3, 1).actions == ()


def test_a_follower_with_records_before_the_log_start_must_wait() -> None:
    log = log_of(1, 1)
    log.start_at(1)
    leader = Leader(log, isr=(1, 2), high_watermark=2)
    assert leader.fetch(3, 2, start=0).actions == ()
    assert leader.fetch(3, 2, start=1).actions == (expansion(1, 2, 3, broker_epochs=(-1, -1, -1)),)


def test_a_dead_follower_does_not_join() -> None:
    leader = Leader(log_of(), isr=(1, 2))
    leader.replica.brokers_changed(live(1, 2), 0)
    assert leader.fetch(3, 0).actions == ()


def test_a_fetch_of_a_former_life_is_rejected() -> None:
    leader = Leader(log_of(), isr=(1, 2))
    assert code_of(leader.fetch, 3, 0, -1, 0, 0, 29) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_follower_joins_in_a_life_that_is_not_known_yet() -> None:
    """Brokers are registered without their epochs in ZooKeeper mode."""
    leader = Leader(log_of(), isr=(1, 2))
    assert leader.fetch(3, 0, broker_epoch=31).actions == (expansion(1, 2, 3, broker_epochs=(-1, -1, 31)),)


def test_one_change_is_in_flight() -> None:
    leader = Leader(log_of(), isr=(1,))
    assert leader.fetch(2, 0).actions == (expansion(1, 2, broker_epochs=(-1, -1)),)
    assert leader.fetch(3, 0).actions == ()
    leader.replica.isr_altered((1, 2), 21, 0)
    assert leader.fetch(3, 0).actions == (AlterIsr(IsrChange(EPOCH, 21, (1, 2, 3), (-1, -1, -1))),)


def test_a_member_of_the_isr_that_is_no_replica_leaves_with_the_next_change() -> None:
    """A controller of Apache Kafka leaves one if it dies while it cancels a reassignment."""
    leader = Leader(log_of(), isr=(1, 9), replicas=(1, 2))
    assert leader.fetch(2, 0).actions == (expansion(1, 2, broker_epochs=(-1, -1)),)


def test_a_lagging_follower_leaves_the_isr_once_confirmed() -> None:
    leader = Leader(log_of())
    leader.append()
    leader.fetch(2, 1, now_ms=LAG_MS)
    assert leader.replica.tick(LAG_MS) == ()
    assert leader.replica.tick(LAG_MS + 1) == (expansion(1, 2, broker_epochs=(-1, -1)),)
    assert leader.replica.high_watermark == 0
    assert leader.replica.isr_altered((1, 2), 21, LAG_MS + 1) == (AdvanceHighWatermark(1),)


def test_no_follower_leaves_while_a_change_is_in_flight() -> None:
    leader = Leader(log_of(), isr=(1, 2))
    leader.fetch(3, 0)
    leader.append()
    assert leader.replica.tick(LAG_MS + 1) == ()


def test_a_follower_that_reads_on_is_in_sync_though_never_at_the_end() -> None:
    leader = Leader(log_of(), isr=(1, 2), replicas=(1, 2))
    for step in range(1, 6):
        leader.append(now_ms=step * LAG_MS // 2)
        leader.fetch(2, step - 1, now_ms=step * LAG_MS // 2)
        assert leader.replica.tick(step * LAG_MS // 2) == ()


def test_a_change_with_unknown_outcome_is_sent_again() -> None:
    leader = Leader(log_of(), isr=(1, 2))
    leader.fetch(3, 0)
    change = leader.replica.isr.pending
    assert change is not None
    again = leader.replica.isr_change_failed(change, ErrorCode.NETWORK_EXCEPTION, 0)
    assert again == (AlterIsr(change, ISR_RETRY_MS),)


def test_a_state_of_the_same_epoch_replaces_isr_and_assignment() -> None:
    leader = Leader(log_of(), isr=(1, 2), replicas=(1, 2))
    leader.append()
    state = PartitionState(1, (1, 3), (1,), EPOCH, 21)
    assert leader.replica.update(state, 0) == (AdvanceHighWatermark(1),)
    assert code_of(leader.fetch, 2, 0) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert leader.replica.update(PartitionState(1, (1,), (1, 2), EPOCH, 21), 0) == ()
    assert leader.replica.isr.committed == (1,)


def test_an_update_in_the_same_epoch_keeps_follower_offsets() -> None:
    leader = Leader(log_of(1))
    leader.fetch(2, 1)
    assert leader.replica.update(PartitionState(1, (1, 2, 3), (1, 2, 3), EPOCH, 21), 0) == ()
    assert leader.fetch(3, 1).actions == (AdvanceHighWatermark(1),)


def test_a_replica_that_was_removed_is_unknown_when_it_comes_again() -> None:
    leader = Leader(log_of(), isr=(1,), replicas=(1, 2))
    leader.fetch(2, 0, start=0)
    leader.replica.update(PartitionState(1, (1,), (1,), EPOCH, 21), 0)
    leader.replica.update(PartitionState(1, (1, 2), (1, 2), EPOCH, 22), 0)
    assert leader.append() == ()
