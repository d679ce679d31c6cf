"""Archived topics: sealed segments are copied, deleted locally, and still read.

Kafka's own tests of tiered storage (`org.apache.kafka.tiered.storage.integration`), and where they are retold:

    OffloadAndConsumeFromLeader, ListOffsets, RollAndOffloadActiveSegment, EnableRemoteLogOnTopic, PartitionsExpand,
    AlterLogDir                                                                here
    DisableRemoteLogOnTopic, DeleteTopic, DeleteSegmentsByRetentionSize and -Time,
    DeleteSegmentsDueToLogStartOffsetBreach, FetchFromLeaderWithCorruptedCheckpoint    `test_archive_failures`
    TransactionsWithTieredStore                                                `test_archive_failures`, `tests.clients`
    ReassignReplicaExpand, -Move and -Shrink                                   `tests.broker.replication`
"""

from __future__ import annotations

import os

from twisted.internet.defer import ensureDeferred

from pylogbroker.broker.apis import alter_replica_log_dirs
from pylogbroker.broker.partitions.log_config import log_config
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.delta import ConfigChanged, Delta
from pylogbroker.metadata.image import group_resource, topic_resource
from pylogbroker.metrics.archive import collect_archive
from pylogbroker.metrics.exposition import Exposition
from pylogbroker.web.partition_logs import LedLog
from pylogbroker.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tests.broker.archives import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    NOW_MS,
    ArchiveTests,
    values_of,
)
from tests.broker.log_lines import logged_lines
from tests.broker.share_members import ShareMember, offsets
from tests.broker.trees import now
from tests.storage.support import batch

VALUES = [b"%020d" % number for number in range(9)]
ALL = list(enumerate(VALUES))


class FigureTests(ArchiveTests):
    def test_metrics_have_kafkas_names_and_the_counts_of_the_topic(self) -> None:
        self.create()
        self.append("t", *VALUES)
        self.partition().log.sync()
        samples = self.samples()
        self.assertEqual(samples["kafka_server_brokertopicmetrics_remotecopylagsegments"], 4)
        self.archive_all()
        self.read_all()
        samples = self.samples()
        archive = self.partition().archive
        assert archive is not None
        stored = sum(os.path.getsize(path) for path in self.files(".log"))
        indexes = sum(os.path.getsize(path) for path in self.files(".index"))
        for name, value in {
            "remotecopybytes_total": stored + indexes,
            "remotecopyrequests_total": 4,
            "remotecopyerrors_total": 0,
            "remotefetchbytes_total": stored,
            "remotefetcherrors_total": 0,
            "remotecopylagbytes": 0,
            "remotelogsizebytes": stored,
            "remotelogmetadatacount": 4,
        }.items():
            self.assertEqual(samples[f"kafka_server_brokertopicmetrics_{name}"], value, name)
        self.assertEqual(samples["pylogbroker_remote_storage_failures"], 0)

    def samples(self) -> dict[str, float]:
        out = Exposition()
        now(collect_archive(out, self.node.broker))
        lines = b"".join(now(out.encode())).decode().splitlines()
        rows = [line.rpartition(" ") for line in lines if not line.startswith("#")]
        return {name.partition("{")[0]: float(value) for name, _, value in rows}

    def files(self, suffix: str) -> list[str]:
        return [f"{path}/{file}" for path, _, files in os.walk(self.store) for file in files if file.endswith(suffix)]


class NarrowPathTests(ArchiveTests):
    def test_consumers_read_from_the_beginning_over_the_seam(self) -> None:
        log = self.create().log
        self.append("t", *VALUES)
        self.archive_all()
        self.assertEqual(log.log_start_offset, 0)
        self.assertGreater(log.local_start_offset, 0)
        self.assertEqual(len(log.segments), 1)
        self.assertEqual(self.read_all(), ALL)

    def test_offsets_of_an_archived_log(self) -> None:
        log = self.create().log
        self.append("t", *VALUES)
        before = [self.offset(each) for each in (EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD)]
        self.assertEqual(before, [0, 0, -1, 0])
        self.archive_all()
        local = log.segments[0].base_offset
        after = [
            self.offset(each) for each in (EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD, LATEST)
        ]
        self.assertEqual(after, [0, local, local - 1, local, len(VALUES)])

    def test_all_is_there_after_a_restart(self) -> None:
        self.create()
        self.append("t", *VALUES)
        self.archive_all()
        local = self.partition().log.local_start_offset
        self.restart()
        self.assertEqual(self.partition().log.local_start_offset, local)
        self.assertEqual(self.read_all(), ALL)
        self.append("t", b"later")
        self.assertEqual(self.read_all()[-1], (len(VALUES), b"later"))

    def test_records_below_the_log_start_are_out_of_range(self) -> None:
        log = self.create().log
        self.append("t", *VALUES)
        self.archive_all()
        log.delete_records_before(2)
        self.assertEqual(self.fetched(1).error_code, ErrorCode.OFFSET_OUT_OF_RANGE)
        self.assertEqual(self.read_all(), ALL[2:])

    def test_a_search_by_time_covers_both_parts(self) -> None:
        self.create()
        for number, value in enumerate(VALUES):
            self.append("t", value, timestamp=NOW_MS + 1000 * number)
        self.archive_all()
        for number in range(len(VALUES)):
            self.assertEqual(self.offset(NOW_MS + 1000 * number - 1), number)

    def test_old_clients_get_converted_records(self) -> None:
        self.create()
        self.append("t", *VALUES)
        self.archive_all()
        for version in (0, 1, 2, 3, 4):
            self.assertEqual(values_of(self.fetched(0, version=version).records)[0], ALL[0])


class OtherChangesTests(ArchiveTests):
    """Changes of topics and logs, as in Kafka's own tests of tiered storage."""

    directory_count = 2

    def test_a_topic_may_be_archived_later(self) -> None:
        self.node.create("t", segment_bytes="200")
        self.append("t", *VALUES)
        self.archive_all()
        self.assertEqual(self.objects(), [])
        self.alter("t", {"segment.bytes": "200", "remote.storage.enable": "true", "local.retention.ms": "1"})
        self.archive_all()
        self.assertGreater(self.partition().log.local_start_offset, 0)
        self.assertEqual(self.read_all(), ALL)

    def test_an_active_segment_that_expires_locally_is_sealed_and_archived(self) -> None:
        log = self.create(segment_bytes="100000", local_retention_ms="1").log
        self.append("t", *VALUES)
        self.archive_all()
        self.assertEqual(log.local_start_offset, 0)
        self.archive_all()
        self.assertEqual((log.log_start_offset, log.local_start_offset, log.size), (0, len(VALUES), 0))
        self.assertEqual(self.read_all(), ALL)
        self.append("t", b"later")
        self.assertEqual(self.read_all(), [*ALL, (len(VALUES), b"later")])

    def test_partitions_that_are_added_are_archived(self) -> None:
        self.create()
        now(self.node.broker.controller.create_partitions("t", 2))
        added = self.node.broker.partitions.find("t", 1)
        for value in VALUES:
            added.append(batch([value], [NOW_MS]), NOW_MS)
        self.archive_all()
        self.assertGreater(added.log.local_start_offset, 0)

    def test_a_log_that_moves_to_another_directory_goes_on(self) -> None:
        log = self.create().log
        self.append("t", *VALUES)
        self.archive_all()
        local, old = log.local_start_offset, os.path.dirname(log.path)
        [new] = [path for path in self.directories if path != old]
        wanted = AlterReplicaLogDir(new, [AlterReplicaLogDirTopic("t", [0])])
        self.node.ask(alter_replica_log_dirs.handle, AlterReplicaLogDirsRequest([wanted]))
        for _ in range(10):
            self.node.clock.advance(0.1)
        self.assertEqual(os.path.dirname(log.path), new)
        self.assertEqual((log.log_start_offset, log.local_start_offset), (0, local))
        self.append("t", *VALUES)
        self.archive_all()
        self.assertEqual([value for _, value in self.read_all()], VALUES * 2)
        self.restart()
        self.assertEqual([value for _, value in self.read_all()], VALUES * 2)

    def test_internal_topics_are_not_archived(self) -> None:
        self.node.create("t")
        settings = self.node.broker.config.topic({"remote.storage.enable": "true"})
        self.assertTrue(log_config(settings).remote_storage_enable)
        self.assertFalse(log_config(settings, is_internal=True).remote_storage_enable)

    def test_a_broker_without_remote_storage_deletes_nothing(self) -> None:
        self.create()
        self.append("t", *VALUES)
        self.archive_all()
        local = self.partition().log.local_start_offset
        self.settings = {}
        with logged_lines() as lines:
            self.restart()
            self.node.clock.advance(0)
            self.node.clock.advance(100)
        about = [line for line in lines if "this broker has no remote storage" in line]
        self.assertEqual(len(about), 1)
        self.assertIn("archived, but this broker has no remote storage: t. Nothing of them is deleted", about[0])
        self.assertEqual(self.fetched(0).error_code, ErrorCode.KAFKA_STORAGE_ERROR)
        self.append("t", *VALUES)
        self.node.clock.advance(10**7)
        self.expire()
        self.assertEqual(self.partition().log.local_start_offset, local)
        self.assertEqual(self.partition().log.log_start_offset, 0)

    def alter(self, name: str, settings: dict[str, str]) -> None:
        now(self.node.broker.controller.alter_config(topic_resource(name), lambda _: settings))


class CopyLagTests(ArchiveTests):
    def copied(self) -> int:
        """Offset before which all records are stored, after a round."""
        self.copy()
        archive = self.partition().archive
        assert archive is not None
        return archive.stored_end

    def test_segments_are_copied_at_an_age(self) -> None:
        self.create(remote_copy_lag_ms="5000", local_retention_bytes="-2")
        for seconds in range(3):
            self.append("t", *[b"%020d" % seconds] * 2, timestamp=NOW_MS + seconds * 1000)  # one segment
        self.append("t", b"active")
        self.assertEqual(self.copied(), 0)
        self.node.clock.advance(4.999)
        self.assertEqual(self.copied(), 0)
        self.node.clock.advance(0.001)
        self.assertEqual(self.copied(), 2)
        self.node.clock.advance(2)
        self.assertEqual(self.copied(), 6)

    def test_segments_are_copied_when_enough_is_behind_them(self) -> None:
        log = self.create(remote_copy_lag_ms="-1", remote_copy_lag_bytes="400", local_retention_bytes="400").log
        self.append("t", *[b"%020d" % number for number in range(9)])
        behind = lambda end: sum(one.size for one in log.segments if one.base_offset >= end)  # noqa: E731
        end = self.copied()
        self.assertGreaterEqual(behind(end), 400)
        [following] = [one for one in log.segments if one.base_offset == end]
        self.assertLess(behind(end) - following.size, 400)
        self.archive_all()
        self.assertEqual(log.local_start_offset, end)
        self.assertEqual(self.read_all()[0][0], 0)

    def test_a_lag_that_is_set_to_0_copies_at_once(self) -> None:
        self.create(remote_copy_lag_ms="5000", local_retention_bytes="-2")
        self.append("t", *VALUES)
        self.assertEqual(self.copied(), 0)
        settings = dict(self.node.broker.metadata.topic_settings("t")) | {"remote.copy.lag.ms": "0"}
        now(self.node.broker.metadata.publish(Delta.of(ConfigChanged(topic_resource("t"), settings))))
        self.assertGreater(self.copied(), 0)


class OtherReadersTests(ArchiveTests):
    more_settings = {"share.coordinator.state.topic.num.partitions": "3"}

    def test_share_groups_get_archived_records(self) -> None:
        self.create()
        self.append("t", *VALUES)
        self.archive_all()
        change = ConfigChanged(group_resource("g"), {"share.auto.offset.reset": "earliest"})
        now(self.node.broker.metadata.publish(Delta.of(change)))
        topic_id = self.node.broker.metadata.topics["t"].id
        member = ShareMember(self.node)
        found = offsets(member.fetch((topic_id, 0)))
        for _ in range(2 * len(VALUES)):
            found += offsets(member.fetch())
        self.assertEqual(sorted(set(found)), list(range(len(VALUES))))

    def test_share_groups_may_begin_at_a_time_in_the_archive(self) -> None:
        self.create()
        for number, value in enumerate(VALUES):
            self.append("t", value, timestamp=NOW_MS - 60_000 * (len(VALUES) - number))
        self.archive_all()
        self.assertGreater(self.partition().log.local_start_offset, 5)
        change = ConfigChanged(group_resource("g"), {"share.auto.offset.reset": "by_duration:PT5M1S"})
        now(self.node.broker.metadata.publish(Delta.of(change)))
        member = ShareMember(self.node)
        found = offsets(member.fetch((self.node.broker.metadata.topics["t"].id, 0)))
        for _ in range(len(VALUES)):
            found += offsets(member.fetch())
        self.assertEqual(min(found), 5)

    def test_the_web_ui_shows_archived_records(self) -> None:
        self.create()
        self.append("t", *VALUES)
        self.archive_all()
        log = LedLog.find(self.node.broker, "t", 0)
        self.assertEqual((log.log_start_offset, log.high_watermark), (0, len(VALUES)))
        region = now(ensureDeferred(log.region_at(3, log.high_watermark)))
        self.assertIn((3, VALUES[3]), values_of(region.read()))
