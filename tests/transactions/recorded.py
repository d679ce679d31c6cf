"""Requests to Kafka's transaction coordinator and its answers, recorded and replayed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import attrs

from pylogbroker.errors import ErrorCode
from tests.transactions.kafka_coordinator import KafkaCoordinator, Pair, TopicPartition

#: Question and answer, of values that JSON has.
Exchange = list[Any]


@attrs.define
class Recording:
    """Kafka's coordinator; what is asked and answered is written down."""

    _kafka: KafkaCoordinator
    exchanges: list[Exchange] = attrs.field(factory=list)

    def init(self, name: str, pair: Pair, timeout_ms: int) -> tuple[ErrorCode, Pair]:
        error, given = self._kafka.init(name, pair, timeout_ms)
        self.exchanges.append([["init", name, *pair], [error.value, *given]])
        return error, given

    def add(self, name: str, pair: Pair, partitions: Collection[TopicPartition]) -> ErrorCode:
        error = self._kafka.add(name, pair, partitions)
        self.exchanges.append([["add", name, *pair, *map(list, partitions)], [error.value]])
        return error

    def verify(self, name: str, pair: Pair, partition: TopicPartition) -> ErrorCode:
        error = self._kafka.verify(name, pair, partition)
        self.exchanges.append([["verify", name, *pair, *partition], [error.value]])
        return error

    def end(self, name: str, pair: Pair, committed: bool) -> ErrorCode:
        error = self._kafka.end(name, pair, committed)
        self.exchanges.append([["end", name, *pair, committed], [error.value]])
        return error


@attrs.define
class Recorded:
    """Kafka's recorded answers, for the same requests in the same order."""

    _exchanges: list[Exchange]
    _next: int = 0

    def init(self, name: str, pair: Pair, timeout_ms: int) -> tuple[ErrorCode, Pair]:
        error, producer_id, epoch = self._answer(["init", name, *pair])
        return ErrorCode(error), (producer_id, epoch)

    def add(self, name: str, pair: Pair, partitions: Collection[TopicPartition]) -> ErrorCode:
        return ErrorCode(*self._answer(["add", name, *pair, *map(list, partitions)]))

    def verify(self, name: str, pair: Pair, partition: TopicPartition) -> ErrorCode:
        return ErrorCode(*self._answer(["verify", name, *pair, *partition]))

    def end(self, name: str, pair: Pair, committed: bool) -> ErrorCode:
        return ErrorCode(*self._answer(["end", name, *pair, committed]))

    def _answer(self, question: list[Any]) -> list[Any]:
        asked, answer = self._exchanges[self._next]
        assert question == asked, f"Kafka was asked something else after {self._next} answers: ours differ by then"
        self._next += 1
        found: list[Any] = answer
        return found
