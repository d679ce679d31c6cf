"""A topic in which a coordinator keeps its records: made on demand, read back slice by slice, appended to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Protocol

import attrs

from pylogbroker.broker.coordinators.partition_writer import AppendCallback, append
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.services import LogServices
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups import ProducerIdAndEpoch
from pylogbroker.metadata.topic_names import Topic
from pylogbroker.records import Codec, LogEntry, Record, build, entries
from pylogbroker.storage import FileRegion

RECORDS_INLINE_MAX = 500  # records in a batch that is built on the reactor thread: about 1 ms


class Replay(Protocol):
    """What the entries of a partition are read back into."""

    def replay(self, entries: Iterable[LogEntry], /) -> None:
        """Take in the entries that follow those taken in before; called in a worker thread."""


@attrs.define(eq=False)
class InternalTopic:
    """`slice_bytes` are read at a time; `overrides` are the settings that the topic is made with."""

    _services: LogServices
    name: str
    partitions: int
    overrides: Mapping[str, str]
    slice_bytes: int
    codec: Codec = Codec.NONE

    async def ensure(self) -> None:
        """Make the topic if it is not there; KafkaError if it cannot be made."""
        if self.name in self._services.catalog.topics:
            return
        try:
            await self._services.catalog.create(self.name, self.partitions, 1, overrides=self.overrides)
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise

    def find(self) -> Topic | None:
        """The topic, if it is there."""
        return self._services.catalog.topics.get(self.name)

    def partition(self, index: int) -> Partition | None:
        """A partition, if this broker leads it."""
        return self._services.partitions.led.get((self.name, index))

    async def replay(self, partition: Partition, loading: Replay, is_wanted: Callable[[], bool]) -> None:
        """Read a partition from its start to its end, also to what is appended meanwhile."""
        records = partition.log
        offset = records.log_start_offset
        while is_wanted() and offset < records.log_end_offset:
            region = records.read(offset, self.slice_bytes, upto=records.log_end_offset)
            if region is None:
                break
            offset = await self._services.runtime.in_thread(_replay_region, loading, region)

    def append(
        self,
        index: int,
        records: Collection[Record],
        done: AppendCallback,
        producer: ProducerIdAndEpoch | None = None,
        on_disk: bool = False,
    ) -> None:
        """Append records to a partition, perhaps as part of a transaction; errors are reported to `done`.

        The batch of many records is built in a worker thread; later appends to the partition wait for it.
        """
        make = partial(_build, records, self.codec, producer)
        append(self._services, (self.name, index), make if len(records) > RECORDS_INLINE_MAX else make(), done, on_disk)


def _build(records: Collection[Record], codec: Codec, producer: ProducerIdAndEpoch | None) -> bytes:
    if producer is None:
        return build(records, codec=codec)
    return build(
        records,
        codec=codec,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        transactional=True,
    )


def _replay_region(loading: Replay, region: FileRegion) -> int:
    """Replay a piece of the log; where the next one begins. Runs in a worker thread."""
    pieces = list(entries(region.read()))
    loading.replay(pieces)
    return pieces[-1].next_offset
