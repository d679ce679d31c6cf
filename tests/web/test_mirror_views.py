"""Mirrors into a cluster, as JSON and as a page."""

from __future__ import annotations

from pylogbroker.mirror_records.formats import MirrorHeartbeat
from pylogbroker.mirror_records.status import MirroredTopicReport, StatusReport
from pylogbroker.records import Record, build
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from tests.web.test_pages import HOSTILE, Parsed
from tests.web.test_views import NOW, ViewTests
from tests.web.test_visitors import AnonymousTests

REPORT = StatusReport(
    12, 345, 6789, 1.5, 2048.0, (MirroredTopicReport("orders", "east.orders", 3, 12),), {"bills": HOSTILE}, HOSTILE
)


class TestMirrors(ViewTests):
    def beat(self, source: str, timestamp: int, report: StatusReport | None) -> None:
        heartbeat = MirrorHeartbeat(source, "here", timestamp)
        headers = () if report is None else (report.header(),)
        self.append(Record(0, timestamp, heartbeat.key(), heartbeat.value(), headers))

    def append(self, record: Record) -> None:
        self.node.broker.partitions.find("heartbeats", 0).append(build([record]), NOW)

    def test_cluster_without_heartbeats_has_no_mirrors(self) -> None:
        self.assertEqual(self.ask("mirrors"), {"mirrors": []})
        page = Parsed(self.connect().get("/mirrors").body)
        self.assertIn("No mirror into this cluster", page.text)
        self.assertNotIn("/mirrors", page.links)

    def test_mirrors_have_the_figures_of_their_last_heartbeat(self) -> None:
        self.node.create("heartbeats")
        self.beat("east", NOW - 1000, StatusReport(99))
        self.append(Record(0, NOW, b"damaged", None))
        self.beat("east", NOW, REPORT)
        self.beat("west", NOW - 60_000, None)
        east, west = self.ask("mirrors")["mirrors"]
        self.assertEqual((east["source"], east["target"], east["is_running"]), ("east", "here", True))
        self.assertEqual((east["lag"], east["records_per_second"], east["bytes_per_second"]), (12, 1.5, 2048.0))
        self.assertEqual(east["topics"], [{"topic": "orders", "target": "east.orders", "partitions": 3, "lag": 12}])
        self.assertEqual(east["stopped"], [{"topic": "bills", "reason": HOSTILE}])
        self.assertEqual((west["is_running"], west["lag"], west["heartbeat"]), (False, None, NOW - 60_000))

    def test_page_shows_lag_troubles_and_silent_mirrors(self) -> None:
        self.node.create("heartbeats")
        self.beat("east", NOW, REPORT)
        self.beat(HOSTILE, NOW - 60_000, None)
        page = Parsed(self.connect().get("/mirrors").body)
        self.assertIn("1 silent", page.text)
        self.assertIn("Topic bills of east is not mirrored.", page.text)
        self.assertIn("/topics/east.orders/records", page.links)
        self.assertIn("/mirrors", page.links)
        self.assertIn("unknown", page.text)


class TestMirrorsOfSomeVisitors(AnonymousTests):
    def test_heartbeats_are_shown_to_those_who_may_read_them(self) -> None:
        self.node.create("heartbeats")
        self.ask("mirrors", 403)
        self.allow(AclOperation.READ, AclResourceType.TOPIC, "heartbeats")
        self.assertEqual(self.ask("mirrors"), {"mirrors": []})
