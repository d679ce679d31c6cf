"""Forms that write a record, create a topic and delete one: what was typed stays, errors stand at their fields."""

from __future__ import annotations

from base64 import b64encode
from html import unescape
from typing import Any

from pylogbroker.records import Record, build
from tests.web.test_changes import ChangeTests
from tests.web.test_pages import Parsed
from tests.web.test_views import NOW


class FormTests(ChangeTests):
    def expect_error(self, form: str, field: str, message: str, **fields: str) -> None:
        """Expect an error at a field, and all fields as they were typed."""
        answer = self.submit(form, **fields)
        self.assertEqual(answer.code, 409 if "exists" in message else 400, answer.body)
        tag = answer.body.partition(f'name="{field}"')[2].partition(">")[0]
        self.assertIn('aria-invalid="true"', tag)
        self.assertIn(message, Parsed(answer.body.partition('id="error"')[2].partition("</p>")[0]).text)
        for typed in fields.values():
            self.assertIn(typed, unescape(answer.body))


class TestWriting(FormTests):
    form = "topics/orders/records/new"

    def setUp(self) -> None:
        super().setUp()
        self.node.create("orders", partitions=2)

    def stored(self, partition: int = 0) -> Any:
        return self.record("orders", partition)

    def test_base64_gives_any_bytes(self) -> None:
        fields = {"key": "AAE=", "key_form": "base64", "value": "/wD+\n/Q==", "value_form": "base64"}
        answer = self.submit(self.form, partition="1", headers="h: /w==", headers_form="base64", **fields)
        self.assertEqual((answer.code, answer.headers["location"]), (303, "/topics/orders/records?at=1:0"))
        row = self.stored(1)
        texts = [row["key"]["text"], row["value"]["text"], row["headers"][0]["value"]["text"]]
        self.assertEqual(texts, ["0001", "ff00fefd", "ff"])

    def test_long_values(self) -> None:
        value = "v" * 20_000
        answer = self.submit(self.form, partition="0", value=value, headers=f"h: {value}")
        self.assertEqual(answer.code, 303)
        self.assertGreater(self.node.broker.partitions.find("orders", 0).log.size, 2 * len(value))

    def test_no_key_and_an_empty_key(self) -> None:
        self.submit(self.form, partition="0", value="v")
        self.assertEqual(self.stored()["key"]["format"], "null")
        self.submit(self.form, partition="0", value="v", empty_key="true")
        self.assertEqual((self.stored()["key"]["format"], self.stored()["key"]["text"]), ("text", ""))
        body = self.connect().get("/topics/orders/records/new?at=0:1").body
        self.assertIn('name="empty_key" value="true" checked', body)
        self.assertNotIn("checked", self.connect().get("/topics/orders/records/new?at=0:0").body)
        self.expect_error(self.form, "key", "A key that is written here is not empty", key="k", empty_key="true")

    def test_a_header_that_the_form_would_change_is_not_filled_in(self) -> None:
        partition = self.node.broker.partitions.find("orders", 0)
        for offset, (name, value) in enumerate(
            (
                (" a", b""),
                ("a\r", b""),
                ("\udcff", b""),
                ("a\u00a0", b""),
                ("a:b", b""),
                ("a", b"v\xc2\xa0"),
                ("a", b"\r\n"),
            )
        ):
            partition.append(build([Record(0, NOW, None, b"v", ((name, value),))]), NOW)
            body = self.connect().get(f"/topics/orders/records/new?at=0:{offset}").body
            if name == "a":
                self.assertIn(f"a: {b64encode(value).decode()}</textarea>", body)
            else:
                self.assertIn("has headers that no form can hold", body)

    def test_tombstones(self) -> None:
        self.submit(self.form, partition="0", key="k", value="ignored", tombstone="true")
        self.assertEqual(self.stored()["value"]["format"], "null")

    def test_errors(self) -> None:
        self.expect_error(self.form, "key", "This is not base64", key="%%", key_form="base64", value="kept")
        self.expect_error(self.form, "value", "This is not base64", value="abc", value_form="base64")
        self.expect_error(self.form, "headers", "Line 2 has no colon.", headers="a: b\nno colon", value="v")
        for number in ("x", "-1", "9" * 5000):
            self.expect_error(self.form, "partition", f"{number} is no partition.", partition=number)
        answer = self.submit(self.form, partition="9", value="kept")
        self.assertEqual(answer.code, 404)
        self.assertIn("orders has no partition 9.", Parsed(answer.body).text)
        self.assertIn("kept", answer.body)

    def test_a_record_of_bytes_is_written_again_as_it_was(self) -> None:
        contents = Record(0, NOW, b"\x00key", b"\xff\x00", (("h", b"\xfe"), ("i", b"text")))
        self.node.broker.partitions.find("orders", 0).append(build([contents]), NOW)
        page = Parsed(self.connect().get("/topics/orders/records?at=0:0").body)
        [link] = [link for link in page.links if "/new" in link and "at=" in link]
        body = self.connect().get(link).body
        self.assertIn(f'name="key" value="{b64encode(contents.key or b"").decode()}"', body)
        self.assertEqual(body.count("<option selected>base64</option>"), 3)
        fields = {"key": "AGtleQ==", "value": "/wA=", "headers": "h: /g==\ni: dGV4dA=="}
        self.submit(self.form, partition="1", **fields, **{f"{name}_form": "base64" for name in fields})
        rows = self.stored(0), self.stored(1)
        self.assertEqual(*({name: row[name] for name in ("key", "value", "headers")} for row in rows))


class TestCreation(FormTests):
    def test_units_and_own_fields_of_settings(self) -> None:
        answer = self.submit(
            "create-topic", name="orders", retention="2d", policy="compact,delete", settings="segment.bytes = 64MiB\n"
        )
        self.assertEqual((answer.code, answer.headers["location"]), (303, "/topics/orders/records"))
        expected = {"retention.ms": "172800000", "cleanup.policy": "compact,delete", "segment.bytes": "67108864"}
        self.assertEqual(dict(self.node.broker.metadata.topic_settings("orders")), expected)

    def test_errors(self) -> None:
        self.node.create("orders")
        for field, message, fields in (
            ("name", "already exists", {"name": "orders"}),
            ("name", "'or ders' has characters other than", {"name": "or ders"}),
            ("name", "Write the name of the topic.", {"name": " "}),
            ("partitions", "Write a number from 1 to", {"name": "new", "partitions": "none"}),
            ("partitions", "Write a number from 1 to", {"name": "new", "partitions": "9" * 5000}),
            ("replication_factor", "Write a number from 1 to 32,767", {"name": "new", "replication_factor": "0"}),
            ("replication_factor", "3", {"name": "new", "replication_factor": "3"}),
            ("retention", "'soon' is not accepted", {"name": "new", "retention": "soon"}),
            ("settings", "Line 2 has no equals sign.", {"name": "new", "settings": "segment.ms=1d\nx"}),
            ("settings", "there is no such topic setting", {"name": "new", "settings": "no.such=1"}),
            ("settings", "there is no such topic setting", {"name": "new", "settings": "no.such.ms=soon"}),
            ("settings", "is not accepted", {"name": "new", "settings": f"flush.ms={'9' * 5000}"}),
            (
                "settings",
                "retention.ms is given twice",
                {"name": "new", "retention": "1d", "settings": "retention.ms=1"},
            ),
        ):
            self.expect_error("create-topic", field, message, **fields)


class TestDeletion(FormTests):
    def test_a_deletion_says_what_is_lost_and_asks_for_the_name(self) -> None:
        self.node.create("orders", partitions=2)
        self.node.produce("orders", 0, *[NOW] * 3)
        text = " ".join(Parsed(self.connect().get("/topics/orders/delete").body).text.split())
        self.assertIn("3 records with", text)
        self.assertIn("No group reads it.", text)
        self.commit("readers", "orders", 0)
        text = " ".join(Parsed(self.connect().get("/topics/orders/delete").body).text.split())
        self.assertIn("1 group with 0 members reads it: readers. Their offsets here are lost, too.", text)
        self.expect_error("topics/orders/delete", "confirm", "Write orders to delete it", confirm="order")
        self.assertEqual(self.submit("topics/orders/delete", confirm="orders").headers["location"], "/topics")
        self.ask("topic?name=orders", 404)
