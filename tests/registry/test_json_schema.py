"""Compatibility of JSON Schemas: decisions that Confluent's documentation and its examples of changes give."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pylogbroker.registry.errors import RegistryError
from pylogbroker.registry.json_schema import JsonSchema

INT, NUMBER, TEXT = {"type": "integer"}, {"type": "number"}, {"type": "string"}


def thing(rest: Any = True, required: tuple[str, ...] = (), **properties: Any) -> Any:
    fields: dict[str, Any] = {"type": "object", "properties": properties, "required": list(required)}
    return fields if rest is True else {**fields, "additionalProperties": rest}


NODE = {"type": "object", "properties": {"next": {"$ref": "#"}, "value": NUMBER}}
TEXTS = {"definitions": {"t": TEXT}}

ALLOWED = [
    # older schema, newer schema
    (thing(a=TEXT), {}),
    (TEXT, True),
    (False, TEXT),
    (INT, NUMBER),
    (TEXT, {**TEXT, "title": "t", "description": "d", "default": "", "format": "uuid"}),
    ({**TEXT, "maxLength": 5}, {**TEXT, "maxLength": 6}),
    ({**TEXT, "minLength": 5}, {**TEXT, "minLength": 4}),
    ({**TEXT, "pattern": "a"}, TEXT),
    (TEXT, {**TEXT, "minLength": 0}),
    ({**INT, "maximum": 5}, {**INT, "maximum": 6}),
    ({**INT, "exclusiveMinimum": 5}, INT),
    ({**INT, "multipleOf": 10}, {**INT, "multipleOf": 5}),
    ({**TEXT, "enum": ["a"]}, {**TEXT, "enum": ["b", "a"]}),
    ({"const": 1}, {"enum": [1, 2]}),
    ({"not": NUMBER}, {"not": INT}),
    ({"type": "object"}, {"type": ["array", "object"]}),
    ({"oneOf": [TEXT]}, {"oneOf": [NUMBER, TEXT]}),
    (TEXT, {"anyOf": [NUMBER, TEXT]}),
    ({"allOf": [TEXT, {"enum": ["a"]}]}, {"allOf": [{"enum": ["a", "b"]}, TEXT]}),
    ({"allOf": [TEXT, {"minLength": 2}]}, TEXT),
    (thing(a=TEXT, b=TEXT), thing(a=TEXT)),  # delete from an open object
    (thing(False, a=TEXT), thing(False, a=TEXT, b=INT)),  # add to a closed one
    (thing(False, a=TEXT), thing(False, ("b",), a=TEXT, b={**INT, "default": 0})),
    (thing(False, a=TEXT), thing(True, a=TEXT)),
    (thing(TEXT, a=TEXT), thing(TEXT, a=TEXT, b=TEXT)),
    (thing(False, a=TEXT, b=TEXT), thing(TEXT, a=TEXT)),
    (thing(a=TEXT), thing(a=TEXT, b={})),
    (thing(True, ("a",), a=TEXT), thing(a=TEXT)),
    ({"type": "array", "items": INT}, {"type": "array", "items": NUMBER}),
    ({"type": "array", "items": [INT], "additionalItems": False}, {"type": "array", "items": [INT, TEXT]}),
    ({"type": "array", "uniqueItems": True}, {"type": "array"}),
    (NODE, {**NODE, "properties": {**NODE["properties"], "value": {}}}),  # type: ignore[dict-item]
    ({**TEXTS, **thing(a={"$ref": "#/definitions/t"})}, thing(a=TEXT)),
    ({"dependencies": {"a": ["b"]}}, {}),
]

REJECTED = [
    ({}, TEXT, "TYPE_CHANGED at #/"),
    (TEXT, False, "TYPE_CHANGED"),
    ({"type": "object"}, {"type": "array"}, "TYPE_CHANGED"),
    (NUMBER, INT, "TYPE_NARROWED"),
    ({**TEXT, "maxLength": 6}, {**TEXT, "maxLength": 5}, "MAX_LENGTH_DECREASED at #/maxLength"),
    (TEXT, {**TEXT, "minLength": 1}, "MIN_LENGTH_ADDED"),
    (INT, {**INT, "minimum": 0}, "MINIMUM_ADDED"),
    ({**INT, "minimum": 1}, {**INT, "minimum": 2}, "MINIMUM_INCREASED"),
    ({**TEXT, "pattern": "a"}, {**TEXT, "pattern": "b"}, "PATTERN_CHANGED"),
    ({**INT, "multipleOf": 10}, {**INT, "multipleOf": 3}, "MULTIPLE_OF_CHANGED"),
    ({**TEXT, "enum": ["a", "b"]}, {**TEXT, "enum": ["a"]}, "ENUM_ARRAY_NARROWED"),
    (TEXT, {**TEXT, "enum": ["a"]}, "ENUM_ARRAY_NARROWED"),
    ({"not": INT}, {"not": NUMBER}, "NOT_TYPE_EXTENDED"),
    ({"type": ["array", "object"]}, {"type": "object"}, "COMBINED_TYPE"),
    ({"oneOf": [TEXT, NUMBER]}, {"oneOf": [TEXT]}, "COMBINED_TYPE"),
    ({"oneOf": [TEXT]}, {"oneOf": [NUMBER]}, "COMBINED_TYPE"),
    ({"anyOf": [TEXT]}, {"oneOf": [TEXT]}, "COMBINED_TYPE"),
    ({"allOf": [TEXT]}, {"allOf": [TEXT, {"minLength": 2}]}, "COMBINED_TYPE"),
    (thing(a=TEXT), thing(a=NUMBER), "TYPE_CHANGED at #/properties/a"),
    (thing(a=TEXT), thing(a=TEXT, b=INT), "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL at #/properties/b"),
    (thing(False, a=TEXT), thing(False, ("b",), a=TEXT, b=INT), "REQUIRED_PROPERTY_ADDED"),
    (thing(TEXT, a=TEXT), thing(TEXT, a=TEXT, b=INT), "TYPE_CHANGED at #/properties/b"),
    (thing(False, a=TEXT, b=TEXT), thing(False, a=TEXT), "TYPE_CHANGED at #/properties/b"),
    (thing(True, a=TEXT), thing(False, a=TEXT), "TYPE_CHANGED at #/additionalProperties"),
    (thing(a=TEXT), thing(True, ("a",), a=TEXT), "REQUIRED_ATTRIBUTE_ADDED"),
    ({"type": "array", "items": NUMBER}, {"type": "array", "items": INT}, "TYPE_NARROWED at #/items"),
    ({"type": "array"}, {"type": "array", "uniqueItems": True}, "UNIQUE_ITEMS_ADDED"),
    (NODE, {**NODE, "properties": {**NODE["properties"], "value": TEXT}}, "TYPE_CHANGED at #/properties/value"),  # type: ignore[dict-item]
    (thing(a=TEXT), {**TEXTS, **thing(a={"$ref": "#/definitions/t"}, b=TEXT)}, "PROPERTY_ADDED"),
    ({}, {"dependencies": {"a": ["b"]}}, "DEPENDENCY_CHANGED"),
]


def schema(value: Any) -> JsonSchema:
    return JsonSchema.parse(json.dumps(value), {})


@pytest.mark.parametrize(("old", "new"), ALLOWED)
def test_allowed_changes(old: Any, new: Any) -> None:
    assert schema(new).problems(schema(old)) == []
    assert schema(new).problems(schema(new)) == []


@pytest.mark.parametrize(("old", "new", "problem"), REJECTED)
def test_rejected_changes(old: Any, new: Any, problem: str) -> None:
    assert problem in "; ".join(schema(new).problems(schema(old)))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value"),
        ('{"type": "strin"}', r"\$\.type: 'strin' is not valid"),
        ('{"pattern": "("}', r"\$\.pattern: '\(' is not a 'regex'"),
        ('{"patternProperties": {"[": {}}}', r"'\[' is not a 'regex'"),
        ('{"$ref": "#/definitions/missing"}', "definitions/missing"),
        ('{"$ref": "missing.json"}', "missing.json"),
        ("7", "7 is no JSON Schema"),
    ],
)
def test_bad_schemas(text: str, reason: str) -> None:
    with pytest.raises(RegistryError, match=reason) as error:
        JsonSchema.parse(text, {})
    assert error.value.code == 42201


def test_reference_to_another_schema() -> None:
    texts = {"money.json": json.dumps({"type": "object", "properties": {"amount": INT}})}
    order = json.dumps(thing(price={"$ref": "money.json"}))
    wider = {"money.json": texts["money.json"].replace("integer", "number")}
    old, new = JsonSchema.parse(order, texts), JsonSchema.parse(order, wider)
    assert new.problems(old) == []
    assert "TYPE_NARROWED at #/properties/price/properties/amount/" in old.problems(new)[0]


def test_numbers_of_a_schema_stay_as_they_are() -> None:
    text = '{"type":"number","maximum":1e400,"multipleOf":0.10000000000000000000001,"minimum":-0.0}'
    assert JsonSchema.parse(text, {}).text == text
    assert JsonSchema.parse(text, {}, normalize=True).text == (
        '{"maximum":1e400,"minimum":-0.0,"multipleOf":0.10000000000000000000001,"type":"number"}'
    )
    for wrong in ('{"maximum": NaN}', "[" * 100_000):
        with pytest.raises(RegistryError, match="Invalid schema"):
            JsonSchema.parse(wrong, {})


def test_deeply_nested_schemas_are_compared_in_time_that_grows_with_their_depth() -> None:
    old, new = TEXT, INT
    for _ in range(40):
        old, new = thing(False, a=old), thing(False, a=new)
    assert schema(new).problems(schema(old)) == [f"TYPE_CHANGED at #/{'properties/a/' * 40}: from string to integer"]


def test_alternatives_within_each_other_are_compared_up_to_a_number_of_steps() -> None:
    def pairs(leaf: Any) -> Any:
        names = {f"d{level}": thing(a=f"d{level + 1}", b=f"d{level + 1}") for level in range(30)}
        for below in names.values():
            below["properties"] = {
                name: {"$ref": f"#/definitions/{target}"} for name, target in below["properties"].items()
            }
        return {"definitions": {**names, "d30": leaf}, "$ref": "#/definitions/d0"}

    with pytest.raises(RegistryError, match="too many steps"):
        schema(pairs(NUMBER)).problems(schema(pairs(INT)))


@pytest.mark.parametrize("pattern", [r"^\p{Lu}", "(?<first>X)", "[A-Z&&[^Y]]", "(?<=X)"])
def test_patterns_are_those_of_java(pattern: str) -> None:
    assert JsonSchema.parse(json.dumps({**TEXT, "pattern": pattern}), {}).text


def test_patterns_find_properties_as_in_java() -> None:
    old = {"type": "object", "patternProperties": {r"^\p{Lu}": TEXT}, "additionalProperties": False}
    assert schema({**old, "properties": {"Name": TEXT, "name": TEXT}}).problems(schema(old)) == []
    assert "TYPE_CHANGED" in schema({**old, "properties": {"Name": INT}}).problems(schema(old))[0]


def test_a_pattern_that_takes_long_or_is_not_read_is_named() -> None:
    name = "a" * 40_000
    for pattern, reason in (("^(a+)+$", "too many steps"), ("(?<=a)b", "look-behind")):
        old = {"type": "object", "patternProperties": {pattern: TEXT}}
        with pytest.raises(RegistryError, match=reason):
            schema({**old, "properties": {f"{name}!": TEXT}}).problems(schema(old))
