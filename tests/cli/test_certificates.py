"""`pylogbroker certificates`: the files that it makes, and the settings that it prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pylogbroker.cli import main
from pylogbroker.client.settings import CLIENT, read
from pylogbroker.config import BrokerConfig, Values, properties
from pylogbroker.security.tls.settings import TlsSettings
from tests.security.engines import EnginePair


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["certificates", *arguments])


def printed(output: str, directory: Path) -> list[dict[str, str]]:
    """Return the settings of each part of the output."""
    found = []
    for number, part in enumerate(output.split("\n\n")):
        file = directory / f"{number}.properties"
        file.write_text(part)
        found.append(properties.read(str(file)))
    return [each for each in found if each]


def broker_of(settings: dict[str, str]) -> TlsSettings:
    config = BrokerConfig(settings)
    values = config.of_listener(config.listeners[0])
    return TlsSettings.of(values, values.text("ssl.client.auth"))


def client_of(settings: dict[str, str]) -> Values:
    return read(CLIENT, settings)


def test_printed_settings_connect(tmp_path: Path) -> None:
    made = tmp_path / "made"
    broker, alice = printed(run(str(made), "--client", "alice").output, tmp_path)
    server = broker_of(broker)
    assert server.client_auth == "required"
    assert EnginePair.of(server, TlsSettings.of_client(client_of(alice))).shake_hands() == []
    later = run(str(made), "--client", "bob")
    _, bob = printed(later.output, tmp_path)
    assert EnginePair.of(server, TlsSettings.of_client(client_of(bob)), "127.0.0.1").shake_hands() == []
    assert {path.name for path in made.iterdir()} == {"ca.pem", "ca.key", "broker.pem", "alice.pem", "bob.pem"}
    assert {path.name for path in made.iterdir() if path.stat().st_mode & 0o077} == {"ca.pem"}


def test_hosts_and_no_clients(tmp_path: Path) -> None:
    broker, clients = printed(run(str(tmp_path / "made"), "--host", "kafka.example.org").output, tmp_path)
    server, client = broker_of(broker), TlsSettings.of_client(client_of(clients))
    assert server.client_auth == "none"
    assert EnginePair.of(server, client, "kafka.example.org").shake_hands() == []
    assert "another host" in EnginePair.of(server, client).shake_hands()[1]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--client", "a/b"), "client: 'a/b' is not accepted"),
        (("--client", "broker"), "client: 'broker' is not accepted"),
        (("--client", "twice", "--client", "twice"), "File exists"),
        (("--days", "0"), "--days"),
    ],
)
def test_invalid_arguments_are_rejected(arguments: tuple[str, ...], problem: str, tmp_path: Path) -> None:
    done = run(str(tmp_path), *arguments)
    assert done.exit_code
    assert problem in done.output


def test_an_authority_that_cannot_be_read(tmp_path: Path) -> None:
    run(str(tmp_path))
    (tmp_path / "ca.key").write_text("nothing")
    done = run(str(tmp_path), "--client", "alice")
    assert "Error: the certificate of the authority, or its key, cannot be read" in done.output
