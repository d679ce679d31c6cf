"""Batches on their way to the target, in the order of each partition. No I/O.

    put --> waiting --> next_loads --> in flight --> acknowledged
                                            |
                                            +--> any error: the session ends, with all that is not committed

A batch is sent once. Its sequence number shows the broker that none before it is missing, so a lost request fails the
later ones of its partition, too. Nothing is sent again in the same epoch: an error ends the transaction, and the next
session begins at the committed positions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

import attrs

from pylogbroker.client.partition_queue import ProducerIdentity
from pylogbroker.interfaces import TopicPartition
from pylogbroker.mirror.batches import MirroredBatch, Producer

_SEQUENCE_BITS: Final = 0x7FFFFFFF


@attrs.define(eq=False, repr=False)
class _TargetPartition:
    key: TopicPartition
    next_sequence: int = 0
    waiting: deque[tuple[MirroredBatch, TopicPartition | None]] = attrs.field(factory=deque)
    in_flight: int = 0
    node: int = -1
    """Broker of the batches in flight."""


@attrs.frozen(eq=False, repr=False)
class SentBatch:
    """A batch of a request. `source` is the partition that its records are from; None for positions."""

    partition: TopicPartition
    batch: MirroredBatch
    source: TopicPartition | None
    data: bytes


@attrs.frozen(eq=False, repr=False)
class Load:
    """Batches of one request, each of another partition."""

    node: int
    batches: tuple[SentBatch, ...]


@attrs.define(eq=False, repr=False)
class SendQueue:
    """Without a producer id (-1), batches have no sequence numbers. `window` bounds the requests to a broker."""

    _window: int
    _load_bytes: int
    _producer: Producer = attrs.field(factory=Producer)
    waiting_bytes: int = 0
    unacknowledged: int = 0
    """Batches that wait or are in flight."""
    _partitions: dict[TopicPartition, _TargetPartition] = attrs.field(factory=dict)
    _ready: dict[TopicPartition, None] = attrs.field(factory=dict)
    _requests: dict[int, int] = attrs.field(factory=dict)

    def begin(self, identity: ProducerIdentity, *, is_transactional: bool) -> None:
        """Begin an epoch: sequence numbers start at 0. Nothing may be unacknowledged."""
        self._producer = Producer(identity.id, identity.epoch, is_transactional)
        for partition in self._partitions.values():
            partition.next_sequence = 0

    def put(self, key: TopicPartition, batch: MirroredBatch, source: TopicPartition | None) -> None:
        partition = self._partitions.get(key)
        if partition is None:
            partition = self._partitions[key] = _TargetPartition(key)
        partition.waiting.append((batch, source))
        self._ready[key] = None
        self.waiting_bytes += batch.size
        self.unacknowledged += 1

    def waiting_partitions(self) -> list[TopicPartition]:
        return list(self._ready)

    def next_loads(self, leader_of: Callable[[TopicPartition], int | None]) -> Iterator[Load]:
        """Yield requests until no broker may get another one."""
        while True:
            by_node: dict[int, list[_TargetPartition]] = {}
            for key in self._ready:
                node = leader_of(key)
                partition = self._partitions[key]
                if node is None or self._requests.get(node, 0) >= self._window:
                    continue
                if partition.in_flight and partition.node != node:
                    continue  # the old leader answers first
                by_node.setdefault(node, []).append(partition)
            if not by_node:
                return
            for node, partitions in by_node.items():
                yield self._load(node, partitions)

    def acknowledged(self, load: Load) -> None:
        self._requests[load.node] -= 1
        self.unacknowledged -= len(load.batches)
        for sent in load.batches:
            self._partitions[sent.partition].in_flight -= 1

    def _load(self, node: int, partitions: list[_TargetPartition]) -> Load:
        sent: list[SentBatch] = []
        size = 0
        for partition in partitions:
            batch, source = partition.waiting[0]
            if sent and size + batch.size > self._load_bytes:
                continue
            size += batch.size
            del self._ready[partition.key]
            partition.waiting.popleft()
            if partition.waiting:
                self._ready[partition.key] = None  # behind the others
            sent.append(SentBatch(partition.key, batch, source, self._sealed(partition, batch)))
            partition.in_flight += 1
            partition.node = node
            self.waiting_bytes -= batch.size
        self._requests[node] = self._requests.get(node, 0) + 1
        return Load(node, tuple(sent))

    def _sealed(self, partition: _TargetPartition, batch: MirroredBatch) -> bytes:
        if self._producer.id < 0:
            return batch.sealed(self._producer, -1)
        sequence = partition.next_sequence
        partition.next_sequence = (sequence + batch.count) & _SEQUENCE_BITS
        return batch.sealed(self._producer, sequence)
