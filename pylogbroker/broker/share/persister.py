"""Persister of share groups: asks the share coordinators that have the states of partitions.

    partition of `__share_group_state`    call
    ----------------------------------    ------------------------------------------------
    led here                              the share coordinator of this broker
    led by another broker                 a request to it, for all partitions that it has
    without leader                        COORDINATOR_NOT_AVAILABLE

A call whose coordinator loads, moves or does not answer is repeated for some seconds. All calls may be repeated: the
leader of a partition does not change records again before their write has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import attrs
from twisted.internet.task import deferLater
from twisted.logger import Logger

from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.broker.services import ShareStates
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.features import on_first_use
from pylogbroker.groups.share.sessions import TopicIdPartition
from pylogbroker.groups.share.state_coordinator import StateWrite
from pylogbroker.groups.share.state_records import SharePartitionKey
from pylogbroker.groups.share.stored_state import StoredState
from pylogbroker.metadata.image import NO_LEADER
from pylogbroker.wire import Request

if TYPE_CHECKING:
    from pylogbroker.broker.share import state_calls
    from pylogbroker.broker.share.state_calls import StateCall
else:
    state_calls = on_first_use("pylogbroker.broker.share.state_calls")

log = Logger()
R = TypeVar("R")

PAUSES_MS: Final = (50, 100, 200, 400, 800, 1_000, 1_000, 1_000)
"""Pauses before a call is repeated."""

_PARTITIONS_PER_REQUEST_MAX: Final = 1_000
_REPEATED_AFTER: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


class StatePeers(Protocol):
    async def send(self, broker_id: int, request: Request, version: int | None = None, /) -> Any:
        """Return another broker's response; raise KafkaError without one."""


@attrs.define(eq=False, repr=False)
class SharePersister:
    """`leader_of` returns the broker that leads the state of a share partition, or NO_LEADER."""

    _states: ShareStates
    _leader_of: Callable[[SharePartitionKey], int]
    _broker_id: int
    _peers: StatePeers | None
    """None: no other broker has states."""
    _runtime: Runtime

    async def initialize(
        self, group_id: str, state_epoch: int, starts: Mapping[TopicIdPartition, int]
    ) -> dict[TopicIdPartition, ErrorCode]:
        """Begin a life of the group in partitions, from offsets on; -1 for those that the group's setting decides."""
        return await self._call(group_id, starts, state_calls.InitializeCall(state_epoch, starts))

    async def delete(self, group_id: str, partitions: Iterable[TopicIdPartition]) -> dict[TopicIdPartition, ErrorCode]:
        return await self._call(group_id, partitions, state_calls.DeleteCall())

    async def summaries(
        self, group_id: str, partitions: Iterable[TopicIdPartition]
    ) -> dict[TopicIdPartition, StoredState | ErrorCode]:
        """Return where partitions start; states without batches, and without start offset where there is none."""
        return await self._call(group_id, partitions, state_calls.SummarizeCall())

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> StoredState | ErrorCode:
        """Return the state for the leader of an epoch, and fence earlier leaders."""
        return await self._call_one(key, state_calls.ReadCall(leader_epoch))

    async def write(self, key: SharePartitionKey, write: StateWrite) -> ErrorCode:
        return await self._call_one(key, state_calls.WriteCall(write))

    async def _call_one(self, key: SharePartitionKey, call: StateCall[R]) -> R | ErrorCode:
        if self._leader_of(key) == self._broker_id:
            result = await call.here(self._states, key)
            if result not in _REPEATED_AFTER:
                return result
        partition = key.topic_id, key.partition
        return (await self._call(key.group_id, (partition,), call))[partition]

    async def _call(
        self, group_id: str, partitions: Iterable[TopicIdPartition], call: StateCall[R]
    ) -> dict[TopicIdPartition, R | ErrorCode]:
        results: dict[TopicIdPartition, R | ErrorCode] = {}
        missing = list(dict.fromkeys(partitions))
        for pause_ms in (*PAUSES_MS, None):
            results |= await self._attempt(group_id, missing, call)
            missing = [partition for partition in missing if results[partition] in _REPEATED_AFTER]
            if not missing or pause_ms is None:
                break
            await deferLater(self._runtime.clock, pause_ms / 1000)
        if missing and self._runtime.may_log("states of share groups"):
            log.warn(
                "share group {group!r}: the states of {count} partitions are not available now, {error}; the group"
                " waits for a leader of __share_group_state",
                group=group_id,
                count=len(missing),
                error=_name(results[missing[0]]),
            )
        return results

    async def _attempt(
        self, group_id: str, partitions: list[TopicIdPartition], call: StateCall[Any]
    ) -> dict[TopicIdPartition, Any]:
        results: dict[TopicIdPartition, Any] = {}
        try:
            await self._states.ensure_topic()
        except KafkaError:
            return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        here = []
        elsewhere: dict[int, list[TopicIdPartition]] = {}
        async for partition in self._runtime.slices.over(partitions):
            key = SharePartitionKey(group_id, *partition)
            leader = self._leader_of(key)
            if leader == self._broker_id:
                here.append((partition, call.here(self._states, key)))
            elif leader == NO_LEADER or self._peers is None:
                results[partition] = ErrorCode.COORDINATOR_NOT_AVAILABLE
            else:
                elsewhere.setdefault(leader, []).append(partition)
        for leader, others in elsewhere.items():
            for start in range(0, len(others), _PARTITIONS_PER_REQUEST_MAX):
                results |= await self._send(leader, group_id, others[start : start + _PARTITIONS_PER_REQUEST_MAX], call)
        for partition, answer in here:
            results[partition] = await answer
        return results

    async def _send(
        self, broker_id: int, group_id: str, partitions: list[TopicIdPartition], call: StateCall[Any]
    ) -> dict[TopicIdPartition, Any]:
        results: dict[TopicIdPartition, Any] = dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION)
        if self._peers is None:
            return results
        try:
            response = await self._peers.send(broker_id, call.request(group_id, partitions))
        except KafkaError:
            return results
        answers = state_calls.results_of(call, response)
        return {partition: answers.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR) for partition in partitions}


def _name(result: object) -> str:
    return result.name if isinstance(result, ErrorCode) else ""
