"""The list of topics: all of them are searched and sorted, one page is shown."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.charts import spark_lines
from pylogbroker.web.paging import paged
from pylogbroker.web.traffic_history import SAMPLES_MAX
from tests.web.test_pages import PageTests
from tests.web.test_views import NOW
from tests.web.test_visitors import AnonymousTests


def test_pages_are_within_the_rows() -> None:
    def shown(page: int, count: int) -> tuple[int, int, list[int]]:
        values, rows = paged(page, "name", range(count))
        return values["page"], values["pages"], [*rows[:1], *rows[-1:]]

    assert shown(1, 0) == (1, 1, [])
    assert shown(1, 200) == (1, 1, [0, 199])
    assert shown(2, 401) == (2, 3, [200, 399])
    assert shown(9, 401) == (3, 3, [400, 400])
    assert shown(0, 5) == (1, 1, [0, 4])


def test_gaps_of_a_small_chart_stay_gaps() -> None:
    assert list(spark_lines([])) == []
    assert list(spark_lines([0, 0])) == ["0,17 84,17"]
    assert list(spark_lines([1, None, 3, 0])) == ["0,11.7 0,11.7", "56,1 84,17"]


class TestTable(PageTests):
    def setUp(self) -> None:
        super().setUp()
        self.source.start(self.node.broker)
        self.addCleanup(self.source.stop)

    def names(self, query: str = "") -> list[str]:
        links = self.show(f"/topics{query}").links
        return [link.split("/")[2] for link in links if link.startswith("/topics/")]

    def test_sort_order(self) -> None:
        for name, partitions, records in (("b", 3, 1), ("a", 1, 50), ("c", 2, 9)):
            self.node.create(name, partitions=partitions, **({"retention_ms": "1000"} if name == "c" else {}))
            self.node.produce(name, 0, *[NOW] * records)
        self.commit("readers", "c", 2)
        self.commit("others", "b", 0)
        self.commit("others", "c", 9)
        self.node.clock.advance(60)
        for sort, expected in (
            ("", "abc"),
            ("-name", "cba"),
            ("partitions", "acb"),
            ("-records", "acb"),
            ("-size", "acb"),
            ("-groups", "cba"),
            ("-lag", "cba"),
            ("kept", "cab"),
        ):
            shown = [name for name in self.names(f"?sort={sort}" if sort else "") if len(name) == 1]
            self.assertEqual("".join(shown), expected, sort)
        self.assertIn("sort must be one of", self.show("/topics?sort=colour", 400).text)

    def test_heads_sort_numbers_downwards_first(self) -> None:
        self.node.create("clicks")

        def orders(query: str) -> list[str]:
            links = [link for link in self.show(f"/topics{query}").links if "sort=" in link]
            return [parse_qs(urlsplit(link).query)["sort"][0] for link in links if link.startswith("/topics")][:2]

        self.assertEqual(orders(""), ["-name", "-partitions"])
        self.assertEqual(orders("?sort=-partitions"), ["name", "partitions"])
        self.assertIn('aria-sort="descending"', self.connect().get("/topics?sort=-size").body)

    def test_pages_keep_search_and_order(self) -> None:
        for number in range(450):
            self.node.create(f"topic-{number:03}")
        page = self.show("/topics?search=topic&sort=-name&page=2")
        self.assertIn("201 to 400 of 450", page.text)
        self.assertIn("/topics?search=topic&sort=-name", page.links)
        self.assertIn("/topics?page=3&search=topic&sort=-name", page.links)
        self.assertEqual(self.names("?search=topic&sort=-name&page=3")[-1], "topic-000")

    def test_topics_without_a_group_and_with_lag(self) -> None:
        for name in ("read", "behind", "unread"):
            self.node.create(name)
            self.node.produce(name, 0, NOW)
        self.commit("readers", "read", 1)
        self.commit("readers", "behind", 0)
        self.node.clock.advance(30)
        self.assertEqual(self.names("?without_group=true&search=re"), ["unread"])
        self.assertEqual(self.names("?with_lag=true"), ["behind"])

    def test_traffic_of_the_last_hour(self) -> None:
        self.node.create("clicks")
        self.node.create("silent")
        self.node.clock.advance(30)
        traffic = self.node.broker.partitions.traffic.topics["clicks"]
        for _ in range(8):
            traffic.bytes_in += 3000
            traffic.bytes_out += 60
            self.node.clock.advance(30)
        history = self.source.samples.traffic
        self.assertEqual(list(history.spark("clicks")), [100.0, 100.0])
        self.assertEqual(list(history.spark("silent")), [0.0, 0.0])
        self.assertEqual(
            [(sample.bytes_in, sample.bytes_out) for sample in history.samples], [(0.0, 0.0), *[(100.0, 2.0)] * 8]
        )
        self.assertIn("100 B to 100 B a second", self.connect().get("/topics").body)
        for _ in range(SAMPLES_MAX + 1):
            self.node.clock.advance(30)
        self.assertEqual(set(history.spark("clicks")), {0.0})
        self.assertEqual(len(history.samples), SAMPLES_MAX)

    def test_empty_lists_say_what_to_do(self) -> None:
        self.assertIn("nothing was written yet", self.show("/topics").text)
        self.node.create("clicks")
        self.assertIn("No topic fits", self.show("/topics?search=orders").text)


class TestRights(AnonymousTests, PageTests):
    def test_topics_that_the_visitor_may_not_see_do_not_count(self) -> None:
        self.node.create("clicks")
        self.node.create("orders")
        self.allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, "orders")
        page = self.show("/topics")
        self.assertIn("1 of 1", page.text)
        self.assertNotIn("clicks", page.text)
