"""The offsets of one group, and when they expire.

An offset is pending until its record is stored, or its transaction ends. A committed transaction's offset counts unless
the log has a later one of its partition.

    records, in the log's order      committed
    ---------------------------      ---------
    a = 5, in a transaction          -
    b = 6, in a transaction          -
    a = 7                            a = 7
    the transaction is committed     a = 7, b = 6

Pending offsets are not fetched, nor do their partitions expire. Offsets expire

    group without protocol type     `retention` after their commit (consumers without membership)
    Empty group                     `retention` after the group became Empty
    Stable group of consumers       `retention` after their commit, if no member subscribes to the topic
    any other                       never
    with their own expiry           at that time, where the table does not say never
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import attrs

from pylogbroker.coordinators import TopicPartition
from pylogbroker.groups.requests import CommittedOffset

Offsets = Mapping[TopicPartition, CommittedOffset]


@attrs.define(eq=False, repr=False)
class OpenTransaction:
    in_flight: dict[int, Offsets] = attrs.field(factory=dict)
    stored: dict[TopicPartition, tuple[int, CommittedOffset]] = attrs.field(factory=dict)  # with positions

    def __bool__(self) -> bool:
        return bool(self.stored) or any(self.in_flight.values())


@attrs.define(eq=False, repr=False)
class GroupOffsets:
    """Offsets in flight are by their commit, without removed partitions: one that fails leaves the others alone.

    The key of a commit is the `id()` of its mapping, which the caller keeps until it has failed or is complete.
    """

    committed: dict[TopicPartition, CommittedOffset] = attrs.field(factory=dict)
    _in_flight: dict[int, Offsets] = attrs.field(factory=dict)
    _transactions: dict[int, OpenTransaction] = attrs.field(factory=dict)  # by producer id
    _positions: dict[TopicPartition, int] = attrs.field(factory=dict)  # of committed offsets in the log
    _last_position: int = 0

    def __bool__(self) -> bool:
        return bool(self.committed or self._transactions) or any(self._in_flight.values())

    def begin(self, offsets: Offsets) -> None:
        self._in_flight[id(offsets)] = offsets

    def complete(self, offsets: Offsets) -> None:
        """Commit stored offsets, except of removed partitions."""
        stored = self._in_flight.pop(id(offsets))
        self.committed.update(stored)
        self._positions.update(dict.fromkeys(stored, self._next_position()))

    def fail(self, offsets: Offsets) -> None:
        del self._in_flight[id(offsets)]

    def commit(self, partition: TopicPartition, offset: CommittedOffset) -> None:
        self.committed[partition] = offset
        self._positions[partition] = self._next_position()

    def begin_in_transaction(self, producer_id: int, offsets: Offsets) -> None:
        self._transaction(producer_id).in_flight[id(offsets)] = offsets

    def complete_in_transaction(self, producer_id: int, offsets: Offsets) -> None:
        """Keep stored offsets, except of removed partitions, and unless the transaction has ended."""
        transaction = self._transactions.get(producer_id)
        if transaction is not None:
            position = self._next_position()
            for partition, offset in transaction.in_flight.pop(id(offsets), {}).items():
                transaction.stored[partition] = position, offset

    def fail_in_transaction(self, producer_id: int, offsets: Offsets) -> None:
        transaction = self._transactions.get(producer_id)
        if transaction is not None:
            transaction.in_flight.pop(id(offsets), None)
            self._drop_if_empty(producer_id)

    def commit_in_transaction(self, producer_id: int, partition: TopicPartition, offset: CommittedOffset) -> None:
        self._transaction(producer_id).stored[partition] = self._next_position(), offset

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        transaction = self._transactions.pop(producer_id, None)
        if transaction is None or not committed:
            return
        for offsets in transaction.in_flight.values():  # their records precede the marker
            for partition, offset in offsets.items():
                transaction.stored[partition] = self._next_position(), offset
        for partition, (position, offset) in transaction.stored.items():
            if position > self._positions.get(partition, 0):
                self.committed[partition], self._positions[partition] = offset, position

    def has_transaction(self, producer_id: int) -> bool:
        return producer_id in self._transactions

    def unstable(self, among: Collection[TopicPartition]) -> set[TopicPartition]:
        """Return partitions with an offset that is not stored, or whose transaction is open."""
        return set().union(*(_common(held, among) for held in self._undecided()))

    def _undecided(self) -> Iterator[Mapping[TopicPartition, object]]:
        yield from self._in_flight.values()
        for transaction in self._transactions.values():
            yield transaction.stored
            yield from transaction.in_flight.values()

    def partitions(self, among: Collection[TopicPartition] | None = None) -> Collection[TopicPartition]:
        distinct: dict[TopicPartition, None] = {}
        for held in (self.committed, *self._undecided()):
            distinct.update(dict.fromkeys(held if among is None else _common(held, among)))
        return distinct.keys()

    def remove(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Remove partitions; return those that have records, or will: an append may be on its way."""
        targets, recorded = dict.fromkeys(partitions), set()
        for partition in targets:
            self._positions.pop(partition, None)
            if self.committed.pop(partition, None) is not None:
                recorded.add(partition)
        recorded.update(_remove_in_flight(self._in_flight, targets))
        for transaction in self._transactions.values():
            recorded.update(_remove_in_flight(transaction.in_flight, targets))
            for partition in list(_common(transaction.stored, targets)):
                del transaction.stored[partition]
                recorded.add(partition)
        for producer_id in list(self._transactions):
            self._drop_if_empty(producer_id)
        return [partition for partition in targets if partition in recorded]

    def expired(
        self,
        now_ms: int,
        retention_ms: int,
        since: Callable[[CommittedOffset], int],
        subscribed: Collection[str] = (),
    ) -> list[TopicPartition]:
        """Return partitions whose offset is older than `retention_ms` since `since(offset)`."""

        def is_over(offset: CommittedOffset) -> bool:
            if offset.expires is not None:
                return now_ms >= offset.expires
            return now_ms - since(offset) >= retention_ms

        over = [
            partition
            for partition, offset in self.committed.items()
            if partition[0] not in subscribed and is_over(offset)
        ]
        unstable = self.unstable(set(over))
        return [partition for partition in over if partition not in unstable]

    def _next_position(self) -> int:
        self._last_position += 1
        return self._last_position

    def _transaction(self, producer_id: int) -> OpenTransaction:
        transaction = self._transactions.get(producer_id)
        if transaction is None:
            transaction = self._transactions[producer_id] = OpenTransaction()
        return transaction

    def _drop_if_empty(self, producer_id: int) -> None:
        if not self._transactions[producer_id]:
            del self._transactions[producer_id]


def since_commit(offset: CommittedOffset) -> int:
    """Return when an offset was committed, from which on its retention counts."""
    return offset.committed


def _remove_in_flight(in_flight: dict[int, Offsets], partitions: Collection[TopicPartition]) -> set[TopicPartition]:
    """Return the removed partitions. A thread may still encode a commit's offsets: they get a copy without these."""
    removed = set()
    for commit, offsets in in_flight.items():
        if common := set(_common(offsets, partitions)):
            in_flight[commit] = {partition: offsets[partition] for partition in offsets if partition not in common}
            removed |= common
    return removed


def _common(some: Collection[TopicPartition], others: Collection[TopicPartition]) -> Iterator[TopicPartition]:
    fewer, more = sorted((some, others), key=len)
    return filter(more.__contains__, fewer)
