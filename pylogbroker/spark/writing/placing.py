"""Which partition each row goes to.

| the row has         | partition                                                                          |
|---------------------|------------------------------------------------------------------------------------|
| a partition         | that one                                                                           |
| else a key          | by the key's hash, as Java's producers choose it                                   |
| neither             | one after the other, in no order; the next when about a batch went to one          |
"""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.spark.writing.encoding import Numbers, Rows, data_of, lengths, starts_of
from pylogbroker.spark.writing.hashing import partitions_of_keys

Partitions = npt.NDArray[np.int32]


class Places:
    """Chooses for the rows of one topic."""

    def __init__(self, topic: str, partitions: int, enough: int) -> None:
        self._topic = topic
        self._order = np.array(random.sample(range(partitions), partitions), np.int32)
        self._enough = enough
        self._given = 0  # bytes of rows with neither, until now

    def of(self, rows: Rows, chosen: pa.Int32Array | None = None) -> Partitions:
        """The partition of each row; `chosen` is the column of those that are given."""
        found = self._by_key(rows)
        if chosen is None or chosen.null_count == len(chosen):
            return found
        wrong = pc.or_(pc.less(chosen, 0), pc.greater_equal(chosen, len(self._order)))
        if pc.any(wrong).as_py():
            number = chosen.filter(wrong)[0]
            detail = f"topic {self._topic} has {len(self._order)} partitions, and no {number}"
            raise KafkaError(detail, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return np.where(np.asarray(chosen.is_null()), found, np.asarray(pc.fill_null(chosen, 0)))

    def _by_key(self, rows: Rows) -> Partitions:
        if len(self._order) == 1:
            return np.zeros(len(rows), np.int32)
        if rows.keys is None or rows.keys.null_count == len(rows):
            return self._one_after_another(rows.sizes())
        sizes = lengths(rows.keys)
        found = partitions_of_keys(data_of(rows.keys), starts_of(rows.keys), np.maximum(sizes, 0), len(self._order))
        if rows.keys.null_count:
            without = np.flatnonzero(sizes < 0)
            found[without] = self._one_after_another(rows.sizes()[without])
        return found

    def _one_after_another(self, sizes: Numbers) -> Partitions:
        before = self._given + np.cumsum(sizes) - sizes
        self._given += int(sizes.sum())
        chosen: Partitions = self._order[before // self._enough % len(self._order)]
        return chosen


def together(partitions: Partitions) -> tuple[npt.NDArray[np.int64] | None, list[int]]:
    """An order in which the rows of a partition are together, None if they are, and where partitions then begin."""
    changes = np.flatnonzero(np.diff(partitions)) + 1
    runs = [0, *changes.tolist()]
    if len(runs) == len(set(partitions[runs].tolist())):
        return None, runs
    narrow = partitions.astype(np.int16) if int(partitions.max()) < 1 << 15 else partitions  # sorted by their digits
    order = np.argsort(narrow, kind="stable")
    return order, [0, *(np.flatnonzero(np.diff(partitions[order])) + 1).tolist()]
