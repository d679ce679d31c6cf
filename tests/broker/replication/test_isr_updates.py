"""AlterPartition requests: what leaders propose, and what they get as answers."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from pylogbroker.broker.replication.isr_updates import IsrUpdates
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.inter_broker_protocol import InterBrokerProtocol
from pylogbroker.replication import IsrChange
from pylogbroker.rpc.errors import NotConnected
from pylogbroker.wire import NO_ID, Request
from pylogbroker.wire.messages.alter_partition import (
    AlterPartitionDataResponse,
    AlterPartitionResponse,
    AlterPartitionTopicResponse,
)
from tests.broker.nodes import Threads

TOPIC_ID = uuid.UUID(int=5)


@attrs.define(eq=False)
class AskedController:
    """Keeps requests, with the Deferred of the answer and the versions that are offered."""

    asked: list[tuple[Any, Deferred[Any], Sequence[int]]] = attrs.field(factory=list)

    def request(self, make: Callable[[int], Request], versions: Sequence[int]) -> Deferred[Any]:
        answer: Deferred[Any] = Deferred()
        self.asked.append((make(versions[0]), answer, versions))
        return answer


class Leader:
    """Part of a Leadership: notes answers."""

    def __init__(self, index: int, topic_id: uuid.UUID = TOPIC_ID) -> None:
        self.partition = SimpleNamespace(topic="t", index=index, replication=self)
        self.topic_id = topic_id
        self.leader = SimpleNamespace(isr=SimpleNamespace(pending=None, committed=(1,)))
        self.answers: list[Any] = []

    def change(self, *isr: int) -> IsrChange:
        self.leader.isr.pending = change = IsrChange(3, 4, isr, tuple(10 * each for each in isr))
        return change

    def isr_altered(self, isr: tuple[int, ...], partition_epoch: int) -> None:
        self.answers.append((isr, partition_epoch))

    def isr_change_failed(self, change: IsrChange, error: ErrorCode) -> None:
        self.answers.append(error)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def controller() -> AskedController:
    return AskedController()


@pytest.fixture
def updates(clock: Clock, controller: AskedController) -> Any:
    threads = Threads()
    runtime = Runtime.on(clock, threads, threads)
    any_controller: Any = controller
    return IsrUpdates(1, lambda: 77, any_controller, InterBrokerProtocol.parse("3.9"), runtime)


def granted(index: int, *isr: int) -> AlterPartitionDataResponse:
    return AlterPartitionDataResponse(index, ErrorCode.NONE, 1, 3, list(isr), partition_epoch=5)


def response(*partitions: AlterPartitionDataResponse) -> AlterPartitionResponse:
    return AlterPartitionResponse(topics=[AlterPartitionTopicResponse("", TOPIC_ID, list(partitions))])


def test_proposals_share_a_request_and_each_gets_its_answer(
    updates: Any, clock: Clock, controller: AskedController
) -> None:
    first, second, third = Leader(0), Leader(1), Leader(2)
    for each in (first, second, third):
        updates.propose(each, each.change(1, 2), 0)
    clock.advance(0)
    [(request, answer, versions)] = controller.asked
    assert (request.broker_id, request.broker_epoch, list(versions)) == (1, 77, [3, 2, 1, 0])
    [topic] = request.topics
    sent = [
        (
            each.partition_index,
            each.leader_epoch,
            each.partition_epoch,
            [(isr.broker_id, isr.broker_epoch) for isr in each.new_isr_with_epochs],
        )
        for each in topic.partitions
    ]
    assert (topic.topic_id, sent) == (TOPIC_ID, [(index, 3, 4, [(1, 10), (2, 20)]) for index in range(3)])
    failed = AlterPartitionDataResponse(1, ErrorCode.INVALID_UPDATE_VERSION)
    answer.callback(response(granted(0, 1, 2), failed))
    assert first.answers == [((1, 2), 5)]
    assert second.answers == [ErrorCode.INVALID_UPDATE_VERSION]
    assert third.answers == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert (updates.shrinks, updates.expands) == (0, 1)


def test_a_leader_that_fails_does_not_keep_others_from_their_answers(
    updates: Any, clock: Clock, controller: AskedController, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Leader(0), Leader(1)
    monkeypatch.setattr(first, "isr_altered", lambda isr, partition_epoch: 1 // 0)
    for each in (first, second):
        updates.propose(each, each.change(1, 2), 0)
    clock.advance(0)
    with capturedLogs() as events:
        controller.asked[0][1].callback(response(granted(0, 1, 2), granted(1, 1, 2)))
    assert second.answers == [((1, 2), 5)]
    [failure] = [event["log_failure"] for event in events if "log_failure" in event]
    assert failure.check(ZeroDivisionError)


def test_a_smaller_isr_is_counted(updates: Any, clock: Clock, controller: AskedController) -> None:
    leader = Leader(0)
    leader.leader.isr.committed = (1, 2)
    updates.propose(leader, leader.change(1), 0)
    clock.advance(0)
    controller.asked[0][1].callback(response(granted(0, 1)))
    assert (updates.shrinks, updates.expands) == (1, 0)


def test_one_request_is_in_flight(updates: Any, clock: Clock, controller: AskedController) -> None:
    first, second = Leader(0), Leader(1)
    updates.propose(first, first.change(1), 0)
    clock.advance(0)
    updates.propose(second, second.change(1), 0)
    clock.advance(0)
    assert len(controller.asked) == 1
    controller.asked[0][1].callback(response(granted(0, 1)))
    assert [each.partition_index for each in controller.asked[1][0].topics[0].partitions] == [1]


def test_without_topic_ids_the_version_is_older(updates: Any, clock: Clock, controller: AskedController) -> None:
    leader = Leader(0, NO_ID)
    updates.propose(leader, leader.change(1, 2), 0)
    clock.advance(0)
    [(request, answer, versions)] = controller.asked
    assert list(versions) == [1, 0]
    assert request.topics[0].partitions[0].new_isr == [1, 2]
    by_name = AlterPartitionTopicResponse("t", NO_ID, [granted(0, 1, 2)])
    answer.callback(AlterPartitionResponse(topics=[by_name]))
    assert leader.answers == [((1, 2), 5)]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (NotConnected("down"), ErrorCode.NETWORK_EXCEPTION),
        (AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER), ErrorCode.NOT_CONTROLLER),
    ],
)
def test_a_request_level_error_fails_each_partition(
    updates: Any, clock: Clock, controller: AskedController, answer: Any, error: ErrorCode
) -> None:
    leader = Leader(0)
    updates.propose(leader, leader.change(1), 0)
    clock.advance(0)
    waiting = controller.asked[0][1]
    waiting.errback(answer) if isinstance(answer, Exception) else waiting.callback(answer)
    assert leader.answers == [error]


def test_a_delayed_proposal_is_sent_unless_another_state_has_come(
    updates: Any, clock: Clock, controller: AskedController
) -> None:
    outdated, leader = Leader(0), Leader(1)
    updates.propose(outdated, outdated.change(1), 50)
    updates.propose(leader, leader.change(1), 50)
    outdated.change(1, 2)
    clock.advance(0.04)
    assert not controller.asked
    clock.pump([0.01, 0])
    [(request, _, _)] = controller.asked
    assert [each.partition_index for each in request.topics[0].partitions] == [1]


def test_a_former_leader_does_not_replace_its_successors_proposal(
    updates: Any, clock: Clock, controller: AskedController
) -> None:
    former, leader = Leader(0), Leader(0)
    former.partition = leader.partition
    leader.partition.replication = former
    updates.propose(former, former.change(1), 50)
    leader.partition.replication = leader
    updates.propose(leader, leader.change(1, 2), 10)
    updates.propose(former, former.change(1), 50)  # its request failed only now
    clock.pump([0.01, 0])
    [(request, _, _)] = controller.asked
    assert [each.broker_id for each in request.topics[0].partitions[0].new_isr_with_epochs] == [1, 2]
    former.partition = SimpleNamespace(topic="t", index=1, replication=former)
    updates.propose(former, former.change(1), 50)
    former.partition.replication = None  # another broker leads
    clock.advance(0.05)
    controller.asked[0][1].callback(response(granted(0, 1, 2)))
    assert len(controller.asked) == 1


def test_stop_drops_pending_proposals_and_timers(updates: Any, clock: Clock, controller: AskedController) -> None:
    waiting, leader = Leader(0), Leader(1)
    updates.propose(waiting, waiting.change(1), 50)
    updates.propose(waiting, waiting.change(1), 60)
    updates.stop()
    updates.propose(leader, leader.change(1), 0)
    updates.propose(leader, leader.change(1), 50)
    assert clock.getDelayedCalls() == []
    clock.advance(1)
    assert not controller.asked
