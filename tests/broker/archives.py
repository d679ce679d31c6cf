"""Support of tests of archived topics: a node with a remote storage in a directory, and what clients see of it."""

from __future__ import annotations

import os
from tempfile import TemporaryDirectory
from typing import Any

from pylogbroker.broker.apis import fetch, list_offsets
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.errors import ErrorCode
from pylogbroker.records import Buffer, entries
from pylogbroker.storage import Origin
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from pylogbroker.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.broker.nodes import START, NodeTests
from tests.broker.trees import now
from tests.storage.support import batch

NOW_MS = int(START * 1000)
LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -4, -5, -6


def values_of(records: Buffer | None) -> list[tuple[int, bytes]]:
    """Offsets and values of the records in an answer."""
    data = b"" if records is None else records
    return [(record.offset, record.value or b"") for entry in entries(data) for record in entry.records()]


class ArchiveTests(NodeTests):
    """Each test has a node whose topics may be archived in `self.store`, a directory."""

    more_settings: dict[str, str] = {}

    def setUp(self) -> None:
        self.store = self.enterContext(TemporaryDirectory())
        self.settings = {
            "remote.log.storage.system.enable": "true",
            "remote.log.storage": f"directory:{self.store}",
        } | self.more_settings
        super().setUp()

    def create(self, name: str = "t", **settings: str) -> Partition:
        """Make an archived topic of small segments that keeps nothing on the local disk but the active one."""
        self.node.create(
            name,
            **{"remote_storage_enable": "true", "segment_bytes": "200", "local_retention_bytes": "1"} | settings,
        )
        return self.partition(name)

    def partition(self, name: str = "t") -> Partition:
        return self.node.broker.partitions.find(name, 0)

    def append(self, name: str, *values: bytes, timestamp: int = NOW_MS, **batch_fields: Any) -> None:
        """Append one batch for each value, with the same timestamp."""
        for value in values:
            data = batch([value], [timestamp], **batch_fields)
            self.partition(name).append(data, NOW_MS, Origin.CLIENT)

    def copy(self) -> None:
        """Sync all logs, and let a round of the archive copy what is sealed."""
        for partition in self.node.broker.partitions.hosted.values():
            partition.log.sync()
        self.do_round()

    def do_round(self) -> None:
        archive = self.node.broker.archive
        assert archive is not None
        now_or_fail(archive.round())

    def expire(self) -> None:
        """Let retention delete what may be deleted."""
        now_or_fail(self.node.broker.log_maintenance.expire())

    def archive_all(self, name: str = "t") -> None:
        """Copy all sealed segments, and delete them locally, some time later."""
        self.copy()
        self.node.clock.advance(10)
        self.expire()

    def objects(self) -> list[str]:
        """Names of the objects in the remote storage, without the topic's id and the segment's."""
        found = []
        for directory, _, files in os.walk(self.store):
            for file in files if os.path.basename(directory) != "clusters" else ():
                parts = file.rpartition(".")
                found.append(f"{os.path.basename(directory)}/{parts[0][:-33]}.{parts[2]}")
        return sorted(found)

    # Clients

    def fetched(
        self, offset: int, name: str = "t", *, committed: bool = False, version: int = 11, max_bytes: int = 1 << 20,
        min_bytes: int = 1, max_wait_ms: int = 0,
    ) -> PartitionData:  # fmt: skip
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=int(committed),
            topics=[
                FetchTopic(name, partitions=[FetchPartition(0, fetch_offset=offset, partition_max_bytes=max_bytes)])
            ],
        )
        [topic] = self.node.ask(fetch.handle, request, version).responses
        [partition] = topic.partitions
        return partition

    def fetching(self, offset: int) -> Any:
        """Send a fetch that may wait; return a Deferred of its answer."""
        partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(max_wait_ms=500, max_bytes=1 << 20, topics=[FetchTopic("t", partitions=[partition])])
        return self.node.send(fetch.handle, request, 11)

    def read_all(self, name: str = "t", **fetch_fields: Any) -> list[tuple[int, bytes]]:
        """All records from the log start to the high watermark, as a consumer gets them."""
        records: list[tuple[int, bytes]] = []
        offset = self.offset(EARLIEST, name)
        while True:
            answer = self.fetched(offset, name, **fetch_fields)
            assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
            some = [record for record in values_of(answer.records) if record[0] >= offset]
            if not some:
                return records
            records += some
            offset = some[-1][0] + 1

    def offset(self, timestamp: int, name: str = "t", version: int = 11) -> int:
        request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(name, [ListOffsetsPartition(0, -1, timestamp)])])
        [topic] = self.node.ask(list_offsets.handle, request, version).topics
        assert topic.partitions[0].error_code == ErrorCode.NONE
        found: int = topic.partitions[0].offset
        return found


def now_or_fail(work: Any) -> Any:
    return now(work)
