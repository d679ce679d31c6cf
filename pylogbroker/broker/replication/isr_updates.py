"""Changes of ISRs that leaders here ask of the controller (AlterPartition, KIP-497).

    propose --> waiting --one request for all--> in flight --answer--> Leadership.isr_altered, isr_change_failed
                   ^                                                             |
                   +------------------ proposed again after 50 ms ---------------+

One request is in flight at a time. Each partition has one change at most, as its LeaderReplica proposes one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import attrs
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.replication.leadership import Leadership
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.coordinators import TopicPartition
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.inter_broker_protocol import InterBrokerProtocol
from pylogbroker.replication import IsrChange
from pylogbroker.rpc.errors import code_of
from pylogbroker.wire import NO_ID, Request
from pylogbroker.wire.messages.alter_partition import (
    AlterPartitionBrokerState,
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopicData,
)

log = Logger()
_FIRST_WITH_EPOCHS = 3


class ControllerRequests(Protocol):
    async def request(self, make: Callable[[int], Request], versions: Sequence[int], /) -> Any:
        """Return the controller's response, in the first of the versions that it has; `make` gets it."""


@attrs.frozen(eq=False, repr=False)
class _Proposal:
    leadership: Leadership
    change: IsrChange


@attrs.define(eq=False, repr=False)
class IsrUpdates:
    """Implements IsrProposals."""

    _broker_id: int
    _broker_epoch: Callable[[], int]
    _controller: ControllerRequests
    _protocol: InterBrokerProtocol
    _runtime: Runtime
    shrinks: int = attrs.field(default=0, init=False)  # since the start, for metrics
    expands: int = attrs.field(default=0, init=False)
    _waiting: dict[TopicPartition, _Proposal] = attrs.field(factory=dict, init=False)
    _delays: dict[TopicPartition, IDelayedCall] = attrs.field(factory=dict, init=False)
    _in_flight: bool = attrs.field(default=False, init=False)
    _is_stopped: bool = attrs.field(default=False, init=False)

    def propose(self, leadership: Leadership, change: IsrChange, delay_ms: int) -> None:
        if self._is_stopped or not _leads(leadership):
            return
        key = leadership.partition.topic, leadership.partition.index
        self._cancel_delay(key)
        if delay_ms:
            self._delays[key] = self._runtime.clock.callLater(delay_ms / 1000, self._add, key, leadership, change)
        else:
            self._add(key, leadership, change)

    def stop(self) -> None:
        self._is_stopped = True
        self._waiting.clear()
        for key in tuple(self._delays):
            self._cancel_delay(key)

    def _cancel_delay(self, key: TopicPartition) -> None:
        delay = self._delays.pop(key, None)
        if delay is not None:
            delay.cancel()

    def _add(self, key: TopicPartition, leadership: Leadership, change: IsrChange) -> None:
        self._delays.pop(key, None)
        if leadership.leader.isr.pending is not change or not _leads(leadership):
            return  # another state has come meanwhile
        self._waiting[key] = _Proposal(leadership, change)
        if not self._in_flight:
            self._in_flight = True
            self._runtime.deferred_actions.defer(self._start)

    def _start(self) -> None:
        run_in_background(log, self._send_all(), "ISRs are not updated")

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                sent, self._waiting = self._waiting, {}
                await self._send(sent)
        finally:
            self._in_flight = False

    async def _send(self, sent: dict[TopicPartition, _Proposal]) -> None:
        has_ids = all(proposal.leadership.topic_id != NO_ID for proposal in sent.values())
        newest = self._protocol.alter_partition_version_max(has_topic_ids=has_ids)

        def make(version: int) -> AlterPartitionRequest:
            return AlterPartitionRequest(self._broker_id, self._broker_epoch(), _topics(sent, version))

        try:
            response = await self._controller.request(make, range(newest, -1, -1))
        except Exception as error:
            if not self._is_stopped and self._runtime.may_log("AlterPartition"):
                log.warn("the controller cannot be asked to change ISRs: {why}", why=error)
            answers: dict[TopicPartition, tuple[ErrorCode, tuple[int, ...], int]] = {}
            failed = ErrorCode.NETWORK_EXCEPTION
        else:
            answers, failed = self._answers(response, sent), code_of(response.error_code)
        for key, proposal in sent.items():
            code, isr, partition_epoch = answers.get(key, (failed or ErrorCode.UNKNOWN_SERVER_ERROR, (), -1))
            try:
                if code:
                    proposal.leadership.isr_change_failed(proposal.change, code)
                else:
                    self._altered(key, proposal.leadership, isr, partition_epoch)
            except Exception:  # the others wait for their answers
                log.failure("the ISR of {topic}-{partition} is not updated", topic=key[0], partition=key[1])

    def _altered(self, key: TopicPartition, leadership: Leadership, isr: tuple[int, ...], partition_epoch: int) -> None:
        log.info("in-sync replicas of {topic}-{partition}: {isr}", topic=key[0], partition=key[1], isr=list(isr))
        committed = leadership.leader.isr.committed
        self.shrinks += len(isr) < len(committed)
        self.expands += len(isr) > len(committed)
        leadership.isr_altered(isr, partition_epoch)

    def _answers(
        self, response: AlterPartitionResponse, sent: dict[TopicPartition, _Proposal]
    ) -> dict[TopicPartition, tuple[ErrorCode, tuple[int, ...], int]]:
        names = {proposal.leadership.topic_id: topic for (topic, _), proposal in sent.items()}
        return {
            (topic.topic_name or names.get(topic.topic_id, ""), partition.partition_index): (
                code_of(partition.error_code),
                tuple(partition.isr),
                partition.partition_epoch,
            )
            for topic in response.topics
            for partition in topic.partitions
        }


def _leads(leadership: Leadership) -> bool:
    """Return False once another leader epoch has begun: a former leader would replace the change of the next one."""
    return leadership.partition.replication is leadership


def _topics(sent: Mapping[TopicPartition, _Proposal], version: int) -> list[AlterPartitionTopicData]:
    topics: dict[str, AlterPartitionTopicData] = {}
    has_epochs = version >= _FIRST_WITH_EPOCHS
    for (topic, index), proposal in sent.items():
        if topic not in topics:
            topics[topic] = AlterPartitionTopicData(topic, proposal.leadership.topic_id, [])
        change = proposal.change
        topics[topic].partitions.append(
            AlterPartitionData(
                index,
                change.leader_epoch,
                [] if has_epochs else list(change.isr),
                list(map(AlterPartitionBrokerState, change.isr, change.broker_epochs)) if has_epochs else [],
                partition_epoch=change.partition_epoch,
            )
        )
    return list(topics.values())
