"""Rates of all brokers on the page of one; brokers of Apache Kafka have no counts."""

from __future__ import annotations

import html
import re
from typing import Any

import attrs
from twisted.internet.testing import StringTransport

from pylogbroker.web.samples import Samples
from pylogbroker.web.traffic_history import INTERVAL_SECONDS
from pylogbroker.wire.messages.describe_log_dirs import BrokerTraffic, DescribeLogDirsRequest, DescribeLogDirsResponse
from tests.web.test_cluster_views import HERE, ClusterViewTests
from tests.web.test_site import Connection


def without_counts(answer: Any) -> Any:
    """Return what a broker of Apache Kafka answers, which skips a tagged field that it does not know."""
    return attrs.evolve(answer, traffic=BrokerTraffic()) if isinstance(answer, DescribeLogDirsResponse) else answer


class ClusterTrafficTests(ClusterViewTests):
    def setUp(self) -> None:
        super().setUp()
        self.sources[1].start(self.cluster[1].broker)
        self.addCleanup(self.sources[1].stop)
        self.cluster.run(1.0)  # samples are taken between the steps of a test

    @property
    def samples(self) -> Samples:
        return self.sources[1].samples

    def count(self, broker_id: int, messages_in: int, bytes_in: int, bytes_out: int) -> None:
        counts = self.cluster[broker_id].broker.partitions.traffic.topics["clicks"]
        counts.messages_in += messages_in
        counts.bytes_in += bytes_in
        counts.bytes_out += bytes_out

    def wait(self, intervals: int) -> None:
        self.cluster.run(intervals * INTERVAL_SECONDS)

    def page(self, path: str) -> str:
        connection = Connection(self.factory, StringTransport(HERE, HERE))
        connection.protocol.dataReceived(f"GET /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        self.cluster.run()
        return connection.transport.value().decode()

    def cell(self, page: str, name: str) -> str:
        """Return the text of an element of a page."""
        [cell] = re.findall(rf'id="{name}"[^>]*>(.*?)</(?:td|dd|span)>', page, re.DOTALL)
        return html.unescape(re.sub("<[^>]*>", "", cell)).strip()

    def test_the_overview_has_the_rates_of_each_broker_and_their_sum(self) -> None:
        self.assertIn("not known yet", self.cell(self.page(""), "broker-in-2"))
        self.wait(2)
        self.count(1, 30, 60 * 1024, 0)
        self.count(2, 60, 30 * 2048, 30 * 1024)
        self.wait(1)
        page = self.page("")
        self.assertEqual([self.cell(page, f"broker-in-{number}") for number in (1, 2)], ["2 KiB/s", "2 KiB/s"])
        self.assertEqual([self.cell(page, f"broker-out-{number}") for number in (1, 2)], ["0 B/s", "1 KiB/s"])
        self.assertIn("of the clients of all brokers", page)
        last = self.samples.cluster_traffic.samples[-1]
        sums = round(last.messages_in, 3), round(last.bytes_in), round(last.bytes_out)
        self.assertEqual(sums, (3, 4096, 1024))
        brokers = self.page("brokers")
        self.assertEqual(self.cell(brokers, "in-2"), "2 KiB/s")

    def test_a_broker_without_counts_is_named_and_left_out(self) -> None:
        self.cluster.lies[2] = without_counts
        self.wait(2)
        self.count(1, 30, 60 * 1024, 0)
        self.count(2, 30, 60 * 1024, 0)
        self.wait(1)
        page = self.page("")
        self.assertEqual(self.cell(page, "broker-in-1"), "2 KiB/s")
        self.assertEqual(self.cell(page, "broker-in-2"), "not known")
        self.assertEqual(round(self.samples.cluster_traffic.samples[-1].messages_in, 3), 1)
        self.assertEqual(self.cell(self.page("brokers"), "out-2"), "not known")

    def test_a_broker_that_is_down_or_starts_again(self) -> None:
        self.count(2, 3000, 0, 0)
        self.wait(2)
        self.cluster.down.add(2)
        self.wait(1)
        self.assertEqual(list(self.samples.cluster_traffic.rates), [1])
        self.cluster.down.clear()
        self.wait(1)
        self.assertEqual(list(self.samples.cluster_traffic.rates), [1], "it has been counted once since")
        self.count(2, -3000, 0, 0)
        self.wait(1)
        self.assertEqual(self.samples.cluster_traffic.rates[2].messages_in, 0)

    def test_requests_for_counts(self) -> None:
        self.wait(1)
        sent = [request for _, to, request in self.cluster.sent(DescribeLogDirsRequest) if to == 2]
        self.assertEqual([request.topics for request in sent if request.with_traffic], [[], []])
