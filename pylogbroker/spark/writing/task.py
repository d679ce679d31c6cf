"""Rows of one task, from Arrow batches to the producer.

Arrow batches    | 10,000 rows | 10,000 rows | ...       as Spark passes them
portions         |    some megabytes of them    |        sorted by topic and partition, encoded as record batches
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from pylogbroker.blocking.cluster import BlockingCluster
from pylogbroker.client.errors import RecordTooLarge
from pylogbroker.client.metadata import TopicInfo
from pylogbroker.errors import ErrorCode, InvalidRecords, KafkaError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.records.model import Codec
from pylogbroker.rpc.answer_rows import sole_row
from pylogbroker.rpc.errors import raise_for
from pylogbroker.spark.options import WriteOptions
from pylogbroker.spark.writing.columns import Fields
from pylogbroker.spark.writing.encoded import OVERHEAD, Encoded
from pylogbroker.spark.writing.encoder import BinaryColumns, Packing, as_binary, encode, header_bytes
from pylogbroker.spark.writing.partitioner import RowPartitioner, grouped
from pylogbroker.spark.writing.producer import IdempotentProducer
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

_PORTION_BYTES: Final = 4 << 20


class TaskWriter:
    def __init__(
        self, options: WriteOptions, fields: Fields, cluster: BlockingCluster, producer: IdempotentProducer
    ) -> None:
        self._options = options
        self._fields = fields
        self._cluster = cluster
        self._producer = producer
        self._partitioners: dict[str, RowPartitioner] = {}
        settings = options.settings
        self._size = min(settings.integer("batch.size"), settings.integer("max.request.size"))
        self._largest = settings.integer("max.request.size")
        level = settings["compression.level"]
        self._level = level if isinstance(level, int) else None
        self._codec = Codec[settings.text("compression.type").upper()]
        self._compressed = settings.texts("compressed.topics")

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Return when all rows are written."""
        for portion in _portions(batches):
            self._producer.send(self._encode(portion))
        self._producer.flush()

    def _encode(self, portion: pa.RecordBatch) -> dict[TopicPartition, list[Encoded]]:
        rows = self._rows(portion)
        chosen = None if self._fields.partition is None else portion.column(self._fields.partition)
        by_partition: dict[TopicPartition, list[Encoded]] = {}
        for topic, some in self._by_topic(portion).items():
            mine = rows if some is None else rows.take(some)
            partitions = chosen if some is None or chosen is None else chosen.take(pa.array(some))
            for partition, encoded in self._of_topic(topic, mine, partitions):
                by_partition.setdefault((topic, partition), []).append(encoded)
        return by_partition

    def _of_topic(self, topic: str, rows: BinaryColumns, chosen: pa.Int32Array | None) -> Iterator[tuple[int, Encoded]]:
        self._check_sizes(rows)
        partitions = self._partitioner(topic, chosen).of(rows, chosen)
        order, runs = grouped(partitions)
        if order is not None:
            rows, partitions = rows.take(order), partitions[order]
        for first, encoded in encode(rows, runs, self._packing(topic), time.time_ns() // 1_000_000):
            yield int(partitions[first]), encoded

    def _partitioner(self, topic: str, chosen: pa.Int32Array | None) -> RowPartitioner:
        partitioner = self._partitioners.get(topic)
        if partitioner is None or not partitioner.have(chosen):  # the topic may have new partitions
            partitioner = self._partitioners[topic] = RowPartitioner(find_topic(self._cluster, topic), self._size)
        return partitioner

    def _packing(self, topic: str) -> Packing:
        size = min(self._size, self._producer.limit(topic) or self._size)
        codec = self._codec if not self._compressed or topic in self._compressed else Codec.NONE
        return Packing(size, codec, self._level)

    def _check_sizes(self, rows: BinaryColumns) -> None:
        largest = int(rows.sizes.max()) + OVERHEAD
        if largest > self._largest:
            raise RecordTooLarge(
                f"a row takes {largest} bytes, more than max.request.size, {self._largest}: increase the option"
                " kafka.max.request.size, and the topic's max.message.bytes with it"
            )

    def _rows(self, portion: pa.RecordBatch) -> BinaryColumns:
        fields = self._fields
        values = as_binary(portion.column(fields.value))
        keys = None if fields.key is None else as_binary(portion.column(fields.key))
        if keys is not None and keys.null_count == len(keys):
            keys = None
        headers = None if fields.headers is None else header_bytes(portion.column(fields.headers))
        return BinaryColumns(values, keys, headers)

    def _by_topic(self, portion: pa.RecordBatch) -> Mapping[str, np.ndarray | None]:
        """Return row indices by topic; None for all rows."""
        if self._fields.topic is None:
            return {self._options.topic or "": None}
        column = portion.column(self._fields.topic).dictionary_encode()
        if column.null_count:
            raise InvalidRecords(
                "a row has no topic: its column topic is null; set the option topic to write all rows to one topic"
            )
        names = column.dictionary.to_pylist()
        if len(names) == 1:
            return {names[0]: None}
        numbers = np.asarray(column.indices)
        return {name: np.flatnonzero(numbers == number) for number, name in enumerate(names)}


def find_topic(cluster: BlockingCluster, name: str) -> TopicInfo:
    """Return a topic's metadata; create the topic if allow.auto.create.topics and the broker allow it."""

    def ask() -> TopicInfo:
        topics = cluster.topics([name])
        if name in topics:
            return topics[name]
        if cluster.settings.boolean("allow.auto.create.topics"):
            request = MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
            connection = cluster.any_connection()
            row = sole_row(connection.ask(request), "topics", str(connection.address), name=name)
            raise_for(row.error_code, f"topic {name}")
        raise KafkaError(f"there is no topic {name}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    return cluster.retrying(ask)


def _portions(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            size += batch.nbytes
        if size >= _PORTION_BYTES:
            yield pa.concat_batches(held)
            held, size = [], 0
    if held:
        yield pa.concat_batches(held)
