"""DeleteRecords."""

from __future__ import annotations

from pylogbroker.broker.apis import delete_records
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.broker.nodes import NodeTests


class DeleteRecordsTests(NodeTests):
    def setUp(self) -> None:
        super().setUp()
        self.node.create("t")
        self.node.produce("t", 0, *range(10))
        self.log = self.node.broker.partitions.find("t", 0).log

    def delete(self, offset: int, topic: str = "t", partition: int = 0, version: int = 2) -> tuple[int, int]:
        """The error code and the low watermark."""
        topics = [DeleteRecordsTopic(topic, [DeleteRecordsPartition(partition, offset)])]
        [answer] = self.node.ask(delete_records.handle, DeleteRecordsRequest(topics), version).topics
        [result] = answer.partitions
        self.assertEqual((answer.name, result.partition_index), (topic, partition))
        return result.error_code, result.low_watermark

    def test_every_version_raises_the_logs_start(self) -> None:
        for version in range(3):
            self.assertEqual(self.delete(version + 1, version=version), (ErrorCode.NONE, version + 1))
            self.assertEqual(self.log.log_start_offset, version + 1)

    def test_log_start_offset_is_never_lowered(self) -> None:
        self.delete(5)
        self.assertEqual(self.delete(3), (ErrorCode.NONE, 5))
        self.assertEqual(self.delete(0), (ErrorCode.NONE, 5))

    def test_up_to_the_high_watermark(self) -> None:
        self.log.high_watermark = 7
        self.assertEqual(self.delete(8), (ErrorCode.OFFSET_OUT_OF_RANGE, -1))
        self.assertEqual(self.delete(-2), (ErrorCode.OFFSET_OUT_OF_RANGE, -1))
        self.assertEqual(self.log.log_start_offset, 0)
        self.assertEqual(self.delete(-1), (ErrorCode.NONE, 7))

    def test_log_start_offset_survives_a_restart(self) -> None:
        self.delete(4)
        self.restart()
        self.assertEqual(self.node.broker.partitions.find("t", 0).log.log_start_offset, 4)

    def test_errors(self) -> None:
        self.node.create("compacted", cleanup_policy="compact")
        self.node.create("both", cleanup_policy="compact,delete")
        self.node.create("__consumer_offsets")
        self.assertEqual(self.delete(0, "nope"), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1))
        self.assertEqual(self.delete(0, partition=1), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1))
        self.assertEqual(self.delete(0, "compacted"), (ErrorCode.POLICY_VIOLATION, -1))
        self.assertEqual(self.delete(0, "__consumer_offsets"), (ErrorCode.INVALID_TOPIC_EXCEPTION, -1))
        self.assertEqual(self.delete(0, "both"), (ErrorCode.NONE, 0))
