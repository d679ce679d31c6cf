"""The control of a test broker, by plain HTTP, as tests in other languages use it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Any, get_type_hints
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import attrs
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from jsonschema import Draft202012Validator

from pylogbroker.testing.control.json_messages import from_json, to_json
from pylogbroker.testing.control.site import control_document
from pylogbroker.testing.faults import Faults
from pylogbroker.testing.faults.criteria import CriteriaFields
from pylogbroker.web.description import page_document
from pylogbroker.web.fault_port import FaultFields
from pylogbroker.wire.messages.alter_client_quotas import OpData
from tests.peers.java import Program
from tests.support.line_process import LineProcess
from tests.testing.faults.raw import RawClient

UNKNOWN_PATH = "/tocips"
DESCRIPTION = "/openapi.json"
JAVA_TEST = Program(Path(__file__).parent / "OrderTest.java")


@attrs.frozen
class Control:
    """A client of the control."""

    address: str
    bootstrap: str

    def ask(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """Return the answer; raise AssertionError with the text of an error."""
        try:
            return self._ask(method, path, body, content_type)
        except HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from error

    def _ask(self, method: str, path: str, body: Any, content_type: str) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.address + at(path), data, {"Content-Type": content_type}, method=method)
        with urlopen(request, timeout=120) as answer:
            found = json.load(answer)
        check(method, path, found)
        return found

    def fail(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> tuple[int, str]:
        """Return status and text of an error."""
        with pytest.raises(HTTPError) as error:
            self._ask(method, path, body, content_type)
        found = json.load(error.value)
        check(method, path, found, error.value.code)
        return error.value.code, found["error"]


def at(path: str) -> str:
    return path if path == DESCRIPTION else f"/api{path}"


def check(method: str, path: str, answer: Any, status: int = 200) -> None:
    """Compare an answer with the description; raise ValidationError."""
    description = control_document()
    parts = at(path).partition("?")[0].split("/")
    if path in (UNKNOWN_PATH, DESCRIPTION) or status == 405:
        return
    found, *_ = [  # one without placeholders comes first
        methods[method.lower()]
        for template, methods in sorted(description["paths"].items(), key=lambda item: item[0].count("{"))
        if len(each := template.split("/")) == len(parts)
        and all(name == part or name.startswith("{") for name, part in zip(each, parts, strict=True))
        and method.lower() in methods
    ]
    response = found["responses"][str(status)]
    if "$ref" in response:
        response = description["components"]["responses"][response["$ref"].rpartition("/")[2]]
    schema = response["content"]["application/json"]["schema"]
    Draft202012Validator({**schema, "components": description["components"]}).validate(answer)


@pytest.fixture(scope="module")
def running() -> Iterator[Control]:
    """A test broker in a process of its own."""
    with LineProcess([sys.executable, "-m", "pylogbroker.testing", "--override", "broker.id=0"]) as process:
        found = json.loads(process.expect(r"^\{.*\}$").group())
        yield Control(found["control"], found["bootstrap"])


@pytest.fixture
def control(running: Control) -> Iterator[Control]:
    """The control, without faults before and after."""
    yield running
    running.ask("DELETE", "/faults")


@pytest.fixture
def raw(control: Control) -> Iterator[RawClient]:
    """A Kafka client."""
    with RawClient(control.bootstrap) as client:
        client.create_topic("t")
        yield client


def test_the_description_is_valid() -> None:
    validator = pytest.importorskip("openapi_spec_validator", reason="needs openapi-spec-validator")
    validator.validate(control_document())


def test_the_description_is_served(control: Control) -> None:
    assert control.ask("GET", DESCRIPTION) == control_document()


def test_faults_have_the_same_fields_in_python_the_control_and_the_page() -> None:
    criteria = get_type_hints(CriteriaFields).keys()
    in_python = (signature(Faults.add).parameters.keys() | criteria) - {"self", "when", "criteria"}
    content = control_document()["paths"]["/api/faults"]["post"]["requestBody"]["content"]["application/json"]
    assert content["schema"]["properties"].keys() == in_python
    of_page = page_document()["paths"]["/api/faults"]["post"]["requestBody"]["content"]["application/json"]
    assert of_page["schema"]["properties"].keys() == get_type_hints(FaultFields).keys() == in_python - {"answer"}
    paths = ("/api/faults/{id}/release", "/api/faults/{id}")
    for path, method in zip(paths, ("post", "delete"), strict=True):
        assert method in page_document()["paths"][path]
        assert method in control_document()["paths"][path]


def test_addresses_and_time(control: Control) -> None:
    assert control.ask("GET", "/broker") == {
        "bootstrap": control.bootstrap,
        "ids": [0],
        "listeners": [{"PLAINTEXT": control.bootstrap}],
        "schema_registry": None,
    }
    before = control.ask("GET", "/clock")["seconds"]
    control.ask("POST", "/clock/advance", {"duration": "1h"})
    assert 3600 <= control.ask("GET", "/clock")["seconds"] - before < 3660
    assert control.fail("POST", "/clock/advance", {"duration": "soon"})[0] == 400


def test_a_topic_is_created(control: Control) -> None:
    control.ask("POST", "/topics", {"name": "new", "partitions": 3, "settings": {"retention.ms": 1000}})
    (seen,) = control.ask("GET", "/requests?api=CreateTopics")
    (topic,) = seen["request"]["topics"]
    assert (topic["name"], topic["num_partitions"], topic["configs"][0]["value"]) == ("new", 3, "1000")
    assert control.fail("POST", "/topics", {"name": "new"})[0] == 400


def test_numbers_that_json_does_not_have() -> None:
    found = to_json(OpData("producer_byte_rate", float("inf"), False))
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert from_json(OpData, found).value == float("inf")


def test_values_of_json_that_are_no_texts(control: Control) -> None:
    control.ask("POST", "/topics", {"name": "texts"})
    status, error = control.fail("POST", "/topics/texts/records", {"values": [1.1]})
    assert (status, error) == (400, "values[0] must be a text or null, not 1.1")
    assert control.fail("POST", "/clock/advance", {"duration": float("inf")})[0] == 400


def test_topics_and_records(control: Control) -> None:
    kept = {"settings": {"retention.ms": -1}}  # the timestamps are old
    control.ask("POST", "/topics", {"name": "listed", "partitions": 2, "replication_factor": 1, **kept})
    assert control.ask("GET", "/topics")["listed"] == 2
    produced = {"values": ["tea", None], "key": "k", "partition": 1, "timestamp_ms": 5, "headers": [["h", "1"]]}
    assert control.ask("POST", "/topics/listed/records", produced) == [0, 1]
    tea, nothing = control.ask("GET", "/topics/listed/records?isolation_level=read_committed")
    place = {"partition": 1, "timestamp": 5, "key": "k", "headers": [["h", "1"]]}
    assert (tea, nothing) == ({"offset": 0, "value": "tea", **place}, {"offset": 1, "value": None, **place})
    assert control.ask("POST", "/topics/listed/records", {"values": ["/w=="], "encoding": "base64", "partition": 0})
    assert control.fail("GET", "/topics/listed/records")[0] == 400
    assert control.ask("GET", "/topics/listed/records?encoding=base64")[0]["value"] == "/w=="
    assert control.fail("GET", "/topics/listed/records?encoding=hex")[0] == 400
    control.ask("DELETE", "/topics/listed")
    assert "listed" not in control.ask("GET", "/topics")


def test_groups_transactions_and_requests(control: Control) -> None:
    topic = "of-groups"
    control.ask("POST", "/topics", {"name": topic})
    assert control.ask("GET", "/client_settings") == {"bootstrap.servers": control.bootstrap}
    consumer = Consumer({"bootstrap.servers": control.bootstrap, "group.id": "a group/1"})
    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    consumer.close()
    assert "a group/1" in control.ask("GET", "/groups")
    control.ask("DELETE", "/groups/a%20group%2F1")
    assert "a group/1" not in control.ask("GET", "/groups")
    producer = Producer({"bootstrap.servers": control.bootstrap, "transactional.id": "open"})
    producer.init_transactions(120)
    producer.begin_transaction()
    producer.produce(topic, b"value")
    assert producer.flush(120) == 0
    assert control.ask("GET", "/transactions") == ["open"]
    producer.abort_transaction(120)
    assert control.ask("GET", "/requests?api=Produce")
    control.ask("DELETE", "/requests")
    assert control.ask("GET", "/requests?api=Produce") == []


def test_users_tls_acls_and_a_schema_registry() -> None:
    options = ["--user", "alice=secret", "--tls", "--acl", "alice all topic:orders", "--schema-registry"]
    with LineProcess([sys.executable, "-m", "pylogbroker.testing", *options]) as process:
        found = json.loads(process.expect(r"^\{.*\}$").group())
        control = Control(found["control"], found["bootstrap"])
        assert control.ask("GET", "/broker")["schema_registry"] == found["schema_registry"]
        assert json.load(urlopen(found["schema_registry"] + "/subjects", timeout=120)) == []
        control.ask("POST", "/topics", {"name": "orders"})
        control.ask("POST", "/topics", {"name": "others"})
        settings = control.ask("GET", "/client_settings?user=alice")
        assert settings["security.protocol"] == "SASL_SSL"
        producer = Producer(settings)
        errors = {}
        for topic in ("orders", "others"):
            producer.produce(topic, b"tea", callback=lambda error, message: errors.update({message.topic(): error}))
        assert producer.flush(120) == 0
        del producer
        assert (errors["orders"], errors["others"].name()) == (None, "TOPIC_AUTHORIZATION_FAILED")
        assert control.fail("GET", "/client_settings?user=bob")[0] == 400


def test_a_fault_and_its_hits(control: Control, raw: RawClient) -> None:
    added = control.ask("POST", "/faults", {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "times": 2})
    assert [raw.produce("t").error_code for _ in range(3)] == [6, 6, 0]
    assert control.ask("GET", f"/faults/{added['id']}")["hits"] == 2
    seen = control.ask("POST", f"/faults/{added['id']}/wait", {"hits": 2})
    assert (seen["api"], seen["client_id"], seen["request"]["topic_data"][0]["name"]) == ("Produce", "raw", "t")


def test_a_held_request_is_released(control: Control, raw: RawClient) -> None:
    held = control.ask("POST", "/faults", {"api": "Produce", "hold": True, "topic": "t"})
    raw.send_produce("t")
    control.ask("POST", f"/faults/{held['id']}/wait")
    control.ask("POST", f"/faults/{held['id']}/release")
    assert raw.receive_produced().error_code == 0


def test_a_scripted_answer(control: Control, raw: RawClient) -> None:
    control.ask("POST", "/faults", {"api": "Heartbeat", "answer": {"error_code": 27, "throttle_time_ms": 5}})
    answer = raw.heartbeat("g")
    assert (answer.error_code, answer.throttle_time_ms) == (27, 5)


def test_faults_of_cluster_logs_and_network(control: Control, raw: RawClient) -> None:
    before = raw.end_offset("t")
    control.ask("POST", "/cluster/move_leader", {"topic": "t", "to": 3})
    assert raw.produce("t").current_leader.leader_id == 3
    control.ask("POST", "/cluster/move_leader", {"topic": "t", "to": 0})
    failing = control.ask("POST", "/logs/fail_appends", {"topic": "t"})
    assert [raw.produce("t").error_code for _ in range(2)] == [56, 0]
    assert control.ask("GET", f"/faults/{failing['id']}")["hits"] == 1
    control.ask("POST", "/logs/truncate", {"topic": "t", "to": before})
    assert raw.end_offset("t") == before
    control.ask("POST", "/network/reset")
    with pytest.raises(ConnectionError):
        raw.produce("t")


def fetch_error(control: Control, topic: str) -> int | str:
    """Return the error code of a fetch, or the end of its connection."""
    with RawClient(control.bootstrap) as client:
        try:
            return int(client.fetch(topic).responses[0].partitions[0].error_code)
        except ConnectionError as error:
            return str(error)


def test_chaos_ends(control: Control, raw: RawClient) -> None:
    raw.create_topic("chaotic")
    begun = control.ask("POST", "/chaos", {"seed": 1, "rate": 1})
    assert {fetch_error(control, "chaotic") for _ in range(20)} != {0}
    control.ask("DELETE", f"/chaos/{begun['id']}")
    assert {fetch_error(control, "chaotic") for _ in range(20)} == {0}
    assert control.fail("DELETE", f"/chaos/{begun['id']}") == (404, f"there is no chaos {begun['id']}")


def test_caps_of_versions(control: Control, raw: RawClient) -> None:
    control.ask("POST", "/versions", {"release": "2.8", "apis": {"Fetch": [4, 11]}})
    with pytest.raises(ConnectionError):
        raw.produce("t")
    control.ask("POST", "/versions")
    with RawClient(control.bootstrap) as client:
        assert client.produce("t").error_code == 0


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON;charset=UTF-8"])
def test_content_types_with_a_charset(control: Control, content_type: str) -> None:
    assert control.ask("POST", "/watches", {"api": "Fetch"}, content_type)["hits"] == 0


def test_a_test_in_java(control: Control) -> None:
    done = JAVA_TEST.run(control.address)
    assert done.stdout.splitlines() == ["offset 0", "hits 2", "an hour later: true"]


def test_errors_have_a_status_and_a_text(control: Control) -> None:
    must_fire = {"api": "Produce", "error": "REQUEST_TIMED_OUT", "must_fire": True}
    added = control.ask("POST", "/faults", must_fire)
    assert control.fail("POST", "/faults", {"api": "Prduce", "delay": 1}) == (
        400,
        "there is no API 'Prduce': did you mean 'Produce'?",
    )
    assert control.fail("POST", "/faults", {"aip": "Produce"})[0] == 400
    assert control.fail("POST", "/faults", must_fire, "text/plain")[0] == 400
    assert control.fail("GET", "/faults/999") == (404, "there is no fault or watch 999")
    assert control.fail("POST", "/faults", {"aip": "Produce"})[1].endswith("did you mean 'api'?")
    assert control.fail("POST", "/faults", {"delay": "1"}) == (400, 'delay must be a number, not "1"')
    assert control.fail("POST", "/chaos", {}) == (400, "seed is missing")
    known = "there is no /api/tocips: did you mean /api/topics? (see /openapi.json)"
    assert control.fail("GET", UNKNOWN_PATH) == (404, known)
    assert control.fail("DELETE", "/clock") == (405, "/api/clock has no DELETE: it has GET, HEAD")
    assert control.fail("POST", f"/faults/{added['id']}/wait", {"hits": 0}) == (400, "hits must be at least 1, not 0")
    status, text = control.fail("POST", f"/faults/{added['id']}/wait", {"timeout": 0.01})
    assert (status, "saw 0 of 1 in 0.01 s" in text) == (409, True)
    status, text = control.fail("POST", "/faults/check")
    assert (status, "never fired" in text) == (409, True)
    assert control.fail("DELETE", "/faults")[0] == 409
    added = control.ask("POST", "/faults", must_fire)
    assert control.fail("DELETE", f"/faults/{added['id']}")[0] == 409
    assert control.fail("GET", f"/faults/{added['id']}")[0] == 404
    control.ask("POST", "/faults/check")


def test_a_port_that_is_taken(control: Control) -> None:
    taken = control.address.rpartition("/")[2]
    with LineProcess([sys.executable, "-m", "pylogbroker.testing", "--control", taken]) as process:
        found = json.loads(process.expect(r"^\{.*\}$").group())
    assert (found["type"], "in use" in found["error"]) == ("CannotListenError", True)


def test_web_pages_change_nothing(control: Control) -> None:
    """A browser lets any page post without a body, and names the page."""
    down = Request(control.address + "/api/broker/down", headers={"Origin": "https://elsewhere.example"}, method="POST")
    with pytest.raises(HTTPError) as error:
        urlopen(down, timeout=120)
    assert (error.value.code, "web pages" in json.load(error.value)["error"]) == (400, True)
    with RawClient(control.bootstrap) as client:
        client.create_topic("served")


def test_a_broker_that_is_down(control: Control) -> None:
    control.ask("POST", "/broker/down")
    try:
        assert control.fail("GET", "/topics") == (503, "list of topics: the broker is down; up() starts it again")
        assert control.fail("POST", "/logs/retain") == (503, "the broker does not run")
        assert control.fail("POST", "/cluster/move_leader", {"topic": "t", "partition": 0, "to": 1})[0] == 503
    finally:
        control.ask("POST", "/broker/up")
    control.ask("GET", "/topics")
