"""GET of records whose keys and values name a schema."""

from __future__ import annotations

import json
from typing import Any

from pylogbroker.records import Record, build
from pylogbroker.schemas.registry_client import RegistryClient
from pylogbroker.web.schema_store import SchemaSource, SchemaStore
from tests.web.records_api.http_tests import NDJSON, PATH
from tests.web.records_api.test_following import FollowingTests, events_of
from tests.web.test_views import NOW
from tests.web.topic_records.test_schemas import FakeRegistry, order

LABEL = "Avro, schema 17, clicks-value v3"
SCHEMA = {"type": "AVRO", "id": 17, "subject": "clicks-value", "version": 3}


class ClicksRegistry(FakeRegistry):
    """Has schema 17 as version 3 of clicks-value."""

    async def __call__(self, method: str, path: str, body: bytes | None) -> Any:
        answer = await super().__call__(method, path, body)
        return type(answer)(answer.status, answer.body.replace(b"orders-value", b"clicks-value"))


class TestDecoded(FollowingTests):
    def setUp(self) -> None:
        super().setUp()
        self.registry = ClicksRegistry()
        services: Any = self.node.broker
        store = SchemaStore(services.runtime, RegistryClient(self.registry, "http://r"))
        self.source.schemas = SchemaSource({services.config: store})

    def fill(self, *records: tuple[bytes | None, bytes | None]) -> None:
        batch = build([Record(number, NOW, key, value) for number, (key, value) in enumerate(records)])
        self.node.broker.partitions.find("clicks", 0).append(batch, NOW)

    def rows(self, query: str = "format=schema") -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.read(query)["records"]
        return [{name: row[name] for name in row if name.startswith(("key", "value"))} for row in rows]

    def test_keys_and_values_with_their_schema(self) -> None:
        self.fill((b"a", order(1)), (order(2), None), (b"b", b'{"n":1}'))
        third = {"id": 2**60 + 2, "customer": "c-2"}
        self.assertEqual(
            self.rows(),
            [
                {"key": "a", "value": {"id": 2**60 + 1, "customer": "c-1"}, "value_schema": SCHEMA},
                {"key": third, "key_schema": SCHEMA, "value": None},
                {"key": "b", "value": {"n": 1}},
            ],
        )
        self.assertEqual(self.registry.paths, ["/schemas/ids/17", "/schemas/ids/17/versions"])

    def test_only_when_it_is_asked_for(self) -> None:
        self.fill((None, order(1)))
        for query in ("", "format=auto", "format=base64"):
            [row] = self.rows(query)
            self.assertEqual([*row], ["key", "value_base64"])
        self.assertEqual(self.registry.paths, [])

    def test_lines(self) -> None:
        self.fill((None, order(1)))
        answer = self.request("GET", f"{PATH}?format=schema", accept=NDJSON)
        self.assertEqual(json.loads(answer.body.splitlines()[0])["value_schema"], SCHEMA)

    def test_followers_of_both_forms(self) -> None:
        self.fill((None, order(0)))
        [decoded, plain] = [self.follow(f"from=earliest&format={format}") for format in ("schema", "auto")]
        self.fill((None, order(1)))
        self.run_clock()
        values = [record.get("value") for event in events_of(decoded) for record in event["records"]]
        self.assertEqual([value["customer"] for value in values], ["c-0", "c-1"])
        members = [{*record} for event in events_of(plain) for record in event["records"]]
        self.assertEqual(["value_base64" in names for names in members], [True, True])

    def test_undecodable_content_stays_as_it_is_with_the_reason(self) -> None:
        self.fill((None, order(1, schema_id=99)), (None, order(1)[:-1]))
        unknown, cut = self.rows()
        self.assertIn("has no schema 99", unknown["value_problem"])
        self.assertIn(f"It does not fit its schema ({LABEL})", cut["value_problem"])
        self.assertEqual(["value" in row or "value_schema" in row for row in (unknown, cut)], [False, False])

    def test_a_registry_that_is_away(self) -> None:
        self.registry.is_away = True
        self.fill((None, order(1)))
        [row] = self.rows()
        self.assertIn("is not reached: Connection refused: keys and values are shown as they are", row["value_problem"])
        self.assertIn("value_base64", row)
        for _ in range(2):  # the second time, the registry is not asked again
            written = self.post({"value": {"id": 1}, "value_schema": {"id": 17}})
            self.assertEqual(written.code, 503)
            self.assertTrue(json.loads(written.body)["error"].endswith("is not reached: Connection refused"), written)

    def test_without_a_registry(self) -> None:
        self.source.schemas = SchemaSource({self.node.broker.config: None})
        error = self.read("format=schema", 400)["error"]
        self.assertIn("knows no schema registry: name one by schema.registry.url", error)
