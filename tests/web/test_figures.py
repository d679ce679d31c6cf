"""Figures of open pages: one rendering a tick, and only the cells that have changed."""

from __future__ import annotations

import json
import re
from typing import Any
from unittest.mock import patch

from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure

from pylogbroker.metadata.image import NO_LEADER
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web import figures
from pylogbroker.web.figures import STREAM_SECONDS_MAX, TICK_SECONDS, Cell, cells_of
from pylogbroker.web.pages import FAULT_PAGES, PAGES, PageRoute
from pylogbroker.web.views import OPEN_PAGES_MAX
from tests.web.test_pages import PageTests
from tests.web.test_site import Connection
from tests.web.test_views import NOW
from tests.web.test_visitors import AnonymousTests

Event = tuple[str, dict[str, Any]]


def test_cells_have_content_and_class() -> None:
    html = """<td class="n p2" id="a" data-live><span title="1 B">1</span></td>
        <dd id="b" data-live title="c"> x <small>y</small> </dd><td id="c">3</td>
        <p class="n">&lt;td id="d" data-live></p>"""
    assert cells_of(html) == {"a": ('<span title="1 B">1</span>', "n p2"), "b": ("x <small>y</small>", "")}


class FigureTests(PageTests):
    seconds = 0.0
    """Processor time of each rendering."""

    def setUp(self) -> None:
        self.spent = 0.0
        self.renderings = 0
        for name, value in (("cells_of", self.rendered), ("thread_time", lambda: self.spent)):
            patched = patch.object(figures, name, value)
            patched.start()
            self.addCleanup(patched.stop)
        super().setUp()
        self.seen: dict[Connection, int] = {}

    def rendered(self, html: str) -> dict[str, Cell]:
        self.renderings += 1
        self.spent += self.seconds
        return cells_of(html)

    def open(self, path: str, cookie: str = "") -> Connection:
        connection = self.connect()
        more = f"Cookie: {cookie}\r\n" if cookie else ""
        connection.protocol.dataReceived(f"GET /figures{path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n".encode())
        return connection

    def events(self, connection: Connection) -> list[Event]:
        """Return the events since the last call."""
        chunks = connection.transport.value().decode().partition("\r\n\r\n")[2].split("\r\n")[1::2]
        events: list[Event] = []
        for block in "".join(chunks).split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
            if "data" in fields:
                events.append((fields["event"], json.loads(fields["data"])))
        seen = self.seen.get(connection, 0)
        self.seen[connection] = len(events)
        return events[seen:]

    def figures(self, connection: Connection) -> dict[str, Any]:
        """Return the data of the only event since the last call."""
        [(name, data)] = self.events(connection)
        self.assertEqual(name, "figures")
        return data

    def tick(self) -> None:
        self.node.clock.advance(TICK_SECONDS)


class TestStreams(FigureTests):
    def test_changed_cells_are_sent(self) -> None:
        self.node.create("clicks")
        self.node.create("orders")
        viewer = self.open("/topics")
        first = self.figures(viewer)
        self.assertEqual(first["cells"]["records-clicks"], ["0", "n p3"])
        self.assertIn("size-orders", first["cells"])
        self.tick()
        unchanged = self.figures(viewer)
        self.assertEqual((unchanged["cells"], unchanged["gone"]), ({}, []))
        self.node.produce("clicks", 0, *[NOW] * 3)
        self.tick()
        changed = self.figures(viewer)
        self.assertEqual(set(changed["cells"]), {"about-clicks", "records-clicks", "size-clicks", "sums"})
        self.assertEqual(changed["cells"]["records-clicks"], ["3", "n p3"])
        self.assertRegex(changed["time"], r"^\d\d:\d\d:\d\d$")

    def test_cells_of_things_that_have_gone_are_named(self) -> None:
        self.node.create("clicks")
        viewer = self.open("/topics?search=c&with_lag=true")
        self.commit("readers", "clicks", 0)
        lags = self.source.samples.group_lags
        lags.topics = {"clicks": {"readers": 5}}
        self.tick()
        self.events(viewer)
        lags.topics = {}
        self.tick()
        self.assertIn("lag-clicks", self.figures(viewer)["gone"])

    def test_a_tick_is_rendered_once_for_all_viewers(self) -> None:
        self.node.create("clicks")
        viewers = [self.open("/topics") for _ in range(3)]
        other = self.open("/topics?sort=-size")
        local = self.open("/topics", "times=local")
        self.tick()
        for viewer in (*viewers, other, local):
            self.events(viewer)
        before = self.renderings
        self.tick()
        self.assertEqual(self.renderings - before, 3)
        for viewer in (*viewers, other, local):
            self.assertEqual(len(self.events(viewer)), 1)

    def test_pages_take_a_two_hundredth_of_the_processor(self) -> None:
        self.seconds = 0.025
        self.open("/topics")
        self.open("/")
        self.node.clock.advance(5)
        self.assertEqual(self.renderings, 3)
        self.node.clock.advance(9)
        self.assertEqual(self.renderings, 3)
        self.node.clock.advance(1)
        self.assertEqual(self.renderings, 5)

    def test_nothing_is_rendered_once_all_viewers_have_gone(self) -> None:
        calls = len(self.node.clock.getDelayedCalls())
        viewers = [self.open("/topics"), self.open("/")]
        for viewer in viewers:
            self.assertGreater(len(self.node.clock.getDelayedCalls()), calls)
            viewer.protocol.connectionLost(Failure(ConnectionDone()))
        self.assertEqual(len(self.node.clock.getDelayedCalls()), calls)
        self.assertEqual(self.source.open_pages.running, 0)
        self.figures(self.open("/topics"))

    def test_a_viewer_who_does_not_take_events_gets_the_last_ones(self) -> None:
        self.node.create("clicks")
        viewer = self.open("/topics")
        self.figures(viewer)
        producer = viewer.transport.producer
        producer.pauseProducing()
        for _ in range(3):
            self.node.produce("clicks", 0, NOW)
            self.tick()
        self.assertEqual(len(self.events(viewer)), 1)
        producer.resumeProducing()
        self.tick()
        self.assertEqual(self.figures(viewer)["cells"]["records-clicks"], ["3", "n p3"])

    def test_streams_are_bounded(self) -> None:
        for _ in range(OPEN_PAGES_MAX):
            self.open("/topics")
        self.assertIn(b" 503 ", self.open("/topics").transport.value())
        self.assertEqual(self.connect().get("/topics").code, 200)

    def test_the_end_of_a_stream_and_of_the_broker(self) -> None:
        viewer = self.open("/topics")
        for _ in range(round(STREAM_SECONDS_MAX / TICK_SECONDS) + 1):
            self.tick()
        self.assertTrue(viewer.transport.value().endswith(b"0\r\n\r\n"))
        self.open("/")
        self.source.stop()
        self.assertEqual(self.source.open_pages._works, set())
        self.assertIn(b" 503 ", self.open("/topics").transport.value())

    def test_wrong_parameters(self) -> None:
        for path, code in (("/topics?sort=colour", b" 400 "), ("/style", b" 404 ")):
            self.assertIn(code, self.open(path).transport.value())

    def test_a_failure_ends_the_stream_and_is_logged(self) -> None:
        viewer = self.open("/topics")
        self.figures(viewer)
        with patch.object(figures, "cells_of", side_effect=ValueError("secret")):
            self.tick()
        [(name, data)] = self.events(viewer)
        self.assertEqual((name, data["html"]), ("failed", "they cannot be rendered: see the broker&#39;s log"))
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    def test_each_live_element_is_a_cell(self) -> None:
        self.node.create("clicks")
        self.commit("a group/&", "clicks", 0)
        paths = [page.path for page in (*PAGES, *FAULT_PAGES) if isinstance(page, PageRoute) and page.is_live]
        self.assertGreater(len(paths), 5)
        for path in paths:
            body = self.connect().get(path.format(topic="clicks", id="a%20group%2F&")).body
            ids = re.findall(r'id="([^"]*)"', body)
            self.assertEqual(len(cells_of(body)), body.count(" data-live"), path)
            self.assertEqual(len(ids), len(set(ids)), path)

    def test_the_page_of_a_group(self) -> None:
        self.node.create("clicks")
        self.commit("readers/&", "clicks", 0)
        viewer = self.open("/groups/readers%2F&?with_lag=")
        cells = self.figures(viewer)["cells"]
        self.assertEqual((cells["group-lag"], cells["lag-clicks-0"]), (["0", ""], ["0", "n"]))
        self.node.produce("clicks", 0, *[NOW] * 3)
        self.tick()
        cells = self.figures(viewer)["cells"]
        self.assertEqual((cells["group-lag"], cells["lag-clicks-0"]), (["3", ""], ["3", "n"]))
        self.assertIn("Nobody reads", cells["verdict"][0])
        missing = self.open("/groups/no-such-group")
        self.tick()
        self.assertEqual([name for name, _ in self.events(missing)], ["failed"])

    def test_partitions_of_a_topic(self) -> None:
        self.node.create("clicks", partitions=2)
        viewer = self.open("/topics/clicks/partitions")
        self.figures(viewer)
        self.node.produce("clicks", 1, *[NOW] * 3)
        self.node.change_partition("clicks", 0, leader=NO_LEADER)
        self.tick()
        cells = self.figures(viewer)["cells"]
        self.assertEqual((cells["end-1"], cells["records-1"]), (["3", "n"], ["3", "n p3"]))
        self.assertEqual(cells["leader-0"], ["none", "n"])
        self.assertIn("Partition 0 has no leader", cells["notes"][0])

    def test_groups_and_brokers(self) -> None:
        self.node.create("clicks")
        self.commit("readers", "clicks", 0)
        groups, brokers = self.open("/groups"), self.open("/brokers")
        self.assertEqual(self.figures(groups)["cells"]["state-readers"][0], '<span class="badge ">Empty</span>')
        self.tick()
        self.assertEqual(self.figures(brokers)["cells"]["leads-7"], ["2", "n p3"])
        self.node.change_partition("clicks", 0, leader=NO_LEADER)
        self.tick()
        self.assertEqual(self.figures(brokers)["cells"]["leads-7"], ["1", "n p3"])


class TestRights(AnonymousTests, FigureTests):
    def test_cells_are_those_of_what_the_visitor_may_see(self) -> None:
        self.node.create("clicks")
        self.node.create("orders")
        self.allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, "orders")
        cells = self.figures(self.open("/topics"))["cells"]
        self.assertIn("size-orders", cells)
        self.assertNotIn("size-clicks", cells)
