"""Clients with OAUTHBEARER: tokens that an issuer has signed, and others. One broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider

from pylogbroker.blocking.cluster import BlockingCluster
from pylogbroker.blocking.fetcher import PartitionFetcher
from pylogbroker.client import sync
from pylogbroker.client.errors import NotAuthenticated
from pylogbroker.client.settings import CONSUMER, read
from pylogbroker.security.sasl.credentials import TOKEN_PROVIDER
from pylogbroker.spark.options import WriteOptions
from pylogbroker.spark.writing.columns import Fields
from pylogbroker.spark.writing.producer import IdempotentProducer
from pylogbroker.spark.writing.producer_ids import identify
from pylogbroker.spark.writing.task import TaskWriter
from pylogbroker.wire.messages.metadata import MetadataRequest
from tests.plugins.issuers import token_issuer
from tests.security.tokens import Issuer, unsecured
from tests.support.broker_process import BrokerProcess
from tests.support.waiting import wait_until

#: Seconds that tokens are valid which end while a client talks.
LIFETIMES = (3, 10, 30)


@attrs.define
class OAuthBroker:
    bootstrap: str
    issuer: Issuer
    log_lines: Callable[[], list[str]]

    def token(self, **claims: Any) -> str:
        return self.issuer.token(**{"sub": "alice", "aud": "kafka", "exp": int(time.time()) + 600, **claims})

    def librdkafka(self, token: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (token, time.time() + 600),
            "log_level": 0,
        }


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OAuthBroker]:
    directory = tmp_path_factory.mktemp("oauth")
    issuer = Issuer()
    (directory / "keys").write_bytes(issuer.jwks())
    process = BrokerProcess(
        directory,
        {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": (directory / "keys").as_uri(),
            "sasl.oauthbearer.expected.audience": "kafka",
        },
    )
    process.start()
    yield OAuthBroker(process.bootstrap, issuer, process.log_lines)
    assert process.stop() == 0
    assert process.unexpected_errors() == []


def check_renewal(broker: OAuthBroker, talk: Callable[[int], None]) -> None:
    """Let a client talk until its first token, of so many seconds, has ended: no connection is closed.

    On a machine that stands still as long as a token is valid, the client is late: then it gets a longer one.
    """
    for seconds in LIFETIMES:
        before = len(broker.log_lines())
        try:
            talk(seconds)
        except Exception:
            if seconds == LIFETIMES[-1]:
                raise
            continue
        closed = [line for line in broker.log_lines()[before:] if "clos" in line]
        if not closed:
            return
    raise AssertionError(closed)


def talk_until_after(seconds: int, say: Callable[[], object]) -> None:
    """Say something again and again, until a token of so many seconds has ended."""
    until = time.monotonic() + seconds + 1

    def is_over() -> bool:
        say()
        return time.monotonic() > until

    wait_until(is_over)


def test_librdkafka(broker: OAuthBroker) -> None:
    producer = Producer(broker.librdkafka(broker.token()))
    producer.poll(0)
    producer.produce("librdkafka", b"value")
    assert producer.flush(120) == 0


def test_this_packages_client(broker: OAuthBroker, tmp_path: Path) -> None:
    """A session ends with its token, and is renewed with the next one in the file."""
    file, wrong = tmp_path / "token", tmp_path / "wrong"
    wrong.write_text(broker.token(aud="other"))
    how = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}

    def talk(seconds: int) -> None:
        file.write_text(broker.token(exp=int(time.time()) + seconds))
        with sync.Producer(broker.bootstrap, settings={**how, TOKEN_PROVIDER: f"file:{file}"}) as producer:
            producer.send("own", b"value")
            file.write_text(broker.token())
            talk_until_after(seconds, lambda: producer.send("own", b"value"))

    check_renewal(broker, talk)
    with (
        sync.Producer(broker.bootstrap, settings={**how, TOKEN_PROVIDER: f"file:{wrong}"}) as producer,
        pytest.raises(NotAuthenticated, match="the token is rejected: invalid_token"),
    ):
        producer.send("own", b"value")


def test_sparks_part(broker: OAuthBroker, tmp_path: Path) -> None:
    """Its blocking connections write and fetch, authenticate again before a token expires, and say what is wrong."""
    file = tmp_path / "token"
    file.write_text(broker.token())
    how = {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        TOKEN_PROVIDER: f"file:{file}",
    }
    wanted = WriteOptions.parse({"topic": "spark", **{f"kafka.{name}": text for name, text in how.items()}})
    with BlockingCluster(wanted.settings) as cluster, IdempotentProducer(cluster, identify(cluster)) as writer:
        TaskWriter(wanted, Fields(value=0), cluster, writer).write([pa.record_batch({"value": [b"value"] * 3})])

    def talk(seconds: int) -> None:
        file.write_text(broker.token(exp=int(time.time()) + seconds))
        with BlockingCluster(read(CONSUMER, how)) as cluster:
            fetched = b"".join(bytes(found.records) for found in PartitionFetcher(cluster, "spark", 0, 0, 3))
            assert fetched.count(b"value") == 3
            file.write_text(broker.token())
            connection = cluster.any_connection()
            talk_until_after(seconds, lambda: connection.ask(MetadataRequest(topics=[])))

    check_renewal(broker, talk)
    file.write_text(broker.token(aud="other"))
    with (
        pytest.raises(NotAuthenticated, match="the token is rejected: invalid_token"),
        BlockingCluster(read(CONSUMER, how)) as cluster,
    ):
        cluster.any_connection()


def of_own_client(how: dict[str, Any], seconds: int) -> None:
    settings = {name: text for name, text in how.items() if name != "bootstrap.servers"}
    with sync.Producer(how["bootstrap.servers"], settings=settings) as producer:
        talk_until_after(seconds, lambda: producer.send("issued", b"value"))


def of_sparks_part(how: dict[str, Any], seconds: int) -> None:
    with BlockingCluster(read(CONSUMER, how)) as cluster:
        connection = cluster.any_connection()
        talk_until_after(seconds, lambda: connection.ask(MetadataRequest(topics=[])))


def of_librdkafka(how: dict[str, Any], seconds: int) -> None:
    producer = Producer(how)
    producer.produce("issued", b"value")
    assert producer.flush(120) == 0


@pytest.mark.parametrize("talk", [of_own_client, of_sparks_part, of_librdkafka])
def test_tokens_of_an_issuer(
    broker: OAuthBroker, talk: Callable[[dict[str, Any], int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settings are librdkafka's. The first token expires while the client talks, and the next one is in time."""
    monkeypatch.setenv("no_proxy", "*")

    def talk_with_issuer(seconds: int) -> None:
        with token_issuer() as issuer:
            now = int(time.time())
            tokens = [broker.token(exp=now + seconds, iat=now), broker.token(iat=now)]
            answers = ({"access_token": token, "token_type": "Bearer", "expires_in": 600} for token in tokens)
            issuer.give(*((200, answer) for answer in answers))
            how = {
                "bootstrap.servers": broker.bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.token.endpoint.url": issuer.url,
                "sasl.oauthbearer.client.id": "me",
                "sasl.oauthbearer.client.secret": "hidden",
                "sasl.oauthbearer.scope": "kafka",
            }
            talk(how, seconds)
        assert {form["scope"][0] for _, form in issuer.asked} == {"kafka"}
        assert len(issuer.asked) >= (1 if talk is of_librdkafka else 2)

    check_renewal(broker, talk_with_issuer)


def test_kafka_python(broker: OAuthBroker) -> None:
    class Tokens(AbstractTokenProvider):
        def token(self) -> str:
            return broker.token()

    how = {
        "bootstrap_servers": broker.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Tokens(),
    }
    with closing(KafkaProducer(**how)) as producer:
        producer.send("python", b"value").get(120)
    with closing(KafkaConsumer("python", auto_offset_reset="earliest", **how)) as consumer:
        assert next(consumer).value == b"value"


def test_aiokafka(broker: OAuthBroker) -> None:
    class Tokens(AioTokenProvider):
        async def token(self) -> str:
            return broker.token()

    async def send() -> int:
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Tokens(),
        )
        async with producer:
            return int((await producer.send_and_wait("aio", b"value")).offset)

    assert asyncio.run(send()) == 0


def test_tokens_that_are_not_accepted(broker: OAuthBroker) -> None:
    """librdkafka confirms the broker's answer, and then gets the error."""
    late = int(time.time()) - 100
    for token in (broker.token(exp=late), broker.token(aud="other"), unsecured(sub="alice", exp=1 << 33)):
        errors: list[str] = []
        settings = {**broker.librdkafka(token), "error_cb": lambda error: errors.append(error.str())}  # noqa: B023
        client = AdminClient(settings)
        rejected = "invalid credentials with SASL mechanism OAUTHBEARER"
        wait_until(lambda: client.poll(0.1) >= 0 and any(rejected in each for each in errors))  # noqa: B023
    expected = "SASL: a claim of the token is not accepted"
    wait_until(lambda: any(expected in line for line in broker.log_lines()))
