"""Partitioner for the rows of a task.

| the row has   | partition                                                      |
|---------------|----------------------------------------------------------------|
| a partition   | that partition                                                 |
| else a key    | by the key's hash, as in Java's producer                       |
| neither       | in a random cycle; the next one after about one batch of bytes |
"""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pylogbroker.client.metadata import TopicInfo
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.formatting import counted
from pylogbroker.spark.writing.encoder import BinaryColumns, Numbers, data_of, lengths, starts_of
from pylogbroker.spark.writing.key_hash import partitions_of_keys

Partitions = npt.NDArray[np.int32]


class RowPartitioner:
    """Partitioner of one topic; its cycle has the partitions with a leader."""

    def __init__(self, topic: TopicInfo, enough: int) -> None:
        self._name = topic.name
        self._count = len(topic.partitions)
        led = [number for number, partition in enumerate(topic.partitions) if partition.leader >= 0]
        order = led or range(self._count)
        self._order = np.array(random.sample(order, len(order)), np.int32)
        self._enough = enough
        self._given = 0  # bytes in the cycle

    def have(self, chosen: pa.Int32Array | None) -> bool:
        return chosen is None or chosen.null_count == len(chosen) or pc.max(chosen).as_py() < self._count

    def of(self, rows: BinaryColumns, chosen: pa.Int32Array | None = None) -> Partitions:
        by_key = self._by_key(rows)
        if chosen is None or chosen.null_count == len(chosen):
            return by_key
        wrong = pc.or_(pc.less(chosen, 0), pc.greater_equal(chosen, self._count))
        if pc.any(wrong).as_py():
            number = chosen.filter(wrong)[0]
            detail = f"topic {self._name} has {counted(self._count, 'partition')}, so no partition {number}"
            raise KafkaError(detail, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return np.where(np.asarray(chosen.is_null()), by_key, np.asarray(pc.fill_null(chosen, 0)))

    def _by_key(self, rows: BinaryColumns) -> Partitions:
        if self._count == 1:
            return np.zeros(len(rows), np.int32)
        if rows.keys is None or rows.keys.null_count == len(rows):
            return self._cycle(rows.sizes)
        sizes = lengths(rows.keys)
        partitions = partitions_of_keys(data_of(rows.keys), starts_of(rows.keys), np.maximum(sizes, 0), self._count)
        if rows.keys.null_count:
            without = np.flatnonzero(sizes < 0)
            partitions[without] = self._cycle(rows.sizes[without])
        return partitions

    def _cycle(self, sizes: Numbers) -> Partitions:
        before = self._given + np.cumsum(sizes) - sizes
        self._given += int(sizes.sum())
        chosen: Partitions = self._order[before // self._enough % len(self._order)]
        return chosen


def grouped(partitions: Partitions) -> tuple[npt.NDArray[np.int64] | None, list[int]]:
    """Return an order that groups rows by partition (None if grouped), and each group's start."""
    changes, most = np.flatnonzero(np.diff(partitions)) + 1, int(partitions.max())
    if len(changes) <= most:
        runs = [0, *changes.tolist()]
        if len(runs) == len(set(partitions[runs].tolist())):
            return None, runs
    narrow = partitions.astype(np.int16) if most < 1 << 15 else partitions  # NumPy radix-sorts 16-bit integers
    order = np.argsort(narrow, kind="stable")
    return order, [0, *(np.flatnonzero(np.diff(partitions[order])) + 1).tolist()]
