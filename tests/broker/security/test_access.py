"""Requests that are denied or allowed, answered as by Apache Kafka 3.9 with its authorizer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pylogbroker.broker.apis import APIS
from pylogbroker.broker.security.rules import by_handler, unchecked
from pylogbroker.wire import Request
from tests.broker.nodes import opened_node
from tests.broker.security import broker_requests
from tests.broker.security.answers import Ask, answers, asking
from tests.broker.security.broker_requests import denied_answers
from tests.broker.security.cases import SETTINGS, question
from tests.peers.kafka import KafkaBroker
from tests.peers.zookeeper import ZooKeeper
from tests.peers.zookeeper_mode import ZooKeeperModeBroker
from tests.support.oracle_answers import OracleAnswers

AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


def of_kafka(directory: Path) -> dict[str, Any]:
    settings = {**SETTINGS, **AUTHORIZER, "offsets.topic.num.partitions": "3"}
    with KafkaBroker(directory, settings) as kafka, asking(kafka.port) as ask:
        return answers(ask)


@contextmanager
def asking_ours(directory: Path) -> Iterator[Ask]:
    with opened_node((str(directory),), {**SETTINGS, **AUTHORIZER}) as node:
        apis = {api.key: api.guarded() for api in APIS}  # also those of clusters

        def ask(host: str, request: Request, version: int) -> Any:
            return node.ask(apis[request.api_key].handle, request, version, host)

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


def test_kafka_answers_alike(oracle: OracleAnswers, tmp_path: Path) -> None:
    kafkas = oracle.answer("access", question(), lambda: of_kafka(tmp_path / "kafka"))
    with asking_ours(tmp_path) as ask:
        ours = answers(ask)
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
            offered = {api.key for api in node.broker.apis}
            checked = {api.key for api in node.broker.apis if api.handle is not plain[api.key]}
        assert checked == wanted & offered
