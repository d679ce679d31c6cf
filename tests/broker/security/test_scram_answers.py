"""Credentials of SCRAM, answered and stored as by Apache Kafka 3.9 in ZooKeeper mode."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from pylogbroker.broker.apis import alter_user_scram_credentials, describe_user_scram_credentials
from pylogbroker.wire import Request
from pylogbroker.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from pylogbroker.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from tests.broker.nodes import opened_node
from tests.broker.security.answers import asking
from tests.broker.trees import now
from tests.peers.zookeeper import ZooKeeper
from tests.peers.zookeeper_mode import ZooKeeperModeBroker
from tests.support.oracle_answers import OracleAnswers
from tests.support.waiting import wait_until

HANDLERS: dict[type, Callable[..., Any]] = {
    AlterUserScramCredentialsRequest: alter_user_scram_credentials.handle,
    DescribeUserScramCredentialsRequest: describe_user_scram_credentials.handle,
}
ODD = "al ice*~/ü"


def delete(name: str, mechanism: int = 1) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name, mechanism)


def set_to(name: str, mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(name, mechanism, iterations, b"a salt", b"a salted password")


def alter(*changes: ScramCredentialDeletion | ScramCredentialUpsertion) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(
        [each for each in changes if isinstance(each, ScramCredentialDeletion)],
        [each for each in changes if isinstance(each, ScramCredentialUpsertion)],
    )


def describe(*names: str) -> DescribeUserScramCredentialsRequest:
    return DescribeUserScramCredentialsRequest([UserName(name) for name in names] or None)


REQUESTS: Sequence[Request] = (
    describe(),
    describe("bob"),
    alter(set_to("bob"), set_to(ODD, 1, 16384), set_to(ODD, 2)),
    describe(),
    describe(ODD, "bob", "nobody", "", "twice", "twice", "", "bob"),
    alter(set_to("few", 1, 4095), set_to("many", 2, 16385), set_to("", 1), set_to("none", 0), set_to("three", 3)),
    alter(delete("", 1), delete("bob", 2), delete("nobody", 1), delete("three", 3), set_to("good", 1)),
    alter(set_to("bob"), set_to("bob"), delete("good"), set_to("good")),
    alter(set_to("bob", 2), delete("bob", 1), set_to("few", 2), set_to("few", 1, 1)),
    alter(delete("bob", 2), set_to("bob", 9), delete("good", 1), set_to("good", 2), delete(ODD, 1)),
    alter(),
    describe(),
)


def answers(ask: Callable[[Request], Any]) -> list[Any]:
    """Return what is answered, by user: Kafka has no order of users, and null or empty texts of success."""
    found = []
    for request in REQUESTS:
        answer = ask(request)
        results = {each.user: [each.error_code, each.error_message or None, _infos(each)] for each in answer.results}
        assert len(results) == len(answer.results)
        found.append([getattr(answer, "error_code", 0), results])
    return found


def _infos(result: Any) -> list[list[int]]:
    return [[each.mechanism, each.iterations] for each in getattr(result, "credential_infos", ())]


def of_kafka(directory: Path) -> dict[str, Any]:
    with (
        ZooKeeper(directory / "zookeeper") as server,
        ZooKeeperModeBroker(directory / "kafka", {}, broker_id=1, zookeeper=server.address) as kafka,
        asking(kafka.port) as ask,
    ):
        client = KazooClient(server.address)
        client.start()
        try:
            wait_until(lambda: client.exists("/controller"))
            answered = answers(lambda request: ask("127.0.0.1", request, 0))
            nodes = {name: client.get(f"/config/users/{name}")[0] for name in client.get_children("/config/users")}
            changes = [client.get(f"/config/changes/{name}")[0] for name in client.get_children("/config/changes")]
        finally:
            client.stop()
            client.close()
    return {"answers": answered, "nodes": _texts(nodes), "changes": sorted({each.decode() for each in changes})}


def _texts(nodes: dict[str, bytes | None]) -> dict[str, Any]:
    return {name: json.loads(data) for name, data in sorted(nodes.items()) if data}


def test_kafka_answers_and_stores_alike(oracle: OracleAnswers, tmp_path: Path) -> None:
    kafkas = oracle.answer("scram-credentials", repr(REQUESTS), lambda: of_kafka(tmp_path / "kafka"))
    with opened_node((str(tmp_path),)) as node:
        node.broker.scram._notifies = True
        ours = answers(lambda request: node.ask(HANDLERS[type(request)], request, 0))
        nodes = {name: each.data for name, each in now(node.tree.children_with_data("/config/users")).items()}
        changes = now(node.tree.children_with_data("/config/changes")).values()
    assert json.loads(json.dumps(ours)) == kafkas["answers"]
    assert _texts(nodes) == kafkas["nodes"]
    assert sorted({(each.data or b"").decode() for each in changes}) == kafkas["changes"]
