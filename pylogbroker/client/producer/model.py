"""What goes into a producer, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count, repeat
from typing import Any, NamedTuple

import attrs

from pylogbroker.records import Header

UNKNOWN_OFFSET = -1


class RecordMetadata(NamedTuple):
    """Where a record went.

    The offset is -1 where nobody knows it: with `acks=0`, for a record that a callback handler dropped or an event
    handler of its own took, and for one that the broker has written earlier than it remembers.  The timestamp, in
    milliseconds since 1970, is the record's, or the broker's where the topic has it so.

    A tuple, since one is made for every record.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int


def metadata_of(
    topic: str, partition: int, base_offset: int, timestamps: Sequence[int], append_time: int
) -> list[RecordMetadata]:
    """Where the records of one batch went; without a loop in Python, since it is done for every record."""
    offsets = count(base_offset) if base_offset >= 0 else repeat(UNKNOWN_OFFSET)
    times = timestamps if append_time < 0 else repeat(append_time, len(timestamps))
    rows = zip(repeat(topic), repeat(partition), offsets, times, strict=False)
    return list(map(tuple.__new__, repeat(RecordMetadata), rows))


@attrs.frozen
class ProducerRecord:
    """A record to send: what `send` takes, as a value."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp: int | None = None
    headers: Sequence[Header] = ()


@attrs.frozen
class OffsetToCommit:
    """How far a group has consumed a partition: the offset of the next record, and a note of the consumer's."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


@attrs.frozen
class GroupMember:
    """A group, and the member of it that commits; without a member the commit is not fenced by a rebalance."""

    group: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


Offsets = Mapping[tuple[str, int], int | OffsetToCommit]


@attrs.define
class Counts:
    """What a producer has done so far: plain numbers, to be read at any time.

    `queued` and `waiting` go up and down, the others only up.  Times are seconds, added up over all batches.
    """

    queued: int = 0  # records in the queue or on their way
    queued_bytes: int = 0
    waiting: int = 0  # records that wait for room in the queue
    sent: int = 0  # records that were put into a request for the first time
    acknowledged: int = 0
    failed: int = 0
    dropped: int = 0  # by a callback handler, or because the queue was full
    bytes: int = 0  # of batches in requests, compressed, repeated ones included
    batches: int = 0
    requests: int = 0
    retries: int = 0  # batches that were put into a request again
    queue_time: float = 0.0  # between a batch's beginning and its first request
    request_time: float = 0.0  # between a request and its answer
