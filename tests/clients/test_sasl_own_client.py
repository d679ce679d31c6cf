"""This package's client and Spark's connections with SASL: each mechanism, with and without TLS. One broker.

Its sessions are short: clients authenticate again (KIP-368).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pyarrow as pa
import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient

from pylogbroker.blocking.cluster import BlockingCluster
from pylogbroker.blocking.fetcher import PartitionFetcher
from pylogbroker.cli import main
from pylogbroker.client import sync
from pylogbroker.client.settings import CONSUMER, read
from pylogbroker.errors import PylogbrokerError
from pylogbroker.spark.options import WriteOptions
from pylogbroker.spark.writing.columns import Fields
from pylogbroker.spark.writing.producer import IdempotentProducer
from pylogbroker.spark.writing.producer_ids import identify
from pylogbroker.spark.writing.task import TaskWriter
from pylogbroker.wire.messages.metadata import MetadataRequest
from tests.clients.adapters.java import SOURCES
from tests.clients.test_sasl import LISTENERS, MECHANISMS, SaslBroker, sasl_broker
from tests.peers import available
from tests.peers.java import Program
from tests.support.waiting import wait_until

SECONDS_MAX = 25.0
"""Less than any time limit of a client that goes on trying."""
SESSION_MS = 2000
ATTEMPTS = 10
"""A client renews a session in its last tenth: a machine may stand still then, but not each time."""
LIMITS_MS = (300, 3000, 30_000)
"""Time limits of a client that goes on trying: it may not have connected once before the first one."""
WRONG = {
    "a wrong password": ({"sasl.password": "wrong"}, "invalid credentials with SASL mechanism"),
    "an unknown user": ({"sasl.username": "nobody"}, "invalid credentials with SASL mechanism"),
    "a mechanism that is not enabled": ({"sasl.mechanism": "OAUTHBEARER"}, "does not enable OAUTHBEARER, but PLAIN"),
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    with sasl_broker(tmp_path_factory.mktemp("sasl"), connections_max_reauth_ms=str(SESSION_MS)) as broker:
        yield broker


def produce(how: dict[str, str], topic: str) -> list[bytes | None]:
    host, _, port = how["bootstrap.servers"].partition(":")
    settings = {name: text for name, text in how.items() if name != "bootstrap.servers"}
    with sync.Producer(how["bootstrap.servers"], settings=settings) as producer:
        producer.send(topic, b"value")
    with sync.SimpleConsumer(host, int(port), settings=settings) as consumer:
        return [message.value for message in consumer.fetch(topic, 0, 0, 10_000)]


def write_and_fetch(how: dict[str, str], topic: str) -> list[bytes | None]:
    options = {"topic": topic, **{f"kafka.{name}": text for name, text in how.items()}}
    wanted = WriteOptions.parse(options)
    rows = pa.record_batch({"value": [b"value"]})
    with BlockingCluster(wanted.settings) as cluster, IdempotentProducer(cluster, identify(cluster)) as writer:
        TaskWriter(wanted, Fields(value=0), cluster, writer).write([rows])
    with BlockingCluster(read(CONSUMER, how)) as cluster:
        fetched = b"".join(bytes(found.records) for found in PartitionFetcher(cluster, topic, 0, 0, 1))
    return [b"value"] if fetched.count(b"value") == 1 else [fetched]


WAYS: dict[str, Callable[[dict[str, str], str], list[bytes | None]]] = {"client": produce, "spark": write_and_fetch}


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", LISTENERS)
@pytest.mark.parametrize("way", WAYS)
def test_right_credentials(broker: SaslBroker, way: str, protocol: str, mechanism: str) -> None:
    assert WAYS[way](broker.files(protocol, mechanism), f"{way}-{protocol}-{mechanism}") == [b"value"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("way", WAYS)
def test_wrong_credentials_fail_at_once(broker: SaslBroker, way: str, case: str, mechanism: str) -> None:
    changes, expected = WRONG[case]
    how = broker.files("SASL_PLAINTEXT", mechanism) | changes
    if "sasl.mechanism" in changes:
        how |= {"sasl.oauthbearer.token.provider": "unsecured:alice"}
    began = time.monotonic()
    with pytest.raises(PylogbrokerError, match=expected):
        WAYS[way](how, "t")
    assert time.monotonic() - began < SECONDS_MAX


@pytest.mark.parametrize("way", WAYS)
def test_a_listener_without_sasl(broker: SaslBroker, way: str) -> None:
    how = broker.files("SASL_PLAINTEXT", "PLAIN") | {"bootstrap.servers": broker.process.bootstrap}
    with pytest.raises(PylogbrokerError, match=r"this listener has no SASL: set security.protocol to PLAINTEXT or SSL"):
        WAYS[way](how, "t")


WRONG_PROTOCOLS = {
    ("SASL_PLAINTEXT", "PLAINTEXT"): "does this listener have SASL?",
    ("SASL_SSL", "SSL"): "does this listener have SASL?",
    ("SASL_SSL", "PLAINTEXT"): "without TLS?",
    ("SASL_SSL", "SASL_PLAINTEXT"): "without TLS?",
    ("SASL_PLAINTEXT", "SASL_SSL"): "TLS: the peer closed the connection; does this listener have TLS?",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_wrong_protocol_is_named(broker: SaslBroker, way: str) -> None:
    for (listener, protocol), expected in WRONG_PROTOCOLS.items():
        how = broker.files(listener, "PLAIN") | {"security.protocol": protocol, "linger.ms": "0"}
        text = f"{expected} See security.protocol"
        assert any(text in error_of(way, how, limit) for limit in LIMITS_MS), (listener, protocol)


def test_commands_name_the_protocol_of_a_listener(broker: SaslBroker) -> None:
    """Every listener is asked with every other protocol than its own."""
    addresses = {"PLAINTEXT": broker.process.bootstrap} | {
        name: broker.files(name, "PLAIN")["bootstrap.servers"] for name in LISTENERS
    }
    for listener, protocol in product(addresses, ("PLAINTEXT", "SSL", *LISTENERS)):
        how = {**broker.files(LISTENERS[0], "PLAIN"), "security.protocol": protocol}
        del how["bootstrap.servers"]
        options = [word for name, text in how.items() for word in ("-X", f"{name}={text}")]
        done = CliRunner().invoke(main, ["topic", "list", "-b", addresses[listener], *options])
        if protocol == listener:
            assert done.exit_code == 0, done.output
        elif (listener, protocol) == ("PLAINTEXT", "SASL_PLAINTEXT"):
            assert "this listener has no SASL: set security.protocol to PLAINTEXT" in done.stderr
        else:
            assert f"but security.protocol is {protocol}: set security.protocol={listener}" in done.stderr
            assert "is one running there" not in done.stderr


def error_of(way: str, how: dict[str, str], limit_ms: int) -> str:
    """Return the error of a client with this time limit."""
    limits = dict.fromkeys(("max.block.ms", "delivery.timeout.ms", "request.timeout.ms"), str(limit_ms))
    with pytest.raises(PylogbrokerError) as caught:
        WAYS[way](how | limits, "t")
    return str(caught.value)


def for_three_sessions(ask: Callable[[], object]) -> None:
    """Ask once, which connects, and then again and again."""
    ask()
    until = time.monotonic() + 3 * SESSION_MS / 1000

    def is_over() -> bool:
        ask()
        return time.monotonic() >= until

    wait_until(is_over)


def blocking(how: dict[str, str]) -> None:
    """Fetch on one connection of Spark's part."""
    with BlockingCluster(read(CONSUMER, how)) as cluster:
        first = cluster.any_connection()
        for_three_sessions(lambda: first.ask(MetadataRequest(topics=[])))


def of_client(how: dict[str, str]) -> None:
    settings = {name: text for name, text in how.items() if name != "bootstrap.servers"}
    with sync.Producer(how["bootstrap.servers"], settings=settings) as producer:
        for_three_sessions(lambda: producer.send("sessions", b"value"))


def of_librdkafka(how: dict[str, str]) -> None:
    client = AdminClient({**how})
    for_three_sessions(lambda: client.list_topics(timeout=120))


def of_java(how: dict[str, str]) -> None:
    """Let the Java program ask for the time of three sessions, on one connection."""
    user = f'username="{how["sasl.username"]}" password="{how["sasl.password"]}"'
    settings = {
        "bootstrap.servers": how["bootstrap.servers"],
        "security.protocol": how["security.protocol"],
        "sasl.mechanism": how["sasl.mechanism"],
        "sasl.jaas.config": f"org.apache.kafka.common.security.scram.ScramLoginModule required {user};",
        "retries": "0",
        "talk.ms": str(3 * SESSION_MS),
    }
    line = "\t".join(f"{name}={text}" for name, text in settings.items()) + "\n"
    done = Program(SOURCES / "Logins.java", log_level="error").run(input=line)
    assert done.stdout.split() == ["served"]


TALKS = (blocking, of_client, of_librdkafka, *((of_java,) if available() else ()))


def test_sessions_are_renewed_on_their_connection(broker: SaslBroker) -> None:
    """No request of three sessions meets the end of one; a client that did would reconnect, and the log says so."""
    how = broker.files("SASL_PLAINTEXT", "SCRAM-SHA-256")
    for _ in range(ATTEMPTS):
        before = len(broker.process.log_lines())
        with ThreadPoolExecutor(len(TALKS)) as threads:  # each takes the time of the sessions
            talks = {talk.__name__: threads.submit(talk, how) for talk in TALKS}
        failed = {name: talk.exception() for name, talk in talks.items() if talk.exception()}
        lines = broker.process.log_lines()[before:]
        closed = [line for line in lines if "closed" in line or "closing" in line]
        if not failed and not closed:
            return
    raise AssertionError((failed, closed))  # of clients that do not connect again, and of those that do
