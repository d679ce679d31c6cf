"""Records of partitions that another broker leads: any broker may be asked."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import ensureDeferred
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from pylogbroker.web.records_api.fetching import first_offset
from pylogbroker.wire.messages.fetch import FetchRequest
from pylogbroker.wire.messages.offset_commit import OffsetCommitRequest
from pylogbroker.wire.messages.produce import ProduceRequest
from tests.web.records_api.http_tests import NDJSON, request_of
from tests.web.records_api.test_following import values_of
from tests.web.test_cluster_views import HERE, ClusterViewTests
from tests.web.test_site import Connection
from tests.web.test_views import NOW

PATH = "/api/topics/clicks/records"


class ClusterTests(ClusterViewTests):
    def send(self, method: str, path: str, body: bytes = b"", content_type: str = "", **headers: str) -> Connection:
        connection = Connection(self.factory, StringTransport(HERE, HERE))
        connection.protocol.dataReceived(request_of(method, path, body, content_type, **headers))
        self.cluster.run()
        return connection

    def body(self, connection: Connection) -> Any:
        return json.loads(connection.transport.value().partition(b"\r\n\r\n")[2])


class TestRecords(ClusterTests):
    def test_a_stream_is_written_by_both_leaders(self) -> None:
        lines = b"\n".join(b'{"value": %d, "partition": %d}' % (number, number % 2) for number in range(4))
        body = self.body(self.send("POST", PATH, lines, NDJSON))
        self.assertEqual([(row["partition"], row["records"]) for row in body["partitions"]], [(0, 2), (1, 2)])
        for index in (0, 1):
            log = self.cluster[index + 1].broker.partitions.find("clicks", index).log
            self.assertEqual(log.log_end_offset, 2)
        self.assertEqual(self.sent_to(ProduceRequest), [2])

    def test_a_key_holds_at_another_leader(self) -> None:
        for _ in range(2):
            body = b'{"value": 1, "partition": 1}'
            answer = self.body(self.send("POST", PATH, body, "application/json", idempotency_key="a"))
            self.assertEqual((answer["partition"], answer["offset"]), (1, 0))

    def test_records_are_read_and_waited_for(self) -> None:
        self.cluster[1].produce("clicks", 0, NOW)
        self.cluster[2].produce("clicks", 1, NOW, NOW)
        page = self.body(self.send("GET", PATH))
        self.assertEqual((len(page["records"]), page["next"], page["at_end"]), (3, "0:1,1:2,*", True))
        connection = self.send("GET", f"{PATH}?from={page['next']}&wait=20")
        self.assertEqual(connection.transport.value(), b"")
        self.cluster[2].produce("clicks", 1, NOW)
        self.cluster.run(2.0)
        self.assertEqual(self.body(connection)["next"], "0:1,1:3,*")
        error = self.body(self.send("GET", f"{PATH}?from=1:9"))
        self.assertIn("offset 9 of clicks-1 is not there. Go on with from=earliest", error["error"])

    def test_the_first_offset_of_a_partition_that_another_broker_leads(self) -> None:
        """A feed begins there with a partition that is added."""
        self.cluster[2].produce("clicks", 1, NOW, NOW)
        self.cluster[2].broker.partitions.find("clicks", 1).delete_records_before(1)
        for index, offset in ((0, 0), (1, 1)):
            first = ensureDeferred(first_offset(self.cluster[1].broker, "clicks", index))
            self.cluster.run(1.0)
            self.assertEqual(self.successResultOf(first), offset)

    def test_followers_get_records_of_both_leaders(self) -> None:
        follower = self.send("GET", PATH, accept="text/event-stream")
        self.cluster[1].produce("clicks", 0, NOW)
        self.cluster.run(2.0)
        self.cluster.down.add(2)
        self.cluster.run(3.0)
        self.cluster.down.clear()
        self.cluster[2].produce("clicks", 1, NOW)
        self.cluster.run(3.0)
        self.assertEqual(values_of(follower), ["value", "value"])
        follower.protocol.connectionLost(Failure(ConnectionDone()))
        self.cluster.run(1.0)

    def test_offsets_are_committed_at_the_coordinator(self) -> None:
        self.cluster.create("__consumer_offsets", [2])
        commit = json.dumps({"topic": "clicks", "next": "0:1,1:2,*"}).encode()
        answer = self.body(self.send("POST", "/api/groups/readers/offsets", commit, "application/json"))
        self.assertEqual(answer, {"group": "readers", "committed": 2})
        self.assertEqual(self.sent_to(OffsetCommitRequest), [2])
        rows = self.body(self.send("GET", "/api/groups/readers/offsets"))["offsets"]
        self.assertEqual([(row["partition"], row["offset"]) for row in rows], [(0, 1), (1, 2)])

    def test_a_leader_that_does_not_answer(self) -> None:
        self.cluster.down.add(2)
        for connection in (
            self.send("GET", f"{PATH}?partition=1"),
            self.send("POST", PATH, b'{"partition": 1}', "application/json"),
        ):
            body = self.body(connection)
            self.assertEqual((body["status"], "broker 2" in body["error"]), (503, True), body)

    def sent_to(self, request: type[Any]) -> list[int]:
        """Return the brokers that got requests of a type from broker 1."""
        return sorted({broker_id for _, broker_id, _ in self.cluster.sent(request)} - {1})


class TestFetches(ClusterTests):
    def test_only_committed_records_are_asked_for(self) -> None:
        self.cluster[2].produce("clicks", 1, NOW)
        self.send("GET", f"{PATH}?partition=1")
        levels = {
            request.isolation_level for _, _, request in self.cluster.sent(FetchRequest) if request.replica_id < 0
        }
        self.assertEqual(levels, {1})
