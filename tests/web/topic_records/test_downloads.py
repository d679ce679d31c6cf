"""Records of a search as a file, and the value of one record."""

from __future__ import annotations

import json

from pylogbroker.records import Codec, Record
from tests.web.test_views import NOW
from tests.web.topic_records.page_tests import RecordsPageTests


class TestDownloads(RecordsPageTests):
    def test_ndjson_has_values_as_they_were_written(self) -> None:
        value = b'{"a": 1.50,\n "big": 9007199254740993}'
        self.append(0, Record(0, NOW, b"k", value, (("h", b"v"), ("b", b"\xff"), ("n", None))), codec=Codec.LZ4)
        self.append(1, Record(0, NOW + 1, b"\xff", None), Record(1, NOW + 2, None, b'a "text"'))
        answer = self.get("/download", order="oldest")
        self.assertEqual(answer.headers["content-disposition"], 'attachment; filename="orders.ndjson"')
        lines = answer.body.splitlines()
        self.assertIn('"value":{"a": 1.50,  "big": 9007199254740993}', lines[0])
        rows = [json.loads(line) for line in lines]
        self.assertEqual(rows[0]["headers"], [["h", "v"], ["b", {"base64": "/w=="}], ["n", None]])
        self.assertEqual([row["key"] for row in rows], ["k", {"base64": "/w=="}, None])
        self.assertEqual([row["value"] for row in rows[1:]], [None, 'a "text"'])
        self.assertEqual([(row["partition"], row["offset"]) for row in rows], [(0, 0), (1, 0), (1, 1)])

    def test_csv_is_safe_for_spreadsheets(self) -> None:
        self.append(0, Record(0, NOW, b"=1+1", b'a,"b"\nc', (("h", b"v"),)))
        lines = self.get("/download", format="csv").body
        head, row = lines.split("\r\n", 1)
        self.assertEqual(head, "partition,offset,timestamp,key,value,headers")
        self.assertEqual(row, f'0,0,{NOW},\'=1+1,"a,""b""\nc",h: v\r\n')

    def test_a_file_has_the_records_of_the_search(self) -> None:
        self.fill(2500)
        lines = self.get("/download", where='value.customer == "c-3"').body.splitlines()
        self.assertEqual(len(lines), 625)
        self.get("/download", code=400, where="value.a = 1")
        self.get("/download", code=400, format="xml")

    def test_a_file_that_is_not_complete_says_so(self) -> None:
        self.fill(2)
        self.node.change_partition("orders", 1, leader=-1)
        *_, last = self.get("/download").body.splitlines()
        self.assertIn("Partition 1 has no leader now", json.loads(last)["incomplete"])

    def test_a_whole_value(self) -> None:
        value = b"x" * 100_000
        self.append(0, Record(0, NOW, None, value))
        answer = self.get("/value", at="0:0")
        self.assertEqual(answer.body, value.decode())
        self.assertEqual(answer.headers["content-disposition"], 'attachment; filename="orders-0-0"')
        self.get("/value", code=404, at="0:5")
        self.get("/value", code=400, at="x")
