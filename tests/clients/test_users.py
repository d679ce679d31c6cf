"""Users in the coordination tree: Kafka's tool and librdkafka manage them, and clients connect as them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import attrs
import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from pylogbroker.cli import main
from tests.peers import available
from tests.peers.tools import tool
from tests.support.broker_process import BrokerProcess
from tests.support.waiting import wait_until

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


@attrs.define
class Users:
    """A broker whose only user at its start is `admin`."""

    bootstrap: str
    directory: Path

    def client(self, user: str, password: str, mechanism: str, **others: Any) -> AdminClient:
        return AdminClient(
            {
                "bootstrap.servers": self.bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": mechanism,
                "sasl.username": user,
                "sasl.password": password,
                "log_level": 0,
                **others,
            }
        )

    def connects(self, user: str, password: str, mechanism: str = "SCRAM-SHA-256") -> bool:
        """Return whether a new client is served; it is rejected else."""
        errors: list[str] = []
        client = self.client(user, password, mechanism, error_cb=lambda error: errors.append(error.str()))

        served: list[bool] = []

        def has_ended() -> bool:
            client.poll(0)
            with suppress(KafkaException):
                served.append(bool(client.list_topics(timeout=0.3).brokers))
            return bool(served) or any("invalid credentials" in each for each in errors)

        wait_until(has_ended)
        return bool(served)

    def configs(self, *arguments: str) -> str:
        properties = self.directory / "admin.properties"
        login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
        properties.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
            f'sasl.jaas.config={login} username="admin" password="first";\n'
        )
        options = ("--bootstrap-server", self.bootstrap, "--command-config", str(properties))
        return tool("kafka-configs", *options, *arguments).stdout


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    directory = tmp_path_factory.mktemp("users")
    process = BrokerProcess(directory, {"listeners": "SASL_PLAINTEXT://127.0.0.1:0"})
    process.data_dir.mkdir()
    added = CliRunner().invoke(main, ["user", "add", "admin", "--data-dir", str(process.data_dir)], input="first\n")
    assert added.exit_code == 0, added.output
    process.start()
    yield Users(process.bootstrap, directory)
    secrets = ("first", "second", "third", "fourth")
    assert not [line for line in process.log_lines() if any(secret in line for secret in secrets)]
    assert process.stop() == 0
    assert process.unexpected_errors() == []


def test_librdkafka(users: Users) -> None:
    admin = users.client("admin", "first", "SCRAM-SHA-256")

    def alter(*changes: Any) -> None:
        for done in admin.alter_user_scram_credentials(list(changes)).values():
            done.result(60)

    def described() -> list[tuple[Any, int]]:
        found = cast(Any, admin.describe_user_scram_credentials(["bob"]))["bob"].result(60)
        return [(each.mechanism, each.iterations) for each in found.scram_credential_infos]

    assert not users.connects("bob", "second")
    alter(UserScramCredentialUpsertion("bob", ScramCredentialInfo(SHA_256, 4096), b"second"))
    assert users.connects("bob", "second")
    assert users.connects("bob", "second", "PLAIN")
    assert not users.connects("bob", "second", "SCRAM-SHA-512")
    info = ScramCredentialInfo(SHA_512, 8192)
    alter(UserScramCredentialUpsertion("bob", info, b"third"), UserScramCredentialDeletion("bob", SHA_256))
    assert described() == [(SHA_512, 8192)]
    assert users.connects("bob", "third", "SCRAM-SHA-512")
    assert not users.connects("bob", "second")
    alter(UserScramCredentialDeletion("bob", SHA_512))
    with pytest.raises(KafkaException, match="does not exist"):
        described()
    assert not users.connects("bob", "third", "SCRAM-SHA-512")


@pytest.mark.skipif(not available(), reason="needs a JDK and Maven")
def test_kafka_configs(users: Users) -> None:
    entity = ("--entity-type", "users", "--entity-name", "al ice")
    both = "SCRAM-SHA-256=[iterations=5000,password=second],SCRAM-SHA-512=[password=third]"
    users.configs("--alter", *entity, "--add-config", both)
    described = users.configs("--describe", *entity)
    line = "SCRAM credential configs for user-principal 'al ice' are SCRAM-SHA-256=iterations=5000, "
    assert line + "SCRAM-SHA-512=iterations=4096" in described
    assert "'admin'" in users.configs("--describe", "--entity-type", "users")
    assert users.connects("al ice", "second")
    assert users.connects("al ice", "third", "SCRAM-SHA-512")
    users.configs("--alter", *entity, "--delete-config", "SCRAM-SHA-256")
    assert not users.connects("al ice", "second")
    assert users.connects("al ice", "third", "SCRAM-SHA-512")
    users.configs("--alter", *entity, "--delete-config", "SCRAM-SHA-512")
    assert "al ice" not in users.configs("--describe", "--entity-type", "users")
