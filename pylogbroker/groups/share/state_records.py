"""Keys and values of the records in `__share_group_state`, in Kafka's format.

A key or value is an int16 version, then a struct as on the wire. The version of a key is the kind of its record:

    key version   key                             value
    0             group, topic id, partition      `ShareSnapshotValue`: everything about the share partition
    1             the same                        `ShareUpdateValue`: what changed since the snapshot of its epoch

A null snapshot is a tombstone. State batches that an update has replace what they cover.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Final, Protocol
from uuid import UUID

import attrs

from pylogbroker.errors import CorruptRecords
from pylogbroker.groups.share.values import RecordState, StateBatch
from pylogbroker.java.text import parse_whole
from pylogbroker.metadata.zk_schema import BadNode, id_text, parse_id
from pylogbroker.records import Buffer
from pylogbroker.wire import NO_ID, Versions, WireMessage
from pylogbroker.wire.schema import Int8, Int16, Int32, Int64, String, Tag, Uuid, fresh, struct
from pylogbroker.wire.versioned_messages import decode, encode, version_of

SNAPSHOT: Final = 0
UPDATE: Final = 1
UNCHANGED: Final = -1
"""Start offset of an update that does not change it; also an unknown number of delivered records."""
_VALUE_VERSION: Final = 0
_STORED_STATES: Final = frozenset(RecordState) - {RecordState.ACQUIRED}


@struct
class ShareKey(WireMessage):
    versions = Versions(SNAPSHOT, UPDATE)

    group_id: String = ""
    topic_id: Uuid = NO_ID
    partition: Int32 = 0


@struct
class StateBatchSchema:
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


@struct
class ShareSnapshotValue(WireMessage):
    versions = Versions(0, 0, flexible=0)

    snapshot_epoch: Int32 = 0
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Annotated[Int32, Tag(0)] = UNCHANGED
    create_timestamp: Int64 = 0
    write_timestamp: Int64 = 0
    state_batches: list[StateBatchSchema] = fresh(list)


@struct
class ShareUpdateValue(WireMessage):
    versions = Versions(0, 0, flexible=0)

    snapshot_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = UNCHANGED
    delivery_complete_count: Annotated[Int32, Tag(0)] = UNCHANGED
    state_batches: list[StateBatchSchema] = fresh(list)


@attrs.frozen(cache_hash=True)
class SharePartitionKey:
    group_id: str
    topic_id: UUID
    partition: int

    @classmethod
    def parse(cls, text: str) -> "SharePartitionKey | None":
        """Return the key of a text "group:topic id:partition", None for another text."""
        parts = text.rsplit(":", 2)
        if len(parts) != 3 or not parts[0]:
            return None
        try:
            return cls(parts[0], parse_id(parts[1]), parse_whole(parts[2], 32))
        except (BadNode, ValueError):
            return None

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        return f"{self.group_id}:{id_text(self.topic_id)}:{self.partition}"


def encode_key(key: SharePartitionKey, kind: int) -> bytes:
    return encode(ShareKey(key.group_id, key.topic_id, key.partition), kind)


def decode_key(buffer: Buffer) -> tuple[int, SharePartitionKey] | None:
    """Return the kind and the key; None for an unknown kind."""
    kind = version_of(buffer)
    if kind not in ShareKey.versions:
        return None
    key = decode(ShareKey, buffer)
    return kind, SharePartitionKey(key.group_id, key.topic_id, key.partition)


def encode_value(value: ShareSnapshotValue | ShareUpdateValue) -> bytes:
    return encode(value, _VALUE_VERSION)


def decode_snapshot(buffer: Buffer) -> ShareSnapshotValue:
    return decode(ShareSnapshotValue, buffer)


def decode_update(buffer: Buffer) -> ShareUpdateValue:
    return decode(ShareUpdateValue, buffer)


def to_schema(batches: Iterable[StateBatch]) -> list[StateBatchSchema]:
    return [StateBatchSchema(batch.first, batch.last, batch.state, batch.delivery_count) for batch in batches]


class StateBatchFields(Protocol):
    """A state batch in a record, a request or a response."""

    @property
    def first_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def delivery_state(self) -> int: ...
    @property
    def delivery_count(self) -> int: ...


def from_schema(batches: Iterable[StateBatchFields]) -> tuple[StateBatch, ...]:
    """Raise CorruptRecords for a state that is not stored, and for offsets that are not ascending."""
    result: list[StateBatch] = []
    above = -1
    for batch in batches:
        if not above < batch.first_offset <= batch.last_offset:
            raise CorruptRecords(f"offsets {batch.first_offset} to {batch.last_offset} do not follow {above}")
        if batch.delivery_state not in _STORED_STATES:
            raise CorruptRecords(f"{batch.delivery_state} is not a record's state to be stored")
        above = batch.last_offset
        state = RecordState(batch.delivery_state)
        result.append(StateBatch(batch.first_offset, batch.last_offset, state, batch.delivery_count))
    return tuple(result)
