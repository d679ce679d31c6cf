"""Delegation tokens, answered and stored as by Apache Kafka 3.9 in ZooKeeper mode with an authorizer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import attrs
from kazoo.client import KazooClient

from pylogbroker.broker.apis import APIS
from pylogbroker.wire import Request
from pylogbroker.wire.messages.create_acls import AclCreation, CreateAclsRequest
from pylogbroker.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from pylogbroker.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from pylogbroker.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from pylogbroker.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from pylogbroker.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from pylogbroker.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.nodes import Node, opened_node
from tests.broker.security.answers import asking
from tests.broker.trees import now
from tests.peers.processes import free_ports
from tests.peers.zookeeper import ZooKeeper
from tests.peers.zookeeper_mode import ZooKeeperModeBroker
from tests.support.oracle_answers import OracleAnswers
from tests.support.waiting import wait_until

HOUR = 3_600_000
PATH = "/delegation_token/tokens"
USERS = {name: f"127.0.2.{number}" for number, name in enumerate(("admin", "alice", "bob", "carol", "dave"), 1)}
SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "delegation.token.secret.key": "the secret key",
}
TOKEN, USER, LITERAL, ALLOW = 6, 7, 3, 3
DESCRIBE, CREATE_TOKENS, DESCRIBE_TOKENS = 8, 13, 14
ACLS = [
    AclCreation(USER, "User:bob", LITERAL, "User:alice", "*", CREATE_TOKENS, ALLOW),
    AclCreation(USER, "User:alice", LITERAL, "User:carol", "*", DESCRIBE_TOKENS, ALLOW),
    AclCreation(TOKEN, "*", LITERAL, "User:dave", "*", DESCRIBE, ALLOW),
]

Ask = Callable[[str, Request, int], Any]
"""Asks a broker as a user, in a version of the API."""


@attrs.frozen
class Step:
    """A request of a user; `make` gets the HMACs of the tokens made so far."""

    user: str
    make: Callable[[list[bytes]], Request]
    version: int


def create(
    user: str, *renewers: str, owner: str = "", lifetime_ms: int = -1, kind: str = "User", version: int = 3
) -> Step:
    named = [CreatableRenewers(kind, name) for name in renewers]
    request = CreateDelegationTokenRequest("User" if owner else "", owner, named, lifetime_ms)
    return Step(user, lambda _: request, version)


def renew(user: str, token: int, period_ms: int = -1) -> Step:
    return Step(user, lambda made: RenewDelegationTokenRequest(made[token], period_ms), 2)


def expire(user: str, token: int, period_ms: int = -1) -> Step:
    return Step(user, lambda made: ExpireDelegationTokenRequest(made[token], period_ms), 2)


def describe(user: str, *owners: str, everything: bool = False, version: int = 3) -> Step:
    named = None if everything else [DescribeDelegationTokenOwner("User", name) for name in owners]
    return Step(user, lambda _: DescribeDelegationTokenRequest(named), version)


STEPS = (
    create("alice", "bob", "a, b"),
    create("alice", version=1),
    create("alice", "carol", owner="bob", lifetime_ms=2 * HOUR),
    create("alice", owner="carol"),
    create("bob", owner="alice"),
    create("alice", "g", kind="Group"),
    create("alice", "g", kind="Group", owner="carol"),
    create("bob", owner="bob", lifetime_ms=0),
    *(describe(user, everything=True) for user in ("alice", "bob", "carol", "dave")),
    describe("alice"),
    describe("alice", "bob", version=2),
    describe("alice", "carol"),
    describe("alice", "nobody"),
    describe("dave", "carol", "bob"),
    renew("carol", 0),
    renew("bob", 0, HOUR),
    renew("alice", 2),  # who requested it, but is neither owner nor renewer
    renew("carol", 2, 30 * 24 * HOUR),
    Step("alice", lambda _: RenewDelegationTokenRequest(b"unknown", -1), 2),
    Step("alice", lambda _: ExpireDelegationTokenRequest(b"", -1), 2),
    expire("carol", 0),
    expire("alice", 0, 2 * HOUR),
    expire("alice", 1, 0),
    renew("alice", 1),
    expire("alice", 1, HOUR),
    expire("alice", 1),
    expire("alice", 1),
    describe("alice", everything=True),
)


def answers(ask: Ask) -> list[Any]:
    made: list[bytes] = []
    ids: dict[str, str] = {}
    found = []
    began = None
    for step in STEPS:
        answer = ask(step.user, step.make(made), step.version)
        if getattr(answer, "token_id", ""):
            made.append(bytes(answer.hmac))
            ids[answer.token_id] = f"token {len(ids)}"
            began = began or answer.issue_timestamp_ms
        found.append(plain(answer, ids, made, began or 0))
    return found


def plain(value: Any, ids: Mapping[str, str], made: list[bytes], began: int) -> Any:
    """Return a message as a value of JSON, with the numbers of tokens, and times in hours since the first one."""
    if isinstance(value, list):
        return sorted((plain(each, ids, made, began) for each in value), key=repr)
    if isinstance(value, bytes | memoryview):
        return f"HMAC {made.index(bytes(value))}" if value else ""
    if not attrs.has(type(value)):
        return ids.get(value, value) if isinstance(value, str) else value
    fields = {}
    for field in attrs.fields(type(value)):
        found = getattr(value, field.name)
        if "timestamp" in field.name and found > 0:
            fields[field.name] = round((found - began) / HOUR)
        elif field.name != "throttle_time_ms":
            fields[field.name] = plain(found, ids, made, began)
    return fields


def stored(nodes: Iterator[bytes]) -> list[Any]:
    """Return the stored tokens, without ids and times."""
    found = [json.loads(each) for each in nodes]
    names = "owner", "tokenRequester", "renewers", "version"
    return sorted(([sorted(each), *(each[name] for name in names)] for each in found), key=repr)


def of_kafka(directory: Path) -> dict[str, Any]:
    plaintext, sasl = free_ports(2)
    accounts = " ".join(f'user_{name}="word"' for name in USERS)
    settings = {
        **SETTINGS,
        "listeners": f"PLAINTEXT://127.0.0.1:{plaintext},SASL_PLAINTEXT://127.0.0.1:{sasl}",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {accounts};"
        ),
    }
    with (
        ZooKeeper(directory / "zookeeper") as server,
        ZooKeeperModeBroker(directory / "kafka", settings, plaintext, broker_id=1, zookeeper=server.address),
        asking(sasl) as ask_from,
    ):
        for name, host in USERS.items():
            assert ask_from(host, SaslHandshakeRequest("PLAIN"), 1).error_code == 0
            assert ask_from(host, SaslAuthenticateRequest(f"\0{name}\0word".encode()), 2).error_code == 0
        ask_from(USERS["admin"], CreateAclsRequest(ACLS), 2)
        first = CreateDelegationTokenRequest("User", "bob", [], -1)
        allowed = []

        def is_allowed() -> bool:
            allowed.append(ask_from(USERS["alice"], first, 3))
            return not allowed[-1].error_code

        wait_until(is_allowed)  # the authorizer sees its ACLs later
        assert ask_from(USERS["bob"], ExpireDelegationTokenRequest(allowed[-1].hmac, -1), 2).error_code == 0
        found = answers(lambda user, request, version: ask_from(USERS[user], request, version))
        tree = KazooClient(server.address)
        tree.start()
        try:
            nodes = [tree.get(f"{PATH}/{name}")[0] for name in tree.get_children(PATH)]
        finally:
            tree.stop()
            tree.close()
    return {"answers": found, "stored": stored(iter(nodes))}


def of_ours(node: Node) -> dict[str, Any]:
    apis = {api.key: api.guarded() for api in APIS}

    def ask(user: str, request: Request, version: int) -> Any:
        node.clock.advance(0.01)
        return node.ask(apis[request.api_key].handle, request, version, USERS[user], f"User:{user}")

    assert not any(each.error_code for each in ask("admin", CreateAclsRequest(ACLS), 2).results)
    found = answers(ask)
    nodes = [now(node.tree.get(f"{PATH}/{name}")).data or b"" for name in now(node.tree.children(PATH))]
    return {"answers": found, "stored": stored(iter(nodes))}


def test_answers_and_nodes_are_kafkas(oracle: OracleAnswers, tmp_path: Path) -> None:
    made = [bytes([number]) for number in range(5)]
    question = "\n".join(f"{step.user} {step.version} {step.make(made)!r}" for step in STEPS)
    kafkas = oracle.answer("delegation-tokens", question + repr(ACLS), lambda: of_kafka(tmp_path / "kafka"))
    with opened_node((str(tmp_path),), SETTINGS) as node:
        ours = json.loads(json.dumps(of_ours(node)))
    for step, mine, theirs in zip(STEPS, ours["answers"], kafkas["answers"], strict=True):
        assert mine == theirs, f"{step.user}: {step.make(made)}"
    assert ours["stored"] == kafkas["stored"]
    assert [unquote(each[1]) for each in ours["stored"]] == ["User:alice", "User:bob", "User:bob"]
