"""The overview, and the problems that it shows."""

from __future__ import annotations

from unittest.mock import patch

from pylogbroker.metadata.image import NO_LEADER
from pylogbroker.security.acls.bindings import CLUSTER_NAME, AclOperation, AclResourceType
from pylogbroker.web.charts import rate_chart
from pylogbroker.web.group_lags import GroupLags
from tests.web.test_pages import PageTests
from tests.web.test_views import NOW
from tests.web.test_visitors import AnonymousTests


def test_scale_of_a_chart() -> None:
    for largest, most in ((0, 1), (1, 1), (3, 5), (700, 1000), (1025, 2048), (3 * 1024**2, 5 * 1024**2)):
        assert rate_chart([0, 30], [0, largest], [0, 0])["most"] == most, largest
    shown = rate_chart([0, 30, 60, 90, 120], [0, 1, 0, 1, 0], [1, 1, 1, 1, 1])
    assert shown["times"] == [0, 30, 60, 90, 120]
    assert (shown["first"][0].split()[0], shown["second"][0].split()[0]) == ("0,120", "0,1")


def test_a_lag_grows_if_all_later_samples_are_above_the_earlier_ones() -> None:
    lags = GroupLags()
    for number in range(21):
        lags.note(number, {"behind": 1000 + 10 * number, "steady": 1500 + number % 5, "small": number, "new": None})
    assert lags.growing(20, 1000) == {"behind": (1000, 1200)}
    assert lags.growth_a_minute("behind") == 20
    assert lags.growth_a_minute("new") is None


class OverviewTests(PageTests):
    def setUp(self) -> None:
        super().setUp()
        self.source.start(self.node.broker)
        self.addCleanup(self.source.stop)

    def wait(self, seconds: int) -> None:
        """Let time pass so slowly that each timer fires each time."""
        for _ in range(seconds // 10):
            self.node.clock.advance(10)


class TestOverview(OverviewTests):
    def test_nothing_is_wrong(self) -> None:
        self.wait(40)
        page = self.show("/")
        self.assertIn("No problems. Looked at", page.text)
        self.assertIn("Nothing was written in the last 20 seconds", page.text)

    def test_a_problem_is_shown_after_a_minute_with_what_to_do(self) -> None:
        self.node.create("clicks", partitions=3)
        self.node.change_partition("clicks", 1, leader=NO_LEADER)
        self.wait(20)
        self.assertIn("No problems", self.show("/").text)
        self.wait(80)
        page = self.show("/")
        self.assertIn("clicks has partition 1 without a leader", page.text)
        self.assertIn("Start the brokers", page.text)
        self.assertIn("act now", page.text)
        self.assertIn("/topics/clicks/records", page.links)
        self.assertIn("Overview 1", self.show("/groups").text)

    def test_replicas_that_are_not_in_sync(self) -> None:
        self.node.create("clicks", partitions=2)
        self.node.change_partition("clicks", 0, replicas=(1, 7))
        self.wait(100)
        self.assertIn("1 of 2 partitions of clicks have replicas that are not in sync", self.show("/").text)
        self.assertIn("Missing: broker", self.show("/").text)

    def test_a_disk_that_is_nearly_full(self) -> None:
        for share, level in ((91, "look"), (96, "act now")):
            with patch(
                "pylogbroker.storage.logdirs.log_directory.LogDirectory.space", lambda _, s=share: (1000, 1000 - 10 * s)
            ):
                self.wait(100)
                page = self.show("/")
            self.assertIn(f"is {share} % full", page.text)
            self.assertIn(level, page.text)

    def test_no_log_is_looked_at(self) -> None:
        for number in range(20):
            self.node.create(f"topic-{number}")
        with patch("pylogbroker.broker.apis.describe_log_dirs.os.path.dirname") as looked_at:
            page = self.show("/")
        self.assertEqual(looked_at.call_count, 0)
        self.assertIn("free", page.text)

    def test_the_lag_of_all_groups(self) -> None:
        for name in ("clicks", "orders"):
            self.node.create(name)
            self.node.produce(name, 0, *[NOW] * 10)
            self.commit(f"readers of {name}", name, 3)
        self.wait(30)
        self.node.produce("orders", 0, *[NOW] * 5)
        self.wait(30)
        page = self.show("/")
        self.assertIn("19 records, 12 of them readers of orders", page.text)
        samples = [row[1:] for row in page.rows if len(row) == 2 and row[0].startswith("22:")]
        self.assertEqual([row[0].strip() for row in samples], ["19", "14", "0"])

    def test_busiest_topics_and_most_lag(self) -> None:
        self.node.create("clicks")
        self.wait(10)
        self.node.produce("clicks", 0, *[NOW] * 10)
        self.commit("readers", "clicks", 3)
        self.wait(30)
        for _ in range(3):
            self.node.produce("clicks", 0, *[NOW] * 10)
            self.wait(30)
        page = self.show("/")
        self.assertIn("/groups/readers", page.links)
        self.assertIn("37", page.text)
        self.assertIn("+20/min", page.text)
        self.assertEqual(page.tags.count("polyline") >= 3, True)


class TestRights(AnonymousTests, OverviewTests):
    def test_the_lag_of_all_groups_is_for_those_who_see_all_of_it(self) -> None:
        self.node.create("clicks")
        self.node.produce("clicks", 0, *[NOW] * 10)
        self.commit("readers", "clicks", 3)
        self.wait(30)
        for kind, name in ((AclResourceType.GROUP, "readers"), (AclResourceType.TOPIC, "clicks")):
            self.assertNotIn("Lag of all groups", self.show("/").text)
            self.allow(AclOperation.DESCRIBE, kind, name)
        self.assertIn("7 records, 7 of them readers", self.show("/").text)

    def test_problems_of_hidden_topics_are_hidden(self) -> None:
        self.assertNotIn("Brokers", self.show("/").text.partition("Overview - ")[2].partition("Problems")[2])
        self.allow(AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME)
        for name in ("clicks", "orders"):
            self.node.create(name)
            self.node.change_partition(name, 0, leader=NO_LEADER)
        self.allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, "orders")
        self.wait(100)
        text = self.show("/").text
        self.assertIn("orders has partition 0", text)
        self.assertNotIn("clicks", text)
