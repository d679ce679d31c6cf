"""The schema registry of a broker: its topic, restarts, users, TLS, and what is wrong with settings."""

from __future__ import annotations

import json
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from twisted.internet import reactor
from twisted.internet.task import Clock
from twisted.internet.threads import deferToThread

from pylogbroker.client.admin import AdminClient
from pylogbroker.client.admin.configs import ConfigResource
from pylogbroker.client.producer import Producer
from pylogbroker.config.changes import ConfigOperation, SettingChange
from pylogbroker.errors import ConfigError, StartupError
from pylogbroker.registry.https import TlsLayer
from pylogbroker.registry.records import TOPIC
from pylogbroker.registry.service import BODY_BYTES_MAX
from pylogbroker.schemas.framing import framed
from pylogbroker.schemas.registry_address import advertised_url
from pylogbroker.security.acls.bindings import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermission,
    AclResourceType,
    ResourcePattern,
)
from pylogbroker.security.tls.engine import TlsEngine
from pylogbroker.tap.service import BrokerService
from pylogbroker.web.bounded_channel import HEAD_BYTES_MAX, BoundedChannel
from tests.registry.hosted import RegistryUser
from tests.support.certificates import Certificates
from tests.support.reactor_run import run

ONE = {"schema": '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'}
OTHER = {"schema": '"string"'}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{PLAIN} required user_alice="a" user_bob="b" user_root="r";'
    ),
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:root",
    "connection.failed.authentication.delay.ms": "0",
}
Work = Callable[[BrokerService, RegistryUser], Awaitable[None]]


def with_registry(directory: Path, work: Work, **given: str) -> None:
    """Run work with a broker that has a registry."""
    settings = {
        "log.dirs": str(directory),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "schema.registry.listeners": "http://127.0.0.1:0",
        **given,
    }

    async def served() -> None:
        service = BrokerService(reactor, settings)
        service.startService()
        await service.listening
        try:
            await work(service, RegistryUser(str(service.schema_registry_addresses[0])))
        finally:
            await service.stopService()

    run(served)


async def port_of(service: BrokerService) -> int:
    return (await service.listening)[0].port


def test_schemas_stay_after_a_restart(tmp_path: Path) -> None:
    async def first(service: BrokerService, user: RegistryUser) -> None:
        assert await user.ask("GET /subjects") == []
        assert await user.ask("POST /subjects/s/versions", ONE) == {"id": 1}
        assert await user.ask("POST /subjects/t/versions", OTHER) == {"id": 2}
        assert await user.ask("DELETE /subjects/t") == [1]
        await user.ask("PUT /config", {"compatibility": "FULL"})

    async def second(service: BrokerService, user: RegistryUser) -> None:
        assert await user.ask("GET /subjects/s/versions/latest") == {"subject": "s", "version": 1, "id": 1, **ONE}
        assert await user.ask("GET /subjects?deleted=true") == ["s", "t"]
        assert await user.ask("GET /config") == {"compatibilityLevel": "FULL"}
        assert await user.ask("POST /subjects/u/versions", {"schema": '"long"'}) == {"id": 3}

    with_registry(tmp_path, first)
    with_registry(tmp_path, second)


def test_records_of_other_writers_are_seen_at_once(tmp_path: Path) -> None:
    async def work(service: BrokerService, user: RegistryUser) -> None:
        await user.ask("POST /subjects/s/versions", ONE)
        key = {"keytype": "SCHEMA", "subject": "copied", "version": 4, "magic": 1}
        value = {"subject": "copied", "version": 4, "id": 70, "schema": '"bytes"', "deleted": False}
        producer = Producer(f"127.0.0.1:{await port_of(service)}", reactor=reactor)
        await producer.send(TOPIC, json.dumps(value).encode(), json.dumps(key).encode())
        await producer.send(TOPIC, b"{}", b"no json")
        assert await user.ask("GET /schemas/ids/70") == {"schema": '"bytes"'}
        assert await user.ask("POST /subjects/s/versions", {"schema": ONE["schema"], "schemaType": "AVRO"}) == {"id": 1}
        assert await user.ask("POST /subjects/t/versions", {"schema": '"double"'}) == {"id": 71}
        await producer.close()

    with_registry(tmp_path, work)


def test_aborted_records_are_not_read(tmp_path: Path) -> None:
    async def work(service: BrokerService, user: RegistryUser) -> None:
        await user.ask("POST /subjects/s/versions", OTHER)
        settings = {"transactional.id": "copier"}
        producer = Producer(f"127.0.0.1:{await port_of(service)}", reactor=reactor, settings=settings)
        for subject, end in (("aborted", producer.abort), ("committed", producer.commit)):
            await producer.begin()
            key = {"keytype": "SCHEMA", "subject": subject, "version": 1, "magic": 1}
            value = {"subject": subject, "version": 1, "id": 50, "schema": f'"{subject}"', "deleted": False}
            await producer.send(TOPIC, json.dumps(value).encode(), json.dumps(key).encode())
            await end()
        assert await user.ask("GET /subjects") == ["committed", "s"]
        await producer.close()

    with_registry(tmp_path, work)


def test_a_deleted_topic_is_read_again_from_its_beginning(tmp_path: Path) -> None:
    async def work(service: BrokerService, user: RegistryUser) -> None:
        await user.ask("POST /subjects/s/versions", ONE)
        admin = AdminClient(f"127.0.0.1:{await port_of(service)}", reactor=reactor)
        await admin.topics.delete([TOPIC])
        assert await user.ask("GET /subjects") == []
        assert await user.ask("POST /subjects/t/versions", OTHER) == {"id": 1}
        await admin.close()

    with_registry(tmp_path, work)


def test_a_topic_that_would_lose_schemas_gets_an_error(tmp_path: Path) -> None:
    async def work(service: BrokerService, user: RegistryUser) -> None:
        admin = AdminClient(f"127.0.0.1:{await port_of(service)}", reactor=reactor)
        await user.ask("GET /subjects")
        change = SettingChange("cleanup.policy", ConfigOperation.SET, "delete")
        await admin.configs.alter({ConfigResource.topic(TOPIC): [change]})
        code, message = await user.fail("POST /subjects/s/versions", ONE)
        assert (code, "set cleanup.policy=compact" in message) == (50001, True)
        await admin.close()

    with_registry(tmp_path, work)


def test_a_schema_that_is_too_large(tmp_path: Path) -> None:
    async def work(service: BrokerService, user: RegistryUser) -> None:
        large = {"schema": json.dumps({"type": "enum", "name": "E", "doc": "x" * 10_000, "symbols": ["A"]})}
        code, message = await user.fail("POST /subjects/s/versions", large)
        assert (code, "max.message.bytes" in message) == (42209, True)
        assert await user.ask("POST /subjects/s/versions", OTHER) == {"id": 1}

    with_registry(tmp_path, work, **{"message.max.bytes": "5000"})


def test_the_web_ui_decodes_by_the_registry_of_the_broker(tmp_path: Path) -> None:
    async def work(service: BrokerService, user: RegistryUser) -> None:
        await user.ask("POST /subjects/orders-value/versions", OTHER)
        producer = Producer(f"127.0.0.1:{await port_of(service)}", reactor=reactor)
        await producer.send("orders", framed(1, b"\x0edecoded"))
        await producer.close()
        address = f"http://127.0.0.1:{service.http_addresses[0].port}/topics/orders/records?at=0:0"
        page = await deferToThread(lambda: urlopen(address, timeout=60).read().decode())
        assert "Avro, schema 1, orders-value v1" in page
        assert "decoded" in page

    with_registry(tmp_path, work, **{"http.listeners": "http://127.0.0.1:0"})


def test_users_and_their_rights(tmp_path: Path) -> None:
    async def work(service: BrokerService, user: RegistryUser) -> None:
        root, alice, bob = (RegistryUser(user.url, login) for login in ("root:r", "alice:a", "bob:b"))
        assert (await user.fail("GET /subjects"))[0] == 401
        assert (await RegistryUser(user.url, "alice:wrong").fail("GET /subjects"))[0] == 401
        schema_id = (await root.ask("POST /subjects/orders-value/versions", ONE))["id"]
        assert await alice.ask("GET /subjects") == []
        code, message = await alice.fail("GET /subjects/orders-value/versions/1")
        assert (code, "User:alice has no right to DESCRIBE on topic orders" in message) == (40301, True)
        assert (await alice.fail(f"GET /schemas/ids/{schema_id}"))[0] == 40301
        for operation, name in (("WRITE", "alice"), ("READ", "bob")):
            await allow(service, f"User:{name}", operation, "orders")
        assert await alice.ask("GET /subjects") == ["orders-value"]
        assert await bob.ask(f"GET /schemas/ids/{schema_id}") == ONE
        assert await alice.ask("POST /subjects/orders-key/versions", OTHER) == {"id": 2}
        for denied in ("POST /subjects/orders-key/versions", "POST /subjects/other/versions"):
            assert (await bob.fail(denied, OTHER))[0] == 40301
        for denied in ("DELETE /subjects/orders-key", "PUT /config/orders-key", "PUT /config", "DELETE /contexts/.c"):
            body = {"compatibility": "NONE"} if denied.startswith("PUT") else None
            assert (await alice.fail(denied, body))[0] == 40301
        assert await root.ask("PUT /config", {"compatibility": "NONE"}) == {"compatibility": "NONE"}
        assert await alice.ask("GET /config/orders-key?defaultToGlobal=true") == {"compatibilityLevel": "NONE"}

    with_registry(tmp_path, work, **USERS)


async def allow(service: BrokerService, principal: str, operation: str, topic: str) -> None:
    """Add an ACL as the super user."""
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "root",
        "sasl.password": "r",
    }
    admin = AdminClient(f"127.0.0.1:{await port_of(service)}", reactor=reactor, settings=settings)
    entry = AccessControlEntry(principal, "*", AclOperation[operation], AclPermission.ALLOW)
    await admin.acls.create([AclBinding(ResourcePattern(AclResourceType.TOPIC, topic), entry)])
    await admin.close()


def test_a_request_over_tls_is_secure() -> None:
    """Otherwise users of other machines could not log in."""
    engine = TlsEngine(ssl.create_default_context(), is_server=False, host="broker")
    channel = BoundedChannel()
    channel.transport = TlsLayer(Clock(), channel, engine)
    assert channel.isSecure()


def test_https_by_the_certificate_of_the_broker(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "certificates")
    context = ssl.create_default_context(cafile=certificates.authority_file)

    async def work(service: BrokerService, user: RegistryUser) -> None:
        safe = RegistryUser(user.url, context=context)
        assert user.url.startswith("https://")
        assert await safe.ask("POST /subjects/s/versions", ONE) == {"id": 1}
        long = {"schema": json.dumps({"type": "enum", "name": "E", "doc": "x" * 200_000, "symbols": ["A"]})}
        assert await safe.ask("POST /subjects/long/versions", long) == {"id": 2}
        huge = {"schema": "x" * BODY_BYTES_MAX}
        assert await safe.fail("POST /subjects/long/versions", huge) == (413, "a body has at most 4,194,304 bytes here")
        code, message = await safe.fail("GET /subjects?subjectPrefix=" + "x" * HEAD_BYTES_MAX)
        assert (code, message.partition(":")[0]) == (414, "a request line has at most 16,384 bytes")
        assert await safe.ask("GET /schemas/ids/2") == {"schema": long["schema"].replace(", ", ",").replace(": ", ":")}

    with_registry(
        tmp_path / "data", work, **certificates.broker, **{"schema.registry.listeners": "https://127.0.0.1:0"}
    )


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"schema.registry.listeners": "https://127.0.0.1:0"}, "ssl.keystore.location"),
        ({"schema.registry.listeners": "http://127.0.0.1:1,http://127.0.0.1:1"}, "each once"),
        ({"schema.registry.listeners": "8081"}, "expected"),
    ],
)
def test_settings_that_cannot_be_used(tmp_path: Path, settings: dict[str, str], reason: str) -> None:
    async def nothing(service: BrokerService, user: RegistryUser) -> None:
        raise AssertionError

    with pytest.raises((ConfigError, StartupError), match=reason):
        with_registry(tmp_path, nothing, **settings)


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    async def work(service: BrokerService, user: RegistryUser) -> None:
        port = user.url.rpartition(":")[2]
        given: dict[str, Any] = {
            "log.dirs": str(tmp_path / "other"),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "schema.registry.listeners": f"http://127.0.0.1:{port}",
        }
        second = BrokerService(reactor, given)
        second.startService()
        with pytest.raises(StartupError, match=port):
            await second.listening

    with_registry(tmp_path / "data", work)


@pytest.mark.parametrize(
    ("advertised", "listeners", "host", "url"),
    [
        (None, None, "b", None),
        ("", "", "b", None),
        (None, "http://127.0.0.1:0", "b", None),
        (None, "http://:8081", "b", "http://127.0.0.1:8081"),
        (None, "HTTP://0.0.0.0:8081,https://0.0.0.0:1", "b", "http://b:8081"),
        (None, "https://[::]:8081", "::1", "https://[::1]:8081"),
        ("https://proxy:443/", "http://:8081", "b", "https://proxy:443"),
    ],
)
def test_addresses_of_other_registries(
    advertised: str | None, listeners: str | None, host: str, url: str | None
) -> None:
    assert advertised_url(advertised, listeners, host) == url
