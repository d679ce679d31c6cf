"""The description of the API, which requests and answers are compared with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

import attrs
from jsonschema import Draft202012Validator

from pylogbroker.web.description import page_document


@cache
def description() -> Any:
    return page_document()


@attrs.frozen(eq=False)
class Operation:
    """An operation of the API, by the name of its handler."""

    name: str
    method: str
    path: str
    described: Any

    @property
    def placeholders(self) -> set[str]:
        return {each["name"] for each in self._parameters if each["in"] == "path"}

    @property
    def _parameters(self) -> list[Any]:
        return list(self.described.get("parameters", ()))

    @property
    def _body(self) -> Any:
        if "requestBody" not in self.described:
            return {"properties": {}}
        schema = _resolved(self.described["requestBody"]["content"]["application/json"]["schema"])
        if "anyOf" not in schema:
            return schema
        alternatives = [_resolved(alternative) for alternative in schema["anyOf"]]
        return {"properties": {name: each for kind in alternatives for name, each in kind["properties"].items()}}

    @property
    def names(self) -> set[str]:
        """Names of all that a request may give."""
        return {each["name"] for each in self._parameters} | set(self._body["properties"])

    @property
    def required(self) -> set[str]:
        """Names of what a request must give beside the path."""
        query = {each["name"] for each in self._parameters if each["in"] == "query" and each["required"]}
        return query | set(self._body.get("required", ()))

    def request(self, fields: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the path, and the fields that are not in it."""
        path, rest = self.path, dict(fields)
        for name in self.placeholders:
            path = path.replace(f"{{{name}}}", quote(str(rest.pop(name)), safe=""))
        return path, rest

    def address(self, fields: Mapping[str, Any]) -> str:
        path, rest = self.request(fields)
        return f"{path}?{urlencode(rest)}" if rest else path

    def check_names(self, names: Iterable[str]) -> None:
        """Raise AssertionError for what is not described."""
        assert set(names) <= self.names, f"{self.name}: {set(names) - self.names}"

    def check_answer(self, code: int, body: Any) -> None:
        """Raise ValidationError for an answer that is not as described."""
        response = _resolved(self.described["responses"][str(code)])
        schema = response["content"]["application/json"]["schema"]
        Draft202012Validator({**schema, "components": description()["components"]}).validate(body)

    @property
    def answer_names(self) -> set[str]:
        """Names of all values of an answer."""
        content = self.described["responses"]["200"]["content"]
        return set(_names(content["application/json"]["schema"])) if "application/json" in content else set()


@cache
def operations() -> Mapping[str, Operation]:
    return {
        each["operationId"]: Operation(each["operationId"], method.upper(), path, each)
        for path, methods in description()["paths"].items()
        for method, each in methods.items()
    }


def operation(name: str) -> Operation:
    return operations()[name.replace("-", "_")]


def _names(schema: Any) -> Iterator[str]:
    schema = _resolved(schema)
    for each in schema.get("anyOf", ()):
        yield from _names(each)
    for name, each in schema.get("properties", {}).items():
        yield name
        yield from _names(each)
    if "items" in schema:
        yield from _names(schema["items"])


def _resolved(schema: Any) -> Any:
    """Follow a reference."""
    found: Any = description()
    if "$ref" not in schema:
        return schema
    for part in schema["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return _resolved(found)
