"""Quotas of bytes per second at the remote storage (KIP-956), and its time limit for searches."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.broker.apis import list_offsets
from pylogbroker.broker.archive.limits import ByteRate, CopyLimits
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import broker_resource
from pylogbroker.metrics.archive import collect_archive
from pylogbroker.metrics.exposition import Exposition
from pylogbroker.plugins.remote_storages import DirectoryStorage
from pylogbroker.security.quotas.rates import Windows
from pylogbroker.storage.remote.copying import CopyAborted
from pylogbroker.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.broker.archives import EARLIEST, LATEST_TIERED, NOW_MS, ArchiveTests
from tests.broker.trees import now

BATCH_BYTES = 88  # of one record with a value of 20 bytes
VALUES = [b"%020d" % number for number in range(40)]


class CopyTests(SynchronousTestCase):
    """A worker's waits move the clock."""

    def setUp(self) -> None:
        self.now_ms = 1_000_000
        self.quota = 100
        self.is_wanted = True
        rate = ByteRate(lambda: self.quota, Windows(3, 1), lambda: self.now_ms)
        self.limits = CopyLimits(rate)
        self.enterContext(patch.object(self.limits._stopped, "wait", self.wait))
        self.pace = self.limits.pace(lambda: self.is_wanted)

    def wait(self, seconds: float) -> None:
        self.assertGreater(seconds, 0)
        self.now_ms += round(seconds * 1000)

    def test_the_quota_of_the_windows_may_be_used_at_once_and_then_per_second(self) -> None:
        begin_ms = self.now_ms
        for _ in range(20):
            self.pace(10)
        self.assertEqual(self.now_ms, begin_ms)  # two whole windows of 100
        for _ in range(200):
            self.pace(10)
        self.assertTrue(18 <= (self.now_ms - begin_ms) / 1000 <= 22)

    def test_a_change_of_the_quota_holds_within_a_second(self) -> None:
        for _ in range(100):
            self.pace(1)
        self.quota = 1
        self.pace(100_000)
        self.quota = 1_000_000
        before_ms = self.now_ms
        self.pace(10)
        self.assertLessEqual(self.now_ms - before_ms, 1000)

    def test_a_waiting_copy_ends_when_it_is_not_wanted(self) -> None:
        self.pace(10_000)
        with patch.object(self.limits._stopped, "wait", lambda seconds: setattr(self, "is_wanted", False)):
            self.assertRaises(CopyAborted, self.pace, 10)

    def test_a_waiting_copy_ends_with_the_broker(self) -> None:
        self.pace(10_000)
        with patch.object(self.limits._stopped, "wait", lambda seconds: self.limits.stop()):
            self.assertRaises(CopyAborted, self.pace, 10)

    def test_throttle_times_are_those_of_the_last_minute(self) -> None:
        self.pace(1000)
        self.pace(10)
        self.assertEqual(self.limits.rate.throttle_times()[0], 8000)  # from 500 per second to 100 in two windows
        self.now_ms += 60_000
        self.assertEqual(self.limits.rate.throttle_times(), [])


class ReadTests(ArchiveTests):
    more_settings = {"remote.log.manager.fetch.max.bytes.per.second": "1000"}

    def setUp(self) -> None:
        super().setUp()
        self.read_bytes = 0
        original = DirectoryStorage.read

        def counted(store: DirectoryStorage, name: str, start: int, length: int) -> bytes:
            data = original(store, name, start, length)
            if not name.endswith(".manifest"):
                self.read_bytes += len(data)
            return data

        self.create(segment_bytes="1000")
        for _ in range(24):
            self.append("t", *VALUES)
        self.archive_all()
        self.enterContext(patch.object(DirectoryStorage, "read", counted))

    def read_for(self, seconds: float) -> int:
        """Read like a consumer for some time; return the number of records."""
        count, until = 0, self.node.clock.seconds() + seconds
        while self.node.clock.seconds() < until:
            answer = self.fetch_or_wait()
            count += answer
            if not answer:
                self.node.clock.advance(0.1)
        return count

    def fetch_or_wait(self) -> int:
        """Fetch at the next offset, for up to `remote.fetch.max.wait.ms`; return the number of records."""
        waiting = self.fetching(self.position)
        while not waiting.called:
            self.node.clock.advance(0.1)
        [topic] = self.successResultOf(waiting).responses
        self.assertEqual(topic.partitions[0].error_code, ErrorCode.NONE)
        records = topic.partitions[0].records or b""
        self.position += len(records) // BATCH_BYTES
        return len(records) // BATCH_BYTES

    position = 0

    def test_reads_keep_to_the_quota_and_none_fails(self) -> None:
        self.read_for(10)
        self.assertTrue(9000 < self.read_bytes <= 1000 * 10 + 2000, self.read_bytes)  # of ten windows, at once
        self.read_for(40)
        self.assertTrue(1000 * 35 < self.read_bytes <= 1000 * (50 + 10) + 2000, self.read_bytes)

    def test_a_change_of_the_quota_holds_within_a_second(self) -> None:
        self.node.broker.archive.access.read_limits.rate.record(1_000_000)  # type: ignore[union-attr]
        self.assertEqual(self.read_for(5), 0)
        name = "remote.log.manager.fetch.max.bytes.per.second"
        change = lambda own: {**own, name: "1000000"}  # noqa: E731
        now(self.node.broker.controller.alter_config(broker_resource(None), change))
        self.assertGreater(self.read_for(1.1), 0)

    def test_local_records_are_not_throttled(self) -> None:
        self.node.broker.archive.access.read_limits.rate.record(1_000_000)  # type: ignore[union-attr]
        self.position = self.partition().log.local_start_offset
        self.assertGreater(self.fetch_or_wait(), 0)

    def test_metrics_have_the_times_of_waits(self) -> None:
        self.assertEqual(self.sample("remote_fetch_throttle_time_max"), 0)
        self.node.broker.archive.access.read_limits.rate.record(30_000)  # type: ignore[union-attr]
        self.assertEqual(self.fetch_or_wait(), 0)
        # 30,000 bytes in ten whole windows are three times the quota
        self.assertEqual(self.sample("remote_fetch_throttle_time_max"), 20_000)
        self.assertGreater(self.sample("remote_fetch_throttle_time_avg"), 0)
        self.assertEqual(self.sample("remote_copy_throttle_time_max"), 0)

    def sample(self, name: str) -> float:
        out = Exposition()
        now(collect_archive(out, self.node.broker))
        text = b"".join(now(out.encode())).decode()
        [line] = [line for line in text.splitlines() if line.startswith(f"kafka_server_remotelogmanager_{name} ")]
        return float(line.split()[1])

    def test_reads_that_wait_end_with_the_broker(self) -> None:
        self.node.broker.archive.access.read_limits.rate.record(1_000_000)  # type: ignore[union-attr]
        self.fetching(0)
        self.node.clock.advance(0.5)
        self.node.broker.archive.access.read_limits.stop()  # type: ignore[union-attr]
        calls = [call for call in self.node.clock.getDelayedCalls() if "ReadLimits" in str(call.func)]
        self.assertEqual(calls, [])


class SearchTests(ArchiveTests):
    def setUp(self) -> None:
        super().setUp()
        self.create()
        self.append("t", *VALUES[:9])
        self.archive_all()
        self.node.threads.holding = True

    def search(self, timestamp: int, timeout_ms: int = 0) -> Any:
        partition = ListOffsetsPartition(0, -1, timestamp)
        request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [partition])], timeout_ms)
        return self.node.send(list_offsets.handle, request, 11)

    def code_of(self, answered: Any) -> ErrorCode:
        return ErrorCode(self.successResultOf(answered).topics[0].partitions[0].error_code)

    def test_a_search_by_time_waits_for_the_remote_storage_for_a_limited_time(self) -> None:
        search = self.search(NOW_MS)
        self.node.clock.advance(29.9)
        self.assertNoResult(search)
        self.node.clock.advance(0.1)
        self.assertEqual(self.code_of(search), ErrorCode.REQUEST_TIMED_OUT)

    def test_a_request_may_name_its_time(self) -> None:
        search = self.search(NOW_MS, timeout_ms=2000)
        self.node.clock.advance(1.9)
        self.assertNoResult(search)
        self.node.clock.advance(0.1)
        self.assertEqual(self.code_of(search), ErrorCode.REQUEST_TIMED_OUT)

    def test_the_next_search_waits_for_the_same_one(self) -> None:
        first = self.search(NOW_MS, timeout_ms=1000)
        self.node.clock.advance(1)
        self.assertEqual(self.code_of(first), ErrorCode.REQUEST_TIMED_OUT)
        second = self.search(NOW_MS)
        while self.node.threads.held:
            self.node.threads.run_one()
        self.assertEqual(self.successResultOf(second).topics[0].partitions[0].offset, 0)

    def test_the_last_stored_offset_has_the_same_limit(self) -> None:
        self.partition().leader_epoch += 1  # the new leader has listed nothing
        search = self.search(LATEST_TIERED)
        self.node.clock.advance(30)
        self.assertEqual(self.code_of(search), ErrorCode.REQUEST_TIMED_OUT)

    def test_other_offsets_need_no_remote_storage(self) -> None:
        self.assertEqual(self.code_of(self.search(EARLIEST)), ErrorCode.NONE)

    def test_a_search_misses_no_record_that_retention_moves_to_the_archive_meanwhile(self) -> None:
        self.node.threads.holding = False
        for number in range(9):
            self.append("t", VALUES[number], timestamp=NOW_MS + 1000 * (number + 1))
        offset = self.partition().log.local_start_offset + 1
        timestamp = NOW_MS + 1000 * (offset - 8)
        self.assertEqual(self.offset(timestamp), offset)
        self.node.threads.holding = True
        search = self.search(timestamp)
        self.node.threads.holding = False
        self.archive_all()
        self.assertGreater(self.partition().log.local_start_offset, offset)
        while self.node.threads.held:
            self.node.threads.run_one()
        self.assertEqual(self.successResultOf(search).topics[0].partitions[0].offset, offset)
