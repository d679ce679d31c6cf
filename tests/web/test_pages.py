"""HTML of the views: what a browser would see, and that no value becomes part of the page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import parse_qs, quote, urljoin, urlsplit

from pylogbroker.records import Record, build
from pylogbroker.web.formats import count_text, rate_text, size_rate_text, size_text, time_text
from tests.broker.nodes import NODE_ID
from tests.web.test_views import NOW, ViewTests

HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=\"alert('2')\"><a href='javascript:alert(3)'>"
_MOVED = {"/topic", "/topic-delete", "/records"}
"""Former addresses, which lead to new ones."""
EXPECTED_TAGS = {
    *("html", "head", "meta", "title", "link", "body", "a", "header", "nav", "main", "h1", "h2", "h3", "p", "form"),
    *("label", "hr", "img", "kbd", "span", "b", "br", "code", "dl", "dt", "dd", "ul", "ol", "li", "fieldset", "tfoot"),
    *("rect", "path", "figure", "figcaption", "mark", "datalist", "aside", "footer"),
    *("input", "button", "select", "option", "textarea", "details", "summary", "table", "thead", "tbody", "tr", "th"),
    *("script", "section", "td", "pre", "em", "small", "div", "svg", "line", "polyline"),
}


class Parsed(HTMLParser):
    """Tags, links, texts, cells of tables, fields without a label, and buttons without a name, of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.scripts = ""
        self.unlabelled: list[str] = []
        self.handlers: list[str] = []
        self.actions: list[str] = []
        self.nameless: list[str] = []
        self.rows: list[list[str]] = []
        self._button: str | None = None
        self._labels = 0
        self._in_body = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        if tag == "tbody":
            self._in_body = True
        elif tag == "tr" and self._in_body:
            self.rows.append([])
        elif tag in ("td", "th") and self._in_body:
            self.rows[-1].append("")
        self.links += [each for each in (given.get("href"), given.get("src")) if each is not None]
        self.handlers += [name for name in given if name.startswith("on") or name == "style"]
        self.actions += [given.get("action") or ""] if tag == "form" else []
        if tag == "button":
            self._button = given.get("aria-label") or ""
        self._labels += tag == "label"
        has_label = bool(self._labels or given.get("aria-label"))
        if tag in ("input", "select", "textarea") and given.get("type") != "hidden" and not has_label:
            self.unlabelled.append(str(given))

    def handle_endtag(self, tag: str) -> None:
        self._labels -= tag == "label"
        self._in_body &= tag != "tbody"
        if tag == "button":
            self.nameless += [] if (self._button or "").strip() else [str(self.getpos())]
            self._button = None

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._in_body and self.rows and self.rows[-1]:
            self.rows[-1][-1] += data
        if self._button is not None:
            self._button += data
        self.scripts += data if self.tags[-1:] == ["script"] else ""


class PageTests(ViewTests):
    settings = {"offsets.topic.num.partitions": "1"}

    def show(self, path: str, code: int = 200) -> Parsed:
        answer = self.connect().get(path)
        self.assertEqual((answer.code, answer.headers["content-type"]), (code, "text/html; charset=utf-8"), answer.body)
        policy = answer.headers["content-security-policy"].split("; ")
        self.assertIn("default-src 'self'", policy)
        self.assertFalse([each for each in policy if each.startswith(("script", "style"))])
        self.assertEqual(answer.headers["x-content-type-options"], "nosniff")
        parsed = Parsed(answer.body)
        self.assertLessEqual(set(parsed.tags), EXPECTED_TAGS)
        self.assertEqual(
            (parsed.handlers, parsed.unlabelled, parsed.nameless, parsed.scripts.strip()), ([], [], [], "")
        )
        for link in parsed.links:
            self.assertFalse(urlsplit(link).scheme or urlsplit(link).netloc, link)
        return parsed


class TestPages(PageTests):
    def test_every_link_leads_to_a_page(self) -> None:
        self.node.create("clicks", partitions=2)
        self.node.produce("clicks", 0, *[NOW] * 60)
        self.commit("a group/&", "clicks", 10)
        seen: set[str] = set()
        searches: set[tuple[str, frozenset[str]]] = set()
        waiting = ["/"]
        while waiting:
            path = waiting.pop()
            if path in seen or path.endswith((".css", ".js", ".svg")) or path.startswith(("/times?", "/api/")):
                continue
            seen.add(path)
            place = urlsplit(path)
            if place.path.startswith("/topics/") or place.path.endswith(
                "/settings"
            ):  # each search leads to many others
                search = place.path, frozenset(parse_qs(place.query))
                is_other = place.path.startswith("/topics/__")  # its pages have the same links
                if is_other or place.path.endswith(("/download", "/value")) or search in searches:
                    continue
                searches.add(search)
            if place.path in _MOVED:
                waiting.append(self.connect().get(path).headers["location"])
                continue
            waiting += [urljoin(path, link.partition("#")[0]) for link in self.show(path).links]
        views = {re.sub("/topics/[^/]+/", "/topics/{topic}/", urlsplit(path).path) for path in seen} - _MOVED
        views = {re.sub("/groups/[^/]+", "/groups/{id}", view) for view in views}
        expected = "create-topic groups style"
        of_group = {f"/groups/{{id}}{part}" for part in ("", "/reset", "/delete", "/delete-offsets")}
        parts = (
            "records",
            "records/new",
            "records/download",
            "partitions",
            "groups",
            "settings",
            "delete",
            "producers",
        )
        of_topic = {f"/topics/{{topic}}/{part}" for part in (*parts, "delete")}
        access = {"/access/users", "/access/users/password", "/access/acls", "/access/quotas", "/access/quotas/set"}
        one = f"/brokers/{NODE_ID}"
        brokers = {"/brokers", "/brokers/reassignments", one, f"{one}/settings", f"{one}/log-directory"}
        self.assertEqual(
            views,
            {
                "/",
                "/topics",
                "/transactions",
                *(f"/{name}" for name in expected.split()),
                *access,
                *brokers,
                *of_topic,
                *of_group,
            },
        )

    def test_hostile_values_stay_text(self) -> None:
        self.node.create("clicks")
        hostile = HOSTILE.encode()
        records = build([Record(0, NOW, hostile, hostile, ((HOSTILE, hostile),))])
        self.node.broker.partitions.find("clicks", 0).append(records, NOW)
        self.commit(HOSTILE, "clicks", 0)
        named = quote(HOSTILE)
        self.assertIn(HOSTILE, self.show("/groups").text)
        self.assertIn(HOSTILE, self.show(f"/groups/{quote(HOSTILE, safe='')}").text)
        self.show(f"/topics?search={named}")
        of_topic = f"/topics/{quote(HOSTILE, safe='')}"
        for part in ("records", "partitions", "groups", "settings", "delete"):
            self.show(f"{of_topic}/{part}", 404)
        self.assertIn(HOSTILE, self.show("/topics/clicks/groups").text)
        self.show(f"/topics/clicks/settings?search={named}")
        self.show(f"/topics/clicks/settings?edit={named}", 404)
        self.assertIn(HOSTILE, self.show(f"/topics/clicks/settings?saved={named}", 404).text)
        self.show(f"/topics/clicks/settings?edit=retention.ms&value={named}")
        self.show(f"/topics/clicks/partitions?sort={named}", 400)

    def test_sizes_and_times(self) -> None:
        self.assertEqual(time_text(2**63 - 1), str(2**63 - 1))
        self.assertEqual((time_text(-1), time_text(1500)), ("none", "1970-01-01 00:00:01.500"))
        self.assertEqual([size_text(each) for each in (None, 1023, 1536)], ["not known", "1023 B", "1.5 KiB"])
        self.assertEqual(
            [count_text(each) for each in (None, 0, 1234567, -5)], ["not known", "0", "1,234,567", "\N{MINUS SIGN}5"]
        )
        rates = [rate_text(each) for each in (None, 0.0, 0.25, 99.95, 1234.5)]
        self.assertEqual(rates, ["", "0", "0.25", "100.0", "1,234"])
        self.assertEqual([size_rate_text(each) for each in (None, 0.4, 1536.0)], ["", "0 B/s", "1.5 KiB/s"])

    def test_style_and_script(self) -> None:
        for name in ("theme.js", "keys.js", "parts.js", "tables.js", "records.js"):
            answer = self.connect().get(f"/{name}")
            self.assertEqual((answer.code, answer.headers["content-type"]), (200, "text/javascript; charset=utf-8"))
        for name, kind in (("ui.css", "text/css; charset=utf-8"), ("icon.svg", "image/svg+xml")):
            self.assertEqual(self.connect().get(f"/{name}").headers["content-type"], kind)

    def test_other_machines_are_rejected(self) -> None:
        self.address = "10.1.2.3"
        self.show("/", 403)
