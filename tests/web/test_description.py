"""The description of the API is valid, has all of it, and each operation that it has is there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, Final, is_typeddict
from urllib.parse import urlencode

import pytest
from jsonschema import Draft202012Validator
from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure

import pylogbroker.web
from pylogbroker.broker.apis import share_group_heartbeat
from pylogbroker.testing.faults import Faults
from pylogbroker.web.fault_port import FaultPort
from pylogbroker.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.broker.nodes import CLUSTER_ID, NODE_ID
from tests.broker.transactions import TransactionTests
from tests.web.described import Operation, description, operations
from tests.web.test_changes import ChangeTests
from tests.web.test_site import unchunked
from tests.web.test_views import NOW

_ACL: Final = {"resource": "topic", "name": "clicks", "pattern": "literal", "principal": "User:bob", "host": "*"}
_GROUP: Final = {"id": "readers", "topic": "clicks", "partition": 0}
_SETTING: Final = {"name": "clicks", "setting": "retention.ms"}
_QUOTA: Final = {"user": "bob", "key": "producer_byte_rate"}
REQUESTS: Final[Mapping[str, dict[str, Any]]] = {
    "topic": {"name": "clicks"},
    "records": {"topic": "clicks", "offset": 0},
    "live": {"topic": "clicks", "time": "0"},
    "group": {"id": "readers"},
    "share_group": {"id": "workers"},
    "preview_reset": {**_GROUP, "to": "offset", "offset": 0},
    "reset_group": {**_GROUP, "to": "time", "time": NOW},
    "log_directory": {"broker": NODE_ID, "path": "DIRECTORY"},
    "acls": {"permission": "allow"},
    "transaction": {"id": "transfers"},
    "producers": {"topic": "clicks"},
    "create_topic": {"name": "other", "partitions": 1},
    "set_setting": {**_SETTING, "value": 1},
    "restore_setting": _SETTING,
    "delete_topic": {"name": "deleted"},
    "read_records": {"topic": "clicks"},
    "write_records": {"topic": "clicks", "value": "v"},
    "group_committed": {"id": "readers"},
    "commit_offsets": {"id": "others", "topic": "clicks", "next": "0:1"},
    **{
        f"{name}{mark}": {"cluster_id": CLUSTER_ID, **fields}
        for mark in ("", "_of_server")
        for name, fields in {
            "confluent_cluster": {},
            "confluent_topics": {},
            "confluent_topic": {"topic_name": "clicks"},
            "produce_confluent": {"topic_name": "clicks", "value": {"type": "JSON", "data": 1}},
        }.items()
    },
    "set_password": {"name": "alice", "password": "secret"},
    "delete_user": {"name": "bob"},
    "add_acl": {**_ACL, "operation": "read"},
    "delete_acl": {**_ACL, "operation": "write", "permission": "allow"},
    "set_quota": {**_QUOTA, "value": 1},
    "remove_quota": _QUOTA,
    "fence_producer": {"id": "transfers"},
    "abort_transaction": {"topic": "clicks", "producer_id": 1},
    "add_fault": {"delay": 1},
    "release_fault": {"id": 1},
    "remove_fault": {"id": 1},
}
"""A request of each operation that needs one."""
_STREAM: Final = "produce_confluent"
"""An operation whose answers have an error code for each record."""
_MISSING: Final = {"abort_transaction": 404}
"""Operations whose resource does not exist: no producer has left a transaction."""


def test_the_description_is_valid() -> None:
    validator = pytest.importorskip("openapi_spec_validator", reason="needs openapi-spec-validator")
    validator.validate(description())


def test_all_schemas_are_json_schemas() -> None:
    for name, schema in description()["components"]["schemas"].items():
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object", name


def test_no_two_types_have_the_same_name() -> None:
    """The document has each type by its name."""
    modules: dict[str, set[str]] = {}
    for found in walk_packages(pylogbroker.web.__path__, "pylogbroker.web."):
        for value in vars(import_module(found.name)).values():
            if is_typeddict(value):
                modules.setdefault(value.__name__, set()).add(value.__module__)
    assert {name: places for name, places in modules.items() if len(places) > 1} == {}


class TestDescription(ChangeTests, TransactionTests):
    settings = TransactionTests.settings | {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
    }

    def faults(self) -> FaultPort:
        faults = Faults()
        faults.add(hold=True)
        return faults

    def test_description_is_served(self) -> None:
        for _ in range(2):
            answer = self.connect().get("/openapi.json")
            self.assertEqual((answer.code, answer.headers["content-type"]), (200, "application/json"))
            self.assertEqual(json.loads(answer.body), description())

    def test_the_description_is_made_in_a_worker_thread(self) -> None:
        self.node.threads.holding = True
        connection = self.connect()
        connection.protocol.dataReceived(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertEqual(connection.transport.value(), b"")
        while self.node.threads.held:
            self.node.threads.run_one()
        self.assertIn(b"200 OK", connection.transport.value())

    def test_each_operation_is_served_as_described(self) -> None:
        self.fill()
        for each in sorted(operations().values(), key=lambda each: each.method == "DELETE"):
            code, content_type, body = self.ask_for(each, REQUESTS.get(each.name, {}))
            self.assertEqual(code, _MISSING.get(each.name, 200), f"{each.name}: {body}")
            if content_type == "application/json":
                each.check_answer(code, json.loads(body))
            else:
                self.assertIn(content_type, each.described["responses"]["200"]["content"])

    def test_missing_required_fields_are_errors(self) -> None:
        self.fill()
        for each in operations().values():
            for name in each.required:
                given = {key: value for key, value in REQUESTS[each.name].items() if key != name}
                code, _, body = self.ask_for(each, given)
                self.assertEqual((code, f"{name} is missing" in body), (400, True), f"{each.name}: {body}")

    def test_unknown_fields_are_errors(self) -> None:
        self.fill()
        for each in operations().values():
            code, _, body = self.ask_for(each, {**REQUESTS.get(each.name, {}), "nothing_like_it": "1"})
            expected = 200 if each.name.startswith(_STREAM) else 400
            self.assertEqual((code, "nothing_like_it" in body), (expected, True), f"{each.name}: {body}")

    def test_other_methods_are_not_allowed(self) -> None:
        for each in operations().values():
            path, _ = each.request(dict.fromkeys(each.placeholders, "1"))
            answer = self.send("PATCH", path, b"{}", "application/json")
            self.assertEqual((answer.code, each.method in answer.headers["allow"].split(", ")), (405, True), path)

    def test_unknown_paths_name_known_ones(self) -> None:
        for path, hint in (
            ("/api/topisc", "did you mean /api/topics?"),
            ("/api", "/api/acls, /api/brokers"),
            ("/api/topics/clicks/recordz", "did you mean /api/topics/{topic}/records?"),
        ):
            answer = self.connect().get(path)
            self.assertEqual((answer.code, hint in json.loads(answer.body)["error"]), (404, True), answer.body)

    def fill(self) -> None:
        self.producer("transfers")
        self.node.create("clicks")
        self.node.create("deleted")
        self.node.produce("clicks", 0, NOW)
        self.commit("readers", "clicks", 0)
        joined = self.node.ask(
            share_group_heartbeat.handle, ShareGroupHeartbeatRequest("workers", "m" * 22, 0, None, ["clicks"])
        )
        self.assertEqual(joined.error_code, 0, joined.error_message)
        self.change("set-password", name="bob", password="secret")
        self.change("set-quota", **_QUOTA, value=1)
        self.change("add-acl", **_ACL, operation="write")

    def ask_for(self, asked: Operation, fields: Mapping[str, Any]) -> tuple[int, str, str]:
        """Return status, content type and body; the connection is closed then."""
        path, rest = asked.request(
            {name: self.directories[0] if value == "DIRECTORY" else value for name, value in fields.items()}
        )
        connection = self.connect()
        body = b""
        if asked.method in ("GET", "DELETE"):
            path = f"{path}?{urlencode(rest)}"
        else:
            body = json.dumps(rest).encode()
        head = f"{asked.method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connection.protocol.dataReceived(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        self.node.clock.advance(1)
        lines, _, answer = connection.transport.value().decode().partition("\r\n\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines.split("\r\n")[1:])
        connection.protocol.connectionLost(Failure(ConnectionDone()))
        if headers["content-type"] == "application/json" and "transfer-encoding" in headers:
            answer = unchunked(answer)
        return int(lines.split()[1]), headers["content-type"], answer
