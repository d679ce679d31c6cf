"""Confluent's REST API v3: the requests and answers of its documentation and of its own tests."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any, Final

import pytest

from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from tests.broker.nodes import CLUSTER_ID
from tests.web.records_api.http_tests import RecordsTests, answer_of, request_of
from tests.web.test_request_bodies import chunk
from tests.web.test_visitors import AnonymousTests

CLUSTER: Final = f"/v3/clusters/{CLUSTER_ID}"
RECORDS: Final = f"{CLUSTER}/topics/clicks/records"
BINARY: Final = b64encode(b"\x00v").decode()


class ConfluentTests(RecordsTests):
    def produce(self, *objects: Any, path: str = RECORDS) -> list[Any]:
        """Return the answers to objects one behind the other, of which a text may be none."""
        body = "".join(part if isinstance(part, str) else json.dumps(part) for part in objects)
        answer = self.request("POST", path, body.encode(), "application/json")
        self.assertEqual((answer.code, answer.headers["content-type"]), (200, "application/json"), answer.body)
        return [json.loads(line) for line in answer.body.splitlines()]

    def rows(self) -> list[Any]:
        return self.read()["records"]  # type: ignore[no-any-return]


class TestProduce(ConfluentTests):
    def test_the_request_of_the_documentation(self) -> None:
        [answer] = self.produce(
            {
                "partition_id": 1,
                "headers": [{"name": "Header-1", "value": "SGVhZGVyLTE="}, {"name": "Header-2"}],
                "key": {"type": "BINARY", "data": "Zm9vYmFy"},
                "value": {"type": "JSON", "data": {"foo": "bar"}},
                "timestamp": "2021-02-05T19:14:42Z",
            }
        )
        self.assertEqual(
            answer,
            {
                "error_code": 200,
                "cluster_id": CLUSTER_ID,
                "topic_name": "clicks",
                "partition_id": 1,
                "offset": 0,
                "timestamp": "2021-02-05T19:14:42.000Z",
                "key": {"type": "BINARY", "size": 6},
                "value": {"type": "JSON", "size": 14},
            },
        )
        [row] = self.rows()
        self.assertEqual((row["key"], row["value"], row["timestamp"]), ("foobar", {"foo": "bar"}, 1612552482000))
        self.assertEqual(
            row["headers"], [{"name": "Header-1", "value": "Header-1"}, {"name": "Header-2", "value": None}]
        )

    def test_each_type(self) -> None:
        for value, expected in (
            ({"type": "BINARY", "data": BINARY}, "\x00v"),
            ({"type": "STRING", "data": "text"}, "text"),
            ({"type": "JSON", "data": "text"}, '"text"'),
            ({"type": "JSON", "data": 1.50}, "1.5"),
            ({"type": "JSON", "data": None}, None),
            (None, None),
        ):
            [answer] = self.produce({"partition_id": 0, "value": value})
            self.assertEqual(self.rows()[-1]["value"], expected)
            self.assertEqual("value" in answer, value is not None)

    def test_many_objects(self) -> None:
        record = {"partition_id": 0, "value": {"type": "STRING", "data": '}{"'}}
        answers = self.produce(record, "\n", record, record)
        self.assertEqual([answer["offset"] for answer in answers], [0, 1, 2])

    def test_answers_come_while_the_body_does(self) -> None:
        connection = self.opened()
        record = b'{"partition_id": 0, "value": {"type": "JSON", "data": 1}}'
        connection.protocol.dataReceived(request_of("POST", RECORDS, record, "application/json")[:-5])
        self.assertIn(b'"offset":0', connection.transport.value())
        connection.protocol.dataReceived(chunk(record))
        self.assertIn(b'"offset":1', connection.transport.value())
        connection.protocol.dataReceived(b"0\r\n\r\n")
        self.assertEqual(len(answer_of(connection).body.splitlines()), 2)

    def test_a_wrong_record_does_not_end_the_stream(self) -> None:
        good = {"partition_id": 0, "value": {"type": "STRING", "data": "v"}}
        wrong = (
            ({"value": {"type": "BINARY", "data": "x"}}, 400, "value.data is not base64"),
            ({"value": {"type": "STRING", "data": 1}}, 400, "value.data is no text"),
            ({"value": {"type": "XML", "data": 1}}, 400, "value.type must be one of BINARY, JSON, STRING, AVRO"),
            ({"value": {"type": "AVRO", "data": 1}}, 42206, "this broker knows no schema registry"),
            ({"value": {"schema_id": 1, "data": 1}}, 42206, "the value needs a schema"),
            ({"key": 1}, 400, "key must be an object"),
            ({"val": 1}, 400, "did you mean value?"),
            ({"partition_id": -1}, 400, "partition_id must be"),
            ({"partition_id": 9}, 40403, "no partition 9"),
            ({"headers": [{"value": "AA=="}]}, 400, "headers[0] needs a text as its name"),
        )
        answers = self.produce(good, *(record for record, _, _ in wrong), good)
        self.assertEqual([answers[0]["offset"], answers[-1]["offset"]], [0, 1])
        for answer, (_, code, reason) in zip(answers[1:-1], wrong, strict=True):
            self.assertEqual((answer["error_code"], reason in answer["message"]), (code, True), answer)

    def test_json_that_is_none_ends_the_stream(self) -> None:
        good = {"partition_id": 0, "value": {"type": "STRING", "data": "v"}}
        for end in ("{", "x}", '{"a" 1}', "[1]}"):
            answers = self.produce(good, end, good)
            self.assertEqual([answer["error_code"] for answer in answers][-1], 400, end)
            self.assertLessEqual(len(answers), 2)

    def test_errors(self) -> None:
        for path, body, code in (
            (RECORDS.replace(CLUSTER_ID, "other"), b"{}", 404),
            (RECORDS, b"", 400),
        ):
            answer = self.request("POST", path, body, "application/json")
            self.assertEqual((answer.code, json.loads(answer.body)["error_code"]), (code, code))
        self.assertEqual(self.request("POST", RECORDS, b"{}", "text/plain").code, 415)
        [answer] = self.produce({}, path=RECORDS.replace("clicks", "missing"))
        self.assertEqual(answer["error_code"], 40403)


class TestLists(ConfluentTests):
    def test_clusters_and_topics_below_both_prefixes(self) -> None:
        for prefix in ("", "/kafka"):
            base = f"http://localhost{prefix}"
            [cluster] = json.loads(self.request("GET", f"{prefix}/v3/clusters").body)["data"]
            self.assertEqual(cluster["cluster_id"], CLUSTER_ID)
            self.assertEqual(cluster, json.loads(self.request("GET", prefix + CLUSTER).body))
            self.assertEqual(cluster["topics"]["related"], f"{base}{CLUSTER}/topics")
            [topic] = json.loads(self.request("GET", f"{prefix}{CLUSTER}/topics").body)["data"]
            self.assertEqual((topic["topic_name"], topic["partitions_count"]), ("clicks", 2))
            self.assertEqual(topic, json.loads(self.request("GET", f"{prefix}{CLUSTER}/topics/clicks").body))
            self.assertEqual(topic["metadata"]["self"], f"{base}{CLUSTER}/topics/clicks")
        for path in (f"{CLUSTER}/topics/clicks/partitions", "/kafka/v3/cluster"):
            answer = self.request("GET", path)
            self.assertEqual((answer.code, answer.headers["content-type"]), (404, "application/json"))
            error = json.loads(answer.body)
            self.assertEqual((error["error_code"], f"there is no {path}" in error["message"]), (404, True))
        answer = self.request("GET", f"{CLUSTER}/topics/missing")
        self.assertEqual((answer.code, json.loads(answer.body)["error_code"]), (404, 404))


class TestOlderVersions(ConfluentTests):
    def test_requests_are_answered_with_those_that_take_their_place(self) -> None:
        """All paths of the older API that are pages here, or nothing."""
        body = b'{"records": [{"value": 1}]}'
        for path in ("/topics/clicks", "/topics/clicks/partitions/0", "/consumers/readers"):
            answer = self.request("POST", path, body, "application/vnd.kafka.json.v2+json")
            self.assertEqual(answer.code, 415)
            error = json.loads(answer.body)
            self.assertEqual((error["error_code"], "POST /v3/clusters/" in error["message"]), (415, True))
        for accepted in ("application/vnd.kafka.v2+json, application/json", "application/vnd.kafka+json"):
            self.assertEqual(self.request("GET", "/topics", accept=accepted).code, 406)
        self.assertEqual(self.request("GET", "/topics", accept="application/json").code, 200)


class TestRights(AnonymousTests, ConfluentTests):
    def test_rights_are_those_of_clients(self) -> None:
        self.assertEqual(self.produce({})[0]["error_code"], 40301)
        self.assertEqual(json.loads(self.request("GET", f"{CLUSTER}/topics").body)["data"], [])
        self.assertEqual(self.request("GET", f"{CLUSTER}/topics/clicks").code, 403)
        self.allow(AclOperation.WRITE, AclResourceType.TOPIC, "clicks")
        self.assertEqual(self.produce({})[0]["error_code"], 200)


@pytest.mark.parametrize("time", [0, 253402300799000, 10**17])
def test_times_of_answers(time: int) -> None:
    from pylogbroker.web.records_api.confluent import _instant

    assert _instant(time) in ("1970-01-01T00:00:00.000Z", "9999-12-31T23:59:59.000Z", str(10**17))
