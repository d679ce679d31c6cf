"""A broker that stops while its archive waits for the store: no coroutine is left, and none begins."""

from __future__ import annotations

import gc
from typing import Any
from unittest.mock import patch

from twisted.internet.defer import Deferred

from pylogbroker.broker.apis import fetch, list_offsets
from pylogbroker.broker.archive.store_calls import ArchiveStopped
from pylogbroker.broker.assembly import Broker
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pylogbroker.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.broker.archives import NOW_MS, ArchiveTests
from tests.broker.log_lines import logged_lines
from tests.broker.nodes import release
from tests.broker.trees import now

VALUES = [b"%020d" % number for number in range(9)]


class StopTests(ArchiveTests):
    def setUp(self) -> None:
        super().setUp()
        for name in ("t", "u", "v"):
            self.create(name)
            self.append(name, *VALUES)
            self.archive_all(name)

    def hold(self) -> None:
        """Let the store answer nothing from now on; nothing of it is cached or listed."""
        archive = self.node.broker.archive
        assert archive is not None
        archive.access.cache._values.clear()
        for partition in self.node.broker.partitions.hosted.values():
            partition.leader_epoch += 1
        self.node.threads.holding = True

    def work(self) -> list[Deferred[Any]]:
        """Begin all kinds of work: a round with more partitions than lists at once, deletions, reads, searches."""
        archive = self.node.broker.archive
        assert archive is not None
        archived = self.partition().archive
        assert archived is not None
        fetched = [self.send_fetch(name, 0) for name in ("t", "u")]
        search = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, NOW_MS)])])
        return [
            Deferred.fromCoroutine(archive.round()),
            Deferred.fromCoroutine(archive.round()),
            *fetched,
            self.node.send(list_offsets.handle, search, 11),
            archived.listed_within(1000),
            Deferred.fromCoroutine(archive.recover(self.partition())),
        ]

    def send_fetch(self, topic: str, offset: int) -> Deferred[Any]:
        partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(max_wait_ms=500, max_bytes=1 << 20, topics=[FetchTopic(topic, partitions=[partition])])
        return self.node.send(fetch.handle, request, 11)

    def test_all_work_ends_with_the_broker(self) -> None:
        now(self.node.broker.controller.delete_topic("v"))
        self.hold()
        pending = self.work()
        self.assertGreaterEqual(len(self.node.threads.held), 3)
        archive = self.node.broker.archive
        assert archive is not None
        self.assertGreaterEqual(len(archive.unfinished()), 3)
        with logged_lines() as lines:
            self.stop()
            outcomes = list[Any]()
            for work in pending:
                work.addBoth(outcomes.append)
            self.assertEqual(len(outcomes), len(pending))
            while self.node.threads.held:
                self.node.threads.run_one()
            gc.collect()
        self.assertEqual((lines, self.flushLoggedErrors()), ([], []))
        codes = [outcome.responses[0].partitions[0].error_code for outcome in outcomes[2:4]]
        self.assertEqual(codes, [ErrorCode.KAFKA_STORAGE_ERROR] * 2)

    def test_nothing_begins_after_the_stop(self) -> None:
        archive, archived = self.node.broker.archive, self.partition().archive
        assert archive is not None
        assert archived is not None
        self.hold()
        self.stop()
        now(archive.round())
        self.failureResultOf(Deferred.fromCoroutine(archived.state_at(5)), ArchiveStopped)  # type: ignore[arg-type]
        self.failureResultOf(archived.reads.read_within(0, 1000, 5, min_one=True, is_committed=False), ArchiveStopped)
        self.assertEqual((self.node.threads.held, archive.unfinished()), ([], []))
        self.assertEqual(self.node.clock.getDelayedCalls(), [])

    def test_a_test_that_leaves_work_fails(self) -> None:
        archive = self.node.broker.archive
        assert archive is not None
        left: Deferred[None] = archive._round.acquire()  # type: ignore[assignment]
        broker = self.node.broker
        with patch.object(Broker, "release"):
            self.assertRaisesRegex(AssertionError, "the archive has not ended: a round", release, broker)
        archive._round.release()
        self.successResultOf(left)


class QuotaTests(ArchiveTests):
    more_settings = {"remote.log.manager.fetch.max.bytes.per.second": "1", "remote.fetch.max.wait.ms": "100000"}

    def test_reads_that_wait_for_their_quota_end_with_the_broker(self) -> None:
        self.create()
        self.append("t", *VALUES)
        self.archive_all()
        self.fetched(0)
        waiting = self.fetching(0)
        self.assertNoResult(waiting)
        self.stop()
        [topic] = self.successResultOf(waiting).responses
        self.assertEqual(topic.partitions[0].error_code, ErrorCode.KAFKA_STORAGE_ERROR)
