"""`pylogbroker schema`, and commands that find the schema registry of the cluster by themselves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka.schema_registry import SchemaRegistryClient

from pylogbroker.cli import main
from pylogbroker.testing import Broker
from tests.peers.processes import free_ports

Command = Callable[..., Result]
ONE = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
OTHER = ONE.replace("long", "string")


@pytest.fixture(scope="module")
def hosted() -> Iterator[tuple[Broker, str]]:
    """A broker with a registry of its own, and the address of that."""
    [port] = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    with Broker({"schema.registry.listeners": url}) as broker:
        yield broker, url


@pytest.fixture
def run(hosted: tuple[Broker, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    monkeypatch.setenv("PYLOGBROKER_BOOTSTRAP_SERVER", hosted[0].bootstrap)
    monkeypatch.setenv("PYLOGBROKER_CONFIG", str(tmp_path / "config.toml"))

    def run(*arguments: object, given: str = "", code: int = 0) -> Result:
        result = CliRunner().invoke(main, [*map(str, arguments)], input=given)
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "one.avsc", tmp_path / "other.avsc"
    for path, text in zip(paths, (ONE, OTHER), strict=True):
        path.write_text(text)
    return paths


def test_a_schema_from_its_registration_to_its_deletion(
    hosted: tuple[Broker, str], run: Command, files: tuple[Path, Path]
) -> None:
    one, other = files
    schema_id = run("schema", "register", "a-value", one).stdout.strip()
    assert run("schema", "register", "a-value", one).stdout.strip() == schema_id
    assert SchemaRegistryClient({"url": hosted[1]}).get_schema(int(schema_id)).schema_str == ONE
    rows = json.loads(run("schema", "list", "a-", "--format", "json").stdout)
    assert rows == [{"subject": "a-value", "version": 1, "id": int(schema_id), "type": "AVRO"}]
    for name in ("a-value", "a-value:1", "a-value:latest", schema_id):
        assert json.loads(run("schema", "get", name).stdout) == json.loads(ONE)
    denied = run("schema", "check", "a-value", other, code=1)
    assert "TYPE_MISMATCH" in denied.stdout
    assert run("schema", "check", "a-value", one).stdout == "The schema may follow those of a-value.\n"
    assert "409" not in run("schema", "register", "a-value", other, code=1).output
    settings = json.loads(run("schema", "config", "a-value", "--compatibility", "none", "--format", "json").stdout)
    assert settings == {"compatibility": "NONE", "mode": "READWRITE"}
    run("schema", "register", "a-value", other)
    difference = run("schema", "get", "a-value", "--diff", "1").stdout.splitlines()
    assert [line for line in difference if line[:1] in "+-"] == [
        *("--- a-value:1", "+++ a-value:2"),
        *('-      "type": "long"', '+      "type": "string"'),
    ]
    versions = json.loads(run("schema", "versions", "a-value", "--format", "json").stdout)
    assert [row["version"] for row in versions] == [1, 2]
    assert run("schema", "delete", "a-value:2", given="n\n", code=1).stdout == ""
    assert run("schema", "delete", "a-value:2", "-y").stdout == "Deleted a-value:2.\n"
    restored = json.loads(run("schema", "config", "a-value", "--restore", "--format", "json").stdout)
    assert restored["compatibility"] == "BACKWARD"
    assert run("schema", "delete", "a-value", "--permanent", "-y").stdout == "Deleted a-value for good.\n"
    assert "has no subject a-value" in run("schema", "get", "a-value", code=1).output
    assert json.loads(run("schema", "list", "a-", "--deleted", "--format", "json").stdout) == []


def test_records_are_written_and_decoded_without_an_address(
    hosted: tuple[Broker, str], run: Command, files: tuple[Path, Path]
) -> None:
    hosted[0].create_topic("b", 1)
    run("produce", "b", "--value-schema", files[0], "--register", given='{"id": 7}\n')
    run("produce", "b", given="text\n")
    assert run("consume", "b", "--exit").stdout.splitlines() == ['{"id": 7}', "text"]


def test_a_cluster_without_a_registry(run: Command, files: tuple[Path, Path]) -> None:
    with Broker() as broker:
        result = run("schema", "list", "-b", broker.bootstrap, code=1)
        assert "set schema.registry.listeners" in result.output


def test_the_registry_that_a_broker_names(hosted: tuple[Broker, str], run: Command, files: tuple[Path, Path]) -> None:
    run("schema", "register", "d-value", files[0])
    with Broker({"schema.registry.url": hosted[1]}) as broker:
        rows = json.loads(run("schema", "list", "d-", "-b", broker.bootstrap, "--format", "json").stdout)
    assert [row["subject"] for row in rows] == ["d-value"]


def test_wrong_arguments(run: Command, tmp_path: Path) -> None:
    text = tmp_path / "schema.txt"
    text.write_text(ONE)
    assert ".avsc" in run("schema", "register", "c-value", text, code=1).output
    assert "--diff needs a subject" in run("schema", "get", "1", "--diff", "1", code=2).output
    assert "--restore" in run("schema", "config", "c", "--restore", "--mode", "IMPORT", code=2).output
