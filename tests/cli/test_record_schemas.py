"""`consume` and `produce` by a schema registry, beside Confluent's serializers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.common.serde import SchemaId
from confluent_kafka.serialization import MessageField, SerializationContext

from pylogbroker.cli import main
from pylogbroker.testing import Broker

Command = Callable[..., Result]
ORDER = json.dumps(
    {
        "type": "record",
        "name": "shop.Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "customer", "type": "string"}],
    }
)
PAID = {"id": 2**63 - 1, "customer": "c-3"}
PAID_TEXT = '{"id": 9223372036854775807, "customer": "c-3"}'


@pytest.fixture(scope="module")
def served() -> Iterator[Broker]:
    with Broker(schema_registry=True) as broker:
        yield broker


@pytest.fixture
def run(served: Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    monkeypatch.setenv("PYLOGBROKER_BOOTSTRAP_SERVER", served.bootstrap)
    monkeypatch.setenv("PYLOGBROKER_SCHEMA_REGISTRY", served.schema_registry.url)
    monkeypatch.setenv("PYLOGBROKER_CONFIG", str(tmp_path / "config.toml"))

    def run(*arguments: object, given: str = "", code: int = 0) -> Result:
        result = CliRunner().invoke(main, [*map(str, arguments)], input=given)
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def topic(served: Broker, request: pytest.FixtureRequest) -> str:
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    served.create_topic(name, 1)
    return name


@pytest.fixture
def avsc(tmp_path: Path) -> Path:
    path = tmp_path / "order.avsc"
    path.write_text(ORDER)
    return path


def send(broker: Broker, topic: str, value: bytes | None, key: bytes | None = None, count: int = 1) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for _ in range(count):
        producer.produce(topic, value, key, 0)
    assert producer.flush(120) == 0


def avro(broker: Broker, topic: str, field: str = MessageField.VALUE) -> bytes:
    client = SchemaRegistryClient({"url": broker.schema_registry.url})
    content = AvroSerializer(client, ORDER)(PAID, SerializationContext(topic, field))
    assert content is not None
    return content


def values(broker: Broker, topic: str, count: int) -> list[Any]:
    """Return values that Confluent's deserializer reads."""
    client = SchemaRegistryClient({"url": broker.schema_registry.url})
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "x"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(count, 120)
    consumer.close()
    read = AvroDeserializer(client)
    return [read(message.value(), SerializationContext(topic, MessageField.VALUE)) for message in messages]


@pytest.mark.parametrize("count", [1, 6000])  # one by one, and many at once
def test_values_are_decoded_by_themselves(run: Command, served: Broker, topic: str, count: int) -> None:
    send(served, topic, avro(served, topic), b"k", count)
    send(served, topic, b"plain")
    send(served, topic, None)
    assert run("consume", topic, "-e").stdout == f"{PAID_TEXT}\n" * count + "plain\n\n"
    lines = run("consume", topic, "-e", "-f", "json").stdout.splitlines()
    assert [json.loads(line)["value"] for line in (lines[0], *lines[-2:])] == [PAID, "plain", None]
    assert f'"key": "k", "value": {PAID_TEXT}' in lines[0]
    assert run("consume", topic, "-e", "--grep", "c-3", "-n", 1).stdout == f"{PAID_TEXT}\n"
    assert run("consume", topic, "-e", "-s", "none", "-n", 1, "-f", "%S").stdout == "19"


def test_keys_and_groups(run: Command, served: Broker, topic: str) -> None:
    send(served, topic, b"v", avro(served, topic, MessageField.KEY))
    assert run("consume", topic, "-e", "-f", "%k %s", "-s", "key=avro").stdout == f"{PAID_TEXT} v"
    assert run("consume", topic, "-n", 1, "-g", topic, "-f", "%k").stdout == PAID_TEXT


def test_content_that_is_not_decoded(run: Command, served: Broker, topic: str) -> None:
    content = avro(served, topic)
    for value in (b"\0\0\0\x03\xe7x", b"\0\0\0\x03\xe7x", content[:-1]):
        send(served, topic, value)
    result = run("consume", topic, "-e", "-f", "%S ")
    assert result.stdout == "6 6 18 "
    unknown, cut = result.stderr.splitlines()
    assert unknown.startswith(f"{topic}/0, offset 0, value: the schema registry at http://127.0.0.1:")
    assert "has no schema 999: it was deleted, or another registry has it" in unknown
    assert cut.startswith(f"{topic}/0, offset 2, value: it does not fit schema ")
    assert cut.endswith("it is cut: 3 bytes are expected at byte 11 of 13; it is printed as it is")
    result = run("consume", topic, "-e", "-s", "value=avro", code=1)
    assert f"{topic}/0, offset 0, value: the schema registry" in result.stderr
    send(served, topic, b"plain")
    result = run("consume", topic, "-o", 3, "-e", "-s", "avro", code=1)
    assert "offset 3, value: it has no schema" in result.stderr
    send(served, topic, content)
    result = run("consume", topic, "-o", 4, "-e", "-s", "protobuf", code=1)
    assert "is of Avro, and -s has protobuf" in result.stderr


def test_notes_of_undecodable_contents_are_bounded(run: Command, served: Broker, topic: str) -> None:
    for schema_id in range(1_000, 1_110):
        send(served, topic, b"\0" + schema_id.to_bytes(4, "big"))
    notes = run("consume", topic, "-e", "-f", "%S ").stderr.splitlines()
    assert ["; other reasons are not printed" in note for note in notes] == [False] * 100 + [True]


def test_guids_in_headers_reach_the_registry(run: Command, served: Broker, topic: str) -> None:
    """The test registry has no GUIDs, so the error is what shows that it is asked."""
    context = SerializationContext(topic, MessageField.VALUE, [])
    guid = "89791762-2336-4186-9674-299b90a802e2"
    payload = header_schema_id_serializer(b"x", context, SchemaId("AVRO", 1, guid))
    producer = Producer({"bootstrap.servers": served.bootstrap})
    producer.produce(topic, payload, headers=context.headers)
    assert producer.flush(120) == 0
    result = run("consume", topic, "-e", "-s", "value=avro", code=1)
    assert guid in result.stderr


def test_wrong_use(run: Command, served: Broker, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    send(served, topic, avro(served, topic))
    result = run("consume", topic, "-s", "value=avor", code=1)
    assert "'value=avor' is not accepted; expected [key=|value=] and avro, json" in result.stderr
    result = run("consume", topic, "-e", "-r", "http://127.0.0.1:1", code=1)
    assert "the schema registry at http://127.0.0.1:1 is not reached: Connection refused" in result.stderr
    result = run("consume", topic, "-e", "-r", f"http://{served.bootstrap}", code=1)
    assert "is not reached" in result.stderr
    monkeypatch.delenv("PYLOGBROKER_SCHEMA_REGISTRY")
    for command in (["consume", topic, "-s", "avro"], ["produce", topic, "--value-schema", "1"]):
        result = run(*command, code=1)
        assert "needs a schema registry: name it by --schema-registry URL, PYLOGBROKER_SCHEMA_REGISTRY" in result.stderr
    assert "need --value-schema or --key-schema" in run("produce", topic, "--register", code=2).stderr


def test_produce_by_file_id_and_latest(run: Command, served: Broker, topic: str, avsc: Path) -> None:
    result = run("produce", topic, "--value-schema", avsc, code=1, given=PAID_TEXT)
    assert f"has no such schema in subject {topic}-value: register it by --register" in result.stderr
    run("produce", topic, "--value-schema", avsc, "--register", given=PAID_TEXT)
    client = SchemaRegistryClient({"url": served.schema_registry.url})
    schema_id = client.get_latest_version(f"{topic}-value").schema_id
    for schema in (schema_id, "latest", f"{topic}-value:1", f"{topic}-value:latest", avsc):
        run("produce", topic, "--value-schema", schema, given=PAID_TEXT)
    run("produce", topic, "--value-schema", "latest", "--json", given=f'{{"key": "k", "value": {PAID_TEXT}}}')
    run("produce", topic, "--value-schema", "latest", "-K", ":", "-Z", given="k:\n")
    assert values(served, topic, 8) == [PAID] * 7 + [None]


def test_printed_records_can_be_produced_again(run: Command, served: Broker, topic: str) -> None:
    send(served, topic, avro(served, topic), avro(served, topic, MessageField.KEY))
    printed = run("consume", topic, "-e", "-f", "json").stdout
    run("produce", topic, "--json", "--key-schema", "latest", "--value-schema", "latest", given=printed)
    again = run("consume", topic, "-o", 1, "-e", "-f", "json").stdout
    first, second = json.loads(printed), json.loads(again)
    assert (first["key"], first["value"]) == (second["key"], second["value"]) == (PAID, PAID)


def test_errors_name_line_field_and_reason(run: Command, served: Broker, topic: str, avsc: Path) -> None:
    given = f'{PAID_TEXT}\n{{"id": "x", "customer": "c"}}\n'
    result = run("produce", topic, "--value-schema", avsc, "--register", given=given, code=1)
    assert "line 2: the value does not fit schema " in result.stderr
    assert "field id: 'x' is given, expected long" in result.stderr
    assert values(served, topic, 1) == [PAID]


@pytest.mark.parametrize(("strategy", "subject"), [("record", "shop.Order"), ("topic-record", "{}-shop.Order")])
def test_subject_strategies(run: Command, served: Broker, topic: str, avsc: Path, strategy: str, subject: str) -> None:
    options = ["--value-schema", avsc, "--register", "--subject-strategy", strategy]
    run("produce", topic, *options, given=PAID_TEXT)
    client = SchemaRegistryClient({"url": served.schema_registry.url})
    assert subject.format(topic) in client.get_subjects()
    result = run("produce", topic, "--value-schema", "latest", "--subject-strategy", strategy, code=1)
    assert "give SUBJECT:latest, or a file" in result.stderr


def test_schemas_that_cannot_be_used(run: Command, topic: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken.avsc"
    broken.write_text("{")
    for schema, problem in (
        (tmp_path / "nothing.avsc", "No such file or directory; expected an id, latest, SUBJECT:VERSION, or a file"),
        ("newest", "expected an id, latest, SUBJECT:VERSION, or a file that ends with .avsc"),
        (broken, "this is no Avro schema"),
        ("999", "has no schema 999"),
        ("nothing-value:1", "has no version 1 of subject nothing-value"),
    ):
        assert problem in run("produce", topic, "--value-schema", schema, code=1).stderr
    result = run("produce", topic, "--value-schema", broken, "--schema-reference", "x", code=1)
    assert "'x' is not accepted; expected NAME=SUBJECT:VERSION" in result.stderr


def test_profiles_have_the_registry(
    run: Command, served: Broker, topic: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    send(served, topic, avro(served, topic))
    monkeypatch.delenv("PYLOGBROKER_SCHEMA_REGISTRY")
    url = f"schema.registry.url={served.schema_registry.url}"
    token = tmp_path / "token"
    token.write_text("secret\n")
    options = ["-b", served.bootstrap, "-X", url, "--secret-file", f"schema.registry.bearer.auth.token={token}"]
    run("profile", "create", "local", *options)
    assert run("consume", topic, "-e").stdout == f"{PAID_TEXT}\n"
    assert "secret" not in run("profile", "show", "local").stdout
    for setting, code, problem in (
        ("schema.registry.uri=http://a", 1, "schema.registry.uri is no setting: those of a registry are"),
        ("schema.registry.bearer.auth.token=secret", 2, "others would see this secret"),
    ):
        result = run("profile", "create", "other", "-b", served.bootstrap, "-X", setting, code=code)
        assert problem in result.stderr


def test_other_commands_import_no_schemas() -> None:
    program = (
        "import sys; from pylogbroker.cli import consume, produce\n"
        "sys.exit(any(name.startswith('pylogbroker.schemas') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=600).returncode == 0


def test_a_missing_extra_is_named_in_one_line(run: Command, served: Broker, topic: str, tmp_path: Path) -> None:
    send(served, topic, avro(served, topic))
    program = "import sys; sys.modules['fastavro'] = None\nfrom pylogbroker.cli import main; main(sys.argv[1:])"
    arguments = ["consume", topic, "-e", "-b", served.bootstrap, "-r", served.schema_registry.url]
    result = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False, timeout=600
    )
    assert result.returncode == 1
    [line] = result.stderr.splitlines()
    assert "Avro by a schema registry needs fastavro, which is not installed (extra registry):" in line
