"""Validation of produced records by the schema registry of the broker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from twisted.internet import reactor
from twisted.internet.defer import DeferredList

from pylogbroker.background import with_cleanup
from pylogbroker.client.admin import AdminClient
from pylogbroker.client.admin.configs import ConfigResource
from pylogbroker.client.admin.topics import NewTopic
from pylogbroker.client.producer import Producer
from pylogbroker.config.changes import ConfigOperation, SettingChange
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.schemas.framing import framed
from pylogbroker.tap.service import BrokerService
from tests.registry.hosted import RegistryUser
from tests.registry.test_hosted import OTHER, port_of, with_registry
from tests.support.reactor_run import run

RECORD = {"schema": '{"type":"record","name":"shop.Order","fields":[{"name":"id","type":"long"}]}'}
VALUES = {"confluent.value.schema.validation": "true"}


async def create(service: BrokerService, name: str, settings: Mapping[str, str]) -> None:
    admin = AdminClient(f"127.0.0.1:{await port_of(service)}", reactor=reactor)
    await with_cleanup(admin.topics.create([NewTopic(name, 1, 1, configs=settings)]), admin.close)


async def alter(service: BrokerService, topic: str, name: str, value: str) -> None:
    admin = AdminClient(f"127.0.0.1:{await port_of(service)}", reactor=reactor)
    await admin.configs.alter({ConfigResource.topic(topic): [SettingChange(name, ConfigOperation.SET, value)]})
    await admin.close()


async def producer_of(service: BrokerService, **settings: Any) -> Producer:
    return Producer(f"127.0.0.1:{await port_of(service)}", reactor=reactor, settings=settings)


async def rejection(producer: Producer, topic: str, value: bytes | None, key: bytes | None = None) -> str:
    """Return why a record is rejected."""
    with pytest.raises(KafkaError) as error:
        await producer.send(topic, value, key)
    assert error.value.code is ErrorCode.INVALID_RECORD
    return str(error.value)


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_values_must_name_a_schema_of_the_topic(tmp_path: Path, compression: str) -> None:
    async def work(service: BrokerService, user: RegistryUser) -> None:
        await create(service, "orders", VALUES)
        producer = await producer_of(service, **{"compression.type": compression})
        assert "no serializer" in await rejection(producer, "orders", b"plain text")
        assert "not registered, or was deleted" in await rejection(producer, "orders", framed(1, b"x"))
        await user.ask("POST /subjects/other-value/versions", OTHER)
        reason = await rejection(producer, "orders", framed(1, b"x"))
        assert "schema 1 is not registered for subject orders-value, but for other-value" in reason
        await user.ask("POST /subjects/orders-value/versions", OTHER)
        assert (await producer.send("orders", framed(1, b"\2x"))).offset == 0
        assert (await producer.send("orders", None, b"a key of any kind")).offset == 1
        await producer.send("free", b"plain text")
        await producer.close()

    with_registry(tmp_path, work)


def test_a_batch_is_rejected_as_a_whole_and_later_ones_are_taken(tmp_path: Path) -> None:
    async def work(service: BrokerService, user: RegistryUser) -> None:
        await user.ask("POST /subjects/orders-value/versions", OTHER)
        await create(service, "orders", VALUES)
        producer = await producer_of(service, **{"linger.ms": "1000"})
        sent = [producer.send("orders", value) for value in (framed(1, b"\2x"), b"bad", framed(1, b"\2x"))]
        outcomes = [outcome for outcome, _ in await DeferredList(sent, consumeErrors=True)]
        assert False in outcomes
        assert (await producer.send("orders", framed(1, b"\2x"))).offset >= 0
        await producer.close()

    with_registry(tmp_path, work)


def test_many_batches_stay_in_order_while_schemas_are_looked_up(tmp_path: Path) -> None:
    async def work(service: BrokerService, user: RegistryUser) -> None:
        await user.ask("POST /subjects/orders-value/versions", OTHER)
        await create(service, "orders", VALUES)
        producer = await producer_of(service, **{"batch.size": "1"})
        results = await DeferredList([producer.send("orders", framed(1, b"\2x")) for _ in range(50)])
        assert [result.offset for _, result in results] == list(range(50))
        await producer.close()

    with_registry(tmp_path, work)


def test_content_keys_and_strategies(tmp_path: Path) -> None:
    settings = {
        **VALUES,
        "confluent.key.schema.validation": "true",
        "confluent.value.subject.name.strategy": "RecordNameStrategy",
        "schema.validation.content": "true",
    }

    async def work(service: BrokerService, user: RegistryUser) -> None:
        await user.ask("POST /subjects/shop.Order/versions", RECORD)
        await user.ask("POST /subjects/orders-key/versions", OTHER)
        await create(service, "orders", settings)
        producer = await producer_of(service)
        key, value = framed(2, b"\2k"), framed(1, b"\x0e")
        assert (await producer.send("orders", value, key)).offset == 0
        assert "value: it does not fit schema 1" in await rejection(producer, "orders", framed(1, b""), key)
        assert "key: it names no schema" in await rejection(producer, "orders", value, b"text")
        assert "needs a schema with a name" in await rejection(producer, "orders", framed(2, b"\2k"), key)
        await producer.close()

    with_registry(tmp_path, work)


def test_validation_begins_and_ends_with_the_setting(tmp_path: Path) -> None:
    async def work(service: BrokerService, user: RegistryUser) -> None:
        await create(service, "orders", {})
        producer = await producer_of(service)
        for _ in range(5):
            await producer.send("orders", b"plain text")
        await alter(service, "orders", "confluent.value.schema.validation", "true")
        await rejection(producer, "orders", b"plain text")
        await alter(service, "orders", "confluent.value.schema.validation", "false")
        assert (await producer.send("orders", b"plain text")).offset == 5
        await producer.close()

    with_registry(tmp_path, work)


def test_a_broker_without_a_registry_takes_no_such_setting_and_no_records(tmp_path: Path) -> None:
    async def first(service: BrokerService, user: RegistryUser) -> None:
        await create(service, "orders", VALUES)

    with_registry(tmp_path, first)

    async def second() -> None:
        service = BrokerService(reactor, {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"})
        service.startService()
        await service.listening
        producer = await producer_of(service)
        assert "set schema.registry.listeners" in await rejection(producer, "orders", framed(1, b"x"))
        await producer.close()
        with pytest.raises(KafkaError, match=r"set schema\.registry\.listeners"):
            await create(service, "more", VALUES)
        await service.stopService()

    run(second)
