"""POST of records: one, many, lines; what is wrong, and requests that are sent again."""

from __future__ import annotations

import json
from unittest.mock import patch

from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure

from pylogbroker.metadata.image import NO_LEADER
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.records_api import appends, calls, idempotence
from pylogbroker.web.records_api.calls import DOCUMENT_BYTES_MAX, DOCUMENT_SECONDS_MAX
from pylogbroker.web.records_api.resource import WRITERS_MAX
from tests.web.records_api.http_tests import NDJSON, PATH, RecordsTests, answer_of, request_of
from tests.web.test_request_bodies import chunk
from tests.web.test_views import NOW
from tests.web.test_visitors import AnonymousTests


class TestDocuments(RecordsTests):
    def test_one_record(self) -> None:
        answer = self.post({"key": "k", "value": {"a": 1}, "partition": 1, "headers": {"h": "x"}, "timestamp": 17})
        self.assertEqual(answer.code, 200)
        row = {"partition": 1, "offset": 0, "timestamp": 17}
        self.assertEqual(json.loads(answer.body), {"topic": "clicks", **row})
        [record] = self.read()["records"]
        headers = [{"name": "h", "value": "x"}]
        self.assertEqual(record, {**row, "key": "k", "value": {"a": 1}, "headers": headers})
        self.assertEqual(json.loads(self.post({}).body)["timestamp"], NOW)

    def test_the_key_decides_the_partition_as_for_clients(self) -> None:
        self.node.create("four", partitions=4)
        answer = self.post({"key": "some key"}, "/api/topics/four/records")
        self.assertEqual(json.loads(answer.body)["partition"], 1)  # murmur2 of Kafka's clients, modulo 4

    def test_without_a_key_chance_decides_among_partitions_with_a_leader(self) -> None:
        self.node.change_partition("clicks", 0, leader=NO_LEADER)
        with patch.object(appends.random, "choice", lambda indexes: indexes[0]):
            self.assertEqual(json.loads(self.post({"value": "v"}).body)["partition"], 1)

    def test_many_records(self) -> None:
        rows = [{"value": number, "partition": number % 2} for number in range(5)]
        answer = self.post({"records": rows})
        places = [(row["partition"], row["offset"]) for row in json.loads(answer.body)["records"]]
        self.assertEqual(places, [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)])
        self.assertEqual(self.values("partition=0"), ["0", "2", "4"])
        self.assertEqual(json.loads(self.post({"records": []}).body), {"topic": "clicks", "records": []})

    def test_some_of_many_records_fail(self) -> None:
        answer = self.post({"records": [{"value": 1, "partition": 9}, {"value": 2, "partition": 0}]})
        failed, written = json.loads(answer.body)["records"]
        self.assertEqual((answer.code, written["offset"]), (207, 0))
        self.assertEqual(failed, {"error": "clicks has no partition 9: it has 2, from 0 on", "status": 404})

    def test_records_that_the_log_rejects(self) -> None:
        self.node.create("compacted", cleanup_policy="compact")
        rows = [{"key": "k"}, {"value": "no key"}]
        answer = self.post({"records": [{**row, "partition": 0} for row in rows]}, "/api/topics/compacted/records")
        first, second = json.loads(answer.body)["records"]
        self.assertEqual((answer.code, first["status"], second["status"]), (400, 400, 400))
        self.assertIn("record 2 of the same request is rejected", first["error"])
        self.assertIn("key", second["error"])

    def test_batches_are_within_the_limit_of_the_topic(self) -> None:
        self.node.create("small", max_message_bytes="500")
        rows = [{"value": "x" * 100, "partition": 0} for _ in range(9)]
        self.assertEqual(self.post({"records": rows}, "/api/topics/small/records").code, 200)
        self.assertEqual(self.node.broker.partitions.find("small", 0).log.log_end_offset, 9)
        answer = self.post({"value": "x" * 1000}, "/api/topics/small/records")
        self.assertEqual(answer.code, 413)
        self.assertIn("max.message.bytes", json.loads(answer.body)["error"])

    def test_errors(self) -> None:
        for body, code, reason in (
            (b"", 400, "expected a JSON object"),
            (b"[]", 400, "expected a JSON object"),
            (b"\xff", 400, "this is not UTF-8"),
            (b'{"records": {}}', 400, "records must be a list"),
            (b'{"records": [{}], "topic": 1}', 400, 'there is no member \\"topic\\"'),
            (b'{"records": [{}, {"partition": "a"}]}', 400, "record 2: partition must be"),
            (b'{"value": 1, "partition": 9}', 404, "no partition 9"),
        ):
            answer = self.post(body)
            self.assertEqual((answer.code, reason in answer.body), (code, True), answer.body)
        self.assertEqual(self.post({}, "/api/topics/missing/records").code, 404)
        self.assertEqual(self.post({}, f"{PATH}?acks=0").code, 400)
        self.assertEqual(self.request("POST", PATH, b"x", "text/plain").code, 415)
        self.assertIn("curl --json", self.request("POST", PATH, b"x", "application/x-www-form-urlencoded").body)
        self.assertEqual(self.post({}, content_encoding="gzip").code, 415)
        for name in ("Idempotency-Key", "Content-Type", "Origin", "Content-Encoding"):
            head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n{name}: ".encode()
            connection = self.opened()
            connection.protocol.dataReceived(head + b"\xff\r\n\r\n{}")
            self.assertIn(answer_of(connection).code, (403, 415), name)
        self.assertEqual(self.values(), [])

    def test_bodies_are_bounded_in_bytes_and_time(self) -> None:
        with patch.object(calls, "DOCUMENT_BYTES_MAX", 10):
            answer = self.post({"value": "x" * 20})
        self.assertEqual((answer.code, "as lines" in answer.body), (413, True))
        connection = self.opened()
        head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connection.protocol.dataReceived(f"{head}Content-Length: {10**20}\r\n\r\n{{".encode())
        self.site_clock.advance(0)
        self.assertEqual(answer_of(connection).code, 413)
        connection = self.opened()
        connection.protocol.dataReceived(request_of("POST", PATH, b"{", "application/json")[:-5])
        self.node.clock.advance(DOCUMENT_SECONDS_MAX + 1)
        self.assertIn(b" 408 ", connection.transport.value().partition(b"\r\n")[0])

    def test_large_bodies_wait_for_each_other(self) -> None:
        """Each takes memory: the connection of a waiting one is paused."""
        connections = [self.opened() for _ in range(calls.LARGE_DOCUMENTS_MAX + 1)]
        for connection in connections:
            head = request_of("POST", PATH, b"{" + b" " * 200_000, "application/json")[:-5]
            connection.protocol.dataReceived(head)
        states = [connection.transport.producerState for connection in connections]
        self.assertEqual(states, ["producing"] * calls.LARGE_DOCUMENTS_MAX + ["paused"])
        for connection in connections:
            connection.protocol.dataReceived(chunk(b"}") + b"0\r\n\r\n")
        self.assertEqual([answer_of(connection).code for connection in connections], [200] * len(connections))

    def test_writers_are_bounded(self) -> None:
        for _ in range(WRITERS_MAX):
            self.opened().protocol.dataReceived(request_of("POST", PATH, b"{", "application/json")[:-5])
        self.assertEqual(self.post({}).code, 503)

    def test_a_quota_delays_the_answer(self) -> None:
        quota = {"user": "ANONYMOUS", "key": "producer_byte_rate", "value": 100}
        self.request("PUT", "/api/quotas", json.dumps(quota).encode(), "application/json")
        connection = self.opened()
        body = json.dumps({"value": "x" * 5000}).encode()
        connection.protocol.dataReceived(request_of("POST", PATH, body, "application/json"))
        self.assertEqual(connection.transport.value(), b"")
        self.node.clock.advance(60)
        self.assertEqual(answer_of(connection).code, 200)


class TestLines(RecordsTests):
    def test_lines_are_written_and_summed_up(self) -> None:
        answer = self.post_lines(
            {"value": 1, "partition": 0}, {"value": 2, "partition": 1}, "", {"value": 3, "partition": 0}
        )
        self.assertEqual(answer.code, 200)
        partitions = [
            {"partition": 0, "records": 2, "first_offset": 0, "last_offset": 1},
            {"partition": 1, "records": 1, "first_offset": 0, "last_offset": 0},
        ]
        self.assertEqual(json.loads(answer.body), {"topic": "clicks", "written": 3, "partitions": partitions})
        self.assertEqual(json.loads(self.post_lines().body)["written"], 0)

    def test_lines_are_written_as_they_arrive(self) -> None:
        connection = self.opened()
        head = request_of("POST", f"{PATH}?answers=lines", b'{"value": "a", "partition": 0}\n{"val', NDJSON)[:-5]
        connection.protocol.dataReceived(head)
        self.assertEqual(self.values(), ["a"])
        self.assertIn(b'{"line":1,"partition":0,"offset":0', connection.transport.value())
        connection.protocol.dataReceived(chunk(b'ue": "b", "partition": 0}') + b"0\r\n\r\n")
        self.assertEqual(self.values(), ["a", "b"])
        self.assertEqual([json.loads(line)["line"] for line in answer_of(connection).body.splitlines()], [1, 2])

    def test_a_wrong_line_is_named_and_ends_the_stream(self) -> None:
        lines = [{"value": number, "partition": 0} for number in range(20)]
        texts = [*map(json.dumps, lines)]
        texts[16] = '{"value": '
        answer = self.post_lines(*texts)
        body = json.loads(answer.body)
        self.assertEqual((answer.code, body["status"], body["line"], body["written"]), (400, 400, 17, 16))
        self.assertTrue(body["error"].startswith("line 17: this is not JSON"), body)
        self.assertEqual(len(self.values()), 16)
        answer = self.post_lines(*texts[15:18], path=f"{PATH}?answers=lines")
        self.assertEqual(answer.code, 200)
        written, failed = map(json.loads, answer.body.splitlines())
        self.assertEqual((written["line"], failed["line"], failed["status"], failed["written"]), (1, 2, 400, 1))

    def test_a_record_that_cannot_be_written_is_named_by_its_line(self) -> None:
        body = json.loads(self.post_lines({"value": 1, "partition": 0}, {"partition": 9}).body)
        self.assertEqual((body["line"], body["status"], body["written"]), (2, 404, 1))
        answer = self.post_lines({"value": 1}, path="/api/topics/missing/records")
        self.assertEqual((answer.code, json.loads(answer.body)["line"]), (404, 1))

    def test_a_line_that_is_too_long(self) -> None:
        connection = self.opened()
        head = request_of("POST", PATH, b'{"value": 1}\n{"value": "', NDJSON)[:-5]
        connection.protocol.dataReceived(head)
        connection.protocol.dataReceived(chunk(b"x" * (DOCUMENT_BYTES_MAX + 1)))
        self.site_clock.advance(0)
        body = json.loads(answer_of(connection).body)
        self.assertEqual((body["line"], body["written"]), (2, 1))
        self.assertIn("at most 4,194,304 bytes", body["error"])

    def test_lines_wait_while_earlier_ones_are_appended(self) -> None:
        self.node.create("synced", flush_messages="1")
        self.node.threads.holding = True
        connection = self.opened()
        connection.protocol.dataReceived(
            request_of("POST", "/api/topics/synced/records", b'{"value": 1}\n', NDJSON)[:-5]
        )
        log = self.node.broker.partitions.find("synced", 0).log
        for _ in range(4):
            connection.protocol.dataReceived(chunk(b'{"value": "%s"}\n' % (b"x" * 50_000)))
        self.assertEqual((log.log_end_offset, connection.transport.producerState), (1, "paused"))
        connection.protocol.dataReceived(b"0\r\n\r\n")
        while self.node.threads.held:
            self.node.threads.run_one()
        self.assertEqual(json.loads(answer_of(connection).body)["written"], 5)

    def test_a_connection_that_is_cut_off_leaves_whole_lines(self) -> None:
        connection = self.opened()
        connection.protocol.dataReceived(
            request_of("POST", PATH, b'{"value": "a", "partition": 0}\n{"value": "b', NDJSON)[:-5]
        )
        connection.protocol.connectionLost(Failure(ConnectionDone()))
        self.assertEqual(self.values(), ["a"])
        self.assertEqual(self.root.records.writers.running, 0)


class TestIdempotence(RecordsTests):
    def test_a_request_that_is_sent_again_writes_nothing_twice(self) -> None:
        rows = {"records": [{"value": number} for number in range(3)]}
        answers = [self.post(rows, idempotency_key="a") for _ in range(2)]
        self.assertEqual(answers[0].body, answers[1].body)
        self.assertNotIn("timestamp", answers[0].body)
        self.assertEqual(len(self.values()), 3)
        self.post(rows, idempotency_key="b")
        self.assertEqual(len(self.values()), 6)

    def test_retry_after_restart_gets_the_old_offset(self) -> None:
        first = self.post({"value": "v", "timestamp": 17}, idempotency_key="a")
        self.node.produce("clicks", 0, NOW)
        self.node.produce("clicks", 1, NOW)
        self.restart()
        self.serve()
        again = self.post({"value": "v", "timestamp": 17}, idempotency_key="a")
        self.assertEqual(json.loads(first.body), json.loads(again.body))

    def test_lines_with_a_key_are_checked_before_the_first_is_written(self) -> None:
        answer = self.post_lines({"value": 1}, {"valu": 2}, idempotency_key="a")
        body = json.loads(answer.body)
        self.assertEqual((answer.code, body["line"], body["written"]), (400, 2, 0))
        for _ in range(2):
            answer = self.post_lines({"value": 1}, {"value": 2}, idempotency_key="a")
            self.assertEqual(json.loads(answer.body)["written"], 2)
        self.assertEqual(self.values(), ["1", "2"])

    def test_other_records_with_the_same_key_are_rejected(self) -> None:
        self.post({"value": 1}, idempotency_key="a")
        answer = self.post({"records": [{"value": 1}, {"value": 2}]}, idempotency_key="a")
        self.assertEqual((answer.code, "other records another key" in answer.body), (409, True), answer.body)

    def test_a_key_covers_a_number_of_batches(self) -> None:
        self.node.create("small", max_message_bytes="500")
        rows = [{"value": "x" * 300} for _ in range(idempotence.BATCHES_MAX + 1)]
        for _ in range(2):
            answer = self.post({"records": rows}, "/api/topics/small/records", idempotency_key="a")
            written = [row.get("offset") for row in json.loads(answer.body)["records"]]
            self.assertEqual((answer.code, written), (207, [0, 1, 2, 3, 4, None]))

    def test_batches_behind_a_rejected_one_are_not_written(self) -> None:
        """The retry would have them twice, or never."""
        self.node.create("compacted", cleanup_policy="compact", max_message_bytes="500")
        rows = [{"value": "no key", "partition": 0}, {"key": "k", "value": "x" * 400, "partition": 0}]
        path = "/api/topics/compacted/records"
        answer = self.post({"records": rows}, path, idempotency_key="a")
        self.assertEqual((answer.code, self.node.broker.partitions.find("compacted", 0).log.log_end_offset), (400, 0))
        rows[0]["key"] = "now"
        answer = self.post({"records": rows}, path, idempotency_key="a")
        self.assertEqual([row["offset"] for row in json.loads(answer.body)["records"]], [0, 1])

    def test_keys_are_bounded(self) -> None:
        self.assertEqual(self.post({}, idempotency_key="x" * 300).code, 400)
        self.post({"partition": 0}, idempotency_key="a")
        with patch.object(idempotence, "PRODUCERS_MAX", 1):
            answer = self.post({"partition": 0}, idempotency_key="b")
            self.assertEqual((answer.code, "producer.id.expiration.ms" in answer.body), (429, True))
            self.assertEqual(self.post({"partition": 0}, idempotency_key="a").code, 200)


class TestRights(AnonymousTests, RecordsTests):
    def test_a_record_needs_the_right_to_write(self) -> None:
        self.assertEqual(self.post({}).code, 403)
        self.allow(AclOperation.READ, AclResourceType.TOPIC, "clicks")
        self.assertEqual(self.post({}).code, 403)
        self.assertEqual(self.post_lines({}).code, 403)
        self.allow(AclOperation.WRITE, AclResourceType.TOPIC, "clicks")
        self.assertEqual(self.post({}).code, 200)
