"""The list of groups: all of them are searched and sorted, one page is shown."""

from __future__ import annotations

from urllib.parse import quote, unquote

from twisted.internet.testing import StringTransport

from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.group_lags import INTERVAL_SECONDS
from tests.web.test_cluster_views import HERE, GroupTests
from tests.web.test_pages import HOSTILE, PageTests, Parsed
from tests.web.test_site import Connection
from tests.web.test_views import NOW
from tests.web.test_visitors import AnonymousTests


class TestTable(PageTests):
    def start(self) -> None:
        self.source.start(self.node.broker)
        self.addCleanup(self.source.stop)

    def ids(self, query: str = "") -> list[str]:
        links = self.show(f"/groups{query}").links
        return [unquote(link.removeprefix("/groups/")) for link in links if link.startswith("/groups/")]

    def test_sort_order(self) -> None:
        for topic, records in (("clicks", 50), ("orders", 20)):
            self.node.create(topic)
            self.node.produce(topic, 0, *[NOW] * records)
        self.commit("b", "clicks", 45)
        self.commit("a", "clicks", 20)
        self.commit("c", "clicks", 50)
        self.commit("c", "orders", 10)
        self.start()
        self.node.clock.advance(INTERVAL_SECONDS)
        for sort, expected in (("", "abc"), ("-id", "cba"), ("lag", "bca"), ("-lag", "acb"), ("-topics", "cba")):
            self.assertEqual("".join(self.ids(f"?sort={sort}" if sort else "")), expected, sort)
        self.assertEqual(self.ids("?search=a"), ["a"])
        self.assertIn("sort must be one of", self.show("/groups?sort=colour", 400).text)

    def test_a_row_has_lag_topics_and_the_age_of_the_oldest_record(self) -> None:
        self.node.create("clicks")
        self.commit("readers", "clicks", 0)
        self.start()
        self.node.produce("clicks", 0, *[NOW] * 1500)
        for _ in range(3):
            self.node.clock.advance(INTERVAL_SECONDS)
        page = self.show("/groups")
        [row] = page.rows
        self.assertEqual(row[1:6], ["Empty", "simple", "0", "1,500", "1 min 30 s"])
        self.assertEqual((row[8].strip(), page.tags.count("polyline")), ("clicks", 1))
        self.assertIn("+1,000/min", row[7])

    def test_a_group_without_a_sample_is_asked_for(self) -> None:
        self.node.create("clicks")
        self.node.produce("clicks", 0, *[NOW] * 10)
        self.commit("readers", "clicks", 4)
        [row] = self.show("/groups").rows
        self.assertEqual(row[3:6], ["0", "6", "not known"])

    def test_groups_with_lag(self) -> None:
        self.node.create("clicks")
        self.node.produce("clicks", 0, *[NOW] * 10)
        self.commit("behind", "clicks", 4)
        self.commit("done", "clicks", 10)
        self.start()
        self.assertEqual(self.ids("?with_lag=true"), ["behind"])

    def test_pages_keep_search_and_order(self) -> None:
        self.node.create("clicks")
        for number in range(250):
            self.commit(f"group-{number:03}", "clicks", 0)
        self.start()
        page = self.show("/groups?search=group&sort=-id&page=2")
        self.assertIn("201 to 250 of 250", page.text)
        self.assertEqual((len(page.rows), page.rows[-1][0][:9]), (50, "group-000"))
        self.assertIn("/groups?search=group&sort=-id", page.links)

    def test_names_are_parts_of_the_address(self) -> None:
        self.node.create("clicks")
        self.commit("a/b c?&", "clicks", 0)
        self.commit(HOSTILE, "clicks", 0)
        links = self.show("/groups").links
        for name in ("a/b c?&", HOSTILE):
            self.assertIn(f"/groups/{quote(name, safe='')}", links)
            self.assertIn(name, self.show(f"/groups/{quote(name, safe='')}").text)

    def test_empty_lists_say_what_to_do(self) -> None:
        self.assertIn("No groups yet", self.show("/groups").text)
        self.node.create("clicks")
        self.commit("readers", "clicks", 0)
        self.assertIn("No group fits", self.show("/groups?search=others").text)


class TestRights(AnonymousTests, PageTests):
    def test_sums_count_only_visible_topics(self) -> None:
        for topic in ("clicks", "closed"):
            self.node.create(topic)
            self.node.produce(topic, 0, *[NOW] * 10)
        self.commit("readers", "clicks", 4)
        self.commit("readers", "closed", 0)
        self.source.start(self.node.broker)
        self.addCleanup(self.source.stop)
        self.assertEqual(self.show("/groups").rows, [])
        self.allow(AclOperation.DESCRIBE, AclResourceType.GROUP, "readers")
        self.allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, "clicks")
        page = self.show("/groups")
        self.assertEqual((page.rows[0][4:6], page.rows[0][8].strip()), (["6", "not known"], "clicks"))
        self.assertNotIn("closed", page.text)


class TestOtherBrokers(GroupTests):
    def page(self, query: str = "") -> Parsed:
        connection = Connection(self.factory, StringTransport(HERE, HERE))
        connection.protocol.dataReceived(f"GET /groups{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        self.cluster.run()
        answer = connection.transport.value().decode()
        self.assertIn("200 OK", answer)
        return Parsed(answer)

    def test_a_sum_says_whose_lag_it_leaves_out(self) -> None:
        self.assertIn("lag 0, without 1 group", self.page().text)
        page = self.page("?with_lag=true")
        self.assertEqual(page.rows, [])
        self.assertIn("1 group is left out, whose lag is not sampled here", page.text)

    def test_their_coordinator_is_asked_for_members_and_lag(self) -> None:
        [row] = self.page().rows
        self.assertEqual((row[0][:7], row[3:5]), ("readers", ["0", "10"]))

    def test_a_broker_that_does_not_answer_is_named(self) -> None:
        self.cluster.down.add(2)
        page = self.page()
        self.assertEqual(page.rows, [])
        self.assertIn("Broker 2 does not answer.", page.text)
