"""Records as JSON: where they begin, what their contents look like, and how much is shown."""

from __future__ import annotations

from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure

from pylogbroker.records import Codec, Record, build
from pylogbroker.web.record_rows import SHOWN_BYTES_MAX, SHOWN_SUM_MAX
from pylogbroker.web.views import ANSWERS_MAX
from tests.web.test_views import HOSTILE, NOW, ViewTests


class TestRecords(ViewTests):
    def setUp(self) -> None:
        super().setUp()
        self.node.create("clicks")

    def append(self, *records: Record, codec: Codec = Codec.NONE) -> None:
        self.node.broker.partitions.find("clicks", 0).append(build(records, codec=codec), NOW)

    def offsets(self, query: str) -> list[int]:
        return [row["offset"] for row in self.ask(f"records?topic=clicks&{query}")["records"]]

    def test_contents(self) -> None:
        headers = (("trace", b"\x00\x01"), (HOSTILE, None))
        self.append(
            Record(0, NOW, b"key", b'{"a": [1]}', headers), Record(1, NOW, None, HOSTILE.encode()), codec=Codec.ZSTD
        )
        found = self.ask("records?topic=clicks&partition=0&offset=0")
        first, second = found["records"]
        self.assertEqual(first["key"], {"format": "text", "text": "key", "bytes": 3, "is_cut": False})
        self.assertEqual((first["value"]["format"], first["value"]["text"]), ("json", '{"a": [1]}'))
        self.assertEqual([each["name"] for each in first["headers"]], ["trace", HOSTILE])
        self.assertEqual([each["value"]["format"] for each in first["headers"]], ["hex", "null"])
        self.assertEqual(first["headers"][0]["value"]["text"], "0001")
        self.assertEqual((second["key"]["format"], second["value"]["text"]), ("null", HOSTILE))
        self.assertEqual((found["high_watermark"], found["next_offset"]), (2, 2))
        forced = self.ask("records?topic=clicks&offset=0&format=hex")["records"][0]
        self.assertEqual(forced["key"]["text"], b"key".hex())

    def test_formats(self) -> None:
        nested = b"[" * 600 + b"]" * 600
        values = [b"\xff\xff\xff\xfe", b"@\x09\x21\xfb\x54\x44\x2d\x18", b'{"a":[1]}', b"\x00\x01\x02", nested, b""]
        self.append(*(Record(n, NOW, None, value) for n, value in enumerate(values)))

        def texts(shape: str) -> list[tuple[str, str]]:
            rows = self.ask(f"records?topic=clicks&offset=0&format={shape}")["records"]
            return [(row["value"]["format"], row["value"]["text"]) for row in rows]

        self.assertEqual(texts("integer")[:2], [("integer", "-2"), ("integer", "4614256656552045848")])
        self.assertEqual(texts("integer")[2:4], [("hex", b'{"a":[1]}'.hex()), ("hex", "000102")])
        self.assertEqual(texts("float")[1], ("float", "3.141592653589793"))
        self.assertEqual(texts("json")[2], ("json", '{\n  "a": [\n    1\n  ]\n}'))
        self.assertEqual(texts("json")[4:], [("json", nested.decode()), ("text", "")])
        self.assertEqual(texts("json")[3], ("hex", "000102"))
        self.assertEqual(texts("hex")[0], ("hex", "fffffffe"))

    def test_json_is_shown_as_it_was_sent(self) -> None:
        precise = '{"amount": 12345678901234567890.12, "big": 1e400, "low": -0, "a": 1, "a": 2, "t": "\\u0041"}'
        values = [precise, "[" + "9" * 5000 + "]", '{"a": NaN}', "[-Infinity]"]
        self.append(*(Record(n, NOW, None, value.encode()) for n, value in enumerate(values)))
        rows = [row["value"] for row in self.ask("records?topic=clicks&offset=0&format=json")["records"]]
        self.assertEqual([row["format"] for row in rows], ["json", "json", "text", "text"])
        self.assertEqual(rows[0]["text"], precise.replace("{", "{\n  ").replace(", ", ",\n  ").replace("}", "\n}"))
        self.assertEqual(rows[1]["text"], f"[\n  {'9' * 5000}\n]")
        automatic = self.ask("records?topic=clicks&offset=0")["records"]
        self.assertEqual([row["value"]["text"] for row in automatic], values)

    def test_the_headers_of_one_record_are_bounded_together(self) -> None:
        """Indented JSON is longer than what was sent, and the reactor's thread writes the answer."""
        begin = b"[" + b"0," * (SHOWN_BYTES_MAX // 2 - 1) + b"0]"
        value = begin[: SHOWN_BYTES_MAX - 2] + b"]"
        headers = tuple((f"h{number}", value) for number in range(60))
        self.append(Record(0, NOW, value, value, headers))
        [row] = self.ask("records?topic=clicks&offset=0&format=json")["records"]
        texts = [each["value"]["text"] for each in row["headers"]]
        self.assertEqual(texts[0], row["value"]["text"])
        self.assertLessEqual(sum(map(len, texts)), SHOWN_SUM_MAX)
        self.assertEqual((row["headers"][-1]["value"]["is_cut"], row["header_count"]), (True, 60))

    def test_parameters_choose_the_first_record(self) -> None:
        for number in range(10):
            self.append(Record(0, NOW + number * 1000, None, b"%d" % number))
        self.assertEqual(self.offsets("offset=4&count=3"), [4, 5, 6])
        self.assertEqual(self.offsets("last=2"), [8, 9])
        self.assertEqual(self.offsets(f"time={NOW + 6500}"), [7, 8, 9])
        self.assertEqual(self.offsets("time=2023-11-14T22:13:28"), [8, 9])  # START is 22:13:20 of that day, in UTC
        self.assertEqual(self.offsets(f"time={NOW + 60_000}"), [])
        self.assertEqual(self.offsets("offset=99"), [])
        self.ask("records?topic=clicks&time=yesterday", 400)
        self.ask("records?topic=clicks&format=xml", 400)
        self.ask("records?topic=clicks&partition=9", 404)

    def test_search_in_key_value_and_headers(self) -> None:
        self.append(
            Record(0, NOW, b"NEEDLE", None),
            Record(1, NOW, None, b"hay"),
            Record(2, NOW, None, b"a needle"),
            Record(3, NOW, None, None, (("Needle", b""),)),
            Record(4, NOW, None, None, (("", b"needle"),)),
        )
        self.assertEqual(self.offsets("offset=0&search=needle"), [0, 2, 3, 4])
        self.assertEqual(self.offsets("offset=1&count=1&search=needle"), [2])
        self.assertEqual(self.ask("records?topic=clicks&offset=0&search=nowhere")["next_offset"], 5)

    def test_answers_are_bounded(self) -> None:
        begin = "x" * (SHOWN_BYTES_MAX - 1)
        value = f"{begin}é{begin}".encode()
        for _ in range(4):
            self.append(*(Record(n, NOW, None, value) for n in range(30)))
        found = self.ask("records?topic=clicks&offset=0&count=500")
        shown = found["records"][0]["value"]
        self.assertEqual((shown["is_cut"], shown["bytes"], shown["format"]), (True, len(value), "text"))
        self.assertEqual(shown["text"], begin)
        size = sum(len(row["value"]["text"]) for row in found["records"])
        self.assertLess(size, 2 * SHOWN_SUM_MAX)
        self.assertEqual(found["next_offset"], found["records"][-1]["offset"] + 1)
        self.assertLess(found["next_offset"], 120)
        self.assertEqual(len(self.offsets("offset=0&count=3")), 3)

    def test_deep_json_and_control_characters(self) -> None:
        self.append(Record(0, NOW, b"a\x1b[31m", b"[" * 10_000), Record(1, NOW, None, b"\xff"))
        first, second = self.ask("records?topic=clicks")["records"]
        self.assertEqual((first["key"]["format"], first["value"]["format"]), ("hex", "text"))
        self.assertEqual((second["value"]["format"], second["value"]["text"]), ("hex", "ff"))

    def test_answers_in_preparation_are_bounded(self) -> None:
        self.node.produce("clicks", 0, NOW)
        self.node.threads.holding = True
        path = "/api/topics/clicks/preview"
        waiting = [self.connect() for _ in range(ANSWERS_MAX)]
        for each in waiting:
            each.protocol.dataReceived(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        self.ask("records?topic=clicks", 503)
        waiting[0].protocol.connectionLost(Failure(ConnectionDone()))
        self.assertEqual(self.source.answers.running, ANSWERS_MAX - 1)
        while self.node.threads.held:
            self.node.threads.run_one()
        self.assertEqual(self.source.answers.running, 0)
