"""The description of the API, which answers are compared with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
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


def parameters(path: str) -> set[str]:
    """Return the names of the parameters of a GET."""
    return {each["name"] for each in description()["paths"][path]["get"].get("parameters", ())}


def body_schema(path: str) -> Any:
    return description()["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]


def fields(path: str) -> set[str]:
    """Return the names of the fields of a POST."""
    return set(body_schema(path)["properties"])


def required(path: str, method: str) -> set[str]:
    """Return the names of what a request must have."""
    if method == "post":
        return set(body_schema(path).get("required", ()))
    return {each["name"] for each in description()["paths"][path]["get"].get("parameters", ()) if each["required"]}


def answer_names(path: str, method: str) -> set[str]:
    """Return the names of all values of an answer."""
    response = description()["paths"][path][method]["responses"]["200"]["content"]
    return set(_names(response["application/json"]["schema"])) if "application/json" in response else set()


def _names(schema: Any) -> Iterator[str]:
    schema = _resolved(schema)
    for name, each in schema.get("properties", {}).items():
        yield name
        yield from _names(each)
    if "items" in schema:
        yield from _names(schema["items"])


def check_names(path: str, method: str, names: Iterable[str]) -> None:
    """Raise AssertionError for a request with parameters or fields that are not described."""
    known = fields(path) if method == "post" else parameters(path)
    assert set(names) <= known, f"{method} {path}: {set(names) - known}"


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
