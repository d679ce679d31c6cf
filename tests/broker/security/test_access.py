"""Requests that are denied or allowed, answered as by Apache Kafka 3.9 with its authorizer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pylogbroker.broker.apis import APIS
from pylogbroker.broker.requests.offered_versions import FEATURE_NEEDS
from pylogbroker.broker.security.rules import by_handler, unchecked
from pylogbroker.wire import Request
from tests.broker.nodes import opened_node
from tests.broker.security import broker_requests
from tests.broker.security.answers import PASSWORD, Ask, answers, asking, asking_as_users
from tests.broker.security.broker_requests import denied_answers
from tests.broker.security.cases import PRINCIPAL, SETTINGS, SUPER_HOST, hosts, question, user_of
from tests.peers.kafka import SINGLE_NODE, KafkaBroker
from tests.peers.processes import free_ports
from tests.peers.zookeeper import ZooKeeper
from tests.peers.zookeeper_mode import ZooKeeperModeBroker
from tests.support.oracle_answers import OracleAnswers

AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


def of_kafka(directory: Path) -> dict[str, Any]:
    settings = {**SETTINGS, **AUTHORIZER, "offsets.topic.num.partitions": "3"}
    with KafkaBroker(directory, settings) as kafka, asking(kafka.port) as ask:
        return answers(ask)


def of_kafkas_users(directory: Path) -> dict[str, Any]:
    plain, sasl, controller = free_ports(3)
    accounts = " ".join(f'user_{user_of(host)}="{PASSWORD}"' for host in hosts())
    listeners = f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{sasl}"
    settings = {
        **SETTINGS,
        **AUTHORIZER,
        "offsets.topic.num.partitions": "3",
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": (
            f"{SINGLE_NODE['listener.security.protocol.map']},SASL_PLAINTEXT:SASL_PLAINTEXT"
        ),
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {accounts};"
        ),
    }
    with KafkaBroker(directory, settings, plain), asking_as_users(plain, sasl) as ask:
        return answers(ask, by_user=True)


@contextmanager
def asking_ours(directory: Path, by_user: bool = False) -> Iterator[Ask]:
    with opened_node((str(directory),), {**SETTINGS, **AUTHORIZER}) as node:
        node.broker.features.is_on = False  # the recorded answers are those of Kafka 3.9
        apis = {api.key: api.guarded() for api in APIS}  # also those of clusters

        def ask(host: str, request: Request, version: int) -> Any:
            principal = f"User:{user_of(host)}" if by_user and host != SUPER_HOST else PRINCIPAL
            return node.ask(apis[request.api_key].handle, request, version, host, principal)

        yield ask


def of_kafka_in_zookeeper_mode(directory: Path) -> dict[str, Any]:
    settings = {**SETTINGS, "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
    with (
        ZooKeeper(directory / "zookeeper") as server,
        ZooKeeperModeBroker(directory / "kafka", settings, broker_id=1, zookeeper=server.address) as kafka,
        asking(kafka.port) as ask,
    ):
        return denied_answers(ask)


def test_requests_between_brokers_are_denied_as_by_kafka(oracle: OracleAnswers, tmp_path: Path) -> None:
    question = repr([(type(request).__name__, version) for request, version in broker_requests.REQUESTS])
    kafkas = oracle.answer("access-of-brokers", question, lambda: of_kafka_in_zookeeper_mode(tmp_path))
    with asking_ours(tmp_path) as ask:
        assert denied_answers(ask) == kafkas


@pytest.mark.parametrize("by_user", [False, True])
def test_kafka_answers_alike(oracle: OracleAnswers, tmp_path: Path, by_user: bool) -> None:
    """Clients differ by their addresses, or are users who log in by SASL."""
    name, of_kafkas = ("access-of-users", of_kafkas_users) if by_user else ("access", of_kafka)
    kafkas = oracle.answer(name, question(), lambda: of_kafkas(tmp_path / "kafka"))
    with asking_ours(tmp_path, by_user) as ask:
        ours = answers(ask, by_user)
    different = [
        f"{name}\n    ours   {ours[name]}\n    kafka  {kafkas[name]}" for name in kafkas if ours[name] != kafkas[name]
    ]
    assert not different, "\n".join(different)


def test_without_an_authorizer_nothing_is_checked(tmp_path: Path) -> None:
    """Handlers are those of the APIs themselves, so that an authorizer costs nothing while it is off."""
    plain = {api.key: api.handle for api in APIS}
    with_rules = {api.key for api in APIS if not {by_handler, unchecked}.intersection(api.access)}
    for settings, wanted in (({}, set[int]()), (AUTHORIZER, with_rules)):
        with opened_node((str(tmp_path / str(bool(settings))),), settings) as node:
            offered = {api.key for api in node.broker.apis if api.name not in FEATURE_NEEDS}
            checked = {api.key for api in node.broker.apis if api.handle is not plain[api.key]}
        assert checked & offered == wanted & offered
