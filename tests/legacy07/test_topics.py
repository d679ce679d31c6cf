"""Topics of format 0.7 over time, and among what else a broker has: retention, transactions, epochs, cleaning."""

from __future__ import annotations

import os
from pathlib import Path

from pylogbroker.broker.apis import (
    find_coordinator,
    incremental_alter_configs,
    offset_commit,
    offset_fetch,
    offset_for_leader_epoch,
)
from pylogbroker.errors import ErrorCode
from pylogbroker.records import Record, build
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pylogbroker.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pylogbroker.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.broker.nodes import START
from tests.broker.test_log_cleaner import InProcess
from tests.broker.transactions import TransactionTests
from tests.legacy07 import message_sets
from tests.legacy07.test_requests import SimpleTests
from tests.storage.compaction.support import keyed

NOW = int(START * 1000)
HOUR = 3_600_000
MESSAGES = [message_sets.message(b"%d" % number * 100) for number in range(5)]
STARTS = [110 * number for number in range(5)]


class SegmentTests(SimpleTests):
    """Five messages, a segment each, written hour by hour; the last one now."""

    settings = {"log.retention.check.interval.ms": "10000", "log.segment.delete.delay.ms": "3000"}
    topic_settings: dict[str, str] = {}

    def setUp(self) -> None:
        super().setUp()
        self.node.create("t", message_format_version="0.7", segment_bytes="150", **self.topic_settings)
        for message in MESSAGES:
            self.send(message_sets.produce(b"t", 0, message))
        self.log = self.node.broker.partitions.find("t", 0).log
        self.assertEqual([segment.base_offset for segment in self.log.segments], STARTS)
        for age, segment in enumerate(reversed(self.log.segments)):
            written = (NOW - age * HOUR) / 1000
            os.utime(segment.path, (written, written))

    def files(self) -> list[int]:
        return sorted(int(path.stem) for path in Path(self.log.path).glob("*.kafka"))

    def offsets(self, time: int, count: int = 99) -> list[int]:
        answer = self.send(message_sets.offsets(b"t", 0, time, count)) or b""
        self.assertEqual(answer[:6], (len(answer) - 4).to_bytes(4, "big") + b"\0\0")
        found = [int.from_bytes(answer[at : at + 8], "big") for at in range(10, len(answer), 8)]
        self.assertEqual(int.from_bytes(answer[6:10], "big"), len(found))
        return found


class OffsetsTests(SegmentTests):
    def test_offsets_before_a_time_are_segment_starts(self) -> None:
        newest_first = [550, *reversed(STARTS)]
        self.assertEqual(self.offsets(-1), newest_first)
        self.assertEqual(self.offsets(-2), [0])
        self.assertEqual(self.offsets(NOW), newest_first)
        self.assertEqual(self.offsets(NOW - 1), newest_first[2:])
        self.assertEqual(self.offsets(NOW - 2 * HOUR), newest_first[3:])
        self.assertEqual(self.offsets(NOW - 2 * HOUR - 1), newest_first[4:])
        self.assertEqual(self.offsets(NOW - 9 * HOUR), [])
        self.assertEqual(self.offsets(-3), [])
        self.assertEqual(self.offsets(0x7FFFFFFFFFFFFFFF), newest_first)

    def test_offsets_are_limited_to_the_requested_number(self) -> None:
        self.assertEqual(self.offsets(-1, 1), [550])
        self.assertEqual(self.offsets(-1, 3), [550, 440, 330])
        self.assertEqual(self.offsets(NOW - 2 * HOUR, 2), [220, 110])
        self.assertEqual(self.offsets(-1, 0x7FFFFFFF), [550, *reversed(STARTS)])
        for count in (0, -1, -0x80000000):
            self.assertEqual(self.offsets(-1, count), [])

    def test_a_fetch_ends_with_its_segment_and_goes_on_in_the_next(self) -> None:
        position, found = 3, b""
        while (answer := self.send(message_sets.fetch(b"t", 0, position)) or b"") != message_sets.answer(0):
            self.assertEqual(answer[4:6], b"\0\0")
            found += answer[6:]
            position += len(answer) - 6
        self.assertEqual(found, b"".join(MESSAGES)[3:])


class RetentionTests(SegmentTests):
    topic_settings = {"retention_ms": str(2 * HOUR + HOUR // 2)}

    def test_segments_older_than_retention_are_deleted(self) -> None:
        self.node.clock.advance(10)
        self.assertEqual(self.files(), STARTS[2:])
        self.assertEqual(self.offsets(-2), [220])
        self.assertEqual(self.send(message_sets.fetch(b"t", 0, 219)), message_sets.answer(1))
        self.assertEqual(self.send(message_sets.fetch(b"t", 0, 220)), message_sets.answer(0, MESSAGES[2]))
        self.restart()
        self.assertEqual(self.offsets(-2), [220])
        self.assertEqual(self.send(message_sets.fetch(b"t", 0, 109)), message_sets.answer(1))
        self.assertEqual(self.send(message_sets.fetch(b"t", 0, 550)), message_sets.answer(0))


class RetentionBytesTests(SegmentTests):
    topic_settings = {"retention_bytes": "300"}

    def test_segments_beyond_the_retention_size_are_deleted(self) -> None:
        self.node.clock.advance(10)
        self.assertEqual(self.files(), STARTS[2:])
        self.send(message_sets.produce(b"t", 0, message_sets.ONE))
        self.assertEqual(self.offsets(-1, 1), [563])


class NoCleaningTests(SegmentTests):
    settings = {"log.cleaner.backoff.ms": "1000"}

    def test_a_broker_that_compacts_by_default_compacts_other_topics(self) -> None:
        cleaner = InProcess()
        self.node.broker.log_cleaner.new_cleaner = lambda: cleaner
        change = AlterConfigsResource(4, "", [AlterableConfig("log.cleanup.policy", 0, "compact")])
        [result] = self.node.ask(incremental_alter_configs.handle, IncrementalAlterConfigsRequest([change])).responses
        self.assertEqual(result.error_code, 0)
        self.node.create("other", segment_bytes="150")
        other = self.node.broker.partitions.find("other", 0)
        for number in range(5):
            other.append(keyed((b"key", b"%d" % number)), NOW)
        self.node.clock.pump([1.0] * 5)
        self.assertEqual({os.path.basename(job.directory) for job in cleaner.jobs}, {"other_0"})
        self.assertEqual(self.files(), STARTS)
        self.send(message_sets.produce(b"t", 0, message_sets.ONE))
        self.assertEqual(self.records(440), [(440, b"4" * 100), (550, b"one")])
        self.assertEqual(self.produced(build([Record(0, NOW, None, b"two")])), (0, 563))


class EpochTests(SimpleTests):
    def ends(self, epoch: int) -> tuple[int, int]:
        wanted = OffsetForLeaderTopic("t", [OffsetForLeaderPartition(0, -1, epoch)])
        [topic] = self.node.ask(offset_for_leader_epoch.handle, OffsetForLeaderEpochRequest(topics=[wanted])).topics
        [answer] = topic.partitions
        self.assertEqual(answer.error_code, 0)
        return answer.leader_epoch, answer.end_offset

    def test_an_epoch_ends_at_a_position(self) -> None:
        self.send(message_sets.produce(b"t", 0, message_sets.ONE + message_sets.ZIPPED))
        epoch = self.node.broker.partitions.find("t", 0).leader_epoch
        self.assertEqual(self.ends(epoch), (epoch, 64))
        self.assertEqual(self.ends(epoch + 1), (-1, -1))
        self.restart()
        self.assertEqual(self.ends(epoch), (epoch, 64))


class GroupTests(SimpleTests):
    settings = {"offsets.topic.num.partitions": "1"}

    def committed(self) -> int:
        group = OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", [0])])
        [answer] = self.node.ask(offset_fetch.handle, OffsetFetchRequest(groups=[group]), 8).groups
        return int(answer.topics[0].partitions[0].committed_offset)

    def test_any_position_can_be_committed(self) -> None:
        self.send(message_sets.produce(b"t", 0, message_sets.ONE + message_sets.ZIPPED))
        self.node.ask(find_coordinator.handle, FindCoordinatorRequest(coordinator_keys=["g"]))
        for position in (1, 13, 14, 15, 64):
            topics = [OffsetCommitRequestTopic("t", [OffsetCommitRequestPartition(0, position)])]
            [topic] = self.node.ask(offset_commit.handle, OffsetCommitRequest("g", topics=topics), 8).topics
            self.assertEqual(topic.partitions[0].error_code, 0)
            self.assertEqual(self.committed(), position)
        self.restart()
        self.assertEqual(self.committed(), 64)


class Transactions(TransactionTests, SimpleTests):
    def test_a_transaction_with_a_0_7_topic_can_end(self) -> None:
        self.node.create("old", message_format_version="0.7")
        producer = self.begun(b"value")
        self.assertEqual(producer.add(("old", 0)), [ErrorCode.NONE])
        self.assertEqual(producer.send(b"value", topic="old"), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
        self.assertEqual(producer.end(committed=True), ErrorCode.NONE)
        self.assertEqual(self.state().transaction_state, "CompleteCommit")
        self.assertEqual(self.committed(), [b"value"])
        self.assertEqual(self.send(message_sets.offsets(b"old", 0, -1, 1)), message_sets.offsets_answer(0, 0))
