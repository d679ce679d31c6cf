"""The page with the records of a topic, as a browser without JavaScript sees it."""

from __future__ import annotations

import json

from pylogbroker.records import Codec, Record
from pylogbroker.web.topic_records.page import ROWS_MAX
from tests.web.test_pages import HOSTILE, Parsed
from tests.web.test_views import NOW
from tests.web.topic_records.page_tests import RecordsPageTests

TAGS_OF_SCRIPTS = ("img", "iframe", "object")


class TestList(RecordsPageTests):
    def test_records_of_all_partitions_by_time(self) -> None:
        self.fill(5)
        self.assertEqual(self.places(self.page()), ["0:2", "1:1", "0:1", "1:0", "0:0"])
        self.assertEqual(self.places(self.page(order="oldest")), ["0:0", "1:0", "0:1", "1:1", "0:2"])
        self.assertEqual(self.places(self.page(partition="1")), ["1:1", "1:0"])
        self.assertEqual(self.places(self.page(start="0:1")), ["0:1", "0:0"])
        self.assertEqual(self.places(self.page(where='value.customer == "c-1"')), ["1:0"])
        self.assertEqual(self.places(self.page(text="KEY-3")), ["1:1"])
        self.assertIn("1 match in 5 of 5 records: all were searched.", self.page(text="KEY-3").text)

    def test_rows_have_the_columns_that_are_chosen(self) -> None:
        self.fill(1)
        body = self.get(columns="place,value.amount,value.order,headers,size,partition", where="value.amount >= 0").body
        self.assertIn('<td class="part p3">0.50</td>', body)
        self.assertIn('<td class="part p3">9007199254740990</td>', body)
        self.assertIn('<td class="part p3">source: web</td>', body)
        self.assertNotIn("Time, UTC", body)
        marked = self.get(where='value.customer == "c-0"').body
        self.assertIn("…&#34;customer&#34;:&#34;<mark>c-0</mark>&#34;,", marked)

    def test_a_page_goes_on_where_it_ended(self) -> None:
        self.fill(2 * ROWS_MAX + 7)
        places: list[str] = []
        link = "/topics/orders/records"
        for expected in (ROWS_MAX, ROWS_MAX, 7):
            parsed = Parsed(self.connect().get(link).body)
            rows = self.places(parsed)
            self.assertEqual(len(rows), expected)
            places += rows
            link = next((link for link in parsed.links if "after=" in link and "&at=" not in link), "")
        self.assertEqual((len(set(places)), link), (2 * ROWS_MAX + 7, ""))

    def test_wrong_fields_say_what_to_write(self) -> None:
        self.fill(1)
        for fields, expected in (
            ({"where": 'value.customer = "c-3"'}, "not understood at character 16: there is =. To compare, write ==."),
            ({"partition": "x"}, "x is no partition. Write numbers like 0,4-7."),
            ({"partition": "0-99999"}, "0-99999 are more than 64 partitions."),
            ({"partition": "7"}, "orders has no partition 7: it has 2, from 0 on."),
            ({"start": "noon"}, "noon is no start. Write an offset, 4:390865 for one of partition 4,"),
            (
                {"time": "range", "since": "25:00"},
                "25:00 is no time. Write a time like 2026-11-28T07:00, 09:30 or -2h.",
            ),
            ({"columns": "value.a b"}, "The column value.a b is not understood at character 9"),
            ({"columns": ",".join(f"value.a{n}" for n in range(20))}, "There are 20 columns: choose at most 12."),
            ({"after": "0:x"}, "The positions of this address are not understood."),
        ):
            parsed = self.page(**fields)
            self.assertIn(expected, parsed.text)
            self.assertEqual(self.places(parsed), [])
        self.assertIn('aria-invalid="true"', self.get(where="value.a = 1").body)
        self.get(code=404, topic="no-such-topic")
        self.get(code=400, order="random")
        self.get(code=400, offset="3")

    def test_start_points_and_times(self) -> None:
        self.fill(3)
        self.assertEqual(self.places(self.page(order="oldest", start="2023-11-14T22:13:20.001")), ["1:0", "0:1"])
        self.assertEqual(self.places(self.page(order="oldest", start="-1h")), ["0:0", "1:0", "0:1"])
        self.assertEqual(self.places(self.page(start="22:13")), [])
        self.assertEqual(self.places(self.page(time="hour")), ["0:1", "1:0", "0:0"])
        self.assertEqual(self.places(self.page(time="today", order="oldest")), ["0:0", "1:0", "0:1"])
        self.assertEqual(self.places(self.page(time="range", until="2023-11-14T22:13:20.001")), ["0:0"])

    def test_empty_lists_say_so(self) -> None:
        self.assertIn("No records yet", self.page().text)
        self.fill(1)
        self.assertIn("No matches", self.page(text="nothing").text)
        self.assertIn("Remove the condition", self.page(text="nothing").text)

    def test_hostile_contents_are_text(self) -> None:
        hostile = HOSTILE.encode()
        as_json = json.dumps({HOSTILE: [HOSTILE, {"a": HOSTILE}]}).encode()
        self.append(0, Record(0, NOW, hostile, hostile, ((HOSTILE, hostile),)), Record(1, NOW, hostile, as_json))
        for fields in (
            {"columns": "time,place,key,value,headers"},
            {"text": "script", "columns": f'place,value["{HOSTILE[:40]}"],value'},
            {"at": "0:0"},
            {"at": "0:1"},
            {"at": "0:1", "show": "hex"},
            {"where": HOSTILE},
            {"columns": HOSTILE},
        ):
            body = self.get(**fields).body
            parsed = Parsed(body)
            self.assertEqual([tag for tag in parsed.tags if tag in TAGS_OF_SCRIPTS], ["img"])  # the page's own icon
            self.assertEqual((parsed.scripts.strip(), parsed.handlers), ("", []))
            self.assertFalse(any(link.startswith("javascript:") for link in parsed.links))
        Parsed(self.get("/new", at="0:0").body)
        self.assertEqual(self.get("/new", at="0:0").body.count("<img"), 1)


class TestOpenedRecord(RecordsPageTests):
    def opened(self, **fields: str) -> str:
        whole = Parsed(self.get(**fields).body).text
        part = Parsed(self.get("/opened", **fields).body).text
        self.assertIn(part.strip(), whole)
        return part

    def test_json_is_shown_as_it_was_written(self) -> None:
        value = b'{"big": 9007199254740993, "a": 1e400, "a": -0.0, "list": [1, {"x": "\\u0041"}], "none": {}}'
        self.append(0, Record(0, NOW, b"k", value, (("h", b"v"), ("n", None))), codec=Codec.ZSTD)
        text = " ".join(self.opened(at="0:0").split())
        for expected in (
            "big: 9007199254740993",
            "a: 1e400",
            "a: -0.0",
            'x: "\\u0041"',
            "none: { }",
            "zstd",
            "hvnnull",
        ):
            self.assertIn(expected, text)
        self.assertIn("2023-11-14 22:13:20.000 UTC by the clock of the producer", text)
        self.assertIn("key 1 B, value 90 B", text)
        self.assertIn(value.decode(), self.opened(at="0:0", show="text"))
        self.assertIn("000000  7b 22 62 69 67", self.opened(at="0:0", show="hex"))
        self.assertIn('data-path="value.list[1].x" data-value="&#34;\\u0041&#34;"', self.get(at="0:0").body)

    def test_long_values_are_cut(self) -> None:
        value = b'{"a":"' + b"x" * 100_000 + b'"}'
        self.append(0, Record(0, NOW, None, value), Record(1, NOW, None, b"\xff\x00"), Record(2, NOW, b"", None))
        self.assertIn("Cut, 100,008 B in all.", self.opened(at="0:0"))
        self.assertIn("It is too long for a form", self.opened(at="0:0"))
        self.assertIn("Write again", self.opened(at="0:1"))
        self.assertIn("null", self.opened(at="0:2"))

    def test_records_that_are_not_there(self) -> None:
        self.fill(2)
        for at, expected in (
            ("0:5", "orders has no record 5 in partition 0: it has offsets 0 to 0."),
            ("9:0", "orders has no partition 9: it has 2, from 0 on."),
            ("x", "x names no record. Write partition and offset: 4:390865."),
        ):
            self.assertIn(expected, self.opened(at=at))

    def test_a_record_is_produced_again(self) -> None:
        self.append(1, Record(0, NOW, b"k", b'{"a":\n1}', (("h", b"v"),)), Record(1, NOW, None, None))
        body = self.get("/new", at="1:0").body
        self.assertIn('name="key" value="k"', body)
        self.assertIn(">\n{&#34;a&#34;:\n1}</textarea>", body)
        self.assertIn(">\nh: v</textarea>", body)
        self.assertIn('value="true" checked', self.get("/new", at="1:1").body)
