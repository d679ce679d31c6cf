"""Batches of a connection that were rejected: the partition rejects its later ones, too, until the producer can know.

Requests are handled as they arrive, but answered in order. A partition may reject a batch, for the lack of in-sync
replicas, and take batches again long before the client hears of it. The next batch of an idempotent producer would get
OUT_OF_ORDER_SEQUENCE_NUMBER, or the log would have a gap. So later batches get the error of the first one:

    the batch comes from          it gets the same error
    ----------------------------  ------------------------------------------------------------------------------
    the same producer and epoch   until all rejected are repeated; after the answer four times at most, which
                                  is what a producer can have sent before it hears: it has five requests in flight
    no idempotent producer        until the answer to the rejected batch is sent
    another producer or epoch     never

`docs/decisions/0034-requests-handled-ahead.md` has the reasons, and the other answers that are decided early.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple
from weakref import ref

import attrs

from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.records import Buffer

_MAGIC_AT: Final = 16
_PRODUCER: Final = Struct(">qhi")
_PRODUCER_AT: Final = 43
PRODUCER_HEAD_BYTES: Final = _PRODUCER_AT + _PRODUCER.size
"""Length of the head of a batch that names its producer."""
_SEQUENCE_MAX: Final = 0x7FFFFFFF
_NONE: Final = -1
_UNHEARD_MAX: Final = 4
_REJECTIONS_MAX: Final = 1000  # of a connection; the oldest are forgotten

_WRITTEN: Final = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
"""The batch was in the log; without it, another leader has cut it off."""


class ProducerBatch(NamedTuple):
    producer_id: int
    epoch: int
    sequence: int

    @classmethod
    def of(cls, records: Buffer | None) -> ProducerBatch:
        """Read the head of a batch, which may be damaged or of an older format."""
        if records is None or len(records) < PRODUCER_HEAD_BYTES or records[_MAGIC_AT] != 2:
            return _UNNUMBERED
        return cls(*_PRODUCER.unpack_from(records, _PRODUCER_AT))

    def is_first_of(self, later: ProducerBatch) -> bool:
        """Return whether the other one is a later batch of the same producer and epoch."""
        return self[:2] == later[:2] and self.is_before(later.sequence)

    def is_before(self, sequence: int) -> bool:
        return 0 < (sequence - self.sequence) & _SEQUENCE_MAX <= _SEQUENCE_MAX // 2

    def is_in(self, partition: Partition | None) -> bool:
        """Return whether the log has the batch, or later ones of its producer."""
        if partition is None:
            return False
        state = partition.log.producers.get(self.producer_id)
        if state is None or state.epoch != self.epoch or not state.batches:
            return False
        last = state.batches[-1].last_sequence
        return last == self.sequence or self.is_before(last)


_UNNUMBERED: Final = ProducerBatch(_NONE, _NONE, _NONE)


class SameRejection(KafkaError):
    """An earlier batch was rejected for this reason."""


@attrs.define(eq=False, repr=False)
class _Rejection:
    """Rejection of `batch`, and perhaps of later batches up to `last`, of which the first may be written."""

    batch: ProducerBatch
    last: ProducerBatch
    error: SameRejection
    behind: ref[object] | None
    """Last answer that is sent before, or with, the answer to the batch."""
    unheard: int = _UNHEARD_MAX

    def first_missing(self, partition: Partition | None) -> ProducerBatch:
        """Return the first of both that the log does not have; the last if it has both."""
        return self.last if self.batch.is_in(partition) else self.batch


@attrs.define(eq=False, repr=False)
class RejectedBatches:
    """Rejected batches of one connection by topic and partition. `_unanswered` has places of answers, in order."""

    _unanswered: Sequence[object]
    _rejections: dict[tuple[str, int], _Rejection] = attrs.field(factory=dict, init=False)

    def note(
        self, topic: str, index: int, batch: ProducerBatch, error: KafkaError, partition: Partition | None
    ) -> None:
        """Note an error, if it is one that the same batch would not get again for ever."""
        code = error.code
        if not code.retriable or code is ErrorCode.CORRUPT_MESSAGE or isinstance(error, SameRejection):
            return
        if code in _WRITTEN:
            if batch.producer_id < 0:
                return
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        key = topic, index
        first = last = batch
        before = self._rejections.pop(key, None)
        if before is not None and batch.is_first_of(before.last):
            last = before.last
        if (
            before is not None
            and before.first_missing(partition).is_first_of(batch)
            and not before.last.is_in(partition)
        ):
            first = before.batch
        elif before is None and len(self._rejections) >= _REJECTIONS_MAX:
            del self._rejections[next(iter(self._rejections))]
        detail = f"{error.detail} (an earlier batch of this connection was rejected)"
        self._rejections[key] = _Rejection(first, last, SameRejection(detail, code), self._last_unanswered())

    def await_answer(self, keys: Sequence[tuple[str, int]]) -> None:
        """Note that these rejections are in the answer that was the last to get its place."""
        for key in keys:
            if (rejection := self._rejections.get(key)) is not None:
                rejection.behind = self._last_unanswered()

    def concern(self, topic: str, index: int) -> bool:
        """Return whether a rejection may stand in the way of batches to a partition."""
        return (topic, index) in self._rejections

    def check(self, partition: Partition, batch: ProducerBatch) -> None:
        """Raise the error of an earlier batch, if it stands in the way of this one."""
        key = partition.topic, partition.index
        rejection = self._rejections.get(key)
        if rejection is None or batch[:2] != rejection.batch[:2]:
            return
        is_idempotent = batch.producer_id >= 0
        if is_idempotent:
            rejection.batch = rejection.first_missing(partition)
        if is_idempotent and not rejection.batch.is_before(batch.sequence):
            return
        is_answered = self._is_answered(rejection)
        if is_idempotent:
            is_over = rejection.batch.is_in(partition) or (is_answered and not rejection.unheard)
        else:
            is_over = is_answered
        if is_over:
            del self._rejections[key]
            return
        rejection.unheard -= is_answered
        raise rejection.error

    def _last_unanswered(self) -> ref[object] | None:
        return ref(self._unanswered[-1]) if self._unanswered else None

    def _is_answered(self, rejection: _Rejection) -> bool:
        if rejection.behind is not None:
            place = rejection.behind()
            if place is not None and place in self._unanswered:
                return False
            rejection.behind = None
        return True
