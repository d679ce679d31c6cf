"""Replicas of an archived partition: one leader copies, followers rely on what it has stored."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Mapping
from tempfile import TemporaryDirectory
from typing import Any

from pylogbroker.broker.apis import fetch
from pylogbroker.errors import ErrorCode
from pylogbroker.interfaces import Create, NodeExists
from pylogbroker.records import Buffer, entries
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pylogbroker.wire.messages.list_offsets import ListOffsetsRequest
from tests.broker.replication.cluster import TOPIC, ClusterTests
from tests.broker.trees import now

VALUES = [b"%020d" % number for number in range(9)]
ARCHIVED = {"remote.storage.enable": "true", "segment.bytes": "200", "local.retention.bytes": "1"}


class ArchivedClusterTests(ClusterTests):
    brokers = (1, 2)
    settings: Mapping[str, str] = {}
    more_settings: Mapping[str, str] = {}
    topic_settings: Mapping[str, str] = ARCHIVED

    def setUp(self) -> None:
        self.store = self.enterContext(TemporaryDirectory())
        self.settings = {
            "remote.log.storage.system.enable": "true",
            "remote.log.storage": f"directory:{self.store}",
            "log.flush.interval.messages": "1",
            **self.more_settings,
        }
        super().setUp()

    def start(self, broker: int) -> None:
        super().start(broker)
        text = json.dumps({"version": 1, "config": dict(self.topic_settings)}).encode()
        for path, data in (("/config", b""), ("/config/topics", b""), (f"/config/topics/{TOPIC}", text)):
            with contextlib.suppress(NodeExists):
                now(self.cluster.nodes[broker].tree.commit([Create(path, data)]))

    def archive(self, *brokers: int) -> None:
        """Let brokers copy or list segments, and delete them locally, some time later."""
        self.cluster.settle(11)
        for broker in brokers:
            node = self.cluster.nodes[broker].broker
            assert node.archive is not None
            now(node.archive.round())
            now(node.log_maintenance.expire())

    def read_all(self, broker: int) -> list[bytes]:
        """All records that a consumer gets from a broker."""
        found: list[bytes] = []
        offset = 0
        while True:
            partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
            request = FetchRequest(max_bytes=1 << 20, topics=[FetchTopic(TOPIC, partitions=[partition])])
            [topic] = self.cluster.nodes[broker].ask(fetch.handle, request, 11).responses
            [answer] = topic.partitions
            self.assertEqual(answer.error_code, ErrorCode.NONE)
            some = [record for record in _records(answer.records) if record[0] >= offset]
            if not some:
                return found
            found += [value for _, value in some]
            offset = some[-1][0] + 1

    def manifests(self) -> list[str]:
        return sorted(file for _, _, files in os.walk(self.store) for file in files if file.endswith(".manifest"))


def _records(records: Buffer | None) -> list[tuple[int, Any]]:
    return [(record.offset, record.value) for entry in entries(records or b"") for record in entry.records()]


class FollowersTests(ArchivedClusterTests):
    def test_followers_delete_what_the_leader_has_stored_and_read_it_there(self) -> None:
        self.create()
        for value in VALUES:
            self.cluster.append(1, value)
        self.cluster.settle(2)
        follower = self.cluster.partition(2).log
        self.archive(2)
        self.assertEqual(follower.local_start_offset, 0)
        self.archive(1, 2)
        self.assertGreater(follower.local_start_offset, 0)
        self.assertEqual((follower.log_start_offset, len(follower.segments)), (0, 1))
        self.assertEqual(self.read_all(1), VALUES)
        self.assertEqual(self.read_all(2), VALUES)

    def test_the_next_leader_goes_on_where_the_former_has_stopped(self) -> None:
        self.create()
        for value in VALUES:
            self.cluster.append(1, value)
        self.archive(1, 2)
        before = self.manifests()
        self.cluster.elect(2)
        for value in VALUES:
            self.cluster.append(2, value)
        self.archive(2, 1)
        self.assertEqual(self.manifests()[: len(before)], before)
        self.assertGreater(len(self.manifests()), len(before) + 2)
        self.assertEqual(self.read_all(2), VALUES * 2)
        self.cluster.elect(1)
        self.assertEqual(self.read_all(1), VALUES * 2)

    def test_a_new_replica_begins_at_the_leaders_local_start(self) -> None:
        self.create(replicas=(1,))
        for value in VALUES:
            self.cluster.append(1, value)
        self.archive(1)
        leader = self.cluster.partition(1).log
        self.cluster.elect(1, isr=(1,), replicas=(1, 2))
        self.cluster.announce(1, 2)
        self.cluster.settle(5)
        follower = self.cluster.partition(2).log
        self.assertEqual(
            (follower.log_start_offset, follower.local_start_offset, follower.log_end_offset),
            (0, leader.local_start_offset, leader.log_end_offset),
        )
        self.assertEqual(follower.epochs.entries[:1], leader.epochs.entries[:1])
        self.assertGreater(leader.local_start_offset, 0)
        self.cluster.elect(2, isr=(1, 2))
        self.cluster.settle(2)
        self.assertEqual(self.read_all(2), VALUES)

    def test_a_new_replica_waits_for_a_store_that_is_away(self) -> None:
        self.create(replicas=(1,))
        for value in VALUES:
            self.cluster.append(1, value)
        self.archive(1)
        os.rename(self.store, self.store + "-away")
        self.cluster.elect(1, isr=(1,), replicas=(1, 2))
        self.cluster.announce(1, 2)
        self.cluster.settle(5)
        follower = self.cluster.partition(2).log
        self.assertEqual(follower.log_end_offset, 0)
        os.rename(self.store + "-away", self.store)
        self.cluster.settle(5)
        self.assertEqual(follower.log_end_offset, len(VALUES))

    def test_a_replica_that_moves_leaves_the_archive_alone(self) -> None:
        self.create()
        for value in VALUES:
            self.cluster.append(1, value)
        self.archive(1, 2)
        before = self.manifests()
        self.cluster.elect(1, isr=(1,), replicas=(1,))
        self.cluster.stop(2, self.cluster.state.leader_epoch, delete=True)
        self.archive(1)
        archive = self.cluster.nodes[2].broker.archive
        assert archive is not None
        now(archive.round())
        self.assertEqual(self.manifests(), before)
        self.assertEqual(self.read_all(1), VALUES)


class TieredEndTests(ArchivedClusterTests):
    """Followers have `follower.fetch.last.tiered.offset.enable`; leaders keep three segments."""

    more_settings = {"follower.fetch.last.tiered.offset.enable": "true", "replica.fetch.backoff.ms": "100"}
    topic_settings = {**ARCHIVED, "local.retention.bytes": "400"}

    def setUp(self) -> None:
        super().setUp()
        self.create(replicas=(1,))
        for value in VALUES:
            self.cluster.append(1, value)
        self.archive(1)
        leader = self.cluster.partition(1)
        assert leader.archive is not None
        self.local_start, self.stored_end = leader.log.local_start_offset, leader.archive.stored_end
        self.assertTrue(0 < self.local_start < self.stored_end < len(VALUES))

    def join(self) -> None:
        """Let broker 2 have a replica."""
        self.cluster.elect(1, isr=(1,), replicas=(1, 2))
        self.cluster.announce(1, 2)
        self.cluster.settle(5)

    def test_a_new_replica_begins_behind_the_last_archived_record(self) -> None:
        self.join()
        log = self.cluster.partition(2).log
        self.assertEqual(
            (log.log_start_offset, log.local_start_offset, log.log_end_offset), (0, self.stored_end, len(VALUES))
        )
        self.assertEqual(log.epochs.entries[:1], self.cluster.partition(1).log.epochs.entries[:1])
        self.cluster.elect(2, isr=(1, 2))
        self.cluster.settle(2)
        self.assertEqual(self.read_all(2), VALUES)

    def test_a_replica_that_has_lost_its_disk_does_so_too(self) -> None:
        self.join()
        self._stacks[2].close()
        shutil.rmtree(self._directories[2])
        os.mkdir(self._directories[2])
        self.start(2)
        self.cluster.announce(1, 2)
        self.cluster.elect(1, isr=(1,), replicas=(1, 2))
        self.cluster.settle(5)
        log = self.cluster.partition(2).log
        self.assertEqual((log.local_start_offset, log.log_end_offset), (self.stored_end, len(VALUES)))

    def test_a_replica_with_records_fetches_on_from_them(self) -> None:
        self.join()
        self.cluster.cut.add((2, 1))
        self.cluster.elect(1, isr=(1,))
        for value in VALUES:
            self.cluster.append(1, value)
        self.archive(1)
        self.cluster.cut.clear()
        self.cluster.settle(5)
        log, leader = self.cluster.partition(2).log, self.cluster.partition(1).log
        self.assertGreater(leader.local_start_offset, len(VALUES))
        self.assertEqual((log.local_start_offset, log.log_end_offset), (leader.local_start_offset, 2 * len(VALUES)))

    def test_a_leader_that_has_not_listed_its_archive_keeps_no_fetcher_waiting(self) -> None:
        self.cluster.elect(1, isr=(1,))  # nothing is listed in the new epoch
        os.rename(self.store, self.store + "-away")
        threads = self.cluster.nodes[1].threads
        threads.holding = True
        self.join()
        listed = [request for request in self.cluster.requests if isinstance(request, ListOffsetsRequest)]
        self.assertGreater(len(listed), 1)  # each was answered
        os.rename(self.store + "-away", self.store)
        while threads.held:
            threads.run_one()
        threads.holding = False
        self.cluster.settle(5)
        self.assertEqual(self.cluster.partition(2).log.local_start_offset, self.stored_end)
