"""Connections that follow a topic: events, resumption, slow followers, ends."""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from hashlib import sha1
from typing import Any, Final
from unittest.mock import patch

from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure
from wsproto.frame_protocol import CloseReason, FrameProtocol, Opcode

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.records_api import feeds, fetching
from pylogbroker.web.records_api.feeds import SILENCE_SECONDS_MAX
from tests.broker.trees import now
from tests.web.records_api.http_tests import PATH, RecordsTests, answer_of, request_of
from tests.web.test_site import Connection
from tests.web.test_visitors import AnonymousTests

KEY: Final = b64encode(bytes(range(16))).decode()
UPGRADE: Final = {
    "connection": "keep-alive, Upgrade",
    "upgrade": "websocket",
    "sec_websocket_version": "13",
    "sec_websocket_key": KEY,
}


class SlowSocket:
    """Takes a number of bytes, and fails with -1."""

    def __init__(self, free: int = 0) -> None:
        self.free = free
        self.data = bytearray()

    def send(self, data: bytes | memoryview) -> int:
        if self.free < 0:
            raise ConnectionResetError
        if not self.free:
            raise BlockingIOError
        part = data[: self.free]
        self.data += part
        self.free -= len(part)
        return len(part)


class FollowingTests(RecordsTests):
    def follow(self, query: str = "", **headers: str) -> Connection:
        connection = self.opened()
        headers.setdefault("accept", "text/event-stream")
        connection.protocol.dataReceived(request_of("GET", f"{PATH}?{query}", **headers))
        self.run_clock()
        return connection

    def run_clock(self, seconds: float = 0) -> None:
        for _ in range(12):
            self.node.clock.advance(seconds / 12)

    def new(self, *values: str, partition: int = 0) -> None:
        self.append(*values, partition=partition)
        self.run_clock()

    def pause(self, connection: Connection) -> Any:
        """Let the connection take nothing more; return its follower."""
        follower = connection.transport.producer
        follower._is_taking = False
        return follower


def events_of(connection: Connection) -> list[dict[str, Any]]:
    """Return the events, each with its id and kind."""
    _, _, body = connection.transport.value().decode().partition("\r\n\r\n")
    events = []
    for block in body.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if "data" in fields:
            kind = fields.get("event", "message")
            events.append({"id": fields.get("id"), "kind": kind, **json.loads(fields["data"])})
    return events


def values_of(connection: Connection) -> list[Any]:
    return [row["value"] for event in events_of(connection) for row in event.get("records", ())]


class TestEvents(FollowingTests):
    def test_new_records_come(self) -> None:
        self.append("old")
        follower = self.follow()
        head = follower.transport.value().decode().partition("\r\n\r\n")[0]
        self.assertIn("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream", head)
        self.new("one", "two")
        self.new("three", partition=1)
        first, second = events_of(follower)
        self.assertEqual((first["id"], first["next"], first["topic"]), ("0:3,1:0,*", "0:3,1:0,*", "clicks"))
        self.assertEqual([row["value"] for row in first["records"]], ["one", "two"])
        self.assertEqual((second["id"], second["records"][0]["offset"]), ("0:3,1:1,*", 0))

    def test_followers_begin_where_they_say(self) -> None:
        self.append(*"abcdef")
        self.append("x", "y", partition=1)
        for query, headers, expected in (
            ("from=earliest", {}, "abcdefxyg"),
            ("from=0:4,1:1", {}, "efyg"),
            ("from=-1", {}, "fyg"),
            ("partition=1&from=0", {}, "xy"),
            ("partition=0", {}, "g"),
            ("", {"last_event_id": "0:5,1:0"}, "fxyg"),
            ("from=earliest", {"last_event_id": "0:5,1:2"}, "fg"),
        ):
            follower = self.follow(query, **headers)
            before = self.node.broker.partitions.find("clicks", 0).log.log_end_offset
            self.new("g")
            self.assertEqual("".join(values_of(follower)), expected, query)
            self.assertEqual(before, 6)
            self.restart_topic()

    def restart_topic(self) -> None:
        now(self.node.broker.controller.delete_topic("clicks"))
        self.run_clock()
        self.node.create("clicks", partitions=2)
        self.append(*"abcdef")
        self.append("x", "y", partition=1)

    def test_a_follower_that_resumes_misses_nothing_and_gets_nothing_twice(self) -> None:
        first = self.follow("from=earliest")
        self.new("a", "b")
        self.new("c", partition=1)
        last = events_of(first)[-1]["id"]
        first.protocol.connectionLost(Failure(ConnectionDone()))
        self.new("d")
        again = self.follow("", last_event_id=last)
        self.new("e", partition=1)
        self.assertEqual(values_of(first) + values_of(again), [*"abcde"])

    def test_a_follower_of_a_silent_topic_resumes_where_it_began(self) -> None:
        self.append("old")
        first = self.follow()
        block = first.transport.value().decode().partition("\r\n\r\n")[2]
        self.assertEqual(block, "retry: 1000\nid: 0:1,1:0,*\n\n")
        first.protocol.connectionLost(Failure(ConnectionDone()))
        self.new("missed")
        self.assertEqual(values_of(self.follow("", last_event_id="0:1,1:0")), ["missed"])

    def test_a_follower_that_resumes_goes_on_behind_what_its_group_has_committed(self) -> None:
        self.append(*"abcd")
        self.commit("readers", "clicks", 1)
        self.assertEqual(values_of(self.follow("group=readers&partition=0")), [*"bcd"])
        self.assertEqual(values_of(self.follow("group=readers&partition=0", last_event_id="0:3")), ["d"])

    def test_browsers_come_again_while_the_broker_starts(self) -> None:
        self.source.services = None
        answer = answer_of(self.follow())
        self.assertEqual((answer.code, answer.headers["content-type"]), (200, "text/event-stream"))
        self.assertEqual(answer.body, "retry: 3000\n: the broker starts or stops\n\n")
        self.assertEqual(answer_of(self.follow("", **UPGRADE)).code, 503)
        self.assertEqual(self.request("GET", PATH, accept="application/json").code, 503)

    def test_records_are_read_and_encoded_once_for_all(self) -> None:
        followers = [self.follow() for _ in range(20)]
        self.assertEqual((len(self.root.records.feeds), self.root.records.feeds.followers), (1, 20))
        with patch.object(fetching, "record_text", wraps=fetching.record_text) as encode:
            self.new("a", "b")
        self.assertEqual(encode.call_count, 2)
        self.assertEqual({tuple(values_of(follower)) for follower in followers}, {("a", "b")})
        self.follow("partition=0&format=base64")
        self.assertEqual(len(self.root.records.feeds), 2)

    def test_a_request_for_the_head_alone_does_not_follow(self) -> None:
        answer = self.request("HEAD", PATH, accept="text/event-stream")
        self.assertEqual((answer.code, answer.headers["content-type"], answer.body), (200, "application/json", ""))

    def test_followers_do_not_count_as_requests(self) -> None:
        """Their request is over, and its objects are released."""
        self.follow()
        self.assertEqual(self.root.records.readers.running, 0)

    def test_a_slow_follower_gets_what_the_feed_has_kept(self) -> None:
        slow, fast = self.follow(), self.follow()
        follower = self.pause(slow)
        for value in "abc":
            self.new(value)
        self.assertEqual((values_of(slow), values_of(fast)), ([], [*"abc"]))
        follower.resumeProducing()
        self.assertEqual(values_of(slow), [*"abc"])

    def test_a_follower_that_is_too_late_reads_from_the_log(self) -> None:
        slow = self.follow()
        follower = self.pause(slow)
        with patch.object(feeds, "KEPT_BYTES_MAX", 10):
            for value in "abcd":
                self.new(value)
            follower.resumeProducing()
            self.run_clock()
            self.new("e")
        self.assertEqual(values_of(slow), [*"abcde"])
        self.assertEqual([event["id"] for event in events_of(slow)], ["0:4,1:0,*", "0:5,1:0,*"])

    def test_a_slow_connection_is_waited_for_without_a_buffer(self) -> None:
        """The rest is sent from the event itself, when the socket takes more."""
        values = ["x" * 70_000, "y" * 70_000]
        for value in values:
            self.append(value)
        connection = self.opened()
        socket = SlowSocket()
        connection.transport.socket = socket  # type: ignore[attr-defined]
        connection.transport.startWriting = lambda: None  # type: ignore[attr-defined]
        connection.protocol.dataReceived(request_of("GET", f"{PATH}?from=earliest", accept="text/event-stream"))
        socket.free = 10_000
        with patch.object(fetching, "record_text", wraps=fetching.record_text) as encode:
            self.run_clock()
            self.assertEqual((len(socket.data), encode.call_count), (10_000, 1))
            while socket.free == 0:
                socket.free = 10_000
                connection.transport.producer.resumeProducing()
                self.run_clock()
        events = [json.loads(line[6:]) for line in socket.data.decode().splitlines() if line.startswith("data: ")]
        self.assertEqual([event["records"][0]["value"] for event in events], values)

    def test_a_connection_that_is_broken_is_closed(self) -> None:
        connection = self.follow()
        connection.transport.socket = SlowSocket(-1)  # type: ignore[attr-defined]
        self.new("a")
        self.assertTrue(connection.transport.aborted)  # type: ignore[attr-defined]

    def test_many_small_events_are_not_all_kept(self) -> None:
        slow = self.follow()
        follower = self.pause(slow)
        with patch.object(feeds, "KEPT_CHUNKS_MAX", 2):
            for value in "abcd":
                self.new(value)
        [feed] = self.root.records.feeds._feeds.values()
        self.assertEqual(len(feed._chunks), 2)
        follower.resumeProducing()
        self.run_clock()
        self.assertEqual(values_of(slow), [*"abcd"])

    def test_deleted_records_are_skipped_and_named(self) -> None:
        self.append(*"abc")
        self.append(*"def")
        self.node.broker.partitions.find("clicks", 0).delete_records_before(3)
        follower = self.follow("from=0:1")
        skipped, records = events_of(follower)
        self.assertEqual((skipped["kind"], skipped["partition"], skipped["from"], skipped["to"]), ("skipped", 0, 1, 3))
        self.assertEqual((skipped["id"], records["id"]), ("0:3", "0:6"))
        self.assertEqual(values_of(follower), [*"def"])

    def test_silent_connections_get_comments(self) -> None:
        follower = self.follow()
        for _ in range(4):
            self.run_clock(SILENCE_SECONDS_MAX)
        self.assertIn(b":\n\n", follower.transport.value())

    def test_a_deleted_topic_ends_its_followers(self) -> None:
        follower = self.follow()
        now(self.node.broker.controller.delete_topic("clicks"))
        self.run_clock(1)
        [event] = events_of(follower)
        self.assertEqual((event["kind"], "clicks" in event["error"]), ("ended", True))
        self.assertTrue(follower.transport.disconnecting)
        self.assert_nothing_is_left()

    def test_followers_of_all_partitions_get_those_that_are_added(self) -> None:
        self.append("old")
        follower, of_some = self.follow(), self.follow("from=0:1,1:0")
        behind = self.pause(slow := self.follow())
        self.add_partition()
        self.new("one", partition=2)
        self.assertEqual([event["id"] for event in events_of(follower)], ["0:1,1:0,2:0,*", "0:1,1:0,2:1,*"])
        with patch.object(feeds, "KEPT_BYTES_MAX", 10):
            self.new("two", partition=2)
        behind.resumeProducing()
        self.run_clock()
        self.assertEqual([values_of(each) for each in (follower, slow, of_some)], [["one", "two"]] * 2 + [[]])

    def add_partition(self) -> None:
        now(self.node.broker.controller.create_partitions("clicks", 3))
        self.run_clock()

    def test_a_follower_that_resumes_gets_the_partitions_that_were_added(self) -> None:
        self.append("old")
        self.add_partition()
        self.new("one", partition=2)
        for query, last_event_id in (("from=0:1,1:0,*", None), ("", "0:1,1:0,*"), ("from=latest", "0:1,1:0,*")):
            headers = {"last_event_id": last_event_id} if last_event_id else {}
            self.assertEqual(values_of(self.follow(query, **headers)), ["one"])
        self.assertEqual(values_of(self.follow("from=0:1,1:0", last_event_id="0:1,1:0")), [])

    def test_an_added_partition_whose_leader_does_not_answer_stops_no_other(self) -> None:
        follower = self.follow()
        away = KafkaError("broker 9 is away", ErrorCode.NETWORK_EXCEPTION)
        with patch.object(feeds, "first_offset", side_effect=away):
            self.add_partition()
            self.new("one")
            self.run_clock(2)
        self.assertEqual(values_of(follower), ["one"])
        self.new("two", partition=2)
        self.run_clock(SILENCE_SECONDS_MAX)
        self.assertEqual(values_of(follower), ["one", "two"])

    def test_a_topic_with_too_many_partitions_ends_its_followers(self) -> None:
        follower = self.follow()
        with patch.object(feeds, "PARTITIONS_MAX", 2):
            self.add_partition()
        [event] = events_of(follower)
        self.assertEqual(
            event["error"], "clicks has more than 2 partitions: name one by partition, or some by from=0:17,1:4"
        )
        self.assert_nothing_is_left()

    def test_a_partition_without_a_leader_stops_no_other(self) -> None:
        follower, late = self.follow(), self.follow("from=0:0,1:0")
        led = self.node.broker.partitions.led
        taken = led.pop(("clicks", 0))
        self.new("one", partition=1)
        self.run_clock(2)
        self.assertEqual([values_of(each) for each in (follower, late)], [["one"]] * 2)
        led["clicks", 0] = taken
        self.new("two")
        self.run_clock(2)
        self.assertEqual([values_of(each) for each in (follower, late)], [["one", "two"]] * 2)

    def test_a_stop_ends_all_followers(self) -> None:
        followers = [self.follow(), self.follow("from=earliest")]
        self.source.stop()
        self.run_clock()
        self.assertTrue(all(follower.transport.disconnecting for follower in followers))
        self.assert_nothing_is_left()

    def test_a_stop_before_a_feed_begins(self) -> None:
        connection = self.opened()
        connection.protocol.dataReceived(request_of("GET", PATH, accept="text/event-stream"))
        self.source.stop()
        self.run_clock()
        self.new("late")
        self.assertEqual(values_of(connection), [])
        self.assertTrue(connection.transport.disconnecting)
        self.assert_nothing_is_left()

    def test_a_feed_ends_with_its_last_follower(self) -> None:
        followers = [self.follow(), self.follow()]
        followers[0].protocol.connectionLost(Failure(ConnectionDone()))
        self.run_clock()
        self.assertEqual(len(self.root.records.feeds), 1)
        followers[1].protocol.connectionLost(Failure(ConnectionDone()))
        self.run_clock()
        self.assert_nothing_is_left()

    def assert_nothing_is_left(self) -> None:
        self.assertEqual((len(self.root.records.feeds), self.root.records.feeds.followers), (0, 0))
        for partition in self.node.broker.partitions.led.values():
            self.assertEqual(len(partition.purgatory), 0)
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_a_client_that_leaves_while_it_catches_up(self) -> None:
        self.append("a")
        self.node.threads.holding = True
        follower = self.follow("from=earliest")
        follower.protocol.connectionLost(Failure(ConnectionDone()))
        while self.node.threads.held:
            self.node.threads.run_one()
        self.run_clock()
        self.assert_nothing_is_left()

    def test_errors(self) -> None:
        for query, code, reason in (
            ("from=0:9", 416, "it ends at 0"),
            ("from=7:0", 404, "no partition 7"),
            ("to=0:1", 400, "has no end"),
            ("wait=1", 400, "has no end"),
        ):
            answer = answer_of(self.follow(query))
            self.assertEqual((answer.code, reason in answer.body), (code, True), answer.body)
        self.node.create("wide", partitions=feeds.PARTITIONS_MAX + 1)
        path = "/api/topics/wide/records"
        answer = self.request("GET", path, accept="text/event-stream")
        self.assertEqual((answer.code, "name one by partition" in answer.body), (400, True))
        self.assertEqual(self.request("GET", path).code, 200)
        self.assertEqual(len(self.root.records.feeds), 0)


class TestQuotas(FollowingTests):
    def test_a_follower_is_throttled(self) -> None:
        follower = self.follow()
        quota = {"user": "ANONYMOUS", "key": "consumer_byte_rate", "value": 100}
        self.request("PUT", "/api/quotas", json.dumps(quota).encode(), "application/json")
        self.new("x" * 5000)
        self.new("later")
        self.assertEqual(len(values_of(follower)), 1)
        self.run_clock(120)
        self.assertEqual(len(values_of(follower)), 2)


class TestRights(AnonymousTests, FollowingTests):
    def test_a_revoked_right_ends_the_follower(self) -> None:
        self.assertEqual(answer_of(self.follow()).code, 403)
        self.allow(AclOperation.READ, AclResourceType.TOPIC, "clicks")
        follower = self.follow()
        self.new("one")
        self.deny_all()
        for _ in range(3):
            self.run_clock(SILENCE_SECONDS_MAX)
        self.new("two")
        self.assertEqual(values_of(follower), ["one"])
        self.assertEqual(events_of(follower)[-1]["kind"], "ended")


class TestWebSockets(FollowingTests):
    def open_socket(self, query: str = "", **headers: str) -> Connection:
        return self.follow(query, accept="*/*", **{**UPGRADE, **headers})

    def messages(self, connection: Connection, begin: str = "0:0,1:0,*") -> list[Any]:
        """Return texts as JSON, and codes of other frames, behind the message that says where the socket begins."""
        client = FrameProtocol(client=True, extensions=[])
        client.receive_bytes(connection.transport.value().partition(b"\r\n\r\n")[2])
        opening, *messages = [
            json.loads(str(frame.payload)) if frame.opcode is Opcode.TEXT else frame.opcode
            for frame in client.received_frames()
        ]
        self.assertEqual(opening, {"topic": "clicks", "records": [], "next": begin})
        return messages

    def test_the_handshake(self) -> None:
        head = self.open_socket().transport.value().partition(b"\r\n\r\n")[0].decode()
        self.assertTrue(head.startswith("HTTP/1.1 101 Switching Protocols\r\n"))
        accepted = b64encode(sha1(f"{KEY}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()).decode()
        self.assertIn(f"Sec-WebSocket-Accept: {accepted}", head)

    def test_new_records_come_as_messages(self) -> None:
        self.append("old")
        socket = self.open_socket("from=0:0")
        events = self.follow("from=0:0")
        self.new("new")
        first, second = self.messages(socket, "0:0")
        self.assertEqual([row["value"] for row in first["records"]], ["old"])
        self.assertEqual((second["next"], [row["value"] for row in second["records"]]), ("0:2", ["new"]))
        self.assertEqual(values_of(events), ["old", "new"])

    def test_control_frames_are_answered(self) -> None:
        client = FrameProtocol(client=True, extensions=[])
        socket = self.open_socket()
        socket.protocol.dataReceived(bytes(client.ping(b"x")))
        self.assertEqual(self.messages(socket), [Opcode.PONG])
        socket.protocol.dataReceived(bytes(client.close(CloseReason.NORMAL_CLOSURE)))
        self.assertEqual(self.messages(socket), [Opcode.PONG, Opcode.CLOSE])
        self.assertTrue(socket.transport.disconnecting)

    def test_a_client_that_sends_data_is_closed(self) -> None:
        for data in (FrameProtocol(client=True, extensions=[]).send_data("hello", fin=True), b"\xff" * 20):
            socket = self.open_socket()
            socket.protocol.dataReceived(bytes(data))
            self.assertEqual(self.messages(socket), [Opcode.CLOSE])
            self.assertTrue(socket.transport.disconnecting)

    def test_wrong_handshakes(self) -> None:
        for headers, code in (
            ({"sec_websocket_version": "8"}, 426),
            ({"sec_websocket_key": "x"}, 400),
            ({"connection": "close"}, 400),
            ({"origin": "https://other.example"}, 403),
        ):
            self.assertEqual(answer_of(self.open_socket(**headers)).code, code, headers)
        self.assertEqual(self.open_socket(origin="http://localhost").transport.value()[9:12], b"101")

    def test_without_the_package_the_answer_names_it(self) -> None:
        with patch.dict("sys.modules", {"wsproto.frame_protocol": None}):
            sys.modules.pop("pylogbroker.web.records_api.websockets", None)
            answer = answer_of(self.open_socket())
        self.assertEqual(answer.code, 501)
        self.assertIn("wsproto", answer.body)
