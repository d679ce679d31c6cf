"""Pages of the registry: subjects, versions and what has changed, levels, rights, and links to and from topics."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, urlencode

from pylogbroker.schemas.errors import RegistryUnavailable
from pylogbroker.schemas.registry_client import Answer as RegistryAnswer
from pylogbroker.schemas.registry_client import RegistryClient
from pylogbroker.schemas.values import JSON, PROTOBUF, Schema
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.hosted_registry import RegistrySender
from pylogbroker.web.remote_registry import ROWS_SECONDS
from pylogbroker.web.schema_pages.differences import LINES_MAX, SHOWN_CHARACTERS_MAX, difference, shown_text
from pylogbroker.web.schema_store import SchemaSource, SchemaStore
from tests.broker.trees import now
from tests.web.hosted_registry import LONGER, OBJECT, ORDER, HostedRegistryTests
from tests.web.test_changes import FORM, ChangeTests
from tests.web.test_pages import HOSTILE, PageTests
from tests.web.test_site import Answer
from tests.web.test_visitors import AnonymousTests

UNION = '["shop.Order", "null"]'


class SchemaPageTests(HostedRegistryTests, PageTests, ChangeTests):
    def send_level(self, path: str, level: str) -> Answer:
        """Submit the form of a page that sets a level."""
        body = urlencode({"level": level, "form_token": self.token()}).encode()
        return self.post(path, body, FORM)


class TestSubjects(SchemaPageTests):
    def test_rows_and_their_topics(self) -> None:
        self.node.create("orders")
        self.register("orders-value", ORDER)
        self.register("orders-value", LONGER)
        self.register("shop.Customer", OBJECT, "JSON")
        self.register(":.staging:orders-key", '"string"')
        self.ask_registry("PUT /config/orders-value", {"compatibility": "FULL"})
        self.ask_registry("PUT /mode/shop.Customer", {"mode": "READONLY"})
        page = self.show("/schemas")
        rows = [[" ".join(cell.split()) for cell in row] for row in page.rows]
        names = (":.staging:orders-key", "orders-value", "shop.Customer")
        self.assertTrue(all(row[0].startswith(name) for row, name in zip(rows, names, strict=True)), rows)
        self.assertEqual(
            [row[1:] for row in rows],
            [
                ["Avro", "v1", "1", "1", "BACKWARD", "orders"],
                ["Avro", "v2", "2", "2", "FULL", "orders"],
                ["JSON Schema", "v1", "1", "3", "BACKWARD", ""],
            ],
        )
        self.assertIn("readonly", rows[2][0])
        self.assertIn("/topics/orders/records", page.links)
        self.assertIn("/schemas", page.links)
        self.assertIn("3 of 3", page.text)
        self.assertIn("1 of 3", self.show("/schemas?search=Customer").text)
        self.assertIn("No subject fits", self.show("/schemas?search=zz").text)

    def test_pages_of_many_subjects(self) -> None:
        for number in range(201):
            self.register(f"s-{number:03}", f'{{"type": "fixed", "name": "f{number}", "size": 1}}')
        page = self.show("/schemas?page=2")
        self.assertEqual(len(page.rows), 1)
        self.assertIn("201 to 201 of 201", page.text)

    def test_no_subjects(self) -> None:
        self.assertIn("No schemas yet", self.show("/schemas").text)

    def test_the_level_of_all_others(self) -> None:
        self.register("s", ORDER)
        answer = self.send_level("/schemas", "FULL_TRANSITIVE")
        self.assertEqual((answer.code, answer.headers["location"]), (303, "/schemas"))
        self.assertEqual(self.ask_registry("GET /config"), {"compatibilityLevel": "FULL_TRANSITIVE"})
        self.assertIn("FULL_TRANSITIVE", " ".join(self.show("/schemas").rows[0]))
        wrong = self.send_level("/schemas", "SOME")
        self.assertEqual((wrong.code, "a level is NONE, BACKWARD" in wrong.body), (400, True))


class TestSubject(SchemaPageTests):
    def test_a_version_with_references_and_referrers(self) -> None:
        self.node.create("orders")
        self.register("order", ORDER)
        references = [{"name": "shop.Order", "subject": "order", "version": 1}]
        self.register("orders-value", UNION, references=references)
        page = self.show("/schemas/orders-value")
        for text in ("v1", "Refers to", "shop.Order", "CompatibilityBACKWARD the default", "Records of orders"):
            self.assertIn(text, " ".join(page.text.split()))
        self.assertIn("/schemas/order?version=1", page.links)
        referred = self.show("/schemas/order")
        self.assertIn("Referred to by", referred.text)
        self.assertIn("/schemas/orders-value?version=1", referred.links)
        self.assertNotIn("Records of", referred.text)

    def test_versions_and_what_has_changed(self) -> None:
        self.register("s", ORDER)
        self.register("s", LONGER)
        page = self.show("/schemas/s")
        self.assertIn("/schemas/s?against=1&version=2", page.links)
        self.assertIn("/schemas/s?version=1", page.links)
        self.assertIn('"note"', page.text)
        self.assertNotIn('"note"', self.show("/schemas/s?version=1").text)
        changed = self.show("/schemas/s?version=2&against=1")
        self.assertIn("What has changed since v1", changed.text)
        added = [row[1].strip() for row in changed.rows if row[0].startswith("added")]
        self.assertEqual(added, ["},", "{", '"name": "note",', '"type": "string",', '"default": ""'])
        backwards = self.show("/schemas/s?version=1&against=2")
        self.assertEqual([row[1].strip() for row in backwards.rows if row[0].startswith("removed")], added)

    def test_metadata_and_rules(self) -> None:
        rule = {"name": "big", "type": "CEL", "mode": "WRITE", "kind": "CONDITION", "expr": "message.id > 0"}
        contract = {"metadata": {"properties": {"owner": HOSTILE}}, "ruleSet": {"domainRules": [rule]}}
        self.register("s", ORDER, **contract)
        page = self.show("/schemas/s")
        self.assertIn("message.id > 0", page.text)
        self.assertIn("alert", page.text)

    def test_names_with_any_characters(self) -> None:
        name = "a/b é<b>&"
        self.register(quote(name, safe=""), ORDER)
        [row] = self.show("/schemas").rows
        self.assertIn(name, row[0])
        self.assertIn(name, self.show(f"/schemas/{quote(name, safe='')}").text)
        answer = self.send_level(f"/schemas/{quote(name, safe='')}", "NONE")
        self.assertEqual(answer.headers["location"], f"/schemas/{quote(name, safe='')}")

    def test_the_level_of_a_subject_and_its_default(self) -> None:
        self.register("s", ORDER)
        self.send_level("/schemas/s", "NONE")
        self.assertEqual(self.ask_registry("GET /config/s"), {"compatibilityLevel": "NONE"})
        self.ask_registry("PUT /config", {"compatibility": "FORWARD"})
        self.assertIn("FORWARD, the default", self.show("/schemas/s").text)
        for _ in range(2):
            self.assertEqual(self.send_level("/schemas/s", "").code, 303)
        self.assertEqual(self.ask_registry("GET /config/s?defaultToGlobal=true"), {"compatibilityLevel": "FORWARD"})

    def test_missing_subjects_and_versions(self) -> None:
        self.register("s", ORDER)
        for path in ("/schemas/missing", "/schemas/s?version=9", "/schemas/s?against=9"):
            self.assertIn("not found", self.show(path, 404).text)
        self.source.schemas._own.clear()
        self.source.schemas._made.clear()
        self.assertIn("schema.registry.listeners", self.show("/schemas", 404).text)
        self.assertNotIn("/schemas", self.show("/topics").links)

    def test_a_read_only_subject_keeps_its_level(self) -> None:
        self.register("s", ORDER)
        self.ask_registry("PUT /mode/s", {"mode": "READONLY"})
        answer = self.send_level("/schemas/s", "NONE")
        self.assertEqual((answer.code, "read-only mode" in answer.body), (400, True), answer.body)


class RemoteRegistryTests(SchemaPageTests):
    """The one that `schema.registry.url` names: here that of the node, asked as a registry elsewhere is."""

    def setUp(self) -> None:
        super().setUp()
        self.name_registry(RegistryClient(self.exchange, "http://r:8081"))

    def name_registry(self, client: RegistryClient | None, reason: str = "") -> None:
        services: Any = self.node.broker
        self.source.schemas = SchemaSource({services.config: SchemaStore(services.runtime, client, reason)})

    async def exchange(self, method: str, path: str, content: bytes | None) -> RegistryAnswer:
        where, _, query = path.partition("?")
        return now(self.registry.ask_for(RegistrySender("User:broker"), method, f"{where}?{query}", content))


class TestAnotherRegistry(RemoteRegistryTests):
    def test_subjects_are_listed(self) -> None:
        self.node.create("orders")
        self.register("orders-value", ORDER)
        self.register("orders-value", LONGER)
        self.register(":.staging:order", OBJECT, "JSON")
        page = self.show("/schemas")
        self.assertEqual(
            [[" ".join(cell.split()) for cell in row[1:]] for row in page.rows],
            [["JSON Schema", "v1", "", "1", "", ""], ["Avro", "v2", "", "2", "", "orders"]],
        )
        for text in ("Of the registry at http://r:8081", "2 of 2", "pylogbroker schema config -r http://r:8081"):
            self.assertIn(text, " ".join(page.text.split()))
        self.assertIn("1 of 2", self.show("/schemas?search=orders").text)
        self.assertIn("/schemas", self.show("/topics").links)

    def test_a_subject_with_its_versions(self) -> None:
        self.register("orders-value", ORDER)
        self.register("orders-value", LONGER)
        references = [{"name": "shop.Order", "subject": "orders-value", "version": 1}]
        self.register("union", UNION, references=references)
        self.ask_registry("PUT /config/orders-value", {"compatibility": "FULL"})
        self.ask_registry("PUT /mode/union", {"mode": "READONLY"})
        page = self.show("/schemas/orders-value?version=1")
        for text in ("CompatibilityFULL", "Referred to by", "config orders-value -r http://r:8081"):
            self.assertIn(text, " ".join(page.text.split()))
        self.assertIn("/schemas/union?version=1", page.links)
        self.assertIn("note", self.show("/schemas/orders-value?version=2&against=1").text)
        union = self.show("/schemas/union")
        self.assertIn("BACKWARD the default", " ".join(union.text.split()))
        self.assertIn("readonly", union.text)
        self.assertIn("no subject missing", self.show("/schemas/missing", 404).text)
        answer = self.send_level("/schemas/union", "NONE")
        self.assertEqual((answer.code, "are not set here" in answer.body), (400, True), answer.body)

    def test_rows_have_a_bounded_time(self) -> None:
        for name in "abc":
            self.register(name, ORDER)
        clock = self.node.clock

        async def slow(method: str, path: str, content: bytes | None) -> RegistryAnswer:
            clock.rightNow += ROWS_SECONDS / 2
            return await self.exchange(method, path, content)

        self.name_registry(RegistryClient(slow, "http://r:8081"))
        rows = self.show("/schemas").rows
        self.assertEqual([row[2].strip() for row in rows], ["v1", "v1", ""])

    def test_errors_are_named(self) -> None:
        async def away(method: str, path: str, content: bytes | None) -> RegistryAnswer:
            raise RegistryUnavailable("the schema registry at http://r:8081 is not reached: Connection refused")

        async def wrong(method: str, path: str, content: bytes | None) -> RegistryAnswer:
            return RegistryAnswer(200, b"[7]")

        for client, reason, status, text in (
            (RegistryClient(away, "http://r:8081"), "", 503, "is not reached: Connection refused"),
            (RegistryClient(wrong, "http://r:8081"), "", 503, "is not understood"),
            (None, "the file ca.pem is missing", 404, "the file ca.pem is missing"),
        ):
            self.name_registry(client, reason)
            self.assertIn(text, self.show("/schemas", status).text)


class TestRightsInAnotherRegistry(AnonymousTests, RemoteRegistryTests):
    settings: Any = {**AnonymousTests.settings, **PageTests.settings}

    def test_subjects_of_other_topics_are_not_shown(self) -> None:
        for name in ("orders", "payments"):
            self.node.create(name)
            self.register(f"{name}-value", ORDER)
        self.allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, "orders")
        self.assertEqual([row[0][:12] for row in self.show("/schemas").rows], ["orders-value"])
        self.assertIn("payments", self.show("/schemas/payments-value", 403).text)


class TestLinks(SchemaPageTests):
    def test_topics_name_their_schemas(self) -> None:
        self.node.create("orders")
        self.node.create("clicks")
        self.register("orders-value", ORDER)
        self.register("orders-value", LONGER)
        self.register("orders-key", '"string"')
        page = self.show("/topics/orders/settings")
        self.assertIn("/schemas/orders-value", page.links)
        self.assertIn("key v1 value v2", " ".join(page.text.split()))
        self.assertNotIn("Schemas key", " ".join(self.show("/topics/clicks/settings").text.split()))

    def test_subjects_are_found_by_name(self) -> None:
        self.register("orders-value", ORDER)
        self.assertIn("/schemas/orders-value", self.show("/go?to=orders").links)

    def test_a_registry_that_fails_does_not_hide_the_topic(self) -> None:
        self.node.create("orders")
        self.register("orders-value", ORDER)
        self.node.broker.partitions.find("_schemas", 0).log.close()
        self.registry.registry._next_offset += 1
        self.assertIn("orders", self.show("/topics/orders/settings").text)


class TestRights(AnonymousTests, SchemaPageTests):
    settings: Any = {**AnonymousTests.settings, **PageTests.settings}

    def setUp(self) -> None:
        super().setUp()
        for name in ("orders", "payments"):
            self.node.create(name)
            self.register(f"{name}-value", ORDER)
        self.allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, "orders")

    def test_subjects_of_other_topics_are_not_shown(self) -> None:
        page = self.show("/schemas")
        self.assertEqual([row[0][:12] for row in page.rows], ["orders-value"])
        self.assertIn("needs ALTER_CONFIGS on the cluster", page.text)
        self.assertIn("payments", self.show("/schemas/payments-value", 403).text)
        self.assertNotIn("/schemas/payments-value", self.show("/go?to=value").links)

    def test_levels_need_the_right_to_change_settings(self) -> None:
        self.assertIn("needs ALTER_CONFIGS on the topic", self.show("/schemas/orders-value").text)
        for path in ("/schemas", "/schemas/orders-value"):
            self.assertEqual(self.send_level(path, "NONE").code, 403)
        self.allow(AclOperation.ALTER_CONFIGS, AclResourceType.TOPIC, "orders")
        self.assertEqual(self.send_level("/schemas/orders-value", "NONE").code, 303)
        self.assertEqual(self.ask_registry("GET /config/orders-value"), {"compatibilityLevel": "NONE"})


def test_texts_keep_their_numbers_and_protobuf_its_lines() -> None:
    assert shown_text(Schema('{"default":1.10}')) == '{\n  "default": 1.10\n}'
    assert shown_text(Schema("syntax = 'x';\n\n  a", PROTOBUF)) == "syntax = 'x';\n\n  a"
    deep = "[" * 3000 + "]" * 3000
    assert shown_text(Schema(deep, JSON)) == deep
    assert len(deep) < SHOWN_CHARACTERS_MAX


def test_differences_are_bounded_and_name_what_they_leave_out() -> None:
    before = [str(number) for number in range(100)]
    after = [*before[:50], "new", *before[51:]]
    lines = difference("\n".join(before), "\n".join(after))
    assert lines is not None
    assert [(line.mark, line.text) for line in lines if line.mark != "same"] == [
        ("gap", "46 equal lines"),
        ("removed", "50"),
        ("added", "new"),
        ("gap", "45 equal lines"),
    ]
    assert difference("a", "a") == []
    long = "x\n" * (LINES_MAX + 1)
    assert difference(long, "") is None
    assert json.loads(LONGER)["fields"][1]["name"] == "note"
