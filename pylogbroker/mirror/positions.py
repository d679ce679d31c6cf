"""Positions of a mirror in its source, as records of a compacted topic of the target.

The topic and the records are those in which MirrorMaker 2 keeps them: `mm2-offsets.SOURCE.internal`, with the offsets
of a source connector as Kafka Connect writes them. So MirrorMaker 2 continues where a mirror stops, and the reverse.

    key    ["MirrorSourceConnector",{"cluster":"east","partition":0,"topic":"orders"}]
    value  {"offset":41}                                  offset of the last mirrored record
           {"offset":41,"topicId":"rkc2TSJkR2qOO..."}     with the id of the topic, which Kafka Connect ignores
           {"offset":41,"clusterId":"1uyVT..."}           of a topic without an id: the id of its cluster
           {"offset":41,...,"leaderEpoch":7}              with the leader epoch of that record, if it has one: a log
                                                          that was truncated since shows it

The key's bytes matter: Kafka Connect finds a position by them. A position is written in the transaction of its records.
Its header says where the last records lie in both clusters, until offset syncs say so (`offset_translation`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

import attrs
from twisted.logger import Logger

from pylogbroker.errors import CorruptRecords
from pylogbroker.interfaces import TopicPartition
from pylogbroker.mirror.batches import MirroredBatch, new_batch
from pylogbroker.mirror.offset_translation import UnstoredRuns, unstored_runs_of
from pylogbroker.partition_hash import partition_of_key
from pylogbroker.records import Header
from pylogbroker.wire import NO_ID

log = Logger()

_CONNECTOR: Final = "MirrorSourceConnector"
_OFFSET_MAX: Final = (1 << 63) - 2
_EPOCH_MAX: Final = (1 << 31) - 1
_CACHED_KEYS_MAX: Final = 65_536
TOPIC_SETTINGS: Final[Mapping[str, str]] = {"cleanup.policy": "compact", "segment.bytes": "16777216"}
"""Settings of the topic, which is read as a whole at each start: small segments are compacted early."""


@attrs.frozen
class Position:
    """Offset of the next record to mirror, and the id of the topic that has it; of its cluster if it has none."""

    next_offset: int
    topic_id: UUID = NO_ID
    cluster_id: str = ""
    leader_epoch: int = -1
    """Of the batch before `next_offset`; -1 is unknown."""

    @property
    def origin(self) -> UUID | str:
        """The id of the topic or its cluster; "" if the position has none."""
        return self.cluster_id if self.topic_id == NO_ID else self.topic_id


def position_in(next_offset: int, topic_id: UUID, cluster_id: str, leader_epoch: int = -1) -> Position:
    """Return a position in a topic, which may have no id."""
    return Position(next_offset, topic_id, "" if topic_id != NO_ID else cluster_id, leader_epoch)


_TOPIC: Final = re.compile(r"mm2-offsets\.(.+)\.internal")


def positions_topic(source: str) -> str:
    return f"mm2-offsets.{source}.internal"


def is_positions_topic(topic: str) -> bool:
    """Return whether the topic has positions of any source."""
    return _TOPIC.fullmatch(topic) is not None


@lru_cache(_CACHED_KEYS_MAX)
def position_key(source: str, topic: str, partition: int) -> bytes:
    return _json([_CONNECTOR, {"cluster": source, "partition": partition, "topic": topic}])


def position_partition(source: str, topic: str, partition: int, partitions: int) -> int:
    """Return the partition of the positions topic that has a position."""
    return 0 if partitions == 1 else _partition_of(source, topic, partition, partitions)


@lru_cache(_CACHED_KEYS_MAX)
def _partition_of(source: str, topic: str, partition: int, partitions: int) -> int:
    return partition_of_key(position_key(source, topic, partition), partitions)


def position_value(position: Position) -> bytes:
    content = b'{"offset":%d' % (position.next_offset - 1)
    if position.topic_id != NO_ID:
        content += b',"topicId":"%s"' % _text_of(position.topic_id)
    elif position.cluster_id:
        content += b',"clusterId":' + _json(position.cluster_id)
    if position.leader_epoch >= 0:
        content += b',"leaderEpoch":%d' % position.leader_epoch
    return content + b"}"


@lru_cache(_CACHED_KEYS_MAX)
def _text_of(topic_id: UUID) -> bytes:
    return str(topic_id).encode()


@attrs.frozen
class RecordedPosition:
    """A record of the topic: a position, or None for a deleted one, of a partition of the cluster `source`."""

    source: str
    partition: TopicPartition
    position: Position | None


def recorded_position(key: bytes | None, value: bytes | None) -> RecordedPosition | None:
    """Return what a record says; None for another record."""
    match _parsed(key):
        case [str(), {"cluster": str(source), "partition": int(partition), "topic": str(topic)}] if (
            partition >= 0 and type(partition) is int
        ):
            return RecordedPosition(source, (topic, partition), _position(value))
    return None


@attrs.define(eq=False, repr=False)
class PositionTable:
    """Latest positions of one source, from the records of the topic in their order. Other records are ignored."""

    source: str
    positions: dict[TopicPartition, Position] = attrs.field(factory=dict)
    unstored: dict[TopicPartition, UnstoredRuns] = attrs.field(factory=dict)
    """Runs of records that the headers of the positions have."""

    def learn(self, key: bytes | None, value: bytes | None, headers: Iterable[Header] = ()) -> None:
        record = recorded_position(key, value)
        if record is None or record.source != self.source:
            return
        self.update({record.partition: record.position})
        self.unstored.pop(record.partition, None)
        try:
            unstored = unstored_runs_of(headers)
        except CorruptRecords as error:
            log.warn("a header of a position is ignored: {error}", error=str(error))
            return
        if record.position is not None and unstored is not None:
            self.unstored[record.partition] = unstored

    def update(self, positions: Mapping[TopicPartition, Position | None]) -> None:
        """Take over positions; None deletes one."""
        for partition, position in positions.items():
            if position is None:
                self.positions.pop(partition, None)
            else:
                self.positions[partition] = position


@attrs.define(eq=False, repr=False)
class _Rows:
    keys: list[bytes] = attrs.field(factory=list)
    values: list[bytes | None] = attrs.field(factory=list)
    headers: list[tuple[Header, ...]] = attrs.field(factory=list)


def position_batches(
    source: str,
    positions: Mapping[TopicPartition, Position | None],
    headers: Mapping[TopicPartition, Header],
    partitions: int,
    now: int,
) -> Iterator[tuple[int, MirroredBatch]]:
    """Yield partitions of the positions topic, and the batch that is written there; `now` is in ms."""
    by_partition: dict[int, _Rows] = {}
    for partition, position in positions.items():
        rows = by_partition.setdefault(position_partition(source, *partition, partitions), _Rows())
        rows.keys.append(position_key(source, *partition))
        rows.values.append(None if position is None else position_value(position))
        rows.headers.append((headers[partition],) if partition in headers else ())
    for number, rows in by_partition.items():
        yield number, new_batch(rows.keys, rows.values, now, rows.headers)


def _position(value: bytes | None) -> Position | None:
    """Return the position; None for a deleted one, and for a value that is none."""
    match _parsed(value):
        case {"offset": int(offset), **others} if -1 <= offset <= _OFFSET_MAX and type(offset) is int:
            cluster_id = others.get("clusterId")
            return Position(
                offset + 1,
                _topic_id(others.get("topicId")),
                cluster_id if isinstance(cluster_id, str) else "",
                _leader_epoch(others.get("leaderEpoch")),
            )
    return None


def _leader_epoch(number: object) -> int:
    return number if type(number) is int and 0 <= number <= _EPOCH_MAX else -1


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
