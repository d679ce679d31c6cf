"""Reading of one topic: its partitions between two offsets, as raw Arrow rows, a few megabytes at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

import attrs
import pyarrow as pa

from pylogbroker.blocking.cluster import BlockingCluster
from pylogbroker.blocking.fetcher import PartitionFetcher
from pylogbroker.client import settings as client_settings
from pylogbroker.client.errors import OutOfRange
from pylogbroker.config import Values
from pylogbroker.config.parsing import closest
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.records.columnar import AbortedTransactions
from pylogbroker.table.bounds import Bound, ReadRange, ranges_of
from pylogbroker.table.decoder import Decoder
from pylogbroker.table.errors import RecordsDeleted
from pylogbroker.wire import NO_ID

_FETCH_BYTES: Final = str(8 << 20)
_NEAR_MAX: Final = 3


@attrs.frozen
class ReadPlan:
    """Ranges to read of a topic; a later topic of that name has another id, and is not read."""

    ranges: tuple[ReadRange, ...]
    topic_id: UUID = NO_ID

    def __len__(self) -> int:
        return sum(map(len, self.ranges))


@attrs.frozen(eq=False, repr=False)
class RawRows:
    """Rows of one partition, with the decoder's columns."""

    partition: int
    rows: pa.RecordBatch
    passed: int = 0
    """Offsets that the rows and the gaps before them have."""

    def taken(self, positions: pa.Array) -> RawRows:
        """Return some of the rows."""
        return self if len(positions) == self.rows.num_rows else attrs.evolve(self, rows=self.rows.take(positions))


def settings_of(bootstrap_servers: str | Sequence[str], settings: Mapping[str, Any], *, committed: bool) -> Values:
    """Return the settings of a client; raise ConfigError."""
    servers = bootstrap_servers if isinstance(bootstrap_servers, str) else ",".join(bootstrap_servers)
    return client_settings.read(
        client_settings.CONSUMER,
        {
            "max.partition.fetch.bytes": _FETCH_BYTES,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            **settings,
            "bootstrap.servers": servers,
        },
    )


@attrs.frozen(eq=False, repr=False)
class TopicSource:
    """Each method has connections of its own, so that threads may share a reader."""

    settings: Values
    topic: str

    def plan(self, partitions: Iterable[int] | None, start: Bound, end: Bound) -> ReadPlan:
        """Return what there is to read now; raise KafkaError for an unknown topic, with names that are near."""
        with BlockingCluster(self.settings) as cluster:
            cluster.reach()
            there = self._partitions(cluster)
            chosen = there if partitions is None else list(partitions)
            if wrong := [number for number in chosen if number not in there]:
                raise ConfigError(
                    f"{self.topic} has no partition {wrong[0]!r}: it has {len(there)}, from 0 to {len(there) - 1}"
                )
            topic_id = cluster.topic_id(self.topic)
            lookup = partial(self._offsets, cluster, topic_id)
            return ReadPlan(tuple(ranges_of(lookup, self.topic, chosen, start, end)), topic_id)

    def first_offsets(self, plan: ReadPlan, since_ms: int) -> dict[int, int]:
        """Return the first offset at or after a time for each partition of a plan; -1 where no record is as late."""
        times = {(self.topic, part.partition): since_ms for part in plan.ranges}
        with BlockingCluster(self.settings) as cluster:
            offsets = self._offsets(cluster, plan.topic_id, times)
        return {partition: offset for (_, partition), offset in offsets.items()}

    def _offsets(
        self, cluster: BlockingCluster, topic_id: UUID, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        return {key: listed.offset for key, listed in cluster.offsets(times).items()}

    def rows(self, plan: ReadPlan, columns: tuple[str, ...]) -> Iterator[RawRows]:
        """Yield rows of the decoder's columns, one partition after the other."""
        with BlockingCluster(self.settings) as cluster:
            for part in plan.ranges:
                if len(part):
                    yield from self._rows(cluster, part, columns, plan.topic_id)

    def _rows(
        self, cluster: BlockingCluster, part: ReadRange, columns: tuple[str, ...], topic_id: UUID
    ) -> Iterator[RawRows]:
        try:
            yield from self._fetched(cluster, part, columns, topic_id)
        except OutOfRange as error:
            if not (part.may_begin_later and error.offset == part.start < error.first):
                raise RecordsDeleted(
                    f"{error}: records were deleted while they were read; read again from there"
                ) from error
            if error.first < part.end:
                yield from self._rows(cluster, attrs.evolve(part, start=error.first), columns, topic_id)

    def _fetched(
        self, cluster: BlockingCluster, part: ReadRange, columns: tuple[str, ...], topic_id: UUID
    ) -> Iterator[RawRows]:
        decoder = Decoder(self.topic, part.partition, columns)
        fetcher = PartitionFetcher(cluster, self.topic, part.partition, part.start, part.end, topic_id=topic_id)
        position = part.start
        for fetched in fetcher:
            aborted = None if fetched.aborted is None else AbortedTransactions(fetched.aborted)
            for decoded in decoder.decode(fetched.records, fetched.position, part.end, aborted):
                if decoded.rows.num_rows:
                    yield RawRows(part.partition, decoded.rows, decoded.next_offset - position)
                    position = decoded.next_offset

    def _partitions(self, cluster: BlockingCluster) -> list[int]:
        topics = cluster.topics([self.topic])
        if self.topic not in topics:
            raise unknown_topic(self.topic, cluster)
        return list(range(len(topics[self.topic].partitions)))


def unknown_topic(topic: str, cluster: BlockingCluster) -> KafkaError:
    """Return the error for a topic that does not exist, with the names that are most like it."""
    names = {name for name, info in cluster.topics().items() if not info.is_internal}
    near: list[str] = []
    while len(near) < _NEAR_MAX and (name := closest(topic, names)):
        near.append(name)
        names.remove(name)
    near += sorted(name for name in names if topic.lower() in name.lower() and topic)[: _NEAR_MAX - len(near)]
    hint = f"; did you mean {' or '.join(near)}?" if near else "; `pylogbroker topic list` lists those there are"
    return KafkaError(f"there is no topic {topic!r}{hint}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
