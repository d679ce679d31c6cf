"""New records as they come: what viewers get, and what bounds them."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure

from pylogbroker.records import Record, build
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.live import LIFETIME_SECONDS, ROUND_SECONDS, WAITING_RECORDS_MAX
from pylogbroker.web.views import VIEWERS_MAX
from tests.broker.trees import now
from tests.web.test_site import Connection
from tests.web.test_views import NOW, ViewTests
from tests.web.test_visitors import AnonymousTests


class LiveTests(ViewTests):
    def setUp(self) -> None:
        super().setUp()
        self.node.create("clicks", partitions=2)

    def follow(self, parameters: str = "", header: str = "") -> Connection:
        connection = self.connect()
        head = f"GET /api/topics/clicks/preview/live?{parameters} HTTP/1.1\r\nHost: localhost\r\n{header}\r\n"
        connection.protocol.dataReceived(head.encode())
        return connection

    def append(self, *values: str, partition: int = 0) -> None:
        records = [Record(n, NOW, None, value.encode()) for n, value in enumerate(values)]
        self.node.broker.partitions.find("clicks", partition).append(build(records), NOW)

    def rounds(self, count: int = 1) -> None:
        for _ in range(count):
            self.node.clock.advance(ROUND_SECONDS)

    def events(self, connection: Connection) -> list[dict[str, Any]]:
        """Return the events since the last call, each with `id` and `event`."""
        chunks = connection.transport.value().decode().partition("\r\n\r\n")[2].split("\r\n")[1::2]
        found = []
        for block in "".join(chunks).split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
            if "data" in fields:
                found.append({"id": fields.get("id"), "event": fields["event"], **json.loads(fields["data"])})
        return found

    def values(self, connection: Connection) -> list[str]:
        return [row["value"]["text"] for event in self.events(connection) for row in event.get("records", ())]


class TestLive(LiveTests):
    def test_new_records_come(self) -> None:
        self.append("old")
        viewer = self.follow()
        self.assertIn("content-type: text/event-stream", viewer.transport.value().decode().lower())
        self.append("one", "two")
        self.append("three", partition=1)
        self.rounds()
        events = self.events(viewer)
        self.assertEqual([(each["partition"], each["id"]) for each in events], [(0, "0:3,1:0"), (1, "0:3,1:1")])
        self.assertEqual(self.values(viewer), ["one", "two", "three"])
        self.assertEqual([each["skipped"] for each in events], [0, 0])
        self.append("four")
        self.rounds(3)
        self.assertEqual(self.values(viewer), ["one", "two", "three", "four"])

    def test_follow_parameters_choose_the_first_record(self) -> None:
        self.append(*"abcdef")
        self.append("x", "y", partition=1)
        for parameters, expected in (
            ("partition=0&offset=4", ["e", "f"]),
            ("last=1", ["f", "y"]),
            ("after=0:5,1:1", ["f", "y"]),
            (f"partition=1&time={NOW}", ["x", "y"]),
            ("partition=1", []),
            ("last=6&search=E&partition=0", ["e"]),
        ):
            viewer = self.follow(parameters)
            self.rounds()
            self.assertEqual(self.values(viewer), expected, parameters)
        resumed = self.follow("last=0", "Last-Event-ID: 0:3\r\n")
        self.rounds()
        self.assertEqual(self.values(resumed), ["d", "e", "f"])

    def test_records_that_nobody_could_read_are_skipped(self) -> None:
        viewer = self.follow("partition=0")
        for begin in range(0, 3000, 80):
            self.append(*(str(n) for n in range(begin, begin + 80)))
        end = begin + 80
        self.rounds()
        first = self.events(viewer)[0]
        self.assertEqual(first["skipped"], (end - WAITING_RECORDS_MAX) // 80 * 80)
        self.assertEqual(first["records"][0]["offset"], first["skipped"])
        self.assertLess(len(self.values(viewer)), WAITING_RECORDS_MAX)
        self.append("more")
        self.rounds(2)
        self.assertEqual(len(self.events(viewer)), 1)  # nobody reads so fast: it takes a second
        self.rounds(120)
        self.assertEqual(self.values(viewer), [*(str(n) for n in range(first["skipped"], end)), "more"])
        self.assertEqual(sum(each["skipped"] for each in self.events(viewer)), first["skipped"])

    def test_records_that_no_search_has_seen_are_counted(self) -> None:
        viewer = self.follow("partition=0&search=needle")
        self.append("hay")
        self.append(*["hay"] * WAITING_RECORDS_MAX)
        self.rounds(9)
        self.assertEqual([(each["skipped"], each["records"]) for each in self.events(viewer)], [(1, [])])

    def test_a_paused_viewer_gets_nothing(self) -> None:
        viewer = self.follow("partition=0")
        viewer.transport.producer.pauseProducing()
        self.append("one")
        self.rounds(2)
        self.assertEqual(self.values(viewer), [])
        viewer.transport.producer.resumeProducing()
        self.rounds()
        self.assertEqual(self.values(viewer), ["one"])

    def test_viewers_are_bounded_and_end(self) -> None:
        viewers = [self.follow() for _ in range(VIEWERS_MAX)]
        self.assertIn("503 ", self.follow().transport.value().decode())
        viewers[0].protocol.connectionLost(Failure(ConnectionDone()))
        self.assertIn("200 OK", self.follow().transport.value().decode())
        self.node.clock.pump([ROUND_SECONDS] * int(LIFETIME_SECONDS / ROUND_SECONDS + 2))
        self.assertEqual(self.source.viewers.running, 0)
        self.assertTrue(viewers[1].transport.value().endswith(b"0\r\n\r\n"))
        self.assertIn(":\n\n", viewers[1].transport.value().decode())  # never silent for long

    def test_a_stop_ends_all_viewers(self) -> None:
        viewer = self.follow()
        self.source.stop()
        self.append("late")
        self.rounds(4)
        self.assertEqual(self.values(viewer), [])

    def test_a_deleted_topic_ends_its_viewers(self) -> None:
        viewer = self.follow()
        now(self.node.broker.controller.delete_topic("clicks"))
        self.rounds()
        [event] = self.events(viewer)
        self.assertEqual(event["event"], "ended")
        self.assertEqual(self.source.viewers.running, 0)

    def test_errors(self) -> None:
        for parameters, code in (
            ("partition=7", 404),
            ("after=x", 400),
            ("after=0:-1", 400),
            ("format=xml", 400),
            ("partition=0&time=soon", 400),
        ):
            answer = self.follow(parameters).transport.value().decode()
            self.assertIn(f" {code} ", answer.partition("\r\n")[0], parameters)
            self.assertIn('{"error":', answer)


class TestRights(AnonymousTests, LiveTests):
    def test_a_revoked_right_ends_the_viewer(self) -> None:
        self.assertIn("403 ", self.follow().transport.value().decode())
        self.allow(AclOperation.READ, AclResourceType.TOPIC, "clicks")
        viewer = self.follow()
        self.append("one")
        self.rounds()
        self.assertEqual(self.values(viewer), ["one"])
        self.deny_all()
        self.append("two")
        self.rounds()
        self.assertEqual(self.values(viewer), ["one"])
        self.assertEqual(self.events(viewer)[-1]["event"], "ended")
