"""The head of a topic's pages, former addresses, and what visitors without rights see."""

from __future__ import annotations

from urllib.parse import quote

from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.links import topic_link
from tests.web.test_pages import PageTests
from tests.web.test_views import NOW
from tests.web.test_visitors import AnonymousTests

PARTS = ("records", "partitions", "groups", "settings")


def test_names_in_addresses_are_encoded() -> None:
    assert topic_link("a/b c?#") == "/topics/a%2Fb%20c%3F%23/records"
    assert topic_link("orders", "groups", sort="-lag", page=None) == "/topics/orders/groups?sort=-lag"


class TestHead(PageTests):
    def test_facts_and_tabs_are_those_of_each_part(self) -> None:
        self.node.create("orders", partitions=3, retention_ms="172800000", segment_bytes="1000000")
        self.node.produce("orders", 1, NOW - 60_000, NOW - 5000)
        for part in PARTS:
            page = self.show(f"/topics/orders/{part}")
            text = " ".join(page.text.split())
            for fact in ("Records 2", "Newest 5 s ago", "Oldest 14 Nov 2023 22:12", "Kept 2 d"):
                name, _, value = fact.partition(" ")
                self.assertIn(f"{name}{value}", text, part)
            for tab in ("Partitions 3", "Groups 0", "Settings 2 own"):
                self.assertIn(tab, text)
            self.assertLessEqual({f"/topics/orders/{other}" for other in PARTS}, set(page.links))
            current = self.connect().get(f"/topics/orders/{part}").body
            self.assertIn(f'<a href="/topics/orders/{part}" aria-current="page">', current)

    def test_the_command_creates_such_a_topic(self) -> None:
        self.node.create("orders", partitions=3, retention_ms="1000")
        body = self.connect().get("/topics/orders/partitions").body
        self.assertIn('data-copy="pylogbroker topic create orders -p 3 -r 1 -c retention.ms=1000"', body)

    def test_former_addresses_lead_to_the_new_ones(self) -> None:
        self.node.create("orders", partitions=2)
        for former, address in (
            ("/topics/orders", "/topics/orders/records"),
            ("/topic?name=orders", "/topics/orders/records"),
            ("/topic?name=orders&start=200", "/topics/orders/records"),
            (f"/topic?name={quote('a/b', safe='')}", "/topics/a%2Fb/records"),
            ("/topic-delete?name=orders", "/topics/orders/delete"),
            ("/records?topic=orders", "/topics/orders/records?partition=0"),
            ("/records?topic=orders&partition=1&last=5&format=json", "/topics/orders/records?partition=1"),
            (
                "/records?topic=orders&partition=1&offset=7&search=a%20b",
                "/topics/orders/records?order=oldest&partition=1&start=1:7&text=a%20b",
            ),
            (
                "/records?topic=orders&time=1700000000500",
                "/topics/orders/records?order=oldest&partition=0&start=2023-11-14T22:13:20.500000",
            ),
        ):
            answer = self.connect().get(former)
            self.assertEqual((answer.code, answer.headers["location"]), (301, address))

    def test_unknown_topics_and_parts(self) -> None:
        self.node.create("orders")
        for part in (*PARTS, "delete", "records/new"):
            self.show(f"/topics/nothing/{part}", 404)
            self.show("/topics/%2e%2e%2fetc/settings", 404)
        self.assertEqual(self.connect().get("/topics/orders/members").code, 404)


class TestRights(AnonymousTests, PageTests):
    def test_each_right_shows_more(self) -> None:
        self.node.create("orders", partitions=2)
        self.node.produce("orders", 0, NOW)
        for part in PARTS:
            self.show(f"/topics/orders/{part}", 403)
        self.allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, "orders")
        needed = {
            "records": "You may not read orders. User:ANONYMOUS needs READ on the topic.",
            "records/new": "You may not write to orders. User:ANONYMOUS needs WRITE on the topic.",
            "settings": "You may not see the settings. User:ANONYMOUS needs DESCRIBE_CONFIGS on the topic.",
            "delete": "You may not delete orders. User:ANONYMOUS needs DELETE on the topic.",
        }
        for part, sentence in needed.items():
            self.assertIn(sentence, self.show(f"/topics/orders/{part}").text)
        page = self.show("/topics/orders/partitions?add=true")
        self.assertIn("The 2 partitions have their leader.", page.text)
        self.assertNotIn("Add partitions", page.text)
        self.assertNotIn("/topics/orders/delete", page.links)
        self.allow(AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, "orders")
        page = self.show("/topics/orders/settings?edit=retention.ms")
        self.assertIn("To change them, User:ANONYMOUS needs ALTER_CONFIGS on the topic.", page.text)
        self.assertNotIn("Save", page.text)
        self.allow(AclOperation.ALL, AclResourceType.TOPIC, "orders")
        self.assertIn("Save", self.show("/topics/orders/settings?edit=retention.ms").text)
        self.assertIn("Add partitions", self.show("/topics/orders/partitions?add=true").text)
        self.assertIn("/topics/orders/delete", self.show("/topics/orders/records").links)
