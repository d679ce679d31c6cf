"""Users, ACLs, quotas and faults of a broker whose pages are looked at."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from tests.web.browser import PageBroker
from tests.web.described import operation

SETTINGS: Final = {"auto.create.topics.enable": "false"}
REGISTRY: Final = {"schema.registry.listeners": "http://127.0.0.1:0"}
ADMINISTERED: Final = {
    **SETTINGS,
    **REGISTRY,
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "testing.faults": "true",
}


def ask(broker: PageBroker, name: str, /, **fields: object) -> Any:
    """Return the answer of an operation of the API."""
    operated = operation(name)
    path, rest = operated.request(fields)
    if operated.method == "GET":
        request = Request(f"{broker.url}{path}?{urlencode(rest)}")
    else:
        headers = {"Content-Type": "application/json"}
        request = Request(broker.url + path, json.dumps(rest).encode(), headers, method=operated.method)
    with urlopen(request, timeout=30) as answer:
        return json.loads(answer.read() or b"null")


def administer(broker: PageBroker) -> None:
    """Add users, ACLs, quotas and faults."""
    ask(broker, "set-password", name="alice", password="a password")
    ask(broker, "set-password", name="bob", password="a password", mechanism="SCRAM-SHA-512")
    ask(broker, "add-acl", resource="topic", name="orders", principal="User:alice", operation="write")
    ask(broker, "add-acl", resource="group", name="bill", pattern="prefixed", principal="User:bob", operation="read")
    ask(broker, "add-acl", resource="topic", name="*", principal="User:eve", operation="all", permission="deny")
    ask(broker, "set-quota", user="alice", client_id="shop", key="producer_byte_rate", value=1_000_000)
    ask(broker, "set-quota", user="(default)", key="request_percentage", value=12.5)
    ask(broker, "set-quota", ip="127.0.0.9", key="connection_creation_rate", value=10)
    ask(broker, "add-fault", api="Produce", error="NOT_LEADER_OR_FOLLOWER", topic="clicks", client_id="shop", times=3)
    ask(broker, "add-fault", api="Heartbeat", delay=2.5, client_id="slow", times=None)


def register_schemas(broker: PageBroker) -> None:
    """Register two versions of a subject, and one that refers to them."""
    order = {"type": "record", "name": "shop.Order", "fields": [{"name": "order", "type": "long"}]}
    note = {"name": "note", "type": ["null", "string"], "default": None, "doc": "A rather long explanation. " * 8}
    longer = {**order, "fields": [*order["fields"], note]}
    union = json.dumps(["shop.Order", "null"])
    references = [{"name": "shop.Order", "subject": "orders-value", "version": 1}]
    for subject, body in (
        ("orders-value", {"schema": json.dumps(order)}),
        ("orders-value", {"schema": json.dumps(longer), "metadata": {"properties": {"owner": "shop"}}}),
        ("shop.Customer", {"schema": union, "references": references}),
        ("a-subject-with-a-rather-long-name-" + "z" * 80, {"schema": json.dumps("string")}),
    ):
        content = json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        url = f"{broker.registry_url}/subjects/{subject}/versions"
        with urlopen(Request(url, content, headers), timeout=30) as answer:
            assert answer.status == 200
