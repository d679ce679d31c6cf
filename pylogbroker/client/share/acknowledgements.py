"""Records that a member has acquired, by partition, until their acknowledgements are sent.

state           event                                   next
--------------  --------------------------------------  --------------
given           acknowledged; or the next poll          acknowledged
acknowledged    sent, unless RENEW                      (forgotten)
                RENEW, which the broker does not know   given
                sent, RENEW                             renewed
renewed         acknowledged                            acknowledged
any             the session with the broker ends        (forgotten): the broker gives them to others
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

import attrs

from pylogbroker.wire.messages.share_fetch import AcknowledgementBatch


class AcknowledgeType(IntEnum):
    """Outcome of a record's processing; GAP is sent for offsets without a record."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


@attrs.define(eq=False, repr=False)
class AcquiredPartition:
    """`may_renew` is False if the broker does not know RENEW."""

    may_renew: bool = True
    _given: set[int] = attrs.field(factory=set)
    _renewed: set[int] = attrs.field(factory=set)
    _acknowledged: dict[int, AcknowledgeType] = attrs.field(factory=dict)
    _ranges: list[tuple[int, int, AcknowledgeType]] = attrs.field(factory=list)  # without records for the program

    @property
    def given(self) -> frozenset[int]:
        """Return offsets that the program has not acknowledged yet."""
        return frozenset(self._given)

    @property
    def is_ready(self) -> bool:
        """Return whether there is anything to send."""
        return bool(self._acknowledged or self._ranges)

    @property
    def renews(self) -> bool:
        return AcknowledgeType.RENEW in self._acknowledged.values()

    def give(self, offset: int) -> None:
        self._given.add(offset)

    def acknowledge(self, offset: int, kind: AcknowledgeType) -> bool:
        """Return whether the record is this member's; a later acknowledgement replaces one that is not sent."""
        if offset not in self._given and offset not in self._renewed and offset not in self._acknowledged:
            return False
        self._given.discard(offset)
        self._renewed.discard(offset)
        self._acknowledged[offset] = kind
        return True

    def cancel_renewals(self) -> bool:
        """Take back what is to be renewed, as if it were not acknowledged; return whether there was anything."""
        cancelled = {offset for offset, kind in self._acknowledged.items() if kind is AcknowledgeType.RENEW}
        self._acknowledged = {offset: kind for offset, kind in self._acknowledged.items() if offset not in cancelled}
        self._given |= cancelled
        return bool(cancelled)

    def acknowledge_range(self, first: int, last: int, kind: AcknowledgeType) -> None:
        self._ranges.append((first, last, kind))

    def accept_given(self) -> None:
        self._acknowledged |= dict.fromkeys(self._given, AcknowledgeType.ACCEPT)
        self._given.clear()

    def take(self) -> list[AcknowledgementBatch]:
        """Return what is to be sent; it then counts as sent."""
        batches = [AcknowledgementBatch(first, last, [kind]) for first, last, kind in self._ranges]
        batches += self._runs()
        self._renewed |= {offset for offset, kind in self._acknowledged.items() if kind is AcknowledgeType.RENEW}
        self._acknowledged.clear()
        self._ranges.clear()
        return sorted(batches, key=lambda batch: batch.first_offset)

    def _runs(self) -> Iterator[AcknowledgementBatch]:
        """Yield a batch for each run of offsets without a gap, with one type if all have the same."""
        run: list[tuple[int, AcknowledgeType]] = []
        for offset, kind in sorted(self._acknowledged.items()):
            if run and offset != run[-1][0] + 1:
                yield _batch(run)
                run = []
            run.append((offset, kind))
        if run:
            yield _batch(run)


def _batch(run: list[tuple[int, AcknowledgeType]]) -> AcknowledgementBatch:
    kinds = [int(kind) for _, kind in run]
    return AcknowledgementBatch(run[0][0], run[-1][0], kinds[:1] if len(set(kinds)) == 1 else kinds)
