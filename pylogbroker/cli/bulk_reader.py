"""Reading of many records from given offsets to given ends, as columns, without an object for each.

Partitions are read one after the other. Any error ends the reading: `positions` has what was read, from which
`PartitionReader` goes on. It reports errors, waits for leaders, and follows topics that are created again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np

from pylogbroker.blocking.cluster import BlockingCluster
from pylogbroker.blocking.fetcher import FetchedBatches, PartitionFetcher
from pylogbroker.cli.cluster_options import Connection
from pylogbroker.client import settings as client_settings
from pylogbroker.errors import PylogbrokerError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.records.columnar import AbortedTransactions, Columns, columns_from, entry_groups
from pylogbroker.records.columnar.varints import Flags

_TIMEOUT_SECONDS: Final = 1.0  # then the other reader says what is wrong


class BulkReader:
    def __init__(
        self, connection: Connection, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> None:
        self.positions = dict(starts)
        self._ends = ends
        self._settings = {
            "isolation.level": "read_committed",
            **connection.settings(client_settings.CONSUMER),
            "default.api.timeout.ms": str(round(_TIMEOUT_SECONDS * 1000)),
        }

    def columns(self) -> Iterator[tuple[TopicPartition, Columns]]:
        """Yield the records of each partition in their order, some megabytes at a time."""
        values = client_settings.read(client_settings.CONSUMER, self._settings)
        try:
            with BlockingCluster(values) as cluster:
                for key, start in sorted(self.positions.items()):
                    for fetched in PartitionFetcher(
                        cluster, *key, start, self._ends[key], stall_timeout=_TIMEOUT_SECONDS
                    ):
                        for columns in self._decoded(key, fetched):
                            yield key, columns
        except PylogbrokerError:
            return

    def _decoded(self, key: TopicPartition, fetched: FetchedBatches) -> Iterator[Columns]:
        end = self._ends[key]
        aborted = None if fetched.aborted is None else AbortedTransactions(fetched.aborted)
        for columns in columns_from(entry_groups(fetched.records, aborted, end=end), fetched.position):
            late = columns.offsets >= end
            yield columns.select(~late) if late.any() else columns
            self.positions[key] = min(columns.next_offset, end)
        self.positions[key] = min(fetched.next_offset, end)


def flags(chosen: Iterable[bool]) -> Flags:
    """Return which records to select."""
    return np.fromiter(chosen, np.bool_)


def read_for(matching: Flags, count: int | None) -> int:
    """Return how many records are read for the first `count` that match; None: all."""
    if count is None:
        return len(matching)
    matches = np.flatnonzero(matching)
    return len(matching) if len(matches) < count else int(matches[count - 1]) + 1
