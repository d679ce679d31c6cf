"""DescribeLogDirs, over two directories."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

from pylogbroker import __version__
from pylogbroker.broker.apis import describe_log_dirs
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.describe_log_dirs import BrokerTraffic, DescribableLogDirTopic, DescribeLogDirsRequest
from tests.broker.nodes import NodeTests
from tests.broker.trees import now


class DescribeLogDirsTests(NodeTests):
    directory_count = 2

    def setUp(self) -> None:
        super().setUp()
        self.node.create("t", 3)
        self.node.create("u")
        self.node.produce("t", 1, 1, 2, 3)

    def ask(self, *asked: tuple[str, list[int]], everything: bool = False, version: int = 4) -> list[Any]:
        topics = None if everything else [DescribableLogDirTopic(*topic) for topic in asked]
        answer = self.node.ask(describe_log_dirs.handle, DescribeLogDirsRequest(topics), version)
        self.assertEqual(answer.error_code, ErrorCode.NONE)
        return list(answer.results)

    def found(self, results: list[Any]) -> list[tuple[str, int]]:
        return sorted((t.name, p.partition_index) for r in results for t in r.topics for p in t.partitions)

    def test_every_version(self) -> None:
        for version in range(5):
            results = self.ask(everything=True, version=version)
            self.assertEqual([result.log_dir for result in results], list(self.directories))
            self.assertEqual([result.error_code for result in results], [ErrorCode.NONE] * 2)
            self.assertEqual(self.found(results), [("t", 0), ("t", 1), ("t", 2), ("u", 0)])

    def test_counts_of_traffic_for_another_broker_of_ours(self) -> None:
        """They are of all topics, also of deleted ones; versions without tagged fields have none."""
        for topic in ("t", "u"):
            counts = self.node.broker.partitions.traffic.topics[topic]
            counts.messages_in, counts.bytes_in, counts.bytes_out = 1, 20, 300
        now(self.node.broker.controller.delete_topic("u"))
        for version, with_traffic in itertools.product((1, 2, 5), (False, True)):
            request = DescribeLogDirsRequest([], with_traffic)
            traffic = self.node.ask(describe_log_dirs.handle, request, version).traffic
            if version > 1 and with_traffic:
                software = f"pylogbroker {__version__}"
                self.assertEqual(traffic, BrokerTraffic(2, 40, 600, software))
            else:
                self.assertEqual(traffic, BrokerTraffic())

    def test_each_log_is_reported_where_it_lies(self) -> None:
        for result in self.ask(everything=True):
            for topic in result.topics:
                for partition in topic.partitions:
                    directory = Path(result.log_dir, f"{topic.name}_{partition.partition_index}")
                    files = directory.glob("*.kafka")
                    self.assertEqual(partition.partition_size, sum(file.stat().st_size for file in files))
                    self.assertEqual((partition.offset_lag, partition.is_future_key), (0, False))

    def test_sizes(self) -> None:
        sizes = {
            (topic.name, partition.partition_index): partition.partition_size
            for result in self.ask(everything=True)
            for topic in result.topics
            for partition in topic.partitions
        }
        self.assertEqual([name for name, size in sizes.items() if size], [("t", 1)])

    def test_space(self) -> None:
        for result in self.ask(("t", [0])):
            usage = shutil.disk_usage(result.log_dir)
            self.assertEqual(result.total_bytes, usage.total)
            self.assertGreater(result.usable_bytes, 0)
            self.assertLessEqual(result.usable_bytes, usage.total)

    def test_chosen_logs(self) -> None:
        self.assertEqual(self.found(self.ask(("t", [2, 0, 9]), ("nope", [0]))), [("t", 0), ("t", 2)])
        self.assertEqual(self.found(self.ask()), [])

    def test_a_directory_that_failed(self) -> None:
        well, ill = self.directories
        self.node.broker.logs.fail_directory(ill, "unplugged")
        first, second = self.ask(everything=True)
        self.assertEqual((first.log_dir, first.error_code), (well, ErrorCode.NONE))
        self.assertEqual((second.log_dir, second.error_code), (ill, ErrorCode.KAFKA_STORAGE_ERROR))
        self.assertEqual((second.topics, second.total_bytes, second.usable_bytes), ([], -1, -1))
        self.assertTrue(first.topics)
