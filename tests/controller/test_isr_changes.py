"""AlterPartition: which request is accepted, and which error comes first."""

from __future__ import annotations

import attrs
import pytest

from pylogbroker.controller import isr_changes
from pylogbroker.controller.isr_changes import WantedIsr
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.image import BrokerRegistration, LeaderRecovery, PartitionState

STATE = PartitionState(leader=1, replicas=(1, 2, 3), isr=(1, 2), leader_epoch=4, partition_epoch=7)
RECOVERING = LeaderRecovery.RECOVERING
LIVE = {1: 10, 2: 20, 4: 40}


def code(change: WantedIsr, state: PartitionState = STATE, sender: int = 1) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        isr_changes.altered(state, change, sender, LIVE)
    return raised.value.code


def test_the_isr_changes_and_the_epoch_stays() -> None:
    change = WantedIsr(leader_epoch=4, partition_epoch=7, isr=(1,))
    assert isr_changes.altered(STATE, change, 1, LIVE) == attrs.evolve(STATE, isr=(1,))
    grown = WantedIsr(leader_epoch=4, partition_epoch=7, isr=(1, 2, 3))
    assert isr_changes.altered(STATE, grown, 1, LIVE | {3: 30}) == attrs.evolve(STATE, isr=(1, 2, 3))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (WantedIsr(5, 7, (1,)), ErrorCode.NOT_CONTROLLER),
        (WantedIsr(4, 8, (1,)), ErrorCode.NOT_CONTROLLER),
        (WantedIsr(3, 8, (1,)), ErrorCode.NOT_CONTROLLER),  # ahead in one epoch, behind in the other
        (WantedIsr(3, 7, (1,)), ErrorCode.FENCED_LEADER_EPOCH),
        (WantedIsr(3, 6, (1, 2)), ErrorCode.FENCED_LEADER_EPOCH),  # also if the ISR is the present one
        (WantedIsr(4, 6, (1,)), ErrorCode.INVALID_UPDATE_VERSION),
        (WantedIsr(4, 6, (1, 3)), ErrorCode.INVALID_UPDATE_VERSION),  # before its members are looked at
        (WantedIsr(4, 7, (1, 3)), ErrorCode.INELIGIBLE_REPLICA),
        (WantedIsr(4, 7, (1, 4)), ErrorCode.INVALID_REQUEST),  # live, but no replica
        (WantedIsr(4, 7, (2,)), ErrorCode.INVALID_REQUEST),
        (WantedIsr(4, 7, ()), ErrorCode.INVALID_REQUEST),
        (WantedIsr(4, 7, (1, 2, 2)), ErrorCode.INVALID_REQUEST),
        (WantedIsr(4, 7, (1,), RECOVERING), ErrorCode.INVALID_REQUEST),
    ],
)
def test_errors(change: WantedIsr, expected: ErrorCode) -> None:
    assert code(change) is expected


@pytest.mark.parametrize("partition_epoch", [6, 7])
def test_a_repeated_request_succeeds(partition_epoch: int) -> None:
    assert isr_changes.altered(STATE, WantedIsr(4, partition_epoch, (1, 2)), 1, {}) is STATE


def test_another_sender() -> None:
    assert code(WantedIsr(4, 7, (1, 2)), sender=2) is ErrorCode.INVALID_REQUEST


def test_the_end_of_a_recovery() -> None:
    state = attrs.evolve(STATE, isr=(1,), recovery=RECOVERING)
    recovered = attrs.evolve(state, recovery=LeaderRecovery.RECOVERED)
    assert isr_changes.altered(state, WantedIsr(4, 7, (1,)), 1, {1: 10}) == recovered
    assert code(WantedIsr(4, 7, (1, 2), RECOVERING), state) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("epoch", "joins"), [(30, True), (-1, True), (29, False), (31, False)])
def test_a_broker_joins_in_the_life_in_which_it_fetched(epoch: int, joins: bool) -> None:
    change = WantedIsr(4, 7, (1, 2, 3), broker_epochs={1: -1, 2: 19, 3: epoch})  # 2 is a member, also after a restart
    if joins:
        assert isr_changes.altered(STATE, change, 1, LIVE | {3: 30}).isr == (1, 2, 3)
    else:
        with pytest.raises(KafkaError) as raised:
            isr_changes.altered(STATE, change, 1, LIVE | {3: 30})
        assert raised.value.code is ErrorCode.INELIGIBLE_REPLICA


@pytest.mark.parametrize(
    ("broker", "epoch", "is_known"), [(1, 10, True), (1, 9, False), (1, 11, False), (2, 10, False)]
)
def test_the_sender_is_registered(broker: int, epoch: int, is_known: bool) -> None:
    brokers = {1: BrokerRegistration(1, 10)}
    if is_known:
        isr_changes.check_sender(brokers, broker, epoch)
    else:
        with pytest.raises(KafkaError) as raised:
            isr_changes.check_sender(brokers, broker, epoch)
        assert raised.value.code is ErrorCode.STALE_BROKER_EPOCH
