"""GUIDs of schemas as Confluent's registry computes them: the MD5 of text, references, metadata and rules.

Serializers that write schemas' GUIDs into headers thus name the same schema in every registry that has it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

from pylogbroker.schemas.values import Schema

_RULE_LISTS: Final = ("migrationRules", "domainRules", "encodingRules")
_RULE_TEXTS: Final = ("name", "doc", "kind", "mode", "type")
_RULE_ENDS: Final = ("expr", "onSuccess", "onFailure")


def guid_of(schema: Schema) -> UUID:
    digest = hashlib.md5(schema.text.encode("utf-8", "surrogatepass"), usedforsecurity=False)
    for reference in schema.references:
        digest.update(reference.name.encode() + reference.subject.encode())
        digest.update(reference.version.to_bytes(4, "big", signed=True))
    for content, parts in ((schema.metadata, _metadata), (schema.rule_set, _rules)):
        if content:
            digest.update(b"\1")
            for text in parts(json.loads(content)):
                digest.update(text.encode("utf-8", "surrogatepass"))
    return UUID(bytes=digest.digest())


def _metadata(metadata: dict[str, Any]) -> Iterator[str]:
    for name, values in sorted((metadata.get("tags") or {}).items()):
        yield name
        yield from sorted(map(str, values))
    for name, value in sorted((metadata.get("properties") or {}).items()):
        yield name
        yield str(value)
    yield from sorted(map(str, metadata.get("sensitive") or ()))


def _rules(rule_set: dict[str, Any]) -> Iterator[str]:
    for name in _RULE_LISTS:
        for rule in rule_set.get(name) or ():
            yield from _rule(rule)
    if rule_set.get("enableAt"):
        yield str(rule_set["enableAt"])


def _rule(rule: dict[str, Any]) -> Iterator[str]:
    for name in _RULE_TEXTS:
        if rule.get(name) is not None:
            yield str(rule[name])
    yield from sorted(map(str, rule.get("tags") or ()))
    for name, value in sorted((rule.get("params") or {}).items()):
        yield name
        yield str(value)
    for name in _RULE_ENDS:
        if rule.get(name) is not None:
            yield str(rule[name])
    if rule.get("disabled"):
        yield "\1"
