"""DescribeClientQuotas and AlterClientQuotas, answered as by Apache Kafka 3.9, field by field."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from pylogbroker.broker.apis import alter_client_quotas, describe_client_quotas
from pylogbroker.wire import Request
from pylogbroker.wire.messages.alter_client_quotas import AlterClientQuotasRequest, OpData, QuotaAlteration
from pylogbroker.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest, EntityData
from tests.broker.nodes import opened_node
from tests.broker.security.answers import asking
from tests.peers.kafka import KafkaBroker
from tests.support.oracle_answers import OracleAnswers
from tests.support.waiting import wait_until

Send = Callable[[Request, int], Any]
Entity = dict[str, str | None]
Ops = dict[str, float | None]
HANDLERS: dict[type, Callable[..., Any]] = {
    AlterClientQuotasRequest: alter_client_quotas.handle,
    DescribeClientQuotasRequest: describe_client_quotas.handle,
}


def alter(*entries: tuple[Entity, Ops], validate_only: bool = False) -> AlterClientQuotasRequest:
    """Return a request that sets quotas, or with None removes them."""
    return AlterClientQuotasRequest(
        [
            QuotaAlteration(
                [EntityData(kind, name) for kind, name in entity.items()],
                [OpData(key, 0.0 if value is None else value, value is None) for key, value in ops.items()],
            )
            for entity, ops in entries
        ],
        validate_only,
    )


def describe(*components: tuple[str, int, str | None], strict: bool = False) -> DescribeClientQuotasRequest:
    return DescribeClientQuotasRequest([ComponentData(*each) for each in components], strict)


ALICE: Entity = {"user": "alice"}
APP: Entity = {"user": "alice", "client-id": "app 1"}
IN, OUT, PERCENT, MUTATIONS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)
CREATION = "connection_creation_rate"

ALTERATIONS = (
    alter((ALICE, {IN: 1024.0, OUT: 2048.0}), (APP, {PERCENT: 12.5}), ({"user": None}, {MUTATIONS: 0.5})),
    alter(
        ({"client-id": "app 1"}, {IN: 5.0}), ({"client-id": None}, {OUT: 6.0}), ({"ip": "10.0.0.1"}, {CREATION: 7.0})
    ),
    alter(({"user": None, "client-id": None}, {IN: 8.0}), ({"ip": None}, {CREATION: 9.0})),
    alter(({"user": "bob", "client-id": None}, {IN: 10.0}), ({"user": None, "client-id": "app 1"}, {IN: 11.0})),
    alter((ALICE, {OUT: None, PERCENT: 100.0}), ({"user": "unknown"}, {OUT: None})),
    alter((ALICE, {IN: 4096.0}), validate_only=True),
    alter((ALICE, {IN: -1.0}), validate_only=True),
    alter(({"user": "carol"}, {})),
    alter(({"user": "carol"}, {IN: 1.0}), (ALICE, {"no_quota": 1.0}), ({"user": "dave"}, {IN: 2.0})),
    *(
        alter(({"user": "erin"}, ops))
        for ops in (
            {IN: 0.0},
            {IN: -1.0},
            {IN: 1.5},
            {IN: 1e19},
            {IN: 1e18},
            {PERCENT: 0.0},
            {CREATION: 1.0},
            {"no_quota": None},
            {"no_quota": 1.0},
        )
    ),
    *(alter(({"ip": "10.0.0.2"}, ops)) for ops in ({CREATION: 3e9}, {CREATION: 1.5}, {IN: 1.0}, {CREATION: -3.0})),
    alter(({}, {IN: 1.0})),
    alter(({"user": ""}, {IN: 1.0})),
    alter(({"client-id": ""}, {IN: 1.0})),
    alter(({"group": "a"}, {IN: 1.0})),
    alter(({"ip": "10.0.0.1", "user": "a"}, {IN: 1.0})),
    alter(({"ip": "10.0.0.1", "user": "a", "client-id": "b"}, {CREATION: 1.0})),
    alter(({"ip": "::1"}, {CREATION: 1.0})),
    AlterClientQuotasRequest([QuotaAlteration([EntityData("user", "x")], [OpData(IN, 1.0), OpData(IN, 2.0)])]),
    AlterClientQuotasRequest(
        [QuotaAlteration([EntityData("user", "first"), EntityData("user", "last")], [OpData(IN, 77.0)])]
    ),
    alter(({"user": "frank"}, {IN: 1.0}), ({"user": "frank"}, {IN: 2.0}), validate_only=True),
    alter(),
)
DESCRIPTIONS = (
    describe(),
    describe(strict=True),
    *(
        describe(*components, strict=strict)
        for strict in (False, True)
        for components in (
            [("user", 0, "alice")],
            [("user", 1, None)],
            [("user", 2, None)],
            [("client-id", 0, "app 1")],
            [("client-id", 1, None)],
            [("client-id", 2, None)],
            [("user", 0, "alice"), ("client-id", 0, "app 1")],
            [("user", 0, "alice"), ("client-id", 2, None)],
            [("user", 1, None), ("client-id", 1, None)],
            [("user", 2, None), ("client-id", 1, None)],
            [("user", 2, None), ("client-id", 2, None)],
            [("ip", 0, "10.0.0.1")],
            [("ip", 1, None)],
            [("ip", 2, None)],
            [("user", 0, "nobody")],
            [("user", 0, "")],
            [("", 0, "a")],
            [("group", 0, "a")],
            [("user", 0, None)],
            [("user", 1, "a")],
            [("user", 2, "a")],
            [("user", 3, None)],
            [("user", 1, None), ("user", 2, None)],
            [("ip", 1, None), ("user", 2, None)],
        )
    ),
)


def answers(send: Send) -> list[Any]:
    """Return the answers to all cases, as values of JSON."""
    found = [plain(send(request, number % 2)) for number, request in enumerate(ALTERATIONS)]
    send(alter(({"client-id": "marker"}, {IN: 1.0})), 1)
    marker = describe(("client-id", 0, "marker"))
    wait_until(lambda: bool(send(marker, 1).entries))  # Kafka's brokers follow their controller
    return found + [plain(send(request, number % 2)) for number, request in enumerate(DESCRIPTIONS)]


OTHER_TEXTS = {
    "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId": (
        "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
    ),
    "Ignoring duplicate entity ClientQuotaEntity(entries={user=x})": "Duplicate quota key producer_byte_rate",
    "Ignoring duplicate entity ClientQuotaEntity(entries={user=frank})": (
        "An entity is named more than once in the request"
    ),
}
"""Texts here by Kafka's; the second one is wrong there."""


def with_our_texts(value: Any) -> Any:
    """Return a value of JSON with this project's texts in place of Kafka's."""
    if isinstance(value, list):
        return list(map(with_our_texts, value))
    if isinstance(value, dict):
        return {name: with_our_texts(each) for name, each in value.items()}
    return OTHER_TEXTS.get(value, value) if isinstance(value, str) else value


def plain(value: Any) -> Any:
    """Return a message as a value of JSON, lists in the order of their text."""
    if isinstance(value, list):
        return sorted(map(plain, value), key=repr)
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if attrs.has(type(value)):
        return {field.name: plain(getattr(value, field.name)) for field in attrs.fields(type(value))}
    return value


def of_kafka(directory: Path) -> list[Any]:
    with KafkaBroker(directory) as kafka, asking(kafka.port) as ask:
        return answers(lambda request, version: ask("127.0.0.1", request, version))


def test_kafka_answers_alike(oracle: OracleAnswers, tmp_path: Path) -> None:
    question = repr((ALTERATIONS, DESCRIPTIONS))
    kafkas = map(with_our_texts, oracle.answer("quotas", question, lambda: of_kafka(tmp_path / "kafka")))
    with opened_node((str(tmp_path),)) as node:
        ours = answers(lambda request, version: node.ask(HANDLERS[type(request)], request, version))
    requests = (*ALTERATIONS, *DESCRIPTIONS)
    different = [
        f"{asked}\n    ours   {mine}\n    kafka  {theirs}"
        for asked, mine, theirs in zip(requests, ours, kafkas, strict=True)
        if mine != theirs
    ]
    assert not different, "\n".join(different)
