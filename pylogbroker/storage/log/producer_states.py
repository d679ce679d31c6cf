"""Producer states of a log: last epoch, batches and open transaction of each idempotent producer.

Sequence numbers go, per partition, from 0 to 2^31-1 and again from 0. Checks of a batch:

| the log knows                     | the batch has                          | result                              |
|-----------------------------------|----------------------------------------|-------------------------------------|
| one of the last five batches      | same epoch, first and last sequence    | duplicate: answered with its offsets|
| nothing of the producer           | any epoch, any sequence                | appended                            |
| an epoch                          | a smaller epoch                        | INVALID_PRODUCER_EPOCH              |
| an epoch                          | a larger epoch, first sequence 0       | appended; older batches are dropped |
| an epoch                          | a larger epoch, another first sequence | OUT_OF_ORDER_SEQUENCE_NUMBER        |
| an epoch but no sequence in it    | same epoch, first sequence 0           | appended                            |
| an epoch and last sequence n      | same epoch, first sequence n+1         | appended                            |
| an epoch and last sequence n      | same epoch, another first sequence     | OUT_OF_ORDER_SEQUENCE_NUMBER        |

A transaction lasts from a producer's first transactional batch to the next marker:

| the log knows       | next                                         | result                         |
|---------------------|----------------------------------------------|--------------------------------|
| an open transaction | a batch outside of transactions              | INVALID_TXN_STATE              |
| an epoch            | a marker of a smaller epoch                  | INVALID_PRODUCER_EPOCH         |
| an epoch            | a marker of a larger epoch                   | appended; the epoch counts     |
| a coordinator epoch | a marker of a coordinator of a smaller epoch | TRANSACTION_COORDINATOR_FENCED |
| nothing to end      | a marker                                     | appended, ends nothing         |

Sequence numbers and duplicates are checked only for clients; the leader checked replicated batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Final, NamedTuple, Protocol

import attrs

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.records import Marker

_BATCHES_MAX: Final = 5
_MAX_SEQUENCE: Final = 0x7FFFFFFF
NONE: Final = -1


class Origin(Enum):
    CLIENT = "client"
    NATIVE = "a client that sends the log's own message format"
    CONVERTED = "a client, by way of Preparation.convert"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"


class Produced(Protocol):
    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...
    @property
    def last_sequence(self) -> int: ...
    @property
    def is_transactional(self) -> bool: ...
    @property
    def is_control(self) -> bool: ...
    @property
    def marker(self) -> Marker | None: ...


class WrittenBatch(NamedTuple):
    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


@attrs.frozen
class EndedTransaction:
    """First offset of a transaction in a log, and its marker's offset."""

    producer_id: int
    first_offset: int
    last_offset: int
    committed: bool


@attrs.define
class ProducerStateEntry:
    """State of one producer; -1 stands for unknown."""

    producer_id: int
    epoch: int = NONE
    batches: tuple[WrittenBatch, ...] = ()  # the last five, oldest first, all of `epoch`
    last_timestamp: int = NONE
    coordinator_epoch: int = NONE
    transaction_start: int = NONE  # -1 without an open transaction

    def continues(self, entry: Produced) -> bool:
        """Return whether `entry` has the next sequence number: most need no other check."""
        return (
            entry.producer_epoch == self.epoch
            and bool(self.batches)
            and entry.base_sequence == (self.batches[-1].last_sequence + 1) & _MAX_SEQUENCE
            and (self.transaction_start < 0 or entry.is_transactional)
        )

    def duplicate_of(self, entry: Produced) -> WrittenBatch | None:
        if entry.producer_epoch != self.epoch:
            return None
        first, last = entry.base_sequence, entry.last_sequence
        for batch in self.batches:
            if batch.first_sequence == first and batch.last_sequence == last:
                return batch
        return None

    def check_epochs(self, entry: Produced) -> None:
        """Raise KafkaError for an old producer or coordinator epoch."""
        if entry.producer_epoch < self.epoch:
            raise _stale_epoch(entry, self.epoch)
        marker = entry.marker
        if marker is not None and marker.coordinator_epoch < self.coordinator_epoch:
            raise KafkaError(
                f"a marker of coordinator epoch {marker.coordinator_epoch} after one of {self.coordinator_epoch}",
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            )

    def check_sequence(self, entry: Produced) -> None:
        """Raise KafkaError unless the sequence number is next."""
        first = entry.base_sequence
        if entry.producer_epoch > self.epoch:
            if first != 0 and self.epoch != NONE:
                raise _out_of_order(entry, 0)
            return
        expected = (self.batches[-1].last_sequence + 1) & _MAX_SEQUENCE if self.batches else 0
        if first != expected:
            raise _out_of_order(entry, expected)

    def check_transaction(self, entry: Produced) -> None:
        """Raise KafkaError for a batch outside of the open transaction."""
        if self.transaction_start >= 0 and not (entry.is_transactional or entry.is_control):
            raise KafkaError(
                f"producer {entry.producer_id} writes outside of its transaction", ErrorCode.INVALID_TXN_STATE
            )

    def _heard_of(self, entry: Produced) -> None:
        if entry.producer_epoch != self.epoch:
            self.epoch = entry.producer_epoch
            self.batches = ()
        self.last_timestamp = entry.max_timestamp

    def record(self, entry: Produced) -> None:
        self._heard_of(entry)
        batch = WrittenBatch(
            entry.base_sequence, entry.last_sequence, entry.base_offset, entry.last_offset, entry.max_timestamp
        )
        self.batches = (*self.batches[1 - _BATCHES_MAX :], batch)
        if entry.is_transactional and self.transaction_start < 0:
            self.transaction_start = entry.base_offset

    def end(self, entry: Produced, marker: Marker) -> EndedTransaction | None:
        self._heard_of(entry)
        self.coordinator_epoch = marker.coordinator_epoch
        first, self.transaction_start = self.transaction_start, NONE
        if first < 0:
            return None
        return EndedTransaction(self.producer_id, first, entry.base_offset, marker.committed)


class ProducerStates:
    __slots__ = ("_ended", "_open", "_states")

    def __init__(self, states: Iterable[ProducerStateEntry] = ()) -> None:
        self._states = {state.producer_id: state for state in states}
        self._open = {  # first offsets, ascending
            state.producer_id: state.transaction_start
            for state in sorted(self._states.values(), key=lambda state: state.transaction_start)
            if state.transaction_start >= 0
        }
        self._ended: list[EndedTransaction] = []  # not below the high watermark yet

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[ProducerStateEntry]:
        return iter(self._states.values())

    def get(self, producer_id: int) -> ProducerStateEntry | None:
        return self._states.get(producer_id)

    def is_in_transaction(self, producer_id: int, epoch: int) -> bool:
        state = self._states.get(producer_id)
        return state is not None and state.epoch == epoch and state.transaction_start >= 0

    @property
    def first_undecided_offset(self) -> int | None:
        return next(iter(self._open.values()), None)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return the first offset of the oldest transaction that is open, or ended at or above `high_watermark`."""
        if not self._ended:
            return next(iter(self._open.values())) if self._open else None
        self.forget_visible(high_watermark)
        unseen = [ended.first_offset for ended in self._ended]
        return min([*unseen, *self._open.values()], default=None)

    def forget_visible(self, high_watermark: int) -> None:
        self._ended = [ended for ended in self._ended if ended.last_offset >= high_watermark]

    def keep_unseen(self, before: ProducerStates, upto: int) -> None:
        """Keep ended transactions of `before` up to `upto`: snapshots lack them."""
        last_offsets = {ended.last_offset for ended in self._ended}
        self._ended += [end for end in before._ended if end.last_offset < upto and end.last_offset not in last_offsets]

    def admit(self, entries: Iterable[Produced], origin: Origin) -> WrittenBatch | None:
        """Check batches before an append; return the batch that they repeat, if any.

        Raise KafkaError with the producer's code.
        """
        for entry in entries:
            state = self._states.get(entry.producer_id)
            if state is None or origin is Origin.REPLICATION or state.continues(entry):
                continue
            if origin is not Origin.COORDINATOR and (duplicate := state.duplicate_of(entry)) is not None:
                return duplicate
            state.check_epochs(entry)
            if origin is not Origin.COORDINATOR:
                state.check_sequence(entry)
            state.check_transaction(entry)
        return None

    def order_of_run(self) -> Callable[[Produced], bool]:
        """Return a function that returns whether a batch follows in the order of its producer.

        It is called with the batches of a run, which are not recorded yet; after False, the run is over. Its producers
        are known and have no open transaction.
        """
        last: Produced | None = None
        others: dict[int, Produced] = {}  # last batches of other producers than that of `last`

        def follows(entry: Produced) -> bool:
            nonlocal last
            before = last
            if before is not None and before.producer_id != entry.producer_id:
                others[before.producer_id] = before
                before = others.get(entry.producer_id)
            if before is None:
                state = self._states.get(entry.producer_id)
                is_next = state is not None and state.continues(entry)
            else:
                is_next = (
                    entry.producer_epoch == before.producer_epoch
                    and entry.base_sequence == (before.last_sequence + 1) & _MAX_SEQUENCE
                )
            last = entry
            return is_next

        return follows

    def record(self, entry: Produced) -> EndedTransaction | None:
        producer_id = entry.producer_id
        if entry.is_control:
            return self._end(entry)
        state = self._states.get(producer_id)
        if state is None:
            state = self._states[producer_id] = ProducerStateEntry(producer_id)
        state.record(entry)
        if state.transaction_start >= 0:
            self._open.setdefault(producer_id, state.transaction_start)
        return None

    def _end(self, entry: Produced) -> EndedTransaction | None:
        marker = entry.marker
        if marker is None:  # compacted, or another control record
            return None
        self._open.pop(entry.producer_id, None)
        ended = self._states.setdefault(entry.producer_id, ProducerStateEntry(entry.producer_id)).end(entry, marker)
        if ended is not None:
            self._ended.append(ended)
        return ended

    def expire(self, now_ms: int, after_ms: int) -> int:
        """Forget idle producers outside of transactions; return their number."""
        gone = [
            state.producer_id
            for state in self._states.values()
            if state.transaction_start < 0 and now_ms - state.last_timestamp >= after_ms
        ]
        for producer_id in gone:
            del self._states[producer_id]
        return len(gone)


def _stale_epoch(entry: Produced, epoch: int) -> KafkaError:
    return KafkaError(
        f"epoch {entry.producer_epoch} of producer {entry.producer_id} is smaller than {epoch}, the last one seen",
        ErrorCode.INVALID_PRODUCER_EPOCH,
    )


def _out_of_order(entry: Produced, expected: int) -> KafkaError:
    return KafkaError(
        f"sequence number {entry.base_sequence} of producer {entry.producer_id}, epoch {entry.producer_epoch}; "
        f"{expected} comes next",
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    )
