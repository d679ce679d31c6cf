"""Records in JSON: what is written, what is read, and how both belong together."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pylogbroker.records import Record
from pylogbroker.web.records_api.json_members import RECORDS_MAX, BadRecord, decoded, whole
from pylogbroker.web.records_api.json_records import NewRecord, record_of, record_text
from pylogbroker.web.records_api.json_stream import BodyLines, BodyObjects


def read(text: str) -> NewRecord:
    return record_of(whole(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"text"', b"text"),
        ('"\\u00e9\\n"', "é\n".encode()),
        ("1.00", b"1.00"),
        ("-0", b"-0"),
        ("1e400", b"1e400"),
        ("true", b"true"),
        ('{ "a" : [1, 2.50] }', b'{ "a" : [1, 2.50] }'),
        ("[]", b"[]"),
        ("null", None),
        ("9" * 5000, b"9" * 5000),
    ],
)
def test_a_text_is_its_characters_and_other_json_is_written_as_it_is(text: str, value: bytes | None) -> None:
    record = read(f'{{"key": {text}, "value": {text} }}')
    assert (record.key, record.value) == (value, value)


def test_all_members() -> None:
    record = read(
        '{"key_base64": "AAE=", "value_base64": "", "partition": 3, "timestamp": 17,'
        ' "headers": [{"name": "a", "value": "1"}, {"name": "a"}, {"name": "b", "value_base64": "/w=="}]}'
    )
    assert record == NewRecord(b"\x00\x01", b"", (("a", b"1"), ("a", None), ("b", b"\xff")), 3, 17)
    assert read('{"headers": {"x": "y", "z": null}}').headers == (("x", b"y"), ("z", None))
    assert read('{"timestamp": "1970-01-01T00:00:01Z"}').timestamp == 1000
    assert read("{}") == NewRecord()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected a JSON object"),
        ("[]", "expected a JSON object"),
        ("{", "expected a name in quotes at character 2"),
        ('{"value" 1}', "expected a colon at character 10"),
        ('{"value": 1', "expected a comma or } at character 12"),
        ('{"value": 1,}', "expected a name in quotes at character 13"),
        ('{"value": NaN}', "NaN is no JSON"),
        ('{"value": 1} {}', "there is more behind the JSON object"),
        ('{"value": 1, "value": 2}', '"value" is given twice'),
        ('{"valu": 1}', 'there is no member "valu": did you mean value?'),
        ('{"value": 1, "value_base64": "AA=="}', "value and value_base64 are both given"),
        ('{"value_base64": "x"}', "value_base64 is not base64"),
        ('{"value_base64": 7}', "value_base64 is not base64"),
        ('{"value": "\\ud800"}', "half of a surrogate pair"),
        ('{"partition": "1"}', 'partition must be a number of at least 0, not "1"'),
        ('{"partition": -1}', "partition must be a number of at least 0"),
        ('{"partition": 99999999999}', "partition must be a number of at least 0"),
        ('{"timestamp": 99999999999999999999}', "timestamp must be milliseconds"),
        ('{"timestamp": "soon"}', "timestamp must be milliseconds"),
        ('{"timestamp": -5}', "like 2026-01-31T12:00, not -5"),
        ('{"timestamp": 1.5}', "timestamp must be milliseconds"),
        ('[{"value": 1}]', 'expected a JSON object, such as {"value": ...}, not [{"value": 1}]'),
        ('\ufeff{"value": 1}', "byte order mark: write UTF-8 without one"),
        ("", 'expected a JSON object, such as {"value": ...}, not nothing'),
        ('{"headers": 1}', "headers must be a list"),
        ('{"headers": [{"name": 1}]}', "headers[0] must be"),
        ('{"headers": [{"name": "a", "value": 1}]}', "headers[0].value must be a text or null"),
        ('{"headers": [{"name": "a", "values": "b"}]}', 'headers[0]: there is no member "values": did you mean value?'),
        ('{"value": ' + "[" * 100_000, "nested too deeply"),
    ],
)
def test_wrong_records_name_cause_and_cure(text: str, reason: str) -> None:
    with pytest.raises(BadRecord) as failure:
        read(text)
    assert reason in str(failure.value)


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(BadRecord, match="this is not UTF-8: byte 1 is 0xff"):
        decoded(b"a\xff")


def test_an_array_names_the_record_that_is_wrong() -> None:
    rows = whole('{"records": [{"value": 1}, {"value": [2, 3]}]}', "records")["records"].value
    assert [record_of(row).value for row in rows] == [b"1", b"[2, 3]"]
    with pytest.raises(BadRecord, match="record 2: this is not JSON"):
        whole('{"records": [{"value": 1}, {"value": }]}', "records")
    with pytest.raises(BadRecord, match=r', or \{"records": \[...\]\} for many, not \[\{"value": 1'):
        whole('[{"value": 1}]', "records")
    for text in ('{"records": [{},]}', '{"records": [{} {}]}', '{"records": [{}'):
        with pytest.raises(BadRecord):
            whole(text, "records")
    many = ",".join(["{}"] * (RECORDS_MAX + 1))
    with pytest.raises(BadRecord, match="at most 5,000 records"):
        whole(f'{{"records": [{many}]}}', "records")


def shown(value: bytes | None, **options: Any) -> Any:
    return json.loads(record_text(0, Record(5, 17, None, value), **options))


def test_records_are_shown_as_what_they_are() -> None:
    assert shown(None)["value"] is None
    assert shown(b"text")["value"] == "text"
    assert shown(b"17")["value"] == "17"
    assert shown(b"null")["value"] == "null"
    assert shown(b'{"a":\n1}')["value"] == {"a": 1}
    assert shown(b"\xff")["value_base64"] == "/w=="
    assert shown(b"{}", format="text")["value"] == "{}"
    assert shown(b"{}", format="base64")["value_base64"] == "e30="
    text = record_text(2, Record(5, 17, b"k", b'{"n":1.00}', (("h", b"[1]"), ("h", None))))
    assert text == (
        '{"partition":2,"offset":5,"timestamp":17,"key":"k","value":{"n":1.00},'
        '"headers":[{"name":"h","value":"[1]"},{"name":"h","value":null}]}'
    )


CONTENT = st.none() | st.binary() | st.text().map(str.encode) | st.sampled_from([b'{"a": [1.0, null]}', b"null", b"1"])


@given(CONTENT, CONTENT, st.lists(st.tuples(st.text(), CONTENT)))
@example(b'"text"', b"[1,\n2]", [("", b"")])
def test_read_records_can_be_written_again(key: bytes | None, value: bytes | None, headers: Any) -> None:
    text = record_text(3, Record(9, 17, key, value, tuple(headers)))
    assert "\n" not in text
    row = json.loads(text)
    assert (row.pop("partition"), row.pop("offset"), row.pop("timestamp")) == (3, 9, 17)
    again = read(json.dumps(row))
    assert same(again.key, key)
    assert same(again.value, value)
    assert again.headers == tuple(headers)


def same(one: bytes | None, other: bytes | None) -> bool:
    """Return whether contents are equal, or the same JSON."""
    return one == other or (one is not None and other is not None and json.loads(one) == json.loads(other))


@given(st.lists(st.binary(min_size=1).map(lambda data: b64encode(data)), max_size=8), st.lists(st.integers(1, 20)))
def test_lines_do_not_depend_on_the_pieces(lines: list[bytes], sizes: list[int]) -> None:
    splitter = BodyLines(1000)
    assert [line for _, line in parts(splitter, b"\n\n".join(lines), sizes)] == lines


OBJECTS = ({}, {"a": 'quote " and \\ and }'}, {"b": [{"c": "{"}, {}]}, {"d": "\\\\"})


@given(st.lists(st.sampled_from(OBJECTS), max_size=6), st.lists(st.integers(1, 9)), st.sampled_from(["", " ", "\r\n"]))
@example([*OBJECTS], [1] * 200, "")
def test_objects_do_not_depend_on_the_pieces(rows: list[Any], sizes: list[int], between: str) -> None:
    splitter = BodyObjects(1000)
    found = parts(splitter, between.join(map(json.dumps, rows)).encode(), sizes)
    assert [json.loads(part) for _, part in found] == rows
    assert [number for number, _ in found] == list(range(1, len(rows) + 1))


def parts(splitter: BodyLines | BodyObjects, data: bytes, sizes: list[int]) -> list[tuple[int, bytes]]:
    """Return the parts of data that arrives in pieces of these sizes, and the rest at once."""
    found = []
    for size in (*sizes, len(data)):
        piece, data = data[:size], data[size:]
        found += splitter.add(piece)
    return [*found, *splitter.end()]


def test_parts_are_bounded() -> None:
    for splitter in (BodyLines(10), BodyObjects(10)):
        with pytest.raises(BadRecord, match="at most 10 bytes"):
            list(splitter.add(b'{"value": "' + b"x" * 20))
    objects = BodyObjects(10)
    list(objects.add(b'{} {"'))
    with pytest.raises(BadRecord, match="ends within a JSON object"):
        list(objects.end())
    assert objects.number == 2
