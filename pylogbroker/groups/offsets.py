"""The offsets that one group remembers, and when it forgets them.

An offset counts as committed once its record is stored; until then it is pending. What a transaction commits is pending
until the transaction ends, and counts then, unless something younger was stored of the same partition meanwhile: what
is last in the log wins, whenever it was decided.

    records, in the log's order      committed
    ---------------------------      ---------
    a = 5, in a transaction          -
    b = 6, in a transaction          -
    a = 7                            a = 7
    the transaction is committed     a = 7, b = 6

Pending offsets are not shown, and a partition with one is not expired. Offsets expire

    group without protocol type     `retention` after their own commit (consumers that do without membership)
    Empty group                     `retention` after the group became Empty
    Stable group of consumers       `retention` after their own commit, if no member subscribes to the topic
    any other                       never
    with an expiry of their own     at that time, wherever the table does not say never
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import attrs

from pylogbroker.coordinators import TopicPartition
from pylogbroker.groups.requests import CommittedOffset


@attrs.define(eq=False)
class OpenTransaction:
    """What one producer's open transaction holds of a group: offsets on their way to the store, and stored ones."""

    pending: dict[TopicPartition, CommittedOffset] = attrs.field(factory=dict)
    stored: dict[TopicPartition, tuple[int, CommittedOffset]] = attrs.field(factory=dict)  # with their place in the log

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self.pending or partition in self.stored

    def __bool__(self) -> bool:
        return bool(self.pending or self.stored)


@attrs.define(eq=False)
class GroupOffsets:
    """A group's committed and pending offsets, by topic and partition."""

    committed: dict[TopicPartition, CommittedOffset] = attrs.field(factory=dict)
    pending: dict[TopicPartition, CommittedOffset] = attrs.field(factory=dict)
    _transactions: dict[int, OpenTransaction] = attrs.field(factory=dict)  # by producer id
    _places: dict[TopicPartition, int] = attrs.field(factory=dict)  # where in the log the committed ones are
    _last_place: int = 0  # only grows; what counts is who is behind whom

    def __bool__(self) -> bool:
        return bool(self.committed or self.pending or self._transactions)

    # -- plain commits ---------------------------------------------------------------------------------------------

    def begin(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Note that the records of these offsets are on their way to the store."""
        self.pending.update(offsets)

    def complete(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Note that the records are stored. Partitions that have been removed in the meantime are left out."""
        pending = self.pending
        stored = {partition: offset for partition, offset in offsets.items() if partition in pending}
        self.committed.update(stored)
        self._places.update(dict.fromkeys(stored, self._next_place()))
        self.fail(stored)

    def fail(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Note that the records are no longer on their way."""
        pending = self.pending
        for partition, offset in offsets.items():
            if pending.get(partition) is offset:
                del pending[partition]

    def commit(self, partition: TopicPartition, offset: CommittedOffset) -> None:
        """The log's last record is this offset."""
        self.committed[partition] = offset
        self._places[partition] = self._next_place()

    # -- transactions ----------------------------------------------------------------------------------------------

    def begin_in_transaction(self, producer_id: int, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Note that the records of these offsets, part of the producer's transaction, are on their way to the store."""
        self._transaction(producer_id).pending.update(offsets)

    def complete_in_transaction(self, producer_id: int, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Note that the records are stored.

        An offset is left out if its partition or the transaction is gone, or if a later one of the partition follows.
        """
        transaction = self._transactions.get(producer_id)
        if transaction is None:
            return
        place = self._next_place()
        for partition, offset in offsets.items():
            if transaction.pending.get(partition) is offset:
                del transaction.pending[partition]
                transaction.stored[partition] = place, offset

    def fail_in_transaction(self, producer_id: int, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Note that the records are no longer on their way."""
        transaction = self._transactions.get(producer_id)
        if transaction is None:
            return
        for partition, offset in offsets.items():
            if transaction.pending.get(partition) is offset:
                del transaction.pending[partition]
        self._drop_if_empty(producer_id)

    def commit_in_transaction(self, producer_id: int, partition: TopicPartition, offset: CommittedOffset) -> None:
        """The log's last record is this offset, part of the producer's transaction."""
        self._transaction(producer_id).stored[partition] = self._next_place(), offset

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """The log's last record is the marker that ends the producer's transaction."""
        transaction = self._transactions.pop(producer_id, None)
        if transaction is None or not committed:
            return
        for partition, offset in transaction.pending.items():  # not known to be safe; but the marker is behind them
            transaction.stored[partition] = self._next_place(), offset
        for partition, (place, offset) in transaction.stored.items():
            if place > self._places.get(partition, 0):
                self.committed[partition], self._places[partition] = offset, place

    def has_transaction(self, producer_id: int) -> bool:
        """Whether something of the producer's transaction is pending."""
        return producer_id in self._transactions

    def is_unstable(self, partition: TopicPartition) -> bool:
        """Whether something pending may replace what is committed."""
        return partition in self.pending or any(partition in each for each in self._transactions.values())

    # -- both ------------------------------------------------------------------------------------------------------

    def partitions(self, among: Collection[TopicPartition] | None = None) -> Collection[TopicPartition]:
        """Return all partitions that have an offset, committed or pending, each once; or those `among` some."""
        held: list[Mapping[TopicPartition, object]] = [self.committed, self.pending]
        for transaction in self._transactions.values():
            held += transaction.stored, transaction.pending
        found: dict[TopicPartition, None] = {}
        for offsets in held:
            if among is None or len(among) > len(offsets):
                found.update(dict.fromkeys(offsets if among is None else filter(among.__contains__, offsets)))
            else:
                found.update(dict.fromkeys(filter(offsets.__contains__, among)))
        return found.keys()

    def remove(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Forget these partitions; those of which the log has a record that counts, or may count, are returned."""
        pending, places, committed = self.pending, self._places, self.committed
        transactions = list(self._transactions.values())
        removed = []
        for partition in partitions:
            pending.pop(partition, None)
            places.pop(partition, None)
            was_stored = committed.pop(partition, None) is not None
            for transaction in transactions:
                transaction.pending.pop(partition, None)
                was_stored |= transaction.stored.pop(partition, None) is not None
            if was_stored:
                removed.append(partition)
        for producer_id in list(self._transactions):
            self._drop_if_empty(producer_id)
        return removed

    def expired(
        self,
        now_ms: int,
        retention_ms: int,
        since: Callable[[CommittedOffset], int],
        subscribed: Collection[str] = (),
    ) -> list[TopicPartition]:
        """The partitions whose offset is older than `retention_ms`, counted from `since(offset)`."""

        def is_over(offset: CommittedOffset) -> bool:
            if offset.expires is not None:
                return now_ms >= offset.expires
            return now_ms - since(offset) >= retention_ms

        return [
            partition
            for partition, offset in self.committed.items()
            if partition[0] not in subscribed and is_over(offset) and not self.is_unstable(partition)
        ]

    def _next_place(self) -> int:
        self._last_place += 1
        return self._last_place

    def _transaction(self, producer_id: int) -> OpenTransaction:
        transaction = self._transactions.get(producer_id)
        if transaction is None:
            transaction = self._transactions[producer_id] = OpenTransaction()
        return transaction

    def _drop_if_empty(self, producer_id: int) -> None:
        if not self._transactions[producer_id]:
            del self._transactions[producer_id]
