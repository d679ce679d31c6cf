"""The description of the API has all of it; `ViewTests` compares every request and answer with it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch
from urllib.parse import urlencode

from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure

from pylogbroker.testing.faults import Faults
from pylogbroker.web.fault_port import FaultPort
from pylogbroker.web.query import Query
from pylogbroker.web.views import CHANGES, FAULT_CHANGES, FAULT_VIEWS, VIEWS
from tests.broker.nodes import NODE_ID
from tests.broker.transactions import TransactionTests
from tests.web.described import description, fields, parameters, required
from tests.web.test_changes import ChangeTests
from tests.web.test_views import NOW

_ACL: Final = {"resource": "topic", "name": "clicks", "pattern": "literal", "principal": "User:bob", "host": "*"}
_GROUP: Final = {"id": "readers", "topic": "clicks", "partition": "0"}
REQUESTS: Final[Mapping[str, tuple[dict[str, Any], ...]]] = {
    "topic": ({"name": "clicks"},),
    "records": (
        {"topic": "clicks", "offset": "0"},
        {"topic": "clicks", "time": str(NOW), "last": "1"},
        {"topic": "clicks"},
    ),
    "live": ({"topic": "clicks", "offset": "0"}, {"topic": "clicks", "time": "0"}, {"topic": "clicks"}),
    "group": ({"id": "readers"},),
    "reset-group": tuple(
        {**_GROUP, "to": to, more: value}
        for to, more, value in (("offset", "offset", "0"), ("time", "time", str(NOW)), ("shift", "by", "1"))
    ),
    "log-directory": ({"broker": str(NODE_ID), "path": "/nowhere"}, {"broker": str(NODE_ID), "path": "DIRECTORY"}),
    "acls": ({"permission": "allow"},),
    "transaction": ({"id": "transfers"},),
    "producers": ({"topic": "clicks"},),
    "create-topic": ({"name": "clicks"},),
    "alter-topic": ({"name": "clicks", "setting": "retention.ms", "value": "1"},),
    "delete-topic": ({"name": "none", "confirm": "none"},),
    "produce": ({"topic": "clicks", "value": "v"},),
    "set-password": ({"name": "bob", "password": "secret"},),
    "delete-user": ({"name": "bob", "confirm": "bob"},),
    "add-acl": ({**_ACL, "operation": "read"},),
    "delete-acl": ({**_ACL, "operation": "read", "permission": "allow"},),
    "set-quota": ({"user": "bob", "key": "producer_byte_rate", "value": 1},),
    "fence-producer": ({"id": "transfers", "confirm": "transfers"},),
    "abort-transaction": ({"topic": "clicks", "producer_id": 1},),
    "add-fault": ({"delay": 1},),
    "release-fault": ({"id": 1},),
    "remove-fault": ({"id": 1},),
}
"""Requests that make the handlers read all that they know; those of other views need nothing."""


@contextmanager
def noted_names() -> Iterator[set[str]]:
    """Note the names of what handlers read."""
    names: set[str] = set()
    given, pairs = Query.given, Query.pairs

    def note_given(query: Query, name: str) -> str | None:
        names.add(name)
        return given(query, name)

    def note_pairs(query: Query, name: str, separator: str) -> list[tuple[str, str]]:
        names.add(name)
        return pairs(query, name, separator)

    with patch.object(Query, "given", note_given), patch.object(Query, "pairs", note_pairs):
        yield names


class TestDescription(ChangeTests, TransactionTests):
    settings = TransactionTests.settings | {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
    }

    def faults(self) -> FaultPort:
        return Faults()

    def test_description_has_every_path(self) -> None:
        paths = description()["paths"]
        found = {(path.removeprefix("/api/"), method) for path, each in paths.items() for method in each}
        views, changes = {**VIEWS, **FAULT_VIEWS}, {**CHANGES, **FAULT_CHANGES}
        self.assertEqual(
            found, {("live", "get")} | {(name, "get") for name in views} | {(name, "post") for name in changes}
        )

    def test_description_is_served(self) -> None:
        self.assertEqual(json.loads(self.connect().get("/api/openapi.json").body), description())

    def test_parameters_match_those_that_views_read(self) -> None:
        self.fill()
        for name in ("live", *VIEWS, *FAULT_VIEWS):
            with noted_names() as names:
                for given in REQUESTS.get(name, ({},)):
                    self.get(name, given)
            self.assertEqual(names, parameters(f"/api/{name}"), name)

    def test_fields_match_those_that_changes_read(self) -> None:
        self.fill()
        for name in (*CHANGES, *FAULT_CHANGES):
            with noted_names() as names:
                for given in REQUESTS[name]:
                    self.post(f"/api/{name}", json.dumps(given).encode(), "application/json")
            self.assertEqual(names, fields(f"/api/{name}"), name)

    def test_missing_required_parameters_are_errors(self) -> None:
        self.fill()
        for name in ("live", *VIEWS, *FAULT_VIEWS):
            for each in required(f"/api/{name}", "get"):
                code, body = self.get(name, {key: value for key, value in REQUESTS[name][0].items() if key != each})
                self.assertEqual((code, each in body), (400, True), f"{name}: {each}: {body}")
        for name in (*CHANGES, *FAULT_CHANGES):
            for each in required(f"/api/{name}", "post"):
                given = {key: value for key, value in REQUESTS[name][0].items() if key != each}
                answer = self.post(f"/api/{name}", json.dumps(given).encode(), "application/json")
                self.assertEqual((answer.code, each in answer.body), (400, True), f"{name}: {each}: {answer.body}")

    def fill(self) -> None:
        self.producer("transfers")
        self.node.create("clicks")
        self.node.produce("clicks", 0, NOW)
        self.commit("readers", "clicks", 0)

    def get(self, name: str, given: Mapping[str, str]) -> tuple[int, str]:
        query = urlencode({key: value.replace("DIRECTORY", self.directories[0]) for key, value in given.items()})
        connection = self.connect()
        answer = connection.get(f"/api/{name}?{query}")
        connection.protocol.connectionLost(Failure(ConnectionDone()))
        return answer.code, answer.body
