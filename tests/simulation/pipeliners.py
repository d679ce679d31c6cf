"""Idempotent producers with several requests in flight, which do with errors what librdkafka does.

answer                         action of the producer
-----------------------------  -------------------------------------------------------------------------------
a retriable error, or no       sends nothing more to the partition until all its requests have ended, then
  answer                       repeats the first batch that is not acknowledged, and those after it
OUT_OF_ORDER_SEQUENCE_NUMBER   would begin a new epoch, and send all open batches under new numbers, also those of
                               unknown outcome, which are then stored twice: so this must not happen
no error                       acknowledges earlier batches of unknown outcome, too; fatal if one is known not
                               to be written
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import attrs
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import NO_LEADER, PartitionKey
from pylogbroker.records import Record, build
from pylogbroker.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.replication.invariants import Violation
from tests.simulation.clients import ACKS_ALL, Acknowledged, Producer
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.setup import TOPIC

_IN_FLIGHT_MAX: Final = 5  # to one broker
_OPEN_MAX: Final = 8  # batches of a partition
_PAUSE_SECONDS: Final = 0.05
_TIMEOUT_MS: Final = 700
_WRITTEN: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
_OUTCOME_UNKNOWN: Final = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


@attrs.define(eq=False)
class _Batches:
    """Batches of one partition, each of one record: batch n has the n-th value."""

    key: PartitionKey
    values: list[bytes] = attrs.field(factory=list)
    acknowledged: int = 0
    sent: int = 0
    broker: int = NO_LEADER
    """Receiver of the requests in flight."""
    in_flight: int = 0
    drains: bool = False
    failed: int | None = None
    """First batch that is known not to be written."""
    unknown_outcomes: set[int] = attrs.field(factory=set)
    """Batches that were perhaps written, which no later error takes back."""

    def ended(self) -> None:
        self.in_flight -= 1
        if not self.in_flight:
            self.drains = False
            self.failed = None
            self.sent = self.acknowledged


class Pipeliner(Producer):
    def __init__(self, cluster: SimulatedCluster, number: int, acknowledged: Callable[[Acknowledged], None]) -> None:
        super().__init__(cluster, number, acknowledged)
        self._partitions = [_Batches((TOPIC, index)) for index in range(cluster.setup.partitions)]
        self._in_flight: dict[int, int] = {}

    async def _run(self) -> None:
        while not self._stops or any(each.acknowledged < len(each.values) for each in self._partitions):
            if self.identity.id >= 0 or await self._get_identity():
                await self.act()
            await self.pause(self.rng.random() * _PAUSE_SECONDS)
        self.is_finished = True

    async def act(self) -> None:
        if not self._stops:
            batches = self.rng.choice(self._partitions)
            if len(batches.values) - batches.acknowledged < _OPEN_MAX:
                batches.values += self._next_values(batches.key, 1)
        for batches in self.rng.sample(self._partitions, len(self._partitions)):
            if batches.sent < len(batches.values):
                self._send(batches, await self.leader_of(batches.key))

    def _send(self, batches: _Batches, leader: int) -> None:
        """Send the next batch, unless it must wait."""
        if batches.drains or leader == NO_LEADER:
            return
        if (batches.in_flight and batches.broker != leader) or self._in_flight.get(leader, 0) >= _IN_FLIGHT_MAX:
            return
        number = batches.sent
        batches.sent += 1
        batches.in_flight += 1
        batches.broker = leader
        self._in_flight[leader] = self._in_flight.get(leader, 0) + 1
        request = self._request(batches.key, batches.values[number], number)
        ended = partial(self._ended, batches, number, leader)
        Deferred.fromCoroutine(self.ask(leader, request)).addBoth(ended).addErrback(self.cluster.failed)

    def _request(self, key: PartitionKey, value: bytes, sequence: int) -> ProduceRequest:
        records = [Record(0, int(self.cluster.world.now * 1000), None, value)]
        identity = self.identity
        batch = build(records, producer_id=identity.id, producer_epoch=identity.epoch, base_sequence=sequence)
        data = TopicProduceData(key[0], [PartitionProduceData(key[1], batch)])
        return ProduceRequest(acks=ACKS_ALL, timeout_ms=_TIMEOUT_MS, topic_data=[data])

    def _ended(self, batches: _Batches, number: int, leader: int, response: ProduceResponse | Failure) -> None:
        self._in_flight[leader] -= 1
        if isinstance(response, Failure):
            batches.drains = True
            batches.unknown_outcomes.add(number)
            self.forget_leader(batches.key)
        else:
            [answer] = response.responses[0].partition_responses
            self._answered(batches, number, ErrorCode(answer.error_code), answer.base_offset)
        batches.ended()

    def _answered(self, batches: _Batches, number: int, code: ErrorCode, offset: int) -> None:
        name = f"9: batch {number} of {self.name} in {batches.key}"
        if code in _WRITTEN:
            if batches.failed is not None and batches.failed < number:
                raise Violation(f"{name} is written, {batches.failed} before it is not")
            batches.acknowledged = max(batches.acknowledged, number + 1)
            if not code:
                self._acknowledged(Acknowledged(batches.key, offset, [batches.values[number]]))
        elif code.retriable:
            batches.drains = True
            self.forget_leader(batches.key)
            if code in _OUTCOME_UNKNOWN:
                batches.unknown_outcomes.add(number)
            elif batches.failed is None and number not in batches.unknown_outcomes:
                batches.failed = number
        else:
            raise Violation(f"{name} got {code.name}")
