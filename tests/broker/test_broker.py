"""The partitions that a broker leads: which logs it takes for a topic's, and what it tells of missing ones."""

from __future__ import annotations

import os
import shutil

from pylogbroker.broker.apis import metadata
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.lines import said
from tests.broker.nodes import NodeTests
from tests.broker.trees import now


class StrayTests(NodeTests):
    directory_count = 2

    def test_records_of_an_earlier_topic_of_the_name_are_not_served(self) -> None:
        self.node.create("t", 2)
        for index in (0, 1):
            self.node.produce("t", index, *range(1, 11))
        self.node.broker.directory_failed(self.directories[1], "pulled")
        now(self.node.broker.catalog.delete("t"))
        self.restart()
        with said() as lines:
            self.node.create("t", 2)
        self.assertEqual([self.node.broker.find("t", index).log.log_end_offset for index in (0, 1)], [0, 0])
        [stray] = [name for name in os.listdir(self.directories[1]) if name.endswith("-stray")]
        self.assertEqual(len([line for line in lines if stray in line]), 1)
        self.node.produce("t", 1, 5)
        self.restart()
        self.assertEqual(self.node.broker.find("t", 1).log.log_end_offset, 1)


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
        with said() as lines:
            self.restart()
        return lines

    def test_nothing_is_said_where_nothing_is_missing(self) -> None:
        self.assertEqual(self.restart_without(), [])

    def test_logs_that_are_gone_are_told(self) -> None:
        lines = self.restart_without("lines_0", "lines_2")
        self.assertEqual(lines, ["lines-0, lines-2 are in no log directory: begun anew at offset 0"])
        self.assertEqual([self.node.broker.find("lines", n).log.log_end_offset for n in range(3)], [0, 1, 0])

    def test_many_make_one_line(self) -> None:
        [line] = self.restart_without(*(f"more_{index}" for index in range(20)))
        self.assertIn("more-9 and 10 others are in no log directory", line)


class OneBadPathTests(NodeTests):
    def test_a_file_in_the_place_of_a_log_takes_no_other_partition_along(self) -> None:
        self.node.create("lines", 2)
        self.node.create("load", 2)
        self._stack.close()
        path = f"{self.directories[0]}/lines_0"
        shutil.rmtree(path)
        with open(path, "w"):
            pass
        with said() as lines:
            self.restart()
        self.assertEqual(lines, [f"lines-0 is offline: {path}: not a directory"])
        self.node.produce("load", 0, 1)
        self.node.produce("lines", 1, 1)
        request = MetadataRequest(topics=[MetadataRequestTopic(name="lines")])
        [topic] = self.node.ask(metadata.handle, request).topics
        codes = {found.partition_index: found.error_code for found in topic.partitions}
        self.assertEqual(codes, {0: ErrorCode.LEADER_NOT_AVAILABLE, 1: ErrorCode.NONE})

    def test_a_failing_directory_is_told_once(self) -> None:
        self.node.create("lines", 3)
        with said() as lines:
            self.node.broker.directory_failed(self.directories[0], "the disk burned")
        self.assertEqual(lines, ["lines-0, lines-1, lines-2 are offline: the disk burned"])
