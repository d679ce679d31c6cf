"""Delegation tokens by Kafka's tool, and connections by them of Java's clients and of this package's. One broker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from pylogbroker.client.sync import AdminClient
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.rpc.errors import NotAuthenticated
from tests.peers import available
from tests.peers.tools import tool
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.skipif(not available(), reason="needs a JDK and Maven")
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"
USERS = "alice:alices word\nbob:bobs word\n"


@attrs.frozen
class TokenBroker:
    bootstrap: str
    directory: Path

    def settings(self, user: str, password: str, options: str = "", mechanism: str = "SCRAM-SHA-256") -> dict[str, str]:
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{MODULE} username="{user}" password="{password}" {options};',
        }

    def run(self, name: str, how: dict[str, str], *arguments: str) -> str:
        properties = self.directory / "client.properties"
        properties.write_text("".join(f"{key}={text}\n" for key, text in how.items()))
        options = ("--bootstrap-server", self.bootstrap, "--command-config", str(properties))
        by_token = "tokenauth" in how["sasl.jaas.config"]
        done = tool(name, *options, *arguments, check=False, alone=by_token)
        return done.stdout + done.stderr

    def tokens(self, *arguments: str) -> str:
        return self.run("kafka-delegation-tokens", self.settings("alice", "alices word"), *arguments)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenBroker]:
    directory = tmp_path_factory.mktemp("tokens")
    (directory / "users").write_text(USERS)
    process = BrokerProcess(
        directory,
        {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "users": str(directory / "users"),
            "delegation.token.secret.key": "the key of tokens",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:alice",
        },
    )
    process.start()
    yield TokenBroker(process.bootstrap, directory)
    assert not [line for line in process.log_lines() if "the key of tokens" in line or " word" in line]
    assert process.stop() == 0
    assert process.unexpected_errors() == []


def token_in(output: str) -> tuple[str, str]:
    """Return id and HMAC in the tool's table: TOKENID, HMAC, OWNER, REQUESTER, RENEWERS, ..."""
    found = re.search(r"^(\S{22})\s+(\S{88})\s+User:\S+", output, re.MULTILINE)
    assert found is not None, output
    return found[1], found[2]


def test_kafkas_tool(broker: TokenBroker) -> None:
    made = broker.tokens("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    token_id, mac = token_in(made)
    described = broker.tokens("--describe", "--owner-principal", "User:alice")
    assert token_in(described) == (token_id, mac)
    assert re.search(rf"{token_id}.*User:alice\s+User:alice\s+\[User:bob\]", described)
    assert "Completed renew operation" in broker.tokens("--renew", "--renew-time-period", "3600000", "--hmac", mac)
    assert "Completed expire operation" in broker.tokens("--expire", "--expiry-time-period", "-1", "--hmac", mac)
    assert token_id not in broker.tokens("--describe")
    missing = broker.tokens("--renew", "--renew-time-period", "-1", "--hmac", mac)
    assert "DelegationTokenNotFoundException" in missing


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_connections_by_a_token(broker: TokenBroker, mechanism: str) -> None:
    """The clients of Java and of this package are the owner's; they cannot make tokens, nor use a wrong password."""
    of_bob = ("--create", "--max-life-time-period", "-1", "--owner-principal", "User:bob")
    token_id, mac = token_in(broker.tokens(*of_bob))
    by_token = broker.settings(token_id, mac, 'tokenauth="true"', mechanism)
    assert "TopicAuthorizationException" in broker.run("kafka-topics", by_token, "--create", "--topic", "bobs")
    again = broker.run("kafka-delegation-tokens", by_token, "--create", "--max-life-time-period", "-1")
    assert "DelegationTokenDisabledException" not in again
    assert "Delegation Token requests are not allowed" in again
    wrong = broker.settings(token_id, mac[::-1], 'tokenauth="true"', mechanism)
    assert "SaslAuthenticationException" in broker.run("kafka-topics", wrong, "--list")
    with AdminClient(broker.bootstrap, settings=by_token) as admin:
        assert admin.cluster.describe().brokers
        with pytest.raises(KafkaError) as caught:
            admin.tokens.describe()
        assert caught.value.code is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    with AdminClient(broker.bootstrap, settings=wrong) as admin, pytest.raises(NotAuthenticated):
        admin.cluster.describe()
