"""Moves from Confluent's registry: its topic, with all kinds of records, is mirrored, and everything reads back."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import pytest
from twisted.internet import reactor
from twisted.internet.threads import deferToThread

from pylogbroker.client.admin import AdminClient
from pylogbroker.client.admin.topics import NewTopic
from pylogbroker.client.producer import Producer
from pylogbroker.registry.records import TOPIC
from pylogbroker.tap.service import BrokerService
from tests.registry.hosted import RegistryUser
from tests.support.reactor_run import run

CUSTOMER: Final = r'{"type":"record","name":"Customer","namespace":"shop","fields":[{"name":"name","type":"string"}]}'
ORDER: Final = (
    r'{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"customer","type":"shop.Customer"}]}'
)
RULES: Final = {
    "domainRules": [
        {
            "name": "checkName",
            "doc": None,
            "kind": "CONDITION",
            "mode": "WRITE",
            "type": "CEL",
            "tags": None,
            "params": {"p": "v"},
            "expr": "message.name != ''",
            "onSuccess": None,
            "onFailure": "DLQ",
            "disabled": False,
            "ownNewField": 1,
        }
    ]
}
METADATA: Final = {"tags": {"shop.Customer.name": ["PII"]}, "properties": {"owner": "sales"}, "sensitive": ["owner"]}
SETTINGS: Final = {
    "compatibilityLevel": "FULL",
    "compatibilityGroup": "application.version",
    "defaultMetadata": {"properties": {"team": "a"}},
    "overrideRuleSet": RULES,
}
TAGS: Final = [{"schemaEntity": {"entityPath": "shop.Customer", "entityType": "sr_record"}, "tags": ["T"]}]


def version(subject: str, number: int, schema_id: int, text: str, **fields: Any) -> tuple[Any, Any]:
    """Return key and value of a version, in the order in which Confluent's registry writes their members."""
    key = {"keytype": "SCHEMA", "subject": subject, "version": number, "magic": 1}
    head = {"subject": subject, "version": number, "id": schema_id, "guid": f"g-{schema_id}", "md5": f"m-{schema_id}=="}
    return key, {**head, **fields, "schema": text, "deleted": fields.get("deleted", False)}


def of_subject(kind: str, subject: str | None, value: Any) -> tuple[Any, Any]:
    """Return key and value of a record about a subject; the global one has no member for it."""
    names = {} if subject is None else {"subject": subject}
    return {"keytype": kind, **names, "magic": 0}, None if value is None else {**names, **value}


RECORDS: Final[Sequence[tuple[Any, Any]]] = [
    of_subject("CONFIG", None, {"compatibilityLevel": "FORWARD"}),
    ({"keytype": "NOOP", "magic": 0}, None),
    version("gone-value", 1, 1, '"int"'),
    of_subject("CLEAR_SUBJECT", "gone-value", {}),
    version("customer", 1, 2, CUSTOMER, schemaTags=TAGS, metadata=METADATA, ruleSet=RULES, futureField={"a": [1]}),
    version("orders-value", 1, 3, ORDER, references=[{"name": "shop.Customer", "subject": "customer", "version": 1}]),
    version("events", 1, 4, '{"type":"object"}', schemaType="JSON"),
    version("events", 2, 5, '{"type":"object","title":"x"}', schemaType="JSON"),
    version("proto", 1, 6, 'syntax = "proto3";\nmessage M {\n  int32 id = 1;\n}\n', schemaType="PROTOBUF"),
    version("old", 1, 7, '"long"'),
    version("old", 2, 8, '"double"'),
    of_subject("DELETE_SUBJECT", "old", {"version": 2}),
    of_subject("CONFIG", "customer", SETTINGS),
    of_subject("MODE", "proto", {"mode": "READONLY"}),
    (
        {"keytype": "CONTEXT", "tenant": "default", "context": ".staging", "magic": 0},
        {"tenant": "default", "context": ".staging"},
    ),
    version(":.staging:orders-value", 1, 1, '"bytes"'),
    of_subject("CONFIG", ":.staging:", {"compatibilityLevel": "NONE"}),
    of_subject("CONFIG", "back-to-default", {"compatibilityLevel": "NONE"}),
    of_subject("CONFIG", "back-to-default", None),
    of_subject("MODE", None, {"mode": "READONLY"}),
]


async def write_records(producer: Producer) -> None:
    for key, value in RECORDS:
        content = None if value is None else json.dumps(value, separators=(",", ":")).encode()
        await producer.send(TOPIC, content, json.dumps(key, separators=(",", ":")).encode())


async def check_everything(user: RegistryUser) -> None:
    ask = user.ask
    assert await ask("GET /subjects") == [":.staging:orders-value", "customer", "events", "orders-value", "proto"]
    deleted = await ask("GET /subjects?deletedOnly=true")
    assert deleted == ["old"]
    assert await ask("GET /subjects/old/versions?deleted=true") == [1, 2]
    assert (await ask("GET /subjects/old/versions/2?deleted=true"))["id"] == 8
    customer = await ask("GET /subjects/customer/versions/1")
    assert (customer["schema"], customer["metadata"], customer["ruleSet"]) == (CUSTOMER, METADATA, RULES)
    order = await ask("GET /schemas/ids/3")
    assert order["references"] == [{"name": "shop.Customer", "subject": "customer", "version": 1}]
    assert await ask("GET /subjects/customer/versions/1/referencedby") == [3]
    assert [(await ask(f"GET /schemas/ids/{number}"))["schemaType"] for number in (4, 5, 6)] == [
        "JSON",
        "JSON",
        "PROTOBUF",
    ]
    assert await ask("GET /config") == {"compatibilityLevel": "FORWARD"}
    assert await ask("GET /config/customer") == SETTINGS
    assert (await user.fail("GET /config/back-to-default"))[0] == 40408
    assert await ask("GET /config/:.staging:") == {"compatibilityLevel": "NONE"}
    assert await ask("GET /mode/proto") == {"mode": "READONLY"}
    assert await ask("GET /contexts") == [".", ".staging"]
    assert (await ask("GET /schemas/ids/1?subject=:.staging:"))["schema"] == '"bytes"'
    assert (await user.fail("GET /subjects/gone-value/versions"))[0] == 40401
    assert (await user.fail("POST /subjects/new/versions", {"schema": '"string"'}))[0] == 42205
    assert await ask("PUT /mode", {"mode": "READWRITE"}) == {"mode": "READWRITE"}
    assert await ask("POST /subjects/new/versions", {"schema": '"string"'}) == {"id": 9}
    same = {"schema": ORDER, "references": order["references"]}
    assert await ask("POST /subjects/orders-value/versions", same) == {"id": 3}
    assert (await user.fail("POST /subjects/proto/versions", {"schema": '"string"'}))[0] == 42205


def last_value(service: BrokerService, subject: str) -> Any:
    """Return the last record of a subject, as the topic has it. Blocks."""
    port = service.http_addresses[0].port
    with urlopen(f"http://127.0.0.1:{port}/api/topics/{TOPIC}/records", timeout=60) as answer:
        records = json.loads(answer.read())["records"]
    return [record["value"] for record in records if record["key"].get("subject") == subject][-1]


@pytest.mark.process
def test_a_mirrored_topic_reads_back(tmp_path: Path) -> None:
    async def work() -> None:
        source = BrokerService(reactor, settings_of(tmp_path / "source"))
        with_registry = {"schema.registry.listeners": "http://127.0.0.1:0", "http.listeners": "http://127.0.0.1:0"}
        target = BrokerService(reactor, settings_of(tmp_path / "target", **with_registry))
        for service in (source, target):
            service.startService()
        addresses = [f"127.0.0.1:{(await service.listening)[0].port}" for service in (source, target)]
        try:
            admin = AdminClient(addresses[0], reactor=reactor)
            await admin.topics.create([NewTopic(TOPIC, 1, configs={"cleanup.policy": "compact"})])
            producer = Producer(addresses[0], reactor=reactor)
            await write_records(producer)
            for client in (producer, admin):
                await client.close()
            await deferToThread(mirror, *addresses)
            user = RegistryUser(str(target.schema_registry_addresses[0]))
            await check_everything(user)
            await user.ask("DELETE /subjects/orders-value/versions/1")
            await user.ask("DELETE /subjects/customer/versions/1")
            value = await deferToThread(last_value, target, "customer")
            assert value["deleted"]
            kept = {name: value[name] for name in ("guid", "md5", "schemaTags", "futureField", "metadata", "ruleSet")}
            assert kept == {
                "guid": "g-2",
                "md5": "m-2==",
                "schemaTags": TAGS,
                "futureField": {"a": [1]},
                "metadata": METADATA,
                "ruleSet": RULES,
            }
        finally:
            for service in (source, target):
                await service.stopService()

    run(work)


def settings_of(directory: Path, **settings: str) -> dict[str, str]:
    return {"log.dirs": str(directory), "listeners": "PLAINTEXT://127.0.0.1:0", **settings}


def mirror(source: str, target: str) -> None:
    command = [sys.executable, "-m", "pylogbroker.cli", "mirror", "--from", source, "--to", target]
    done = subprocess.run(
        [*command, "--topics", TOPIC, "--until-caught-up"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
