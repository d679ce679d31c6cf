"""Values of share partitions: states, acknowledgements, and records as they are persisted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import groupby
from typing import Final

import attrs


class RecordState(IntEnum):
    """The value is the number in `__share_group_state`."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4


FINISHED: Final = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})


class AcknowledgeType(IntEnum):
    """The value is the number in requests."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


@attrs.frozen
class StateBatch:
    """Neighbouring records as they are persisted; `first` and `last` are inclusive."""

    first: int
    last: int
    state: RecordState
    delivery_count: int


@attrs.frozen
class MissingLetters:
    """Neighbouring records whose dead letters are to be stored: rejected, or else delivered too often."""

    first: int
    last: int
    delivery_count: int
    is_rejected: bool


@attrs.frozen
class LogBatch:
    """Offsets of one batch of the log, inclusive. `is_hidden`: aborted or control records, which nobody may get."""

    first: int
    last: int
    is_hidden: bool = False


@attrs.frozen
class AcquiredRecords:
    first: int
    last: int
    delivery_count: int


@attrs.frozen
class Acknowledgement:
    """Inclusive offsets, with one AcknowledgeType for all or one for each."""

    first: int
    last: int
    types: Sequence[int]


def merged(batches: Iterable[StateBatch]) -> tuple[StateBatch, ...]:
    """Join neighbours of the same state and count."""
    joined: list[StateBatch] = []
    for batch in batches:
        former = joined[-1] if joined else None
        if former is not None and former.last + 1 == batch.first and _is_alike(former, batch):
            joined[-1] = attrs.evolve(former, last=batch.last)
        else:
            joined.append(batch)
    return tuple(joined)


def _is_alike(former: StateBatch, batch: StateBatch) -> bool:
    return (former.state, former.delivery_count) == (batch.state, batch.delivery_count)


def runs_of_types(acknowledgement: Acknowledgement, may_renew: bool) -> list[tuple[int, int, AcknowledgeType]] | None:
    """Return neighbours of the same type, None if the types are invalid."""
    first, last, types = acknowledgement.first, acknowledgement.last, acknowledgement.types
    newest = AcknowledgeType.RENEW if may_renew else AcknowledgeType.REJECT
    if not types or min(types) < AcknowledgeType.GAP or max(types) > newest:
        return None
    if len(types) == 1:
        return [(first, last, AcknowledgeType(types[0]))]
    if len(types) != last - first + 1:
        return None
    runs: list[tuple[int, int, AcknowledgeType]] = []
    for kind, offsets in groupby(range(first, last + 1), key=lambda offset: types[offset - first]):
        neighbours = list(offsets)
        runs.append((neighbours[0], neighbours[-1], AcknowledgeType(kind)))
    return runs
