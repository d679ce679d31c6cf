"""The partitions that a broker leads: which logs it takes for a topic's, and what it logs of missing ones."""

from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable
from unittest.mock import patch

from twisted.internet.defer import ensureDeferred

from pylogbroker.broker.apis import metadata
from pylogbroker.errors import ErrorCode
from pylogbroker.interfaces import Create
from pylogbroker.metadata.delta import NewTopic
from pylogbroker.metadata.image import topic_resource
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.log_lines import logged_lines
from tests.broker.nodes import NodeTests
from tests.broker.trees import now


class StrayTests(NodeTests):
    directory_count = 2

    def test_records_of_an_earlier_topic_of_the_name_are_not_served(self) -> None:
        self.node.create("t", 2)
        for index in (0, 1):
            self.node.produce("t", index, *range(1, 11))
        self.node.broker.partitions.directory_failed(self.directories[1], "pulled")
        now(self.node.broker.controller.delete_topic("t"))
        self.restart()
        with logged_lines() as lines:
            self.node.create("t", 2)
        self.assertEqual([self.node.broker.partitions.find("t", index).log.log_end_offset for index in (0, 1)], [0, 0])
        [stray] = [name for name in os.listdir(self.directories[1]) if name.endswith("-stray")]
        self.assertEqual(len([line for line in lines if stray in line]), 1)
        self.node.produce("t", 1, 5)
        self.restart()
        self.assertEqual(self.node.broker.partitions.find("t", 1).log.log_end_offset, 1)


class MissingTests(NodeTests):
    def setUp(self) -> None:
        super().setUp()
        self.node.create("lines", 3)
        self.node.create("more", 20)
        for index in range(3):
            self.node.produce("lines", index, 1)

    def restart_without(self, *logs: str) -> list[str]:
        """Restart with these logs removed; what is logged at that."""
        self._stack.close()
        for name in logs:
            shutil.rmtree(f"{self.directories[0]}/{name}")
        with logged_lines() as lines:
            self.restart()
        return lines

    def test_complete_logs_are_not_reported_as_missing(self) -> None:
        self.assertEqual(self.restart_without(), [])

    def test_logs_that_are_gone_are_reported(self) -> None:
        lines = self.restart_without("lines_0", "lines_2")
        message = "records may be lost: lines-0, lines-2 are in no log directory; recreated empty at offset 0"
        self.assertEqual(lines, [message])
        self.assertEqual([self.node.broker.partitions.find("lines", n).log.log_end_offset for n in range(3)], [0, 1, 0])

    def test_many_missing_logs_are_reported_in_one_line(self) -> None:
        [line] = self.restart_without(*(f"more_{index}" for index in range(20)))
        self.assertIn("more-9 and 10 others are in no log directory", line)

    def test_an_interrupted_deletion_is_finished_without_a_line(self) -> None:
        now(self.node.tree.commit([Create("/admin/delete_topics/more")]))
        now(self.node.broker.runtime.in_thread(self.node.broker.logs.delete("more", 7).remove))  # type: ignore[union-attr]
        self.assertEqual(self.restart_without(), [])
        self.assertEqual([name for name in os.listdir(self.directories[0]) if name.startswith("more")], [])
        self.assertNotIn("more", self.node.broker.metadata.topics)


class SliceTests(NodeTests):
    """Each reactor iteration handles one partition."""

    def setUp(self) -> None:
        super().setUp()
        self.node.create("t", 5)
        self.node.broker.runtime.slices.seconds = 0

    def iterate(self) -> None:
        """Run one iteration of a reactor (`Clock.advance` would run several)."""
        now_due = [call for call in self.node.clock.calls if call.getTime() <= self.node.clock.seconds()]
        for call in now_due:
            self.node.clock.calls.remove(call)
            call.func(*call.args, **call.kw)

    def iterations(self, work: Awaitable[object]) -> int:
        """Return the number of iterations until something is done."""
        done = ensureDeferred(work)  # type: ignore[arg-type]
        count = 0
        while not done.called:
            self.iterate()
            count += 1
        self.successResultOf(done)
        return count

    def test_new_partitions_are_served_before_they_are_shown(self) -> None:
        broker = self.node.broker
        created = ensureDeferred(broker.controller.create_topic(NewTopic("new", 5, 1)))
        while "new" not in broker.metadata.topics:
            self.assertFalse(created.called)
            served = len(broker.partitions.led)
            self.iterate()
            self.assertLessEqual(len(broker.partitions.led), served + 1)
        self.assertEqual([broker.partitions.find("new", index).index for index in range(5)], list(range(5)))
        self.node.clock.advance(0)
        self.successResultOf(created)
        self.assertGreater(self.iterations(broker.controller.create_partitions("new", 9)), 3)

    def test_deletion_and_changes_of_settings_run_partition_by_partition(self) -> None:
        controller = self.node.broker.controller
        self.assertGreater(
            self.iterations(controller.alter_config(topic_resource("t"), lambda before: {"segment.ms": "77"})),
            3,
        )
        self.assertEqual({self.node.broker.partitions.find("t", n).log.config.segment_ms for n in range(5)}, {77})
        self.assertGreater(self.iterations(controller.delete_topic("t")), 3)
        self.assertEqual(self.node.broker.partitions.led, {})

    def test_the_later_of_two_config_changes_wins(self) -> None:
        broker = self.node.broker
        for hours in ("3", "4"):
            broker.partitions.settings._on_broker_settings(frozenset())
            changed = ensureDeferred(
                broker.controller.alter_config(topic_resource("t"), lambda before, h=hours: {"segment.ms": h})
            )  # type: ignore[misc]
            self.iterate()
        self.node.clock.advance(0)
        self.successResultOf(changed)
        self.assertEqual({broker.partitions.find("t", index).log.config.segment_ms for index in range(5)}, {4})

    def test_a_stop_completes_running_creations(self) -> None:
        created = ensureDeferred(self.node.broker.controller.create_topic(NewTopic("new", 5, 1)))
        self.restart()
        self.successResultOf(created)
        self.assertEqual(len(self.node.broker.metadata.topics["new"].partitions), 5)


class DeletionTests(NodeTests):
    def test_the_topic_is_forgotten_when_its_logs_cannot_return(self) -> None:
        self.node.create("t", 3)
        synced: list[str] = []
        self.node.threads.holding = True
        deleted = ensureDeferred(self.node.broker.controller.delete_topic("t"))
        self.assertEqual(
            [name for name in os.listdir(self.directories[0]) if name.startswith("t_") and "-" not in name], []
        )
        self.assertTrue(now(self.node.tree.exists("/brokers/topics/t")))
        with patch("pylogbroker.storage.logdirs.log_manager.sync_file", synced.append):
            self.node.threads.run_one()
        self.assertEqual(synced, [self.directories[0]])
        self.successResultOf(deleted)
        self.assertFalse(now(self.node.tree.exists("/brokers/topics/t")))
        self.assertEqual(len(self.node.threads.held), 1, "one task removes all files")
        self.node.threads.run_one()
        self.assertEqual([name for name in os.listdir(self.directories[0]) if name.startswith("t_")], [])


class OneBadPathTests(NodeTests):
    def test_a_file_in_the_place_of_a_log_takes_no_other_partition_along(self) -> None:
        self.node.create("lines", 2)
        self.node.create("load", 2)
        self._stack.close()
        path = f"{self.directories[0]}/lines_0"
        shutil.rmtree(path)
        with open(path, "w"):
            pass
        with logged_lines() as lines:
            self.restart()
        self.assertEqual(lines, [f"lines-0 is offline: {path}: not a directory"])
        self.node.produce("load", 0, 1)
        self.node.produce("lines", 1, 1)
        request = MetadataRequest(topics=[MetadataRequestTopic(name="lines")])
        [topic] = self.node.ask(metadata.handle, request).topics
        codes = {found.partition_index: found.error_code for found in topic.partitions}
        self.assertEqual(codes, {0: ErrorCode.LEADER_NOT_AVAILABLE, 1: ErrorCode.NONE})

    def test_a_failing_directory_is_logged_once(self) -> None:
        self.node.create("lines", 3)
        with logged_lines() as lines:
            self.node.broker.partitions.directory_failed(self.directories[0], "the disk burned")
        self.assertEqual(lines, ["lines-0, lines-1, lines-2 are offline: the disk burned"])
