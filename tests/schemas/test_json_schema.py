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
    for text in ("", "5", '{"type": "nothing"}'):
        with pytest.raises(InvalidSchema, match="this is no JSON Schema"):
            codec_of(Schema(text, JSON), {})
    with pytest.raises(InvalidSchema, match=r"line.json names no schema"):
        codec_of(Schema(SCHEMA, JSON), {}).encode('{"id": 1, "lines": [{}]}')
