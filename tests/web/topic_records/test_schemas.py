"""Records of a schema registry's serializers on the page: decoded, searched, and with a registry that is away."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any
from urllib.request import urlopen
from uuid import UUID

import attrs
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from pylogbroker.conditions import Subject
from pylogbroker.records import Codec, Record
from pylogbroker.schemas.codecs import codec_of
from pylogbroker.schemas.errors import RegistryUnavailable
from pylogbroker.schemas.framing import framed
from pylogbroker.schemas.registry_client import Answer, RegistryClient
from pylogbroker.schemas.values import Schema
from pylogbroker.testing import Broker
from pylogbroker.web.hosted_registry import RegistrySender, SubjectSummary
from pylogbroker.web.record_search import decoding
from pylogbroker.web.schema_store import ENTRIES_MAX, SchemaSource, SchemaStore
from tests.peers.processes import free_ports
from tests.support.waiting import wait_until
from tests.web.test_views import NOW
from tests.web.topic_records.page_tests import RecordsPageTests

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "customer", "type": "string"}],
    }
)
CODEC = codec_of(Schema(SCHEMA), {})


def order(number: int, schema_id: int = 17) -> bytes:
    return framed(schema_id, CODEC.encode(json.dumps({"id": 2**60 + number, "customer": f"c-{number % 4}"})))


@attrs.define
class FakeRegistry:
    """Has schema 17, which is version 3 of orders-value; `is_away` and `status` make it fail."""

    paths: list[str] = attrs.field(factory=list)
    is_away: bool = False
    status: int = 200
    schema: str = SCHEMA

    async def ask(self, method: str, path: str, content: bytes | None) -> Answer:
        return await self(method, path, content)

    async def ask_for(self, sender: RegistrySender, method: str, path: str, content: bytes | None) -> Answer:
        return await self(method, path, content)

    async def summaries(self, sender: RegistrySender, subjects: Sequence[str]) -> Sequence[SubjectSummary]:
        return []

    async def __call__(self, method: str, path: str, body: bytes | None) -> Answer:
        self.paths.append(path)
        if self.is_away:
            raise RegistryUnavailable("the schema registry at http://r is not reached: Connection refused")
        if self.status != 200:
            return Answer(self.status, b"")
        if path == "/schemas/ids/17":
            return Answer(200, json.dumps({"schema": self.schema}).encode())
        if path == "/schemas/ids/17/versions":
            versions = [{"subject": "copy-value", "version": 1}, {"subject": "orders-value", "version": 3}]
            return Answer(200, json.dumps(versions).encode())
        return Answer(404, b'{"error_code": 40403, "message": "Schema not found"}')


class SchemaTests(RecordsPageTests):
    def setUp(self) -> None:
        super().setUp()
        self.registry = FakeRegistry()
        services: Any = self.node.broker
        self.store = SchemaStore(services.runtime, RegistryClient(self.registry, "http://r"))
        self.source.schemas = SchemaSource({services.config: self.store})

    def fill(self, count: int) -> None:
        for number in range(count):
            self.append(number % 2, Record(0, NOW + number, b"key-%d" % number, order(number)))


class TestDecodedRecords(SchemaTests):
    def test_rows_conditions_and_columns(self) -> None:
        self.fill(8)
        self.assertIn('{"id": 1152921504606846983, "customer": "c-3"}', self.page().text)
        self.assertEqual(self.places(self.page(where='value.customer == "c-3"')), ["1:3", "1:1"])
        self.assertEqual(self.places(self.page(where="value.id == 1152921504606846983")), ["1:3"])
        self.assertEqual(self.places(self.page(text='"c-0"', order="oldest")), ["0:0", "0:2"])
        self.assertIn("1152921504606846983", self.get(columns="place,value.id,size").body)
        self.assertIn(f">{len(order(0)) + len(b'key-0')}<", self.get(columns="place,value.id,size").body)
        self.assertEqual(self.registry.paths, ["/schemas/ids/17", "/schemas/ids/17/versions"])

    def test_compressed_batches_with_plain_records_among_them(self) -> None:
        plain = Record(0, NOW, b"k", b'{"customer": "c-1"}')
        self.append(0, plain, Record(0, NOW, b"k", order(1)), Record(0, NOW, order(1), None), codec=Codec.GZIP)
        self.append(0, plain)
        self.assertEqual(self.places(self.page(where='value.customer == "c-1"')), ["0:3", "0:1", "0:0"])
        self.assertEqual(self.places(self.page(where='key.customer == "c-1"')), ["0:2"])

    def test_the_opened_record_has_tree_and_schema_and_its_bytes_by_choice(self) -> None:
        self.fill(2)
        opened = self.page(at="1:0").text
        self.assertIn("Avro, schema 17, orders-value v3", opened)
        self.assertIn("1152921504606846977", opened)
        for form in ("text", "hex"):
            self.assertNotIn("Avro, schema 17", self.page(at="1:0", show=form).text)
        self.assertIn("00 00 00 00 11", self.page(at="1:0", show="hex").text)

    def test_downloads_have_the_json(self) -> None:
        self.fill(1)
        [line] = self.get("/download", format="ndjson").body.splitlines()
        self.assertEqual(json.loads(line)["value"], {"id": 2**60, "customer": "c-0"})

    def test_unknown_schemas_and_content_that_does_not_fit(self) -> None:
        self.append(0, Record(0, NOW, None, order(1, schema_id=99)))
        self.append(0, Record(0, NOW, None, order(1)[:-1]))
        text = self.page().text
        self.assertIn("The schema registry at http://r has no schema 99: it was deleted, or another registry", text)
        self.assertIn("It does not fit its schema (Avro, schema 17, orders-value v3): it is cut", text)
        self.assertIn("has no schema 99", self.page(at="0:0").text)
        self.page()
        self.assertEqual(self.registry.paths.count("/schemas/ids/99"), 1)

    def test_not_all_unknown_schemas_are_asked_for_at_once(self) -> None:
        self.append(0, *(Record(0, NOW, None, order(1, schema_id=1000 + number)) for number in range(500)))
        text = self.page(order="oldest").text
        self.assertEqual(len(self.registry.paths), 50)
        self.assertIn("Schemas were not asked for beyond 50, the most of one search", text)

    def test_a_search_asks_for_no_more_schemas_in_later_batches(self) -> None:
        for batch in range(20):
            numbers = range(batch * 10, batch * 10 + 10)
            self.append(batch % 2, *(Record(0, NOW, None, order(1, schema_id=1000 + number)) for number in numbers))
        self.append(0, Record(0, NOW, None, order(1)))
        text = self.page(where='value.customer == "c-1"', order="oldest").text
        self.assertEqual(len(self.registry.paths), 50)
        self.assertIn("Schemas were not asked for beyond 50, the most of one search", text)

    def test_schemas_beyond_those_that_are_kept_are_not_noted(self) -> None:
        subjects: list[Subject] = []
        keys: dict[int | UUID, None] = {}
        records = (Subject(0, number, 0, None, framed(number, b"")) for number in range(3000))
        decoding._read(records, subjects, keys)
        self.assertEqual((len(subjects), list(keys)), (3000, list(range(ENTRIES_MAX))))


class TestOwnRegistry(SchemaTests):
    """Records are decoded by the registry of the broker itself, without settings."""

    def setUp(self) -> None:
        super().setUp()
        services: Any = self.node.broker
        self.source.schemas = SchemaSource()
        self.source.schemas.host(self.registry)
        self.assertIsNone(SchemaSource().store(services.config, services.runtime))

    def test_decoded_and_unknown_schemas(self) -> None:
        self.fill(2)
        self.append(0, Record(0, NOW, None, order(1, schema_id=99)))
        text = self.page().text
        self.assertIn('{"id": 1152921504606846977, "customer": "c-1"}', text)
        self.assertIn("The schema registry at this broker has no schema 99", text)
        self.assertIn("Avro, schema 17, orders-value v3", self.page(at="1:0").text)


class TestMuchJson(SchemaTests):
    """Values of a few bytes whose JSON is long."""

    def append_nulls(self, count: int, records: int) -> None:
        nulls = {"type": "array", "items": "null"}
        self.registry.schema = json.dumps(nulls)
        value = framed(17, codec_of(Schema(self.registry.schema), {}).encode(json.dumps([None] * count)))
        self.append(0, *(Record(0, NOW, None, value) for _ in range(records)))

    def test_a_value_with_too_much_json_is_shown_as_it_is(self) -> None:
        self.append_nulls(1_000_000, 1)
        problem = "its JSON would have more than 4,194,304 characters"
        self.assertIn(problem, self.page(at="0:0").text)
        self.assertIn(problem, self.page().text)

    def test_a_batch_with_too_much_json_is_decoded_in_part(self) -> None:
        self.patch(decoding, "_BATCH_CHARACTERS_MAX", 1000)
        self.append_nulls(50, 10)  # 300 characters each
        rows = self.page(where="value[0] == null", order="oldest")
        self.assertEqual(self.places(rows), ["0:0", "0:1", "0:2"])
        self.assertIn("its JSON would have more than ", rows.text)
        self.assertIn("The JSON of a batch is too long: the last of its records were searched as they are.", rows.text)


class TestRegistriesThatFail(SchemaTests):
    def test_a_registry_that_is_away_is_named_and_asked_again_later(self) -> None:
        self.fill(1)
        self.registry.is_away = True
        problem = (
            "The schema registry at http://r is not reached: Connection refused: keys and values are shown as they"
        )
        for _ in range(2):
            self.assertIn(problem, self.page(at="0:0").text)
        self.assertEqual(len(self.registry.paths), 1)
        self.registry.is_away = False
        self.node.clock.advance(11)
        self.assertIn("Avro, schema 17, orders-value v3", self.page(at="0:0").text)
        self.assertNotIn("is not reached", self.page().text)

    def test_wrong_credentials(self) -> None:
        self.fill(1)
        self.registry.status = 401
        self.assertIn("the credentials are wrong, or missing: see schema.registry.basic", self.page().text)


def test_a_broker_with_the_registry_of_another() -> None:
    [port] = free_ports(1)
    with Broker(schema_registry=True) as other:
        settings = {"http.listeners": f"http://127.0.0.1:{port}", "schema.registry.url": other.schema_registry.url}
        with Broker(settings=settings) as broker:
            broker.create_topic("orders", 1)
            client = SchemaRegistryClient({"url": other.schema_registry.url})
            value = AvroSerializer(client, SCHEMA)(
                {"id": 2**60, "customer": "c-3"}, SerializationContext("orders", MessageField.VALUE)
            )
            producer = Producer({"bootstrap.servers": broker.bootstrap})
            producer.produce("orders", value)
            assert producer.flush(120) == 0
            address = f"http://127.0.0.1:{port}/topics/orders/records?at=0:0"

            def text() -> str:
                with urlopen(address, timeout=60) as answer:
                    return re.sub(r"<[^>]+>", "", answer.read().decode())

            wait_until(lambda: "orders-value v1" in text())
            assert "1152921504606846976" in text()
