"""Records as text and JSON."""

from __future__ import annotations

import json

import pytest

from pylogbroker.cli.record_format import column_formatter, formatter, from_object
from pylogbroker.client.messages import Message
from pylogbroker.errors import ConfigError
from pylogbroker.records import TimestampType
from pylogbroker.records.columnar import decode, encode

HEADERS = (("a", b"1"), ("b", None), ("a", b"\xff"))
MESSAGE = Message("t", 3, 17, 1000, TimestampType.CREATE_TIME, b"k\xc3\xa4", b"v\n", HEADERS, 18)
NULLS = Message("t", 0, 0, -1, TimestampType.CREATE_TIME, None, None, (), 1)


@pytest.mark.parametrize(
    ("text", "written", "of_nulls"),
    [
        (r"%t/%p@%o %T\n", b"t/3@17 1000\n", b"t/0@0 -1\n"),
        ("%k|%K|%s|%S", b"k\xc3\xa4|3|v\n|2", b"|-1||-1"),
        (r"%h%%\t\r\\\x00ü", b"a=1,b=,a=\xff%\t\r\\\x00\xc3\xbc", b"%\t\r\\\x00\xc3\xbc"),
        ("%R%s", b"\0\0\0\x02v\n", b"\xff\xff\xff\xff"),
        ("", b"", b""),
    ],
)
def test_letters(text: str, written: bytes, of_nulls: bytes) -> None:
    assert formatter(text)(MESSAGE) == written
    assert formatter(text)(NULLS) == of_nulls


@pytest.mark.parametrize("text", [r"%t/%p@%o %T\n", "%k|%K|%s|%S", r"%s\n", r"%h%%\t\x00ü", "%R%s", "", "json"])
@pytest.mark.parametrize("base64", [False, True])
def test_many_records_are_written_as_each_one(text: str, base64: bool) -> None:
    messages = [
        Message("t", 3, 17 + number, 1000 + number, TimestampType.CREATE_TIME, key, value, headers, 18 + number)
        for number, (key, value, headers) in enumerate(
            [(b"k", b"v\n", HEADERS), (None, None, ()), (b"", b"", (("a", b""),)), (b"\xff", b"long" * 100, ())]
        )
    ]
    batch = encode(
        [message.key for message in messages],
        [message.value for message in messages],
        [message.timestamp for message in messages],
        [message.headers for message in messages],
        base_offset=17,
    )
    write = formatter(text, base64)
    written = b"".join(column_formatter(text, base64)("t", 3, columns) for columns in decode(batch))
    assert written == b"".join(map(write, messages))


@pytest.mark.parametrize("text", ["%x", "%", "\\", r"\q", r"\x0"])
def test_no_letters(text: str) -> None:
    with pytest.raises(ConfigError, match=r"expected json, or text with %t"):
        formatter(text)


def test_json() -> None:
    found = json.loads(formatter("json")(MESSAGE))
    assert found == {
        **{"topic": "t", "partition": 3, "offset": 17, "timestamp": 1000, "key": "kä", "value": "v\n"},
        "headers": [["a", "1"], ["b", None], ["a", "\\xff"]],
    }
    assert json.loads(formatter("json")(NULLS))["value"] is None


@pytest.mark.parametrize("message", [MESSAGE, NULLS])
def test_base64_loses_nothing(message: Message) -> None:
    line = formatter("json", base64=True)(message).decode()
    assert line.count("\n") == 1
    expected = (message.key, message.value, message.headers, message.timestamp if message.timestamp >= 0 else None)
    assert from_object(line, base64=True) == expected


def test_names_of_headers_may_be_no_utf_8() -> None:
    message = MESSAGE._replace(headers=(("\udcff\u00e4", b"1"),))
    assert formatter("%h")(message) == b"\xff\xc3\xa4=1"
    assert json.loads(formatter("json")(message))["headers"] == [["\\xff\u00e4", "1"]]
    line = formatter("json", base64=True)(message).decode()
    assert from_object(line, base64=True)[2] == message.headers


@pytest.mark.parametrize(
    "line",
    [
        *("", "[]", "1", '{"key": 1}', '{"headers": [1]}', "{", "[" * 100_000, '{"value": "\\ud800"}'),
        *('{"headers": [["\\ud800", null]]}', '{"timestamp": 1.5}', '{"timestamp": -2}', '{"timestamp": true}'),
    ],
)
def test_lines_that_are_no_records(line: str) -> None:
    with pytest.raises(ConfigError, match="expected an object such as"):
        from_object(line, base64=False)
