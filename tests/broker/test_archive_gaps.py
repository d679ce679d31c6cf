"""Archives of logs without records at some offsets: they were compacted before."""

from __future__ import annotations

import os

from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import topic_resource
from pylogbroker.records import entries
from tests.broker.archives import EARLIEST_LOCAL, NOW_MS, ArchiveTests
from tests.broker.test_log_cleaner import InProcess
from tests.broker.trees import now
from tests.storage.compaction.support import keyed

FIRST_BATCH, EMPTY_BATCH = 571, 61
ARCHIVED = {
    "cleanup.policy": "delete",
    "remote.storage.enable": "true",
    "segment.bytes": "800",
    "local.retention.bytes": "1200",
    "remote.copy.lag.ms": "-1",
    "remote.copy.lag.bytes": "-1",
}


class EmptiedTests(ArchiveTests):
    """Segments that end with an empty batch, of which only those are copied that local retention deletes."""

    more_settings = {"log.cleaner.backoff.ms": "1000", "log.segment.delete.delay.ms": "3000"}

    def setUp(self) -> None:
        super().setUp()
        self.node.broker.log_cleaner.new_cleaner = InProcess
        self.node.create("t", cleanup_policy="compact", segment_bytes="800", min_cleanable_dirty_ratio="0")
        partition = self.partition()
        for number in range(8):
            self.put(partition, b"%d" % number, b"v" * 500)
            self.put(partition, b"counter", b"%d" % number)
            partition.log.roll(NOW_MS)
        self.put(partition, b"last", b"v")
        self.node.clock.advance(1)
        self.assertEqual([segment.size for segment in partition.log.segments[:3]], [FIRST_BATCH + EMPTY_BATCH] * 3)

    def put(self, partition: Partition, key: bytes, value: bytes) -> None:
        partition.append(keyed((key, value), timestamp=NOW_MS), NOW_MS)

    def test_consumers_go_on_behind_offsets_without_records(self) -> None:
        versions = [1, 2, 4, 11]
        ends = range(self.partition().log.high_watermark)
        expected = [self.first_offset(offset, 11) for offset in ends]
        self.assertEqual(expected[:4], [0, 2, 2, 4])
        now(self.node.broker.controller.alter_config(topic_resource("t"), lambda own: ARCHIVED))
        self.archive_all()
        local_start = self.offset(EARLIEST_LOCAL)
        archive = self.partition().archive
        assert archive is not None
        self.assertEqual(archive.stored_end, local_start)
        self.assertEqual((expected[local_start - 2], expected[local_start - 1]), (local_start - 2, local_start))
        for version in versions:
            self.assertEqual([self.first_offset(offset, version) for offset in ends], expected)

    def first_offset(self, offset: int, version: int) -> int:
        """Offset of the first record that a consumer gets."""
        answer = self.fetched(offset, version=version)
        self.assertEqual(answer.error_code, ErrorCode.NONE, offset)
        [first, *_] = [
            record.offset
            for entry in entries(answer.records or b"")
            for record in entry.records()
            if record.offset >= offset
        ]
        return first


class RemovedTests(EmptiedTests):
    """Segments without these batches: those of logs that Apache Kafka has compacted."""

    def setUp(self) -> None:
        super().setUp()
        log = self.partition().log
        segments = {segment.path: segment.size for segment in log.segments[:7]}
        self.stop()
        for path, size in segments.items():
            os.truncate(path, size - EMPTY_BATCH)
        self.restart()
        self.assertEqual([segment.size for segment in self.partition().log.segments[:3]], [FIRST_BATCH] * 3)

    def test_a_lost_segment_is_not_passed_over(self) -> None:
        now(self.node.broker.controller.alter_config(topic_resource("t"), lambda own: ARCHIVED))
        self.archive_all()
        [directory] = [path for path, _, files in os.walk(self.store) if len(files) > 1]
        for name in os.listdir(directory):
            if int(name[:20]) == 2:
                os.unlink(f"{directory}/{name}")
        self.restart()
        self.assertEqual(self.first_offset(0, 11), 0)
        for offset in (1, 2, 3):
            self.assertEqual(self.fetched(offset).error_code, ErrorCode.KAFKA_STORAGE_ERROR)
        self.assertEqual(self.first_offset(4, 11), 4)
