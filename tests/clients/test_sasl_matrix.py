"""Clients of four makes with SASL: each mechanism, with and without TLS; right, wrong, expired and no credentials.

Only the right ones are served. One broker; each client's cases run side by side.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import product
from typing import Any

import attrs
import pytest
from aiokafka import AIOKafkaClient
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from aiokafka.errors import KafkaError as AioError
from aiokafka.helpers import create_ssl_context
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider

from tests.clients.adapters.java import SOURCES
from tests.clients.test_sasl import LISTENERS, MECHANISMS, SaslBroker, sasl_broker
from tests.peers import available
from tests.peers.java import Program
from tests.security.tokens import Issuer
from tests.support.waiting import wait_until

OAUTHBEARER = "OAUTHBEARER"
SECONDS_MAX = 120
FORMER, LATTER = "alice:former secret\n", "alice:secret\n"


@attrs.frozen
class Case:
    listener: str
    mechanism: str
    credentials: str
    """right, wrong, missing or expired."""
    bootstrap: str
    authority: str
    password: str
    token: str

    @property
    def has_sasl(self) -> bool:
        return self.credentials != "missing"

    @property
    def protocol(self) -> str:
        return self.listener if self.has_sasl else self.listener.removeprefix("SASL_")


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Case]]:
    """All cases, for a broker that began with another password of alice."""
    directory, issuer = tmp_path_factory.mktemp("sasl"), Issuer()
    (directory / "keys").write_bytes(issuer.jwks())
    settings = {
        "sasl_enabled_mechanisms": ",".join((*MECHANISMS, OAUTHBEARER)),
        "sasl_oauthbearer_jwks_endpoint_url": (directory / "keys").as_uri(),
    }
    with sasl_broker(directory, FORMER, **settings) as broker:
        now = int(time.time())
        tokens = {
            "right": issuer.token(sub="alice", exp=now + 600),
            "wrong": Issuer().token(sub="alice", exp=now + 600),
            "expired": issuer.token(sub="alice", exp=now - 600),
            "missing": "",
        }
        found = [case(broker, tokens, *which) for which in product(LISTENERS, (*MECHANISMS, OAUTHBEARER), tokens)]
        (directory / "latter").write_text(LATTER)
        (directory / "latter").rename(directory / "users")  # the broker may look at it meanwhile
        wait_until(lambda: of_librdkafka(found[0]), SECONDS_MAX)
        yield found


def case(broker: SaslBroker, tokens: dict[str, str], listener: str, mechanism: str, credentials: str) -> Case:
    passwords = {"right": "secret", "wrong": "another", "expired": "former secret", "missing": ""}
    bootstrap, authority = f"localhost:{broker.ports[listener]}", broker.certificates.authority_file
    return Case(listener, mechanism, credentials, bootstrap, authority, passwords[credentials], tokens[credentials])


def of_librdkafka(case: Case) -> bool:
    errors: list[str] = []
    how: dict[str, Any] = {
        "bootstrap.servers": case.bootstrap,
        "security.protocol": case.protocol,
        "ssl.ca.location": case.authority,
        "log_level": 0,
        "error_cb": lambda error: errors.append(error.str()),
    }
    if case.has_sasl:
        how["sasl.mechanism"] = case.mechanism
        if case.mechanism == OAUTHBEARER:
            how["oauth_cb"] = lambda _: (case.token, time.time() + 600)
        else:
            how |= {"sasl.username": "alice", "sasl.password": case.password}
    client, until = AdminClient(how), time.monotonic() + SECONDS_MAX
    while not errors and time.monotonic() < until:
        client.poll(0)
        with suppress(KafkaException):
            return bool(client.list_topics(timeout=0.5).brokers)
    assert errors, "neither served nor rejected"
    return False


def of_kafka_python(case: Case) -> bool:
    """Return whether a client is served; it tries rejected credentials again until its time is up."""

    class Tokens(AbstractTokenProvider):
        def token(self) -> str:
            return case.token

    how: dict[str, Any] = {"bootstrap_servers": case.bootstrap, "security_protocol": case.protocol}
    how |= {"bootstrap_timeout_ms": 120_000 if case.credentials == "right" else 2000, "ssl_cafile": case.authority}
    if case.has_sasl:
        how |= {"sasl_mechanism": case.mechanism, "sasl_plain_username": "alice", "sasl_plain_password": case.password}
        if case.mechanism == OAUTHBEARER:
            how["sasl_oauth_token_provider"] = Tokens()
    try:
        client = KafkaAdminClient(**how)
    except KafkaError:
        return False
    try:
        return bool(client.describe_cluster()["brokers"])
    except KafkaError:
        return False
    finally:
        client.close()


async def of_aiokafka(case: Case) -> bool:
    class Tokens(AioTokenProvider):
        async def token(self) -> str:
            return case.token

    how: dict[str, Any] = {"bootstrap_servers": case.bootstrap, "security_protocol": case.protocol}
    if case.protocol.endswith("SSL"):
        how["ssl_context"] = create_ssl_context(cafile=case.authority)
    if case.has_sasl:
        how |= {"sasl_mechanism": case.mechanism, "sasl_plain_username": "alice", "sasl_plain_password": case.password}
        if case.mechanism == OAUTHBEARER:
            how["sasl_oauth_token_provider"] = Tokens()
    client = AIOKafkaClient(**how)
    try:
        await client.bootstrap()
        return bool(client.cluster.brokers())
    except AioError:
        return False
    finally:
        await client.close()


def of_java(case: Case) -> str:
    """Return the line of the Java program."""
    how = {
        "bootstrap.servers": case.bootstrap,
        "security.protocol": case.protocol,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": case.authority,
        "default.api.timeout.ms": "120000" if case.has_sasl else "1000",
        "request.timeout.ms": "60000" if case.has_sasl else "1000",
    }
    if case.has_sasl:
        module = {"PLAIN": "plain.Plain", OAUTHBEARER: "oauthbearer.OAuthBearer"}.get(case.mechanism, "scram.Scram")
        options = f'username="alice" password="{case.password}"'
        if case.mechanism == OAUTHBEARER:
            options = f'token="{case.token}"'
        how["sasl.mechanism"] = case.mechanism
        how["sasl.jaas.config"] = f"org.apache.kafka.common.security.{module}LoginModule required {options};"
    return "\t".join(f"{name}={text}" for name, text in how.items()) + "\n"


def threaded(ask: Callable[[Case], bool], cases: Iterable[Case]) -> list[bool]:
    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(ask, cases))


def served(cases: list[Case], outcomes: list[bool]) -> list[tuple[str, str, str]]:
    found = zip(cases, outcomes, strict=True)
    return [(each.listener, each.mechanism, each.credentials) for each, is_served in found if is_served]


RIGHT = list(product(LISTENERS, (*MECHANISMS, OAUTHBEARER), ["right"]))


def test_librdkafka(cases: list[Case]) -> None:
    assert served(cases, threaded(of_librdkafka, cases)) == RIGHT


def test_kafka_python(cases: list[Case]) -> None:
    assert served(cases, threaded(of_kafka_python, cases)) == RIGHT


def test_aiokafka(cases: list[Case]) -> None:
    async def ask() -> list[bool]:
        return list(await asyncio.gather(*map(of_aiokafka, cases)))

    assert served(cases, asyncio.run(ask())) == RIGHT


@pytest.mark.skipif(not available(), reason="needs a JDK and Maven")
def test_java(cases: list[Case]) -> None:
    """A client with credentials that are not right gets an error, not only the end of its connection."""
    program = Program(SOURCES / "Logins.java", log_level="error")
    outcomes = program.run(input="".join(map(of_java, cases))).stdout.split()
    assert served(cases, [outcome == "served" for outcome in outcomes]) == RIGHT
    named = {outcome for each, outcome in zip(cases, outcomes, strict=True) if each.credentials in ("wrong", "expired")}
    assert named == {"SaslAuthenticationException"}
