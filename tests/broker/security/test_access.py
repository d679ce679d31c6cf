"""Requests that are denied or allowed, answered as by Apache Kafka 3.9 with its authorizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pylogbroker.broker.apis import APIS
from pylogbroker.wire import Request
from tests.broker.nodes import opened_node
from tests.broker.security.answers import answers, asking
from tests.broker.security.cases import SETTINGS, question
from tests.peers.kafka import KafkaBroker
from tests.support.oracle_answers import OracleAnswers

AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


def of_kafka(directory: Path) -> dict[str, Any]:
    settings = {**SETTINGS, **AUTHORIZER, "offsets.topic.num.partitions": "3"}
    with KafkaBroker(directory, settings) as kafka, asking(kafka.port) as ask:
        return answers(ask)


def of_ours(directory: Path) -> dict[str, Any]:
    with opened_node((str(directory),), {**SETTINGS, **AUTHORIZER}) as node:
        apis = {api.key: api.guarded() for api in APIS}  # also those of clusters

        def ask(host: str, request: Request, version: int) -> Any:
            return node.ask(apis[request.api_key].handle, request, version, host)

        return answers(ask)


def test_kafka_answers_alike(oracle: OracleAnswers, tmp_path: Path) -> None:
    kafkas = oracle.answer("access", question(), lambda: of_kafka(tmp_path / "kafka"))
    ours = of_ours(tmp_path)
    different = [
        f"{name}\n    ours   {ours[name]}\n    kafka  {kafkas[name]}" for name in kafkas if ours[name] != kafkas[name]
    ]
    assert not different, "\n".join(different)
