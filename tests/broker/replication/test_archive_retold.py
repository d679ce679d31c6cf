"""Apache Kafka's tests of tiered storage, retold: the same steps and offsets, on brokers of one process.

Kafka's test                                    retold by
----------------------------------------------  ----------------------------------------------------------------------
AlterLogDirTest                                 tests.broker.test_archive: a log that moves to another directory
DeleteSegmentsByRetentionSize, Time             tests.broker.test_archive_failures: RetentionTests
DeleteSegmentsDueToLogStartOffsetBreachTest     here: deletions over leader epochs
DeleteTopicTest                                 here: a deleted topic with two replicas
DisableRemoteLogOnTopicTest                     here: copies that end, and go on
EnableRemoteLogOnTopicTest                      tests.broker.test_archive: a topic may be archived later
FetchFromLeaderWithCorruptedCheckpointTest      here: lost checkpoints
ListOffsetsTest                                 here: offsets and their leader epochs
OffloadAndConsumeFromLeaderTest                 tests.broker.test_archive: all is there after a restart
PartitionsExpandTest                            tests.broker.test_archive: partitions that are added
ReassignReplicaExpand, Move                     tests.broker.replication.test_archive: a new replica begins ...
ReassignReplicaShrinkTest                       here: a replica that goes
RollAndOffloadActiveSegmentTest                 tests.broker.test_archive: an active segment that expires locally
TransactionsWithTieredStoreTest                 tests.clients.test_archives: aborted transactions in the archive
RemoteTopicCrudTest                             tests.config.test_archive_settings
DelayedRemoteFetch, DelayedRemoteListOffsets    tests.broker.test_archive_failures, test_archive_limits
RemoteLogOffsetReaderTest                       tests.broker.test_archive_limits: SearchTests
RLMQuotaManagerTest                             tests.broker.test_archive_limits: quotas of copies and reads
RemoteIndexCacheTest                            tests.storage.remote.test_chunk_cache, test_reading: damage

Those of RemoteLogManagerTest, by their subject:

highest offset after an unclean election        here: an unclean election
a stale topic of the same name                  tests.broker.test_archive_failures: a topic of the same name
a failed copy leaves no dangling segment        tests.broker.test_archive_lost_answers
a search by time and invalid epochs             tests.storage.remote.test_reading, test_lineage
segments that are not ready, or copied again    tests.storage.remote.test_copying: a crash in a copy
the active segment, and open transactions       tests.broker.test_archive_failures: TransactionTests
the log start when the store is empty           tests.broker.test_archive_failures: an empty store is used from now on
retention over segments that overlap            tests.storage.remote.test_lineage
a deletion that fails, or is cancelled          here: failed deletions
the first batch is too large, missing, emptied  tests.broker.test_archive_failures, test_archive_gaps
the end of the broker beyond a quota            tests.broker.test_archive_limits, test_archive_stop
"""

from __future__ import annotations

import os
from typing import Any
from unittest.mock import patch

from pylogbroker.broker.apis import fetch, list_offsets, update_metadata
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import topic_resource
from pylogbroker.plugins.remote_storages import DirectoryStorage
from pylogbroker.records import entries
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pylogbroker.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pylogbroker.wire.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from tests.broker.archives import EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED
from tests.broker.replication.cluster import CONTROLLER, TOPIC, TOPIC_ID
from tests.broker.replication.test_archive import VALUES, ArchivedClusterTests
from tests.broker.trees import now
from tests.storage.support import NOW, batch

LEADER_OF_DELETED = -2


class RetoldTests(ArchivedClusterTests):
    """Two brokers with replicas of one partition, whose segments have two records."""

    def append(self, leader: int, first: int, count: int) -> None:
        """Append numbered records; number `n` has the timestamp NOW + n."""
        for number in range(first, first + count):
            self.cluster.partition(leader).append(batch([VALUES[number % 9]], [NOW + number]), NOW)
        self.cluster.settle(2)

    def archive_all(self, leader: int) -> None:
        """Let the leader copy and delete, and its follower delete locally, what is due."""
        follower = 3 - leader
        self.archive(leader, follower, leader, follower)

    def segments(self) -> list[tuple[int, int]]:
        """First and end offsets of the segments in the store."""
        return [(int(name[:20]), int(name[21:41])) for name in self.manifests()]

    def read_from(self, broker: int, offset: int) -> list[int]:
        """Offsets of all records that a consumer gets."""
        offsets: list[int] = []
        while True:
            partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
            request = FetchRequest(max_bytes=1 << 20, topics=[FetchTopic(TOPIC, partitions=[partition])])
            [topic] = self.cluster.nodes[broker].ask(fetch.handle, request, 11).responses
            [answer] = topic.partitions
            self.assertEqual(answer.error_code, ErrorCode.NONE)
            some = [record.offset for entry in entries(answer.records or b"") for record in entry.records()]
            some = [number for number in some if number >= offset]
            if not some:
                return offsets
            offsets += some
            offset = some[-1] + 1

    def found(self, leader: int, timestamp: int) -> tuple[int, int]:
        """Leader epoch and offset in an answer to ListOffsets."""
        topic = ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, -1, timestamp)])
        request = ListOffsetsRequest(-1, 0, [topic])
        [answer] = self.cluster.nodes[leader].ask(list_offsets.handle, request, 11).topics[0].partitions
        self.assertEqual(answer.error_code, ErrorCode.NONE)
        return answer.leader_epoch, answer.offset

    def alter(self, **settings: str) -> None:
        """Change the topic's settings on both brokers."""
        changes = {name.replace("_", "."): text for name, text in settings.items()}
        for broker in (1, 2):
            controller: Any = self.cluster.nodes[broker].broker.controller
            now(controller.alter_config(topic_resource(TOPIC), lambda own: {**own, **changes}))

    def test_deletions_over_leader_epochs(self) -> None:
        self.create()
        self.append(1, 0, 5)
        self.archive_all(1)
        self.assertEqual(self.segments(), [(0, 2), (2, 4)])
        leader, other = self.cluster.partition(1).log, self.cluster.partition(2).log
        leader.delete_records_before(3)
        self.archive_all(1)
        self.assertEqual(self.segments(), [(2, 4)])
        self.assertEqual(leader.epochs.entries, ((0, 3),))
        self.assertEqual(self.read_from(1, 3), [3, 4])
        self.cluster.elect(2)
        self.append(2, 5, 5)
        self.archive_all(2)
        self.assertEqual(self.segments(), [(2, 4), (4, 6), (6, 8)])
        self.assertEqual(other.local_start_offset, 8)
        other.delete_records_before(7)
        self.archive_all(2)
        self.assertEqual(self.segments(), [(6, 8)])
        self.assertEqual(other.epochs.entries, ((1, 7),))
        self.assertEqual(self.read_from(2, 7), [7, 8, 9])

    def test_offsets_and_their_leader_epochs(self) -> None:
        self.create()
        self.append(1, 0, 3)
        self.archive_all(1)
        self.cluster.elect(2)
        self.append(2, 3, 3)
        self.archive_all(2)
        self.assertEqual(self.segments(), [(0, 2), (2, 4)])
        expected = {EARLIEST: (0, 0), EARLIEST_LOCAL: (1, 4), LATEST_TIERED: (1, 3), LATEST: (1, 6)}
        expected |= {NOW + 6: (-1, -1), NOW + 5: (1, 5), NOW + 4: (1, 4), NOW - 1: (0, 0)}
        expected |= {NOW: (0, 0), NOW + 1: (0, 1), NOW + 2: (0, 2), NOW + 3: (1, 3)}
        self.assertEqual({timestamp: self.found(2, timestamp) for timestamp in expected}, expected)
        leader = self.cluster.partition(2).log
        leader.delete_records_before(3)
        self.archive_all(2)
        self.assertEqual((self.found(2, EARLIEST), self.found(2, EARLIEST_LOCAL)), ((1, 3), (1, 4)))
        leader.delete_records_before(4)
        self.archive_all(2)
        self.assertEqual(self.segments(), [])
        self.assertEqual((self.found(2, EARLIEST), self.found(2, EARLIEST_LOCAL)), ((1, 4), (1, 4)))
        self.assertEqual(self.found(2, LATEST), (1, 6))

    def test_copies_that_end_and_go_on(self) -> None:
        self.create()
        self.append(1, 0, 3)
        self.archive_all(1)
        self.alter(remote_log_copy_disable="true", local_retention_ms="-2", local_retention_bytes="-2")
        self.assertEqual(self.read_from(1, 0), [0, 1, 2])
        self.append(1, 3, 4)
        self.archive_all(1)
        self.assertEqual(self.segments(), [(0, 2)])
        self.alter(remote_log_copy_disable="false", local_retention_bytes="1")
        self.archive_all(1)
        self.assertEqual(self.segments(), [(0, 2), (2, 4), (4, 6)])
        self.alter(remote_log_copy_disable="true", local_retention_ms="-2", local_retention_bytes="-2")
        self.assertEqual(self.read_from(1, 0), list(range(7)))
        self.cluster.partition(1).log.delete_records_before(2)
        self.archive_all(1)
        self.assertEqual(self.segments(), [(2, 4), (4, 6)])
        self.alter(remote_storage_enable="false", remote_log_delete_on_disable="true")
        self.archive_all(1)
        self.assertEqual(self.segments(), [])
        for broker in (1, 2):
            self.assertEqual(self.cluster.partition(broker).log.log_start_offset, 6)
        self.assertEqual(self.read_from(1, 6), [6])

    def test_lost_checkpoints(self) -> None:
        self.create()
        self.append(1, 0, 5)
        self.archive_all(1)
        self.assertEqual(self.read_from(1, 0), list(range(5)))
        for broker in (2, 1):
            self._stacks[broker].close()
        for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint", ".kafka_cleanshutdown"):
            path = f"{self._directories[1]}/{name}"
            if os.path.exists(path):
                os.unlink(path)
        for broker in (1, 2):
            self.start(broker)
        self.cluster.announce(1, 2)
        self.cluster.elect(1)
        self.append(1, 5, 5)
        self.archive_all(1)
        self.assertEqual(self.segments(), [(0, 2), (2, 4), (4, 6), (6, 8)])
        self.assertEqual(self.read_from(1, 0), list(range(10)))

    def test_a_deleted_topic_with_two_replicas(self) -> None:
        self.create()
        self.append(1, 0, 5)
        self.archive_all(1)
        self.assertEqual(len(self.segments()), 2)
        partition = UpdateMetadataPartitionState(
            partition_index=0, leader=LEADER_OF_DELETED, leader_epoch=1, isr=[], zk_version=1, replicas=[1, 2]
        )
        states = [UpdateMetadataTopicState(TOPIC, TOPIC_ID, [partition])]
        for broker in (1, 2):
            request = UpdateMetadataRequest(CONTROLLER, controller_epoch=1, topic_states=states, live_brokers=[])
            self.assertEqual(self.cluster.nodes[broker].ask(update_metadata.handle, request).error_code, 0)
            self.assertEqual(self.cluster.stop(broker, LEADER_OF_DELETED, delete=True), ErrorCode.NONE)
        self.archive(1, 2)
        self.assertEqual(os.listdir(self.store), ["clusters"])

    def test_a_replica_that_goes(self) -> None:
        self.create()
        self.append(1, 0, 5)
        self.archive_all(1)
        self.cluster.elect(2, isr=(2,), replicas=(2,))
        self.cluster.stop(1, self.cluster.state.leader_epoch, delete=True)
        self.cluster.announce(1, 2)
        self.append(2, 5, 5)
        self.archive(2, 1, 2)
        self.assertEqual(self.segments(), [(0, 2), (2, 4), (4, 6), (6, 8)])
        self.assertEqual(self.read_from(2, 0), list(range(10)))

    def test_an_unclean_election(self) -> None:
        """The archive has records that the new leader has not: those are not read, and others are archived."""
        self.create()
        self.append(1, 0, 3)
        self.archive_all(1)
        self.cluster.cut |= {(1, 2), (2, 1)}
        self.cluster.elect(1, isr=(1,), to=(1,))
        self.append(1, 3, 4)
        self.archive(1, 1)
        self.assertEqual(self.segments(), [(0, 2), (2, 4), (4, 6)])
        self.cluster.elect(2, isr=(2,), to=(2,))
        self.assertEqual(self.cluster.partition(2).log.log_end_offset, 3)
        self.append(2, 3, 6)
        self.archive(2, 2)
        self.assertEqual(self.found(2, LATEST_TIERED), (2, 7))
        self.assertEqual(self.read_from(2, 0), list(range(9)))
        self.assertEqual(self.cluster.partition(2).log.epochs.entries, ((0, 0), (2, 3)))

    def test_failed_deletions(self) -> None:
        self.create()
        self.append(1, 0, 9)
        self.archive_all(1)
        self.assertEqual(len(self.segments()), 4)
        self.cluster.partition(1).log.delete_records_before(8)

        def fail(store: DirectoryStorage, name: str) -> None:
            raise OSError("the disk is read-only")

        with patch.object(DirectoryStorage, "delete", fail):
            self.archive(1)
        archive = self.cluster.partition(1).archive
        assert archive is not None
        self.assertEqual((archive.totals.delete_requests, archive.totals.delete_errors), (1, 1))
        self.cluster.settle(60)
        self.archive(1, 1)
        self.assertEqual(self.segments(), [])
        self.assertEqual(self.read_from(1, 8), [8])
