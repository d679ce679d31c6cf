"""The description of the API, which answers are compared with."""

from __future__ import annotations

import json
from functools import cache, reduce
from importlib.resources import files
from typing import Any

TYPES = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "null": type(None),
    "array": list,
    "object": dict,
}


@cache
def description() -> Any:
    return json.loads(files("pylogbroker.web").joinpath("static", "openapi.json").read_text("utf-8"))


def check_answer(path: str, method: str, code: int, body: Any) -> None:
    """Raise AssertionError for an answer that is not as described."""
    response = _resolved(description()["paths"][path][method]["responses"][str(code)])
    _check(path, response["content"]["application/json"]["schema"], body)


def _resolved(schema: Any) -> Any:
    """Follow a reference, and join what `allOf` has."""
    if "$ref" in schema:
        parts = schema["$ref"].removeprefix("#/").split("/")
        return _resolved(reduce(lambda found, part: found[part], parts, description()))
    if "allOf" in schema:
        properties = [_resolved(each)["properties"] for each in schema["allOf"]]
        return {"type": "object", "properties": {name: found for each in properties for name, found in each.items()}}
    return schema


def _check(where: str, schema: Any, value: Any) -> None:
    schema = _resolved(schema)
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    assert type(value) in [TYPES[name] for name in names], f"{where}: {value!r} is no {names}"
    if isinstance(value, str):
        assert value in schema.get("enum", [value]), f"{where}: {value!r} is not described"
    if isinstance(value, list):
        for each in value:
            _check(where, schema["items"], each)
    if isinstance(value, dict) and schema["properties"]:
        assert set(value) == set(schema["properties"]), where
        for name, each in value.items():
            _check(f"{where}.{name}", schema["properties"][name], each)
