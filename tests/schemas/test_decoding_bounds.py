"""Content of few bytes that stands for very much JSON, and codecs that fail in ways that nobody foresaw."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from pylogbroker.schemas.codecs import SchemaCodec, codec_of
from pylogbroker.schemas.errors import InvalidSchema, Undecodable, Unencodable
from pylogbroker.schemas.framing import FramedContent, zigzag_varint
from pylogbroker.schemas.limits import JsonBudget
from pylogbroker.schemas.values import Schema

EMPTY = {"type": "record", "name": "Empty", "fields": []}
WITH_NULL = {"type": "record", "name": "WithNull", "fields": [{"name": "nothing", "type": "null"}]}
NO_BYTES = {"type": "fixed", "name": "NoBytes", "size": 0}
LONG_NAMES = {
    "type": "record",
    "name": "LongNames",
    "fields": [{"name": f"{'x' * 1000}{number}", "type": "null"} for number in range(100)],
}
LONG_SYMBOL = {"type": "enum", "name": "LongSymbol", "symbols": ["x" * 100_000]}


def doubled(depth: int) -> Any:
    """Return a record with two fields of a record with two fields, and so on: 2^depth values without a byte."""
    schema: Any = EMPTY
    for level in range(depth):
        name = f"Level{level}"
        first, second = {"name": "a", "type": schema}, {"name": "b", "type": schema["name"]}
        schema = {"type": "record", "name": name, "fields": [first, second]}
    return schema


def array_of(items: Any, count: int, each: bytes = b"") -> tuple[Any, bytes]:
    return {"type": "array", "items": items}, zigzag_varint(count) + each * min(count, 100_000) + b"\0"


def avro(schema: Any) -> SchemaCodec:
    return codec_of(Schema(json.dumps(schema)), {})


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        array_of("null", 10**9),
        array_of(EMPTY, 2**62),
        array_of(WITH_NULL, 10**9),
        array_of(NO_BYTES, 10**9),
        array_of({"type": "array", "items": "null"}, 10**9),
        array_of("int", 10**9, b"\0"),
        array_of({"type": "map", "values": "null"}, 10**9),
        array_of(LONG_NAMES, 100_000),
        array_of(LONG_SYMBOL, 100_000, b"\0"),
        ({"type": "array", "items": "null"}, zigzag_varint(1_000_000) * 1_000),
        ({"type": "array", "items": "null"}, (zigzag_varint(-1_000_000) + b"\0") * 1_000),
        ({"type": "map", "values": LONG_SYMBOL}, zigzag_varint(10**6) + b"\0\0" * 10**6),
        (doubled(40), b""),
    ],
)
def test_avro_that_would_expand_beyond_the_bound(schema: Any, payload: bytes) -> None:
    with pytest.raises(Undecodable, match="its JSON would have more than 1,000,000 characters"):
        avro(schema).decode(FramedContent(1, payload), JsonBudget(1_000_000))


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        array_of("null", 7),
        array_of("boolean", 7, b"\1"),
        array_of("double", 7, b"\x01" * 8),
        array_of(WITH_NULL, 7),
        array_of(LONG_SYMBOL, 7, b"\0"),
        array_of({"type": "map", "values": "long"}, 2, b"\x04\x02a\x01\x02b\x03\0"),
        array_of({"type": "int", "logicalType": "date"}, 7, b"\0"),
        array_of("string", 7, b"\x02\0"),
    ],
)
def test_the_budget_of_avro_is_what_its_json_has(schema: Any, payload: bytes) -> None:
    budget = JsonBudget(10**6)
    text = avro(schema).decode(FramedContent(1, payload), budget)
    json.loads(text)
    assert 0 <= 10**6 - budget.left - len(text) < 100  # a comma after each last item
    for characters_max, fits in ((10**6 - budget.left, True), (10**6 - budget.left - 1, False)):
        if fits:
            assert avro(schema).decode(FramedContent(1, payload), JsonBudget(characters_max)) == text
        else:
            with pytest.raises(Undecodable, match="its JSON would have more"):
                avro(schema).decode(FramedContent(1, payload), JsonBudget(characters_max))


@pytest.mark.parametrize(("schema", "each"), [("string", "\0" * 10**6), ("bytes", "AAAA" * 10**6)])
def test_content_that_is_large_itself_is_within_the_default_bound(schema: str, each: str) -> None:
    codec = avro({"type": "array", "items": schema})
    text = json.dumps([each] * 8)
    assert json.loads(codec.decode(FramedContent(1, codec.encode(text)))) == json.loads(text)


@attrs.define
class FailingCodec:
    error: Exception
    record_name: str = ""

    def prepare(self) -> None:
        pass

    def decode(self, frame: FramedContent, budget: JsonBudget) -> str:
        raise self.error

    def encode(self, text: str) -> bytes:
        raise self.error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KeyError("x"), "KeyError: 'x'"),
        (OverflowError("too\nlarge"), "OverflowError: too large"),
        (RecursionError("maximum"), "it is nested too deeply"),
        (MemoryError(), "MemoryError"),
        (AttributeError("x" * 10_000), f"AttributeError: {'x' * 300}"),
    ],
)
def test_errors_of_codecs_get_a_name(error: Exception, reason: str) -> None:
    codec = SchemaCodec(FailingCodec(error))
    with pytest.raises(Undecodable) as undecodable:
        codec.decode(FramedContent(1, b""))
    with pytest.raises(Unencodable) as unencodable:
        codec.encode("")
    assert str(undecodable.value) == str(unencodable.value) == reason


def test_errors_of_libraries_that_parse_schemas_get_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*arguments: object) -> None:
        raise OverflowError("int too large")

    monkeypatch.setattr("pylogbroker.schemas.avro_codec.AvroTypes.parse", failing)
    with pytest.raises(InvalidSchema, match="this is no Avro schema that can be used: OverflowError: int too large"):
        codec_of(Schema('"int"'), {})
