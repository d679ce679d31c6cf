"""Clients over TLS: what works, and what the log says of what does not. One broker, many listeners."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pyarrow as pa
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from pylogbroker.blocking.cluster import BlockingCluster
from pylogbroker.blocking.fetcher import PartitionFetcher
from pylogbroker.client import sync
from pylogbroker.client.settings import CONSUMER, read
from pylogbroker.errors import PylogbrokerError
from pylogbroker.spark.options import WriteOptions
from pylogbroker.spark.writing.columns import Fields
from pylogbroker.spark.writing.producer import IdempotentProducer
from pylogbroker.spark.writing.producer_ids import identify
from pylogbroker.spark.writing.task import TaskWriter
from tests.clients.adapters.java import SOURCES
from tests.peers import available, tools
from tests.peers.java import Program
from tests.support.broker_process import BrokerProcess
from tests.support.certificates import HOSTS, Certificates, authority, identity
from tests.support.waiting import wait_until

LISTENERS = ("SSL", "MUTUAL", "ELSEWHERE", "CHANGED", "REVOKED")
needs_java = pytest.mark.skipif(not available(), reason="needs a JDK and Maven")
LARGE = Random(3).randbytes(900_000)


@attrs.define
class SecureBroker:
    process: BrokerProcess
    certificates: Certificates
    ports: dict[str, int]

    def at(self, listener: str) -> str:
        return f"localhost:{self.ports[listener]}"

    def files(self, name: str = "", days: float = 5, issuer: str = "authority") -> dict[str, str]:
        """Settings of librdkafka for a client, with a certificate if it has a name."""
        found = {"security.protocol": "ssl", "ssl.ca.location": self.certificates.authority_file}
        if name:
            path = self.certificates.client(name, days, issuer)["ssl.keystore.location"]
            found |= {"ssl.certificate.location": path, "ssl.key.location": path}
        return found

    def expect_line(self, listener: str, cause: str) -> None:
        """Wait for the line about a closed connection; the log has few for each cause."""
        line = re.compile(rf"closed the connection from \S+ on {listener}: TLS: {re.escape(cause)}")
        wait_until(lambda: any(map(line.search, self.process.log_lines())))


def authorities(*names: str) -> str:
    return "".join(authority(name).identity.certificate_pem for name in names)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    directory = tmp_path_factory.mktemp("tls")
    certificates = Certificates(directory / "certificates")
    other = certificates.with_key("elsewhere", identity("elsewhere", ("elsewhere",)))
    both = certificates.file("both.pem", authorities("authority", "leaving"))
    process = BrokerProcess(
        directory,
        {
            **certificates.broker,
            "listeners": ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", *LISTENERS)),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT," + ",".join(f"{each}:SSL" for each in LISTENERS),
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.elsewhere.ssl.keystore.location": other["ssl.keystore.location"],
            "listener.name.changed.ssl.keystore.location": other["ssl.keystore.location"],
            "listener.name.revoked.ssl.client.auth": "required",
            "listener.name.revoked.ssl.truststore.location": both,
            "ssl.store.check.interval.ms": "200",
            "connection.setup.timeout.ms": "60000",
        },
    )
    process.start()
    ports = {name: int(process.process.expect(rf"{name}://127\.0\.0\.1:([1-9]\d*)")[1]) for name in LISTENERS}
    yield SecureBroker(process, certificates, ports)
    assert process.stop() == 0
    assert process.unexpected_errors() == []


def test_librdkafka(broker: SecureBroker) -> None:
    """Large records come back byte for byte, also from the disk."""
    files = {"bootstrap.servers": broker.at("MUTUAL"), **broker.files("alice")}
    producer = Producer(files)
    for number in range(10):
        producer.produce("large", LARGE, str(number))
        producer.poll(0)
    assert producer.flush(120) == 0
    for segment in broker.process.partition_dir("large", 0).glob("*.kafka"):
        with segment.open("rb") as file:  # so that a worker thread must read
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with closing(Consumer({**files, "group.id": "librdkafka", "auto.offset.reset": "earliest"})) as consumer:
        consumer.subscribe(["large"])
        found = [message for _ in range(10) if (message := consumer.poll(120)) is not None]
    assert [(message.error(), message.key()) for message in found] == [(None, b"%d" % number) for number in range(10)]
    assert {sha256(message.value()).digest() for message in found} == {sha256(LARGE).digest()}


def test_kafka_python(broker: SecureBroker) -> None:
    certificate = broker.files("python")["ssl.certificate.location"]
    how = {
        "bootstrap_servers": broker.at("MUTUAL"),
        "security_protocol": "SSL",
        "ssl_cafile": broker.certificates.authority_file,
        "ssl_certfile": certificate,
        "ssl_keyfile": certificate,
    }
    with closing(KafkaProducer(**how)) as producer:
        producer.send("python", LARGE).get(120)
    with closing(KafkaConsumer("python", auto_offset_reset="earliest", **how)) as consumer:
        assert next(consumer).value == LARGE


def test_aiokafka(broker: SecureBroker) -> None:
    context = create_ssl_context(cafile=broker.certificates.authority_file)
    how = {"bootstrap_servers": broker.at("SSL"), "security_protocol": "SSL", "ssl_context": context}

    async def talk() -> bytes:
        async with AIOKafkaProducer(**how) as producer:
            await producer.send_and_wait("aio", b"value")
        async with AIOKafkaConsumer("aio", auto_offset_reset="earliest", **how) as consumer:
            message = await asyncio.wait_for(consumer.getone(), 120)
        return bytes(message.value)

    assert asyncio.run(talk()) == b"value"


@pytest.mark.parametrize(
    ("listener", "issuer"), [("SSL", "another"), ("ELSEWHERE", "authority"), ("MUTUAL", "authority")]
)
def test_aiokafka_is_not_served(broker: SecureBroker, listener: str, issuer: str) -> None:
    """Reject clients of an unknown authority, of another host, and without a certificate of their own."""
    context = create_ssl_context(cadata=authority(issuer).identity.certificate_pem)

    async def connect() -> None:
        how = {"bootstrap_servers": broker.at(listener), "security_protocol": "SSL", "ssl_context": context}
        producer = AIOKafkaProducer(**how)
        try:
            with pytest.raises(KafkaConnectionError):
                await producer.start()
        finally:
            await producer.stop()

    asyncio.run(connect())


@needs_java
def test_java(broker: SecureBroker, tmp_path: Path) -> None:
    """The oldest version of TLS that is offered."""
    settings = broker.certificates.client("java")
    lines = [f"{name}={text}" for name, text in settings.items()]
    lines += ["security.protocol=SSL", "ssl.enabled.protocols=TLSv1.2"]
    (tmp_path / "client").write_text("\n".join(lines))
    where = ("--bootstrap-server", broker.at("MUTUAL"), "--topic", "java")
    file = str(tmp_path / "client")
    tools.tool("kafka-console-producer", *where, "--producer.config", file, input="one\ntwo\n")
    read_all = ("--from-beginning", "--max-messages", "2")
    done = tools.tool("kafka-console-consumer", *where, "--consumer.config", file, *read_all)
    assert done.stdout.splitlines() == ["one", "two"]


def test_this_packages_client(broker: SecureBroker) -> None:
    how = {**broker.certificates.client("alice"), "security.protocol": "SSL"}
    with sync.Producer(broker.at("MUTUAL"), settings=how) as producer:
        for _ in range(5):
            producer.send("own", LARGE)
    with sync.SimpleConsumer("localhost", broker.ports["MUTUAL"], settings=how) as consumer:
        fetched = [message.value for message in consumer.fetch("own", 0, 0, 10_000_000)]
    assert fetched == [LARGE] * 5


def test_sparks_part(broker: SecureBroker) -> None:
    """Its blocking connections write and fetch, with files named as librdkafka does."""
    files = {"bootstrap.servers": broker.at("MUTUAL"), **broker.files("spark")}
    wanted = WriteOptions.parse({"topic": "spark", **{f"kafka.{name}": text for name, text in files.items()}})
    rows = pa.record_batch({"value": [LARGE] * 3})
    with BlockingCluster(wanted.settings) as cluster, IdempotentProducer(cluster, identify(cluster)) as writer:
        TaskWriter(wanted, Fields(value=0), cluster, writer).write([rows])
    with BlockingCluster(read(CONSUMER, files)) as cluster:
        fetched = b"".join(bytes(found.records) for found in PartitionFetcher(cluster, "spark", 0, 0, 3))
    assert fetched.count(LARGE) == 3


def own_client(broker: SecureBroker, listener: str, limit_ms: int, settings: dict[str, str]) -> str:
    """Try to produce with this package's client; return the error."""
    limits = {"delivery.timeout.ms": limit_ms, "max.block.ms": limit_ms}
    try:
        with sync.Producer(broker.at(listener), settings={**limits, **settings}) as producer:
            producer.send("t", b"value")
    except PylogbrokerError as error:
        return str(error)
    raise AssertionError("it was sent")


@pytest.mark.parametrize(
    ("listener", "client", "cause"),
    [
        ("SSL", ("", 5, "another"), "the client does not trust this broker's certificate"),
        ("ELSEWHERE", ("",), "the client does not trust this broker's certificate, or its host name"),
        ("SSL", None, "the listener speaks TLS, and the client sent plaintext"),
        ("MUTUAL", ("",), "the client sent no certificate, which ssl.client.auth=required asks for"),
        ("MUTUAL", ("eve", 5, "another"), "the client's certificate is not trusted (ssl.truststore): "),
        ("MUTUAL", ("late", -1, "authority"), "the client's certificate has expired"),
    ],
)
def test_clients_that_are_not_served(
    broker: SecureBroker, listener: str, client: tuple[Any, ...] | None, cause: str, tmp_path: Path
) -> None:
    files = {} if client is None else broker.files(*client)
    if client == ("", 5, "another"):
        another = tmp_path / "another.pem"
        another.write_text(authority("another").identity.certificate_pem)
        files["ssl.ca.location"] = str(another)
    client = AdminClient({"bootstrap.servers": broker.at(listener), "log_level": 0, **files})
    with pytest.raises(KafkaException):
        client.list_topics(timeout=0.5)
    broker.expect_line(listener, cause)  # while the client tries again


def test_this_packages_client_says_why(broker: SecureBroker) -> None:
    protocol = {"security.protocol": "SSL"}
    trust = {**protocol, **broker.certificates.trust}
    for listener, settings, cause in (
        ("ELSEWHERE", trust, "is of another host"),
        ("SSL", protocol, "is not trusted (ssl.truststore)"),
        ("MUTUAL", trust, "the broker asks for a client certificate"),
    ):
        # On a machine that stands still, the first limit may be over before a connection is tried.
        assert any(cause in own_client(broker, listener, limit, settings) for limit in (1500, 30_000)), listener


def test_certificates_are_changed_while_the_broker_runs(broker: SecureBroker) -> None:
    """AlterConfigs changes the key store of one listener, unless it is unusable; secrets are not shown."""
    plain = AdminClient({"bootstrap.servers": broker.process.bootstrap})
    brokers = list(plain.list_topics(timeout=60).brokers)
    own = "listener.name.changed."

    def alter(**values: str) -> None:
        entries = [
            ConfigEntry(own + name, text, incremental_operation=AlterConfigOpType.SET) for name, text in values.items()
        ]
        changed = ConfigResource(ResourceType.BROKER, str(brokers[0]), incremental_configs=entries)
        plain.incremental_alter_configs([changed])[changed].result(60)

    with pytest.raises(KafkaException, match=r"listener CHANGED: ssl.keystore.location: /none: No such file"):
        alter(**{"ssl.keystore.location": "/none"})
    secret = identity("secret", HOSTS).pem("a password")
    path = broker.certificates.file("secret.pem", secret)
    alter(**{"ssl.keystore.location": path, "ssl.key.password": "a password"})
    found = AdminClient({"bootstrap.servers": broker.at("CHANGED"), **broker.files()}).list_topics(timeout=60)
    assert list(found.brokers) == brokers
    described = ConfigResource(ResourceType.BROKER, str(brokers[0]))
    shown = plain.describe_configs([described])[described].result(60)
    assert shown[f"{own}ssl.key.password"].value is None
    assert shown[f"{own}ssl.keystore.location"].value == path
    assert not [line for line in broker.process.log_lines() if "a password" in line]


def test_clients_of_a_removed_authority_are_not_served(broker: SecureBroker) -> None:
    """The file of the trust store changes while the broker runs; clients of the other authority notice nothing."""
    how = {"bootstrap.servers": broker.at("REVOKED"), "log_level": 0}
    staying, leaving = broker.files("staying"), broker.files("leaving", 5, "leaving")
    for files in (staying, leaving):
        assert AdminClient({**how, **files}).list_topics(timeout=60).brokers
    broker.certificates.file("both.pem", authorities("authority"))
    reloaded = "read the key store and the trust store of listener REVOKED again"
    wait_until(lambda: any(reloaded in line for line in broker.process.log_lines()))
    errors: list[str] = []
    rejected = AdminClient({**how, **leaving, "error_cb": lambda error: errors.append(error.str())})
    wait_until(lambda: rejected.poll(0.1) >= 0 and any("unknown ca" in each for each in errors), what=lambda: errors)
    assert AdminClient({**how, **staying}).list_topics(timeout=60).brokers


def of_java(broker: SecureBroker, listener: str, trust: str, key: str = "") -> str:
    """Return the line of the Java program."""
    how = {
        "bootstrap.servers": broker.at(listener),
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": trust,
        "default.api.timeout.ms": "120000",
        "request.timeout.ms": "60000",
        **({"ssl.keystore.type": "PEM", "ssl.keystore.location": key} if key else {}),
    }
    return "\t".join(f"{name}={text}" for name, text in how.items()) + "\n"


def of_kafka_python(broker: SecureBroker, listener: str, trust: str, key: str = "") -> str:
    """Connect; return what the Java program would say."""
    how = {
        "bootstrap_servers": broker.at(listener),
        "security_protocol": "SSL",
        "ssl_cafile": trust,
        "ssl_certfile": key or None,
        "ssl_keyfile": key or None,
        "bootstrap_timeout_ms": 120_000 if key.endswith("/right-key.pem") else 1500,
    }
    try:
        KafkaAdminClient(**how).close()
    except KafkaError:
        return "SslAuthenticationException"
    return "served"


@pytest.mark.parametrize("client", [pytest.param(of_java, marks=needs_java), of_kafka_python])
def test_certificates_that_are_not_accepted(broker: SecureBroker, client: Callable[..., str]) -> None:
    right = broker.certificates.authority_file
    another = broker.certificates.file("another.pem", authorities("another"))
    keys = {
        name: broker.certificates.client(f"{name}-key", days, issuer)["ssl.keystore.location"]
        for name, days, issuer in (
            ("right", 5, "authority"),
            ("unknown", 5, "another"),
            ("expired", -1, "authority"),
        )
    }
    cases = {
        "right": ("MUTUAL", right, keys["right"]),
        "unknown authority of the broker": ("SSL", another),
        "other host": ("ELSEWHERE", right),
        "no certificate": ("MUTUAL", right),
        "unknown authority of the client": ("MUTUAL", right, keys["unknown"]),
        "expired certificate": ("MUTUAL", right, keys["expired"]),
    }
    found = [client(broker, *case) for case in cases.values()]
    if client is of_java:
        found = Program(SOURCES / "Logins.java", log_level="error").run(input="".join(found)).stdout.split()
    expected = ["served", *["SslAuthenticationException"] * (len(cases) - 1)]
    assert dict(zip(cases, found, strict=True)) == dict(zip(cases, expected, strict=True))


def test_slow_handshakes_hold_nobody_up(tmp_path: Path) -> None:
    """Many connections that send nothing, or half a message, end in time, while others are served."""
    certificates = Certificates(tmp_path / "certificates")
    listeners = {"listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0"}
    process = BrokerProcess(tmp_path, {**certificates.broker, **listeners, "connection.setup.timeout.ms": "1000"})
    process.start()
    try:
        port = int(process.process.expect(r"listening on SSL://127\.0\.0\.1:([1-9]\d*)")[1])
        broker = SecureBroker(process, certificates, {"SSL": port})
        with closing(Sockets()) as slow:
            for number in range(100):
                slow.add(port, b"\x16\x03\x01\x02\x00\x01" if number % 2 else b"")
            served = AdminClient({"bootstrap.servers": broker.at("SSL"), **broker.files()}).list_topics(timeout=120)
            assert served.brokers
            slow.wait_until_closed()
        broker.expect_line("SSL", "the handshake took longer than connection.setup.timeout.ms=1000")
        assert process.stop() == 0
        assert process.unexpected_errors() == []
    finally:
        process.kill()


class Sockets:
    def __init__(self) -> None:
        self._open: list[Any] = []

    def add(self, port: int, data: bytes) -> None:
        connected = socket.create_connection(("localhost", port), 120)
        connected.sendall(data)
        self._open.append(connected)

    def wait_until_closed(self) -> None:
        for each in self._open:
            with suppress(ConnectionError):
                assert each.recv(1) == b""

    def close(self) -> None:
        for each in self._open:
            each.close()
