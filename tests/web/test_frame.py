"""Frame of every page: places, counts, the zone of times, and names to go to."""

from __future__ import annotations

from urllib.parse import quote

from pylogbroker import __version__
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from tests.broker.nodes import CLUSTER_ID, NODE_ID
from tests.web.test_pages import HOSTILE, PageTests, Parsed
from tests.web.test_visitors import AnonymousTests


class TestFrame(PageTests):
    def test_places_have_counts(self) -> None:
        for number in range(1200):
            self.node.create(f"topic-{number}")
        page = self.show("/topics?search=topic-7")
        for text in (CLUSTER_ID, __version__, "Topics 1,200", "Brokers 1"):
            self.assertIn(text, page.text)
        self.assertNotIn("Faults", page.text)

    def test_the_current_place_is_marked(self) -> None:
        self.node.create("clicks")
        for path, place in (
            ("/topics/clicks/groups", "/topics"),
            ("/access/acls", "/access/users"),
            ("/brokers", "/brokers"),
        ):
            body = self.connect().get(path).body
            self.assertIn(f'<a href="{place}" aria-current="page">', body)

    def test_times_are_of_the_zone_that_a_cookie_has(self) -> None:
        answer = self.connect().get(f"/times?zone=local&back={quote('/topics?search=a')}")
        self.assertEqual((answer.code, answer.headers["location"]), (303, "/topics?search=a"))
        cookie = answer.headers["set-cookie"]
        self.assertIn("times=local", cookie)
        shown = self.connect().send(b"GET /topics HTTP/1.1\r\nHost: localhost\r\nCookie: times=local\r\n\r\n").body
        self.assertIn("Times local", shown)
        self.assertIn("Times in UTC", self.connect().get("/topics").body)

    def test_the_zone_leads_only_to_pages_here(self) -> None:
        for back in ("https://attacker.example/", "//attacker.example", "/\\attacker.example", "topics"):
            self.assertEqual(self.connect().get(f"/times?zone=local&back={quote(back)}").code, 400, back)
        self.assertEqual(self.connect().get("/times?zone=mars&back=/").code, 400)

    def test_names_to_go_to(self) -> None:
        for name in ("clicks", "old-clicks", "clicks-2", "orders", *(f"many-{number}" for number in range(20))):
            self.node.create(name)
        self.commit("clicks-readers", "clicks", 0)
        self.assertEqual(
            self.destinations("clicks"),
            [
                *(("/topics/clicks/records", "clicks"), ("/topics/clicks-2/records", "clicks-2")),
                *(("/groups/clicks-readers", "clicks-readers"), ("/topics/old-clicks/records", "old-clicks")),
            ],
        )
        self.assertEqual(self.destinations(str(NODE_ID))[0][1], str(NODE_ID))
        self.assertEqual(len(self.destinations("many")), 8)
        self.assertEqual(self.destinations(""), [])
        self.assertIn("Nothing has", self.show(f"/go?to={quote(HOSTILE)}").text)

    def destinations(self, text: str) -> list[tuple[str, str]]:
        page = self.connect().get(f"/go?to={text}").body
        return Links(page.partition('<div id="go"')[2].partition("</main>")[0]).named


class Links(Parsed):
    """Links with the first word of their text."""

    def __init__(self, text: str) -> None:
        self.named: list[tuple[str, str]] = []
        super().__init__(text)

    def handle_data(self, data: str) -> None:
        super().handle_data(data)
        if self.tags[-1:] == ["a"] and data.strip():
            self.named.append((self.links[-1], data.strip()))


class TestRights(AnonymousTests, PageTests):
    def test_names_that_the_visitor_may_not_see_are_hidden(self) -> None:
        self.node.create("clicks")
        self.node.create("clicks-2")
        self.commit("clicks-readers", "clicks", 0)
        self.allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, "clicks-2")
        page = self.show("/go?to=clicks")
        self.assertEqual(
            [link for link in page.links if link.startswith(("/topics/", "/groups/"))], ["/topics/clicks-2/records"]
        )
        self.assertNotIn("Topics 2", page.text)
