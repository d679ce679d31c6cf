"""Topic of a coordinator's records: created on demand, replayed in pieces, appended to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

import attrs

from pylogbroker.broker.coordinators.partition_writer import Batch, PartitionWriter
from pylogbroker.broker.partitions.delayed_write import DelayedWrite
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.partitions.purgatory import Mark
from pylogbroker.broker.services import LogServices
from pylogbroker.config import BrokerConfig
from pylogbroker.coordinators import AppendCallback, LazyRecords, ProducerIdAndEpoch
from pylogbroker.errors import ErrorCode, KafkaError, StorageFailure
from pylogbroker.metadata.delta import NewTopic
from pylogbroker.metadata.image import TopicImage
from pylogbroker.records import Codec, LogEntry, Record, build, entries
from pylogbroker.storage import FileRegion

Replay = Callable[[Iterable[LogEntry]], None]


@attrs.define(eq=False, repr=False)
class InternalTopic:
    """Log port of a coordinator; replays read `replay_bytes` at a time, a new topic gets `replicas` and `settings`."""

    _services: LogServices
    _writer: PartitionWriter
    name: str
    partitions: int
    replicas: int
    settings: Mapping[str, str]
    replay_bytes: int
    codec: Codec = Codec.NONE

    async def ensure(self) -> None:
        """Create the topic if it does not exist; KafkaError if it cannot be created."""
        if self.name in self._services.metadata.topics:
            return
        try:
            topic = NewTopic(self.name, self.partitions, self.replicas, settings=self.settings)
            await self._services.controller.create_topic(topic)
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise

    def find(self) -> TopicImage | None:
        return self._services.metadata.topics.get(self.name)

    def partition(self, index: int) -> Partition | None:
        return self._services.partitions.led.get((self.name, index))

    async def replay(self, partition: Partition, offset: int, replay: Replay, is_wanted: Callable[[], bool]) -> int:
        """Call `replay` in a worker thread with all entries from `offset` on, also new ones; return the next offset.

        Raise StorageFailure if the disk fails, after taking the log offline.
        """
        log = partition.log
        try:
            while is_wanted() and offset < log.log_end_offset:
                region = log.read(offset, self.replay_bytes, upto=log.log_end_offset)
                if region is None:
                    break
                offset = await self._services.runtime.in_thread(_replay_region, replay, region)
        except OSError as error:
            failure = log.record_failure(error)
            self._services.partitions.request_failed(log, failure)
            raise failure from error
        except StorageFailure as failure:
            self._services.partitions.request_failed(log, failure)
            raise
        return offset

    async def is_committed(self, partition: Partition, offset: int) -> bool:
        """Wait until the high watermark reaches an offset; return False if this broker leads no more."""
        errors: list[KafkaError] = []
        delayed = DelayedWrite(self._services.runtime.clock)
        delayed.add(partition, offset, (Mark.HIGH_WATERMARK,), errors.append)
        await delayed.wait()
        return not errors or partition.log.high_watermark >= offset

    def append(
        self,
        partition: int,
        records: Collection[Record],
        done: AppendCallback,
        producer: ProducerIdAndEpoch | None = None,
        on_disk: bool = False,
    ) -> None:
        """Append as in `LogPort`; a worker thread builds long batches."""
        self._writer.append((self.name, partition), self._batch(records, producer), done, on_disk)

    def append_unreplicated(self, partition: int, records: Collection[Record]) -> None:
        self._writer.append_unreplicated((self.name, partition), self._batch(records, None))

    def _batch(self, records: Collection[Record], producer: ProducerIdAndEpoch | None) -> Batch:
        build_batch = partial(_build, records, self.codec, producer)
        return build_batch if isinstance(records, LazyRecords) else build_batch()


def replication_factor(config: BrokerConfig, name: str) -> int:
    """Return the number of replicas by the setting `name`; 1 for a broker that is alone in its cluster."""
    return config.integer(name) if config.in_cluster else 1


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


def _replay_region(replay: Replay, region: FileRegion) -> int:
    log_entries = list(entries(region.read()))
    replay(log_entries)
    return log_entries[-1].next_offset
