"""Metrics of followers, as Prometheus reads them."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure

from pylogbroker.metrics.exposition import Exposition
from pylogbroker.metrics.followers import collect_followers
from tests.broker.trees import now
from tests.web.records_api.test_following import FollowingTests
from tests.web.test_pages import Parsed


class TestFollowerMetrics(FollowingTests):
    def samples(self) -> dict[str, float]:
        """Return samples by their names without the prefix, with the value of their label."""
        out = Exposition()
        now(collect_followers(out, self.root.records.feeds))
        text = b"".join(now(out.encode())).decode()
        return {
            " ".join((sample.name.removeprefix("pylogbroker_http_"), *sample.labels.values())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def test_no_followers(self) -> None:
        self.assertEqual(
            self.samples(),
            {
                "followers_begun_total": 0,
                "followers_ended_total client": 0,
                "followers_ended_total broker": 0,
                "follower_records_total": 0,
                "follower_bytes_total": 0,
                "follower_skipped_offsets_total": 0,
            },
        )

    def test_followers_of_a_topic_in_several_feeds(self) -> None:
        self.append(*"abc")
        self.follow()
        slow = self.follow("from=earliest")
        self.follow("partition=1")
        self.assertEqual(self.samples()["follower_records_total"], 3)
        self.pause(slow)
        self.new("d", "e")
        samples = self.samples()
        self.assertEqual([samples[f"followers{part} clicks"] for part in ("", "_behind", "_lag_max")], [3, 1, 2])
        self.assertEqual((samples["followers_begun_total"], samples["follower_records_total"]), (3, 5))
        sent = sum(len(chunk.payload) for feed in self.root.records.feeds._feeds.values() for chunk in feed._chunks)
        self.assertGreater(samples["follower_bytes_total"], sent)

    def test_the_page_of_the_topic_has_them(self) -> None:
        def shown() -> str:
            return " ".join(Parsed(self.connect().get("/topics/clicks/groups").body).text.split())

        self.assertNotIn("by HTTP", shown())
        self.follow()
        self.assertIn("1 connection follows the topic by HTTP on this broker, and has all records.", shown())
        self.pause(self.follow())
        self.new("a", "b")
        self.assertIn(
            "2 connections follow the topic by HTTP on this broker; 1 is behind, by 2 records at most.", shown()
        )

    def test_ends_and_deleted_records(self) -> None:
        self.append(*"abc")
        self.append("d")
        self.node.broker.partitions.find("clicks", 0).delete_records_before(3)
        leaving, _ = self.follow("from=0:1"), self.follow()
        leaving.protocol.connectionLost(Failure(ConnectionDone()))
        self.run_clock()
        now(self.node.broker.controller.delete_topic("clicks"))
        self.run_clock(1)
        samples = self.samples()
        self.assertEqual([samples[f"followers_ended_total {ended_by}"] for ended_by in ("client", "broker")], [1, 1])
        self.assertEqual(samples["follower_skipped_offsets_total"], 2)
        self.assertNotIn("followers clicks", samples)
