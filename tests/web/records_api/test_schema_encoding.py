"""Records that are encoded by schemas of the broker's own registry."""

from __future__ import annotations

import json
import struct
from base64 import b64decode, b64encode
from io import BytesIO
from typing import Any, Final

import fastavro
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

from pylogbroker.registry.guids import guid_of
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.records_api.schema_choices import ChosenSchema, choice_of, choice_of_parameter
from pylogbroker.web.router import BadRequest
from pylogbroker.web.schema_store import SchemaSource
from tests.broker.trees import now
from tests.web.hosted_registry import LONGER, OBJECT, ORDER, HostedRegistryTests
from tests.web.records_api.http_tests import NDJSON, PATH, request_of
from tests.web.records_api.test_confluent import ConfluentTests
from tests.web.test_request_bodies import chunk
from tests.web.test_visitors import AnonymousTests

PROTO: Final = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
BIG: Final = 2**53 + 1
"""A number that a float does not have."""
for _name in ("Order", "Other"):
    _field = PROTO.message_type.add(name=_name).field
    _field.add(name="id", number=1, type=FieldDescriptorProto.TYPE_INT64, label=FieldDescriptorProto.LABEL_OPTIONAL)
SERIALIZED: Final = b64encode(PROTO.SerializeToString()).decode()


class HostedTests(ConfluentTests, HostedRegistryTests):
    def contents(self, field: str = "value") -> list[bytes | None]:
        """Return the bytes of keys or values, as the log has them."""
        rows = self.read("format=base64")["records"]
        return [b64decode(row[f"{field}_base64"]) if f"{field}_base64" in row else None for row in rows]

    def write(self, record: Any, code: int = 200, **parameters: str) -> Any:
        query = "&".join(f"{name}={value}" for name, value in parameters.items())
        answer = self.post(record, f"{PATH}?{query}")
        self.assertEqual(answer.code, code, answer.body)
        return json.loads(answer.body)


def avro(schema_id: int, content: bytes | None, text: str = ORDER) -> Any:
    """Return the value of content that fastavro reads, which must name a schema."""
    assert content is not None
    assert struct.unpack(">bI", content[:5]) == (0, schema_id)
    return fastavro.schemaless_reader(BytesIO(content[5:]), json.loads(text), None)


class TestParameters(HostedTests):
    def test_each_name_of_a_schema(self) -> None:
        first, second = self.register("clicks-value", ORDER), self.register("clicks-value", LONGER)
        other = self.register("other", '"string"')
        for name, schema_id, value in (
            ("latest", second, {"id": BIG, "note": "n"}),
            (str(first), first, {"id": BIG}),
            ("clicks-value:1", first, {"id": BIG}),
            ("clicks-value:latest", second, {"id": BIG, "note": ""}),
            ("other:latest", other, "text"),
        ):
            self.write({"value": value, "partition": 0}, value_schema=name)
            text = {first: ORDER, second: LONGER, other: '"string"'}[schema_id]
            self.assertEqual(avro(schema_id, self.contents()[-1], text), value)

    def test_keys_nulls_and_bytes(self) -> None:
        schema_id = self.register("clicks-key", '"string"')
        rows = [{"key": "k", "partition": 0}, {"key_base64": "/w==", "partition": 0}]
        self.write({"records": rows}, key_schema="latest")
        self.assertEqual(avro(schema_id, self.contents("key")[0], '"string"'), "k")
        self.assertEqual((self.contents("key")[1], self.contents()), (b"\xff", [None, None]))

    def test_names_that_are_none(self) -> None:
        for name in ("", "orders-value", "latest:", "s:0", "s:x", "99999999999", "s:4294967296"):
            with self.assertRaises(BadRequest, msg=name):
                choice_of_parameter(name, "value_schema")
        error = self.write({"value": 1}, 400, value_schema="x")["error"]
        self.assertEqual(error, "value_schema must be an id such as 17, latest, SUBJECT:latest or SUBJECT:3")

    def test_values_that_do_not_fit(self) -> None:
        self.register("clicks-value", ORDER)
        error = self.write({"value": {"id": "x"}}, 400, value_schema="latest")["error"]
        label = "(Avro, schema 1, clicks-value v1)"
        self.assertEqual(error, f"the value does not fit its schema {label}: field id: 'x' is given, expected long")
        many = [{"value": {"id": 1}}, {"value": {"id": 1.5}}]
        error = self.write({"records": many}, 400, value_schema="latest")["error"]
        self.assertIn("record 2: the value does not fit", error)
        self.assertEqual(self.contents(), [])

    def test_schemas_that_are_not_there(self) -> None:
        for name, reason in (
            ("latest", "has no subject clicks-value"),
            ("17", "has no schema 17"),
            ("clicks-value:3", "has no version 3 of subject clicks-value"),
        ):
            error = self.write({"value": 1}, 422, value_schema=name)["error"]
            self.assertIn(reason, error)
        self.source.schemas = SchemaSource()
        error = self.write({"value": 1}, 422, value_schema="latest")["error"]
        self.assertIn("the value needs a schema, and this broker knows no schema registry: name one by", error)

    def test_schemas_of_contexts_have_ids_that_records_cannot_name(self) -> None:
        self.register("clicks-value", ORDER)
        self.register(":.staging:clicks-value", '"string"')
        self.register(":.staging:only", '"string"')
        text = {"type": "AVRO", "schema": '"int"'}
        for schema in (
            {"subject": ":.staging:clicks-value"},
            {"subject": "only"},
            {"subject": ":.staging:new", **text},
        ):
            error = self.write({"value": "x", "value_schema": schema}, 422)["error"]
            self.assertIn("is of a context, which records do not name", error)
        self.assertNotIn(":.staging:new", self.ask_registry("GET /subjects"))

    def test_an_id_that_has_another_schema_by_now(self) -> None:
        self.register("clicks-value", ORDER)
        self.write({"value": {"id": 1}, "partition": 0}, value_schema="latest")
        now(self.node.broker.controller.delete_topic("_schemas"))
        self.register("clicks-value", LONGER)
        self.node.clock.advance(2)
        self.write({"value": {"id": 1, "note": "n"}, "partition": 0}, value_schema="latest")
        self.assertEqual(avro(1, self.contents()[-1], LONGER), {"id": 1, "note": "n"})

    def test_lines_up_to_one_that_does_not_fit(self) -> None:
        self.register("clicks-value", ORDER)
        lines = [{"value": {"id": 1}}, {"value": {"id": "x"}}, {"value": {"id": 2}}]
        answer = json.loads(self.post_lines(*lines, path=f"{PATH}?value_schema=latest").body)
        self.assertEqual((answer["written"], answer["line"], answer["status"]), (1, 2, 400))
        self.assertIn("line 2: the value does not fit", answer["error"])
        self.assertEqual(len(self.contents()), 1)
        keyed = self.post_lines(*lines, path=f"{PATH}?value_schema=latest", Idempotency_Key="k")
        self.assertEqual((json.loads(keyed.body)["written"], len(self.contents())), (0, 1))

    def test_a_stream_gets_a_new_version_within_a_second(self) -> None:
        self.register("clicks-value", ORDER)
        connection = self.opened()
        line = b'{"value": {"id": 1}, "partition": 0}\n'
        path = f"{PATH}?value_schema=latest&answers=lines"
        connection.protocol.dataReceived(request_of("POST", path, line, NDJSON)[:-5])
        self.register("clicks-value", LONGER)
        for seconds, schema_id in ((0.5, 1), (1, 2)):
            self.node.clock.advance(seconds)
            connection.protocol.dataReceived(chunk(line))
            text = ORDER if schema_id == 1 else LONGER
            self.assertEqual(avro(schema_id, self.contents()[-1], text)["id"], 1)


class TestRoundTrip(HostedTests):
    def copied(self) -> tuple[list[Any], list[Any]]:
        """Write what is read again; return the bytes of the first and of the second records."""
        rows = self.read("format=schema")["records"]
        for row in rows:
            del row["offset"]
        before = list(zip(self.contents("key"), self.contents(), strict=True))
        self.write({"records": rows})
        after = list(zip(self.contents("key"), self.contents(), strict=True))
        return before, after[len(before) :]

    def test_each_type(self) -> None:
        self.register("a", ORDER)
        self.register("j", OBJECT, "JSON")
        self.register("p", SERIALIZED, "PROTOBUF")
        for schema in (
            {"subject": "a"},
            {"subject": "j", "version": 1},
            {"subject": "p"},
            {"subject": "p", "message": "shop.Other"},
        ):
            self.write({"partition": 0, "value": {"id": 7}, "value_schema": schema, "key": "plain"})
        before, after = self.copied()
        self.assertEqual(before, after)
        rows = self.read("format=schema")["records"]
        self.assertEqual(
            [row["value_schema"] for row in rows[:4]],
            [
                {"type": "AVRO", "id": 1, "subject": "a", "version": 1},
                {"type": "JSON", "id": 2, "subject": "j", "version": 1},
                {"type": "PROTOBUF", "id": 3, "subject": "p", "version": 1},
                {"type": "PROTOBUF", "id": 3, "subject": "p", "version": 1, "message": "shop.Other"},
            ],
        )
        self.assertEqual([content and content[5:7] for content in self.contents()[2:4]], [b"\x00\x08", b"\x02\x02"])

    def test_nulls_of_a_schema_tombstones_and_undecodable_content(self) -> None:
        self.register("clicks-value", '["null", "long"]')
        self.write({"partition": 0, "value": None, "value_schema": {"id": 1}})
        self.write({"partition": 0, "value_schema": {"id": 1}})
        self.write({"partition": 0, "value_base64": b64encode(b"\x00\x00\x00\x00\x63x").decode()})
        self.assertEqual(self.contents(), [b"\x00\x00\x00\x00\x01\x00", None, b"\x00\x00\x00\x00\x63x"])
        before, after = self.copied()
        self.assertEqual(before, after)

    def test_schemas_by_guid_become_prefixes(self) -> None:
        schema_id = self.register("clicks-value", ORDER)
        guid = guid_of(self.registry.registry.state.schema(schema_id))
        header = {"name": "__value_schema_id", "value_base64": b64encode(b"\x01" + guid.bytes).decode()}
        self.write({"partition": 0, "value_base64": "Dg==", "headers": [header, {"name": "n", "value": "v"}]})
        [row] = self.read("format=schema")["records"]
        self.assertEqual((row["value"], row["value_schema"]), ({"id": 7}, {"type": "AVRO", "guid": str(guid)}))
        del row["offset"]
        self.write(row)
        copy = self.read("format=schema")["records"][1]
        self.assertEqual((copy["value"], copy["value_schema"]["id"]), ({"id": 7}, schema_id))
        self.assertEqual([name["name"] for name in copy["headers"]], ["n"])
        self.assertEqual(avro(schema_id, self.contents()[1]), {"id": 7})

    def test_another_schema_of_the_same_id_is_noticed(self) -> None:
        self.register("other", '"string"')
        schema = {"type": "AVRO", "id": 1, "subject": "orders-value", "version": 3}
        error = self.write({"value": "x", "value_schema": schema}, 422)["error"]
        self.assertIn("schema 1 is not that of orders-value version 3: it is other version 1", error)
        error = self.write({"value": "x", "value_schema": {"type": "PROTOBUF", "id": 1}}, 400)["error"]
        self.assertIn("schema 1 is of type AVRO, not PROTOBUF", error)

    def test_members_that_are_wrong(self) -> None:
        for schema, reason in (
            (17, "must be an object"),
            ({"ids": 1}, "did you mean id?"),
            ({"id": 1.5}, "id must be a number from 0"),
            ({"id": 2**31}, "id must be a number from 0"),
            ({"version": 0}, "version must be a number from 1"),
            ({"subject": 1}, "subject must be a text"),
            ({"subject": "s" * 1001}, "more than 1000 characters"),
            ({"guid": "x"}, "no GUID"),
            ({"type": "XML"}, "type must be one of AVRO"),
            ({"schema": "{}"}, "type is missing"),
            ({"schema": "{}", "type": "AVRO", "id": 1}, "one of them says"),
        ):
            error = self.write({"value": 1, "value_schema": schema}, 400)["error"]
            self.assertIn(reason, error)
        error = self.write({"value_base64": "", "value_schema": {"id": 1}}, 400)["error"]
        self.assertIn("leave one out", error)
        self.assertEqual(choice_of({"version": "latest"}, "s"), ChosenSchema())

    def test_a_request_names_a_bounded_number_of_schemas(self) -> None:
        self.register("clicks-value", ORDER)
        rows = [{"value": {"id": 1}, "value_schema": {"id": 1, "subject": f"s-{number}"}} for number in range(101)]
        answer = json.loads(self.post_lines({"value": 0}, *rows).body)
        self.assertIn("it is clicks-value version 1", answer["error"])
        answer = self.post_lines(*({"value": 1, "value_schema": {"version": number}} for number in range(1, 200)))
        self.assertEqual(json.loads(answer.body)["line"], 1)


class TestConfluent(HostedTests):
    def test_each_name_of_a_schema(self) -> None:
        first, second = self.register("clicks-value", ORDER), self.register("clicks-value", LONGER)
        of_name = self.register("shop.Order", ORDER)
        self.assertEqual(of_name, first)
        for value, schema_id, subject, version in (
            ({"type": "AVRO", "schema": ORDER}, first, "clicks-value", 1),
            ({"schema_id": first}, first, "clicks-value", 1),
            ({"schema_version": 1}, first, "clicks-value", 1),
            ({}, second, "clicks-value", 2),
            ({"subject": "shop.Order"}, first, "shop.Order", 1),
            ({"subject_name_strategy": "RECORD_NAME", "schema_id": first}, first, "shop.Order", 1),
            ({"subject_name_strategy": "TOPIC_NAME"}, second, "clicks-value", 2),
            ({"subject": "shop.Order", "schema_version": 1}, first, "shop.Order", 1),
        ):
            [answer] = self.produce({"partition_id": 0, "value": {**value, "data": {"id": BIG}}})
            content = self.contents()[-1]
            expected = {"type": "AVRO", "subject": subject, "schema_id": schema_id, "schema_version": version}
            self.assertEqual(answer.get("value"), {**expected, "size": len(content or b"")}, answer)
            text = ORDER if schema_id == first else LONGER
            self.assertEqual(avro(schema_id, content, text)["id"], BIG)

    def test_texts_are_registered_once(self) -> None:
        for kind, text, data in (
            ("AVRO", '"string"', "k"),
            ("JSONSCHEMA", OBJECT, {"id": 1}),
            ("PROTOBUF", SERIALIZED, {"id": 1}),
        ):
            record = {"key": {"type": kind, "schema": text, "subject": kind, "data": data}}
            answers = self.produce(record, record)
            self.assertEqual([answer["key"]["schema_version"] for answer in answers], [1, 1])
            self.assertEqual(self.ask_registry(f"GET /subjects/{kind}/versions"), [1])
            self.assertEqual({answer["key"]["type"] for answer in answers}, {kind})
        strategy = {"subject_name_strategy": "TOPIC_RECORD_NAME"}
        [answer] = self.produce({"value": {"type": "AVRO", "schema": ORDER, **strategy, "data": {"id": 1}}})
        self.assertEqual(answer["value"]["subject"], "clicks-shop.Order")

    def test_nulls_are_tombstones_with_their_schema(self) -> None:
        schema_id = self.register("clicks-value", ORDER)
        [answer] = self.produce({"value": {"schema_id": schema_id, "data": None}})
        self.assertEqual((answer["value"]["size"], answer["value"]["schema_id"]), (0, schema_id))
        self.assertEqual(self.contents(), [None])

    def test_wrong_records_do_not_end_the_stream(self) -> None:
        self.register("clicks-value", ORDER)
        self.register("other", '"string"')
        good = {"value": {"data": {"id": 1}}}
        wrong = (
            ({"data": {"id": "x"}}, 400, "does not fit its schema"),
            ({"schema_id": 99, "data": 1}, 42207, "has no schema 99"),
            ({"schema_id": 2, "data": "x"}, 42207, "schema 2 is not that of clicks-value: it is other version 1"),
            ({"schema_version": 9, "data": 1}, 42207, "has no version 9"),
            ({"type": "PROTOBUF", "data": 1}, 400, "schema 1 is of type AVRO, not PROTOBUF"),
            ({"type": "AVRO", "schema": "{", "data": 1}, 42207, "cannot be written by its schema"),
            ({"type": "AVRO", "schema": '"int"', "data": 1}, 42207, "incompatible with an earlier schema"),
            ({"schema": ORDER, "data": 1}, 400, "value.type is missing"),
            ({"schema_id": 1, "schema_version": 1, "data": 1}, 400, "schema_id and schema_version"),
            ({"subject": "s", "subject_name_strategy": "TOPIC_NAME", "data": 1}, 400, "one of them says which"),
            ({"subject_name_strategy": "RECORD_NAME", "data": 1}, 400, "needs schema_id or schema"),
            ({"subject_name_strategy": "X", "data": 1}, 400, "must be one of TOPIC_NAME"),
            ({"type": "STRING", "schema_id": 1, "data": "x"}, 400, "has no schema: leave schema_id out"),
        )
        answers = self.produce(good, *({"value": value} for value, _, _ in wrong), good)
        self.assertEqual([answers[0]["error_code"], answers[-1]["error_code"]], [200, 200])
        for answer, (_, code, reason) in zip(answers[1:-1], wrong, strict=True):
            self.assertEqual((answer["error_code"], reason in answer["message"]), (code, True), answer)


class TestRights(AnonymousTests, HostedTests):
    """The visitor may write clicks; subjects of other topics are not the visitor's."""

    def setUp(self) -> None:
        super().setUp()
        self.register("payments-value", ORDER)
        for operation in (AclOperation.WRITE, AclOperation.READ):
            self.allow(operation, AclResourceType.TOPIC, "clicks")

    def test_schemas_of_other_topics_are_neither_read_nor_registered(self) -> None:
        [written] = self.produce({"value": {"type": "AVRO", "schema": LONGER, "data": {"id": 1}}})
        self.assertEqual(written["error_code"], 200, written)
        for value in (
            {"schema_id": 1},
            {"subject": "payments-value"},
            {"type": "AVRO", "schema": LONGER, "subject": "payments-value"},
        ):
            [answer] = self.produce({"value": {**value, "data": {"id": 1}}})
            self.assertEqual((answer["error_code"], "has no right" in answer["message"]), (40301, True), answer)
        self.assertEqual(self.ask_registry("GET /subjects/payments-value/versions"), [1])


class TestOtherRegistry(AnonymousTests, HostedTests):
    """Another registry gets the broker's credentials, so the broker checks who registers."""

    def test_texts_need_the_right_to_write_the_topic_of_the_subject(self) -> None:
        self.allow(AclOperation.WRITE, AclResourceType.TOPIC, "clicks")
        store = self.source.schemas.store(self.node.broker.config, self.node.broker.runtime)
        assert store is not None
        store.own = None
        for subject, code in (("payments-value", 40301), ("clicks-value", 503)):
            store.reason, store._asked_again_at = "it is away", float("inf")
            value = {"type": "AVRO", "schema": ORDER, "subject": subject, "data": {"id": 1}}
            self.assertEqual(self.produce({"value": value})[0]["error_code"], code)
