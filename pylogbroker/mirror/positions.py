"""Positions of a mirror in its source, as records of a compacted topic of the target.

The topic and the records are those in which MirrorMaker 2 keeps them: `mm2-offsets.SOURCE.internal`, with the offsets
of a source connector as Kafka Connect writes them. So MirrorMaker 2 continues where a mirror stops, and the reverse.

    key    ["MirrorSourceConnector",{"cluster":"east","partition":0,"topic":"orders"}]
    value  {"offset":41}                                  offset of the last mirrored record
           {"offset":41,"topicId":"rkc2TSJkR2qOO..."}     with the id of the topic, which Kafka Connect ignores

The key's bytes matter: Kafka Connect finds a position by them. A position is written in the transaction of its records.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from uuid import UUID

import attrs

from pylogbroker.interfaces import TopicPartition
from pylogbroker.mirror.batches import MirroredBatch, new_batch
from pylogbroker.partition_hash import partition_of_key
from pylogbroker.wire import NO_ID

_CONNECTOR: Final = "MirrorSourceConnector"
_OFFSET_MAX: Final = (1 << 63) - 2
TOPIC_SETTINGS: Final[Mapping[str, str]] = {"cleanup.policy": "compact", "segment.bytes": "16777216"}
"""Settings of the topic, which is read as a whole at each start: small segments are compacted early."""


@attrs.frozen
class Position:
    """Offset of the next record to mirror, and the id of the topic that has it."""

    next_offset: int
    topic_id: UUID = NO_ID


def positions_topic(source: str) -> str:
    return f"mm2-offsets.{source}.internal"


def position_key(source: str, topic: str, partition: int) -> bytes:
    return _json([_CONNECTOR, {"cluster": source, "partition": partition, "topic": topic}])


def position_value(position: Position) -> bytes:
    value: dict[str, object] = {"offset": position.next_offset - 1}
    if position.topic_id != NO_ID:
        value["topicId"] = str(position.topic_id)
    return _json(value)


@attrs.define(eq=False, repr=False)
class PositionTable:
    """Latest positions of one source, from the records of the topic in their order. Other records are ignored."""

    source: str
    positions: dict[TopicPartition, Position] = attrs.field(factory=dict)

    def learn(self, key: bytes | None, value: bytes | None) -> None:
        partition = _partition(key, self.source)
        if partition is None:
            return
        position = _position(value)
        if position is None:
            self.positions.pop(partition, None)
        else:
            self.positions[partition] = position


def position_batches(
    source: str, positions: Mapping[TopicPartition, Position], partitions: int, now: int
) -> Iterator[tuple[int, MirroredBatch]]:
    """Yield partitions of the positions topic, and the batch that is written there; `now` is in ms."""
    rows: dict[int, tuple[list[bytes], list[bytes]]] = {}
    for (topic, number), position in positions.items():
        key = position_key(source, topic, number)
        keys, values = rows.setdefault(partition_of_key(key, partitions), ([], []))
        keys.append(key)
        values.append(position_value(position))
    for partition, (keys, values) in rows.items():
        yield partition, new_batch(keys, values, now)


def tombstones(source: str, partitions: Iterable[TopicPartition]) -> Iterator[bytes]:
    """Yield the keys of positions to delete."""
    return (position_key(source, topic, partition) for topic, partition in partitions)


def _partition(key: bytes | None, source: str) -> TopicPartition | None:
    match _parsed(key):
        case [str(), {"cluster": cluster, "partition": int(partition), "topic": str(topic)}] if (
            cluster == source and partition >= 0 and type(partition) is int
        ):
            return topic, partition
    return None


def _position(value: bytes | None) -> Position | None:
    """Return the position; None for a deleted one, and for a value that is none."""
    match _parsed(value):
        case {"offset": int(offset), **others} if -1 <= offset <= _OFFSET_MAX and type(offset) is int:
            return Position(offset + 1, _topic_id(others.get("topicId")))
    return None


def _topic_id(text: object) -> UUID:
    try:
        return UUID(text) if isinstance(text, str) else NO_ID
    except ValueError:
        return NO_ID


def _parsed(text: bytes | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
