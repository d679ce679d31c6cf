"""Clients with SASL: each mechanism, with and without TLS; what they learn of wrong credentials. One broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer

from tests.clients.adapters.kcat import available, run_kcat
from tests.support.broker_process import BrokerProcess
from tests.support.certificates import Certificates
from tests.support.waiting import wait_until

LISTENERS = ("SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@attrs.define
class SaslBroker:
    process: BrokerProcess
    certificates: Certificates
    ports: dict[str, int]

    def files(self, protocol: str, mechanism: str, password: str = "secret", user: str = "alice") -> dict[str, str]:
        """Settings of librdkafka."""
        return {
            "bootstrap.servers": f"localhost:{self.ports[protocol]}",
            "security.protocol": protocol,
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": self.certificates.authority_file,
        }


@contextmanager
def sasl_broker(directory: Path, users: str = "alice:secret\n", **settings: str) -> Iterator[SaslBroker]:
    """Run a broker with users, alice alone by default; check its log at the end."""
    certificates = Certificates(directory / "certificates")
    (directory / "users").write_text(users)
    process = BrokerProcess(
        directory,
        {
            **certificates.broker,
            "listeners": ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", *LISTENERS)),
            "users": str(directory / "users"),
            **{name.replace("_", "."): text for name, text in settings.items()},
        },
    )
    process.start()
    ports = {name: int(process.process.expect(rf"{name}://127\.0\.0\.1:([1-9]\d*)")[1]) for name in LISTENERS}
    yield SaslBroker(process, certificates, ports)
    assert not [line for line in process.log_lines() if "secret" in line]
    assert process.stop() == 0
    assert process.unexpected_errors() == []


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    with sasl_broker(tmp_path_factory.mktemp("sasl")) as broker:
        yield broker


@pytest.mark.skipif(not available(), reason="kcat is not installed")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kcat(broker: SaslBroker, mechanism: str) -> None:
    """Debian's is built with a librdkafka before 2.6.1, whose logins by SCRAM repeat a nonce."""
    how = broker.files("SASL_PLAINTEXT", mechanism)
    bootstrap, topic = how.pop("bootstrap.servers"), f"kcat-{mechanism}"
    options = [word for name, value in how.items() for word in ("-X", f"{name}={value}")]
    run_kcat(bootstrap, "-P", "-t", topic, *options, input=b"value\n")
    assert run_kcat(bootstrap, "-C", "-q", "-t", topic, "-e", *options) == b"value\n"


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", LISTENERS)
def test_librdkafka(broker: SaslBroker, protocol: str, mechanism: str) -> None:
    how, topic = broker.files(protocol, mechanism), f"librdkafka-{protocol}-{mechanism}"
    producer = Producer(how)
    producer.produce(topic, b"value")
    assert producer.flush(120) == 0
    with closing(Consumer({**how, "group.id": topic, "auto.offset.reset": "earliest"})) as consumer:
        consumer.subscribe([topic])
        message = consumer.poll(120)
    assert message is not None
    assert (message.error(), message.value()) == (None, b"value")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(broker: SaslBroker, mechanism: str) -> None:
    how = {
        "bootstrap_servers": f"localhost:{broker.ports['SASL_PLAINTEXT']}",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": "secret",
    }
    with closing(KafkaProducer(**how)) as producer:
        producer.send(f"python-{mechanism}", b"value").get(120)
    with closing(KafkaConsumer(f"python-{mechanism}", auto_offset_reset="earliest", **how)) as consumer:
        assert next(consumer).value == b"value"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka(broker: SaslBroker, mechanism: str) -> None:
    async def send() -> int:
        producer = AIOKafkaProducer(
            bootstrap_servers=f"localhost:{broker.ports['SASL_SSL']}",
            security_protocol="SASL_SSL",
            ssl_context=create_ssl_context(cafile=broker.certificates.authority_file),
            sasl_mechanism=mechanism,
            sasl_plain_username="alice",
            sasl_plain_password="secret",
        )
        async with producer:
            return int((await producer.send_and_wait(f"aio-{mechanism}", b"value")).offset)

    assert asyncio.run(send()) == 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", "secret")])
def test_wrong_credentials(broker: SaslBroker, mechanism: str, user: str, password: str) -> None:
    """The client learns neither which of both is wrong, nor anything of the broker."""
    errors: list[str] = []
    how: dict[str, Any] = broker.files("SASL_PLAINTEXT", mechanism, password, user)
    client = AdminClient({**how, "log_level": 0, "error_cb": lambda error: errors.append(error.str())})
    rejected = f"invalid credentials with SASL mechanism {mechanism}"
    wait_until(lambda: client.poll(0.1) >= 0 and any(rejected in each for each in errors), what=lambda: errors)
    with pytest.raises(KafkaException):
        client.list_topics(timeout=0.2)
