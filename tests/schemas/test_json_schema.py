"""JSON Schema against Confluent's serializers; numbers stay as they were written."""

from __future__ import annotations

import json

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from pylogbroker.schemas.codecs import codec_of
from pylogbroker.schemas.errors import InvalidSchema, Undecodable, Unencodable
from pylogbroker.schemas.framing import FramedContent, frame_of, framed
from pylogbroker.schemas.registry_client import RegistryClient, blocking
from pylogbroker.schemas.values import JSON, Schema

CONTEXT = SerializationContext("orders", MessageField.VALUE)
SCHEMA = json.dumps(
    {
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "lines": {"type": "array", "items": {"$ref": "line.json"}}},
        "required": ["id"],
    }
)
LINE = json.dumps({"type": "object", "properties": {"n": {"maximum": 3}}})


def test_confluent_s_serializer_and_back(theirs: SchemaRegistryClient, ours: RegistryClient) -> None:
    schema = json.dumps({"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}})
    content = JSONSerializer(schema, theirs)({"id": 2**62 + 1}, CONTEXT)
    assert content is not None
    frame = frame_of(content, (), "value")
    assert frame is not None
    assert isinstance(frame.schema, int)
    resolved = blocking(ours.by_key(frame.schema))
    own = codec_of(resolved.schema, resolved.references)
    assert own.record_name == "Order"
    text = own.decode(frame)
    assert json.loads(text) == {"id": 2**62 + 1}
    again = framed(frame.schema, own.encode(text))
    assert JSONDeserializer(schema, schema_registry_client=theirs)(again, CONTEXT) == {"id": 2**62 + 1}


def test_numbers_stay_and_line_breaks_do_not() -> None:
    own = codec_of(Schema(SCHEMA, JSON), {"line.json": LINE})
    text = '{"id":1,\r\n "x": 1.10e400, "y": 0.1000}'
    assert own.decode(FramedContent(1, own.encode(text))) == '{"id":1,   "x": 1.10e400, "y": 0.1000}'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}", "'id' is a required property"),
        ('{"id": "x"}', "field id: 'x' is not of type 'integer'"),
        ('{"id": 1, "lines": [{}, {"n": 4}]}', "field lines[1].n: 4 is greater than the maximum of 3"),
        ("{", "this is no JSON"),
        ("[" * 100_000, "this is no JSON"),
    ],
)
def test_json_that_does_not_fit(text: str, problem: str) -> None:
    with pytest.raises(Unencodable) as error:
        codec_of(Schema(SCHEMA, JSON), {"line.json": LINE}).encode(text)
    assert str(error.value).startswith(problem)


def test_content_and_schemas_that_are_wrong() -> None:
    own = codec_of(Schema(SCHEMA, JSON), {"line.json": LINE})
    for payload in (b"", b"\xff", b"{", b"[" * 100_000, b"NaN"):
        with pytest.raises(Undecodable, match="it is no JSON"):
            own.decode(FramedContent(1, payload))
    for text in ("", "{", "[" * 100_000):
        with pytest.raises(InvalidSchema, match="this is no JSON Schema"):
            codec_of(Schema(text, JSON), {})
    for text in ("5", '{"type": "nothing"}', '{"minLength": -1}'):
        codec = codec_of(Schema(text, JSON), {})
        assert codec.decode(FramedContent(1, b"5")) == "5"
        for check in (codec.prepare_writing, lambda codec=codec: codec.encode("5")):
            with pytest.raises(InvalidSchema, match="this is no JSON Schema"):
                check()
    with pytest.raises(InvalidSchema, match=r"line.json names no schema"):
        codec_of(Schema(SCHEMA, JSON), {}).encode('{"id": 1, "lines": [{}]}')


def written(schema: object, text: str) -> bytes:
    return codec_of(Schema(json.dumps(schema), JSON), {}).encode(text)


def doubled(depth: int) -> object:
    """Return a schema that refers to one twice, which refers to one twice, and so on."""
    definitions: dict[str, object] = {"d0": {"type": "integer"}}
    for level in range(1, depth):
        definitions[f"d{level}"] = {"allOf": [{"$ref": f"#/definitions/d{level - 1}"}] * 2}
    return {"definitions": definitions, "$ref": f"#/definitions/d{depth - 1}"}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"pattern": "^(a+)+$"}, json.dumps("a" * 3000 + "!")),
        ({"pattern": r"^\p{L}+$"}, '"\u00e9a"'),
        ({"pattern": "^(?=.*[A-Z])(?=.*[0-9]).{3,}$"}, '"aB3"'),
        ({"patternProperties": {"^(a|aa)+$": {"type": "string"}}}, json.dumps({"a" * 3000 + "!": 5})),
        ({"patternProperties": {"^(a|aa)+$": {}}, "additionalProperties": {"type": "integer"}}, '{"b": 5, "aa": ""}'),
        ({"multipleOf": 0.01}, "12345678901234567890123.07"),
        ({"type": "integer"}, "1e400"),
        ({"type": "integer"}, "9" * 5000),
        ({"maximum": 0.1}, "0.1"),
        ({"enum": [1, [2.0]]}, "[2]"),
        ({"const": {"a": 1}}, '{"a": 1.0}'),
        ({"uniqueItems": True}, "[1, true, 0, false, {}, [], [1], [true]]"),
        ({"$ref": "http://json-schema.org/draft-07/schema#"}, '{"minLength": 1}'),
        ({"$schema": "http://127.0.0.1:1/unknown", "type": "integer"}, "5"),
        (True, "5"),
    ],
)
def test_json_that_fits(schema: object, text: str) -> None:
    if schema == {"pattern": "^(a+)+$"}:
        with pytest.raises(Unencodable, match="does not match"):
            written(schema, text)
    else:
        assert written(schema, text) == text.encode()


@pytest.mark.parametrize(
    ("schema", "text", "problem"),
    [
        (doubled(60), "5", "too many steps"),
        ({"$ref": "#"}, "5", "nested too deeply"),
        ({"multipleOf": 0.01}, "12345678901234567890123.071", "is not a multiple of 0.01"),
        ({"multipleOf": 3}, "1e999999999", "multipleOf is not checked"),
        ({"multipleOf": 3}, "1e9999999999999999999", "multipleOf is not checked"),
        ({"maximum": 0.1}, "0.10000000000000000001", "0.10000000000000000001 is greater than the maximum of 0.1"),
        ({"maximum": 5}, "1e9999999999999999999", "is greater than the maximum"),
        ({"type": "integer"}, "1.5", "1.5 is not of type 'integer'"),
        ({"type": "integer"}, "1e-9999999999999999999", "is not of type 'integer'"),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"}, "1.0", "not of type 'integer'"),
        ({"enum": [1, 2]}, "true", "is not one of"),
        ({"const": 1}, "true", "1 was expected"),
        ({"uniqueItems": True}, '[{"a": 1}, {"a": 1.0}]', "non-unique"),
        ({"additionalProperties": False, "patternProperties": {"^x": {}}}, '{"y": 1}', "'y' was unexpected"),
        ({"items": {"enum": [{"a": list(range(100))}] * 100}}, json.dumps([{}] * 10_000), "too many steps"),
    ],
)
def test_json_that_does_not_fit_exactly(schema: object, text: str, problem: str) -> None:
    with pytest.raises(Unencodable, match=problem):
        written(schema, text)


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"pattern": r"(a)\1"}, "the pattern .* of the schema cannot be checked: .*back references"),
        ({"pattern": "("}, "the pattern .* cannot be checked"),
        ({"patternProperties": {"a": {}}, "unevaluatedProperties": False}, "is not supported for writing"),
        ({"$ref": "http://127.0.0.1:1/schema"}, "http://127.0.0.1:1/schema names no schema"),
        ({"$ref": "file:///etc/passwd"}, "names no schema"),
        ({"$schema": ["a"]}, "cannot be used for writing"),
    ],
)
def test_schemas_that_cannot_be_written_by_can_be_read_by(schema: object, problem: str) -> None:
    codec = codec_of(Schema(json.dumps(schema), JSON), {})
    assert codec.decode(FramedContent(1, b'"aa"')) == '"aa"'
    with pytest.raises(InvalidSchema, match=problem):
        codec.encode('"aa"')
