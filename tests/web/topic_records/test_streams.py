"""Streams of the page: a search that goes on, and new records as they come."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from pylogbroker.records import Record
from pylogbroker.web.topic_records.streams import LIVE_ROUND_SECONDS, LIVE_ROWS_PER_ROUND
from tests.web.test_site import Connection
from tests.web.test_views import NOW
from tests.web.topic_records.page_tests import RecordsPageTests


class TestStreams(RecordsPageTests):
    def setUp(self) -> None:
        super().setUp()
        self.seen: dict[Connection, int] = {}

    def stream(self, below: str, **fields: str) -> Connection:
        connection = self.connect()
        head = f"GET /topics/orders/records/{below}?{urlencode(fields)} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        connection.protocol.dataReceived(head.encode())
        return connection

    def events(self, connection: Connection) -> list[tuple[str, dict[str, Any]]]:
        """Return the events since the last call."""
        chunks = connection.transport.value().decode().partition("\r\n\r\n")[2].split("\r\n")[1::2]
        events = []
        for block in "".join(chunks).split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
            if "data" in fields:
                events.append((fields["event"], json.loads(fields["data"])))
        seen = self.seen.get(connection, 0)
        self.seen[connection] = len(events)
        return events[seen:]

    def test_a_search_sends_rows_and_its_end(self) -> None:
        self.fill(300)
        events = self.events(self.stream("search", where='value.customer == "c-1"'))
        names = [name for name, _ in events]
        self.assertEqual((names[-1], set(names)), ("end", {"records", "progress", "end"}))
        rows = "".join(data["html"] for name, data in events if name == "records")
        self.assertEqual(rows.count("<tr"), 75)
        self.assertIn("<b>75 matches</b> in 300 of 300 records", events[-1][1]["html"])

    def test_a_search_ends_at_its_rows_and_goes_on(self) -> None:
        self.fill(450)
        sizes, more = [], "search"
        for expected in ("rows", "rows", "end"):
            connection = self.connect()
            connection.protocol.dataReceived(
                f"GET {more if more.startswith('/') else '/topics/orders/records/search'} HTTP/1.1\r\n"
                "Host: localhost\r\n\r\n".encode()
            )
            events = self.events(connection)
            self.assertEqual(events[-1][0], expected)
            sizes.append(sum(data["html"].count("<tr") for name, data in events if name == "records"))
            more = events[-1][1]["more"]
        self.assertEqual(sizes, [200, 200, 50])
        self.assertIn("<b>450 records</b>", events[-1][1]["html"])

    def test_wrong_fields_end_a_stream(self) -> None:
        for below in ("search", "live"):
            [(name, data)] = self.events(self.stream(below, where="a <b> c"))
            self.assertEqual(name, "failed")
            self.assertIn("at character 1: a is not known", data["html"])
            self.assertNotIn("<b>", data["html"])

    def test_new_records_of_all_partitions(self) -> None:
        self.fill(4)
        viewer = self.stream("live", after="0:2,1:2")
        self.node.clock.advance(LIVE_ROUND_SECONDS)
        self.assertEqual(self.events(viewer), [])
        self.append(1, Record(0, NOW + 5, None, b"one"))
        self.append(0, Record(0, NOW + 6, None, b"two"))
        self.node.clock.advance(LIVE_ROUND_SECONDS)
        [(name, data)] = self.events(viewer)
        self.assertEqual((name, data["count"], data["left_out"], data["after"]), ("live", 2, 0, "0:3,1:3"))
        self.assertLess(data["html"].index("two"), data["html"].index("one"))

    def test_a_flood_is_cut_and_counted(self) -> None:
        viewer = self.stream("live", after="0:0,1:0")
        self.append(0, *(Record(0, NOW, None, b"x") for _ in range(1000)))
        self.node.clock.advance(LIVE_ROUND_SECONDS)
        [(_, data)] = self.events(viewer)
        self.assertEqual((data["count"], data["left_out"]), (LIVE_ROWS_PER_ROUND, 1000 - LIVE_ROWS_PER_ROUND))
        self.node.clock.advance(LIVE_ROUND_SECONDS)
        self.assertEqual(self.events(viewer), [])
