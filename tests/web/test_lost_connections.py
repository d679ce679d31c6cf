"""Visitors that close their connection while an answer is prepared: nothing is held, and others are served after it.

Each request is closed at each of its moments: after every number of worker jobs that it takes.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from typing import Any

import attrs
from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure
from twisted.web.server import Request

from pylogbroker.records import Codec, Record, build
from tests.broker.nodes import NODE_ID
from tests.web.described import operation
from tests.web.test_changes import ChangeTests
from tests.web.test_views import NOW as NOW_MS


@attrs.frozen
class Kind:
    """An operation by its name and fields. `again` is the status of a change that is done already."""

    name: str
    fields: dict[str, Any] = attrs.field(factory=dict)
    again: int = 200

    @property
    def is_change(self) -> bool:
        return operation(self.name).method != "GET"

    def sent(self, directory: str) -> bytes:
        asked = operation(self.name)
        fields = {name: directory if value == DIRECTORY else value for name, value in self.fields.items()}
        if not self.is_change:
            return f"GET {asked.address(fields)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        path, rest = asked.request(fields)
        body = json.dumps(rest).encode()
        head = f"{asked.method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


DIRECTORY = "{directory}"
KINDS = {
    "topics": Kind("topics"),
    "topic": Kind("topic", {"name": "t"}),
    "preview": Kind("records", {"topic": "t", "partition": 0, "offset": 0}),
    "preview_by_time": Kind("records", {"topic": "t", "partition": 0, "time": NOW_MS}),
    "groups": Kind("groups"),
    "group": Kind("group", {"id": "g"}),
    "brokers": Kind("brokers"),
    "log_directory": Kind("log-directory", {"broker": NODE_ID, "path": DIRECTORY}),
    "transactions": Kind("transactions"),
    "live": Kind("live", {"topic": "t"}),
    "creation": Kind("create-topic", {"name": "new", "partitions": 3}, again=409),
    "other_setting": Kind("set-setting", {"name": "t", "setting": "retention.ms", "value": "-1"}),
    "read_records": Kind("read-records", {"topic": "t"}),
    "read_of_a_group": Kind("read-records", {"topic": "t", "group": "g"}),
    "committed": Kind("group-committed", {"id": "g"}),
    "commit": Kind("commit-offsets", {"id": "h", "topic": "t", "next": "0:0"}),
    "records": Kind("write-records", {"topic": "t", "records": [{"value": "x" * 20_000}]}),
    "record": Kind("write-records", {"topic": "synced", "value": "v"}),
    "offsets": Kind("reset-group", {"id": "g", "to": "earliest"}),
    "password": Kind("set-password", {"name": "alice", "password": "secret"}),
    "quota": Kind("set-quota", {"user": "alice", "key": "producer_byte_rate", "value": 1}),
}


class LostConnectionTests(ChangeTests):
    def setUp(self) -> None:
        gc.collect()
        gc.freeze()  # objects of before are not searched again and again
        super().setUp()
        self.node.create("t")
        self.node.create("synced", flush_messages="1")
        self.node.broker.partitions.find("t", 0).append(
            build([Record(0, NOW_MS, None, b"v")], codec=Codec.GZIP), NOW_MS
        )
        self.commit("g", "t", 1)
        self.source.start(self.node.broker)
        self.addCleanup(self.source.stop)
        self.jobs = (self.node.threads, self.node.logins)
        for threads in self.jobs:
            threads.holding = True

    def run_one(self) -> bool:
        """Let the oldest worker job run, if there is one."""
        for threads in self.jobs:
            if threads.held:
                threads.run_one()
                return True
        return False

    def settle(self) -> None:
        for _ in range(20):
            self.node.clock.advance(1)
            while self.run_one():
                pass

    def closed_after(self, jobs: int, kind: Kind) -> bool:
        """Close the connection after so many worker jobs; return whether the request took that many."""
        connection = self.connect()
        connection.protocol.dataReceived(kind.sent(self.directories[0]))
        self.node.clock.advance(0)
        took = [self.run_one() for _ in range(jobs)]
        connection.protocol.connectionLost(Failure(ConnectionDone()))
        answered = connection.transport.value()
        self.settle()
        self.assertEqual(connection.transport.value(), answered)
        del connection
        self.assert_nothing_is_left()
        return all(took)

    def assert_nothing_is_left(self) -> None:
        gc.collect()
        self.assertEqual(self.flushLoggedErrors(), [])
        self.assertEqual((self.source.answers.running, self.source.viewers.running), (0, 0))
        self.assertEqual((self.root.records.readers.running, self.root.records.writers.running), (0, 0))
        self.assertEqual([each for each in gc.get_objects() if isinstance(each, Request)], [])
        self.assertEqual(len(self.node.broker.fetches.delayed), 0)
        for partition in self.node.broker.partitions.led.values():
            self.assertEqual(len(partition.purgatory), 0)

    def assert_is_served(self, kind: Kind) -> None:
        """Ask for the same with a connection that stays: what was cut off keeps nothing from it."""
        connection = self.connect()
        connection.protocol.dataReceived(kind.sent(self.directories[0]))
        self.settle()
        status = int(connection.transport.value().split()[1])
        self.assertIn(status, (200, kind.again))
        connection.protocol.connectionLost(Failure(ConnectionDone()))
        self.settle()


def _check(kind: Kind) -> Callable[[LostConnectionTests], None]:
    def test(self: LostConnectionTests) -> None:
        jobs = 0
        while self.closed_after(jobs, kind):
            jobs += 1
        self.assert_is_served(kind)

    return test


for _name, _kind in KINDS.items():
    setattr(LostConnectionTests, f"test_{_name}", _check(_kind))
