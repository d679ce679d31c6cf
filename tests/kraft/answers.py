"""A cluster's state by the answers of its brokers, where KRaft controllers keep it.

A broker may be behind the controllers, so all brokers that run are asked. The leader is that of the newest epoch. A
replica is in sync, and a broker is registered, if all answers say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import attrs
from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from tests.clients.stored_batches import ask
from tests.cluster.states import NONE, StoredState

_METADATA_VERSION: Final = 7
_TIMEOUT_MS: Final = 60_000


@attrs.frozen
class BrokerAnswers:
    """`running` returns the brokers that can be asked: their addresses, by id."""

    running: Callable[[], Mapping[int, str]]

    def brokers(self) -> dict[int, str]:
        answers = list(self._answers(MetadataRequest(topics=[])))
        ids = [{broker.node_id: f"{broker.host}:{broker.port}" for broker in answer.brokers} for answer in answers]
        return {number: address for number, address in ids[0].items() if all(number in some for some in ids)}

    def controller(self) -> int:
        return min(self.running(), default=NONE)

    def topics(self) -> list[str]:
        answer = next(self._answers(MetadataRequest(topics=None)))
        return sorted(topic.name for topic in answer.topics)

    def assignment(self, topic: str) -> dict[int, tuple[int, ...]]:
        answered = [self._partitions(answer, topic) for answer in self._answers(_one(topic))]
        most = max(answered, key=len)
        return {number: tuple(most[number].replica_nodes) for number in sorted(most)}

    def state(self, topic: str, partition: int) -> StoredState | None:
        answered = [self._partitions(answer, topic).get(partition) for answer in self._answers(_one(topic))]
        if None in answered:
            return None
        newest = max(answered, key=lambda state: state.leader_epoch)
        isr = {*newest.isr_nodes}.intersection(*(state.isr_nodes for state in answered))
        return StoredState(newest.leader_id, newest.leader_epoch, tuple(sorted(isr)))

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        moved = AlterPartitionReassignmentsRequest.ReassignableTopic
        part = moved.ReassignablePartition(partition_index=partition, replicas=list(replicas))
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=_TIMEOUT_MS, topics=[moved(name=topic, partitions=[part])]
        )
        answer = ask(self._any(), request, AlterPartitionReassignmentsResponse, 0)
        codes = [answer.error_code, *(part.error_code for topic in answer.responses for part in topic.partitions)]
        if any(codes):
            raise AssertionError(f"{topic}-{partition} cannot be moved to {list(replicas)}: errors {codes}")

    def reassigned(self) -> bool:
        request = ListPartitionReassignmentsRequest(timeout_ms=_TIMEOUT_MS, topics=None)
        answer = ask(self._any(), request, ListPartitionReassignmentsResponse, 0)
        return bool(answer.error_code or answer.topics)

    def close(self) -> None:
        """Do nothing: each question has a connection of its own."""

    def _any(self) -> str:
        return next(iter(self.running().values()))

    def _answers(self, request: Any) -> Iterator[Any]:
        """Yield the answers of all brokers that answer; raise ConnectionError if none does."""
        is_answered = False
        for address in self.running().values():
            with suppress(OSError):  # it starts or ends just now
                yield ask(address, request, MetadataResponse, _METADATA_VERSION)
                is_answered = True
        if not is_answered:
            raise ConnectionError("no broker of the cluster answers")

    @staticmethod
    def _partitions(answer: Any, topic: str) -> dict[int, Any]:
        return {
            part.partition_index: part for found in answer.topics if found.name == topic for part in found.partitions
        }


def _one(topic: str) -> Any:
    return MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
