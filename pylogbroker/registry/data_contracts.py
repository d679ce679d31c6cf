"""Metadata and rules of schemas: checks, and what settings of a subject add to them.

    defaultMetadata, defaultRuleSet      below those of the schema
    overrideMetadata, overrideRuleSet    above them

Members of maps are merged by name, rules by theirs, and lists of texts are joined.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pylogbroker.registry.errors import RegistryError
from pylogbroker.schemas.values import Schema

_RULE_LISTS: Final = ("migrationRules", "domainRules", "encodingRules")
_MIGRATION_MODES: Final = ("UPGRADE", "DOWNGRADE", "UPDOWN")
_NAME_MAX: Final = 64


def completed(schema: Schema, settings: Mapping[str, Any], previous: Schema | None) -> Schema:
    """Return a schema with the metadata and rules that it is registered with.

    One without any has those of the version before.
    """
    metadata = schema.metadata or (previous.metadata if previous is not None else "")
    rule_set = schema.rule_set or (previous.rule_set if previous is not None else "")
    merged_metadata = _merged(
        _merge_metadata, settings.get("defaultMetadata"), metadata, settings.get("overrideMetadata")
    )
    merged_rules = _merged(_merge_rules, settings.get("defaultRuleSet"), rule_set, settings.get("overrideRuleSet"))
    return Schema(schema.text, schema.kind, schema.references, merged_metadata, merged_rules)


def _merged(merge: Any, default: Any, own: str, override: Any) -> str:
    value = merge(merge(default or {}, json.loads(own) if own else {}), override or {})
    return json.dumps(value, separators=(",", ":"), sort_keys=True) if value else ""


def _merge_metadata(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    tags = {**(below.get("tags") or {})}
    for path, values in (above.get("tags") or {}).items():
        tags[path] = sorted({*tags.get(path, ()), *values})
    properties = {**(below.get("properties") or {}), **(above.get("properties") or {})}
    sensitive = sorted({*(below.get("sensitive") or ()), *(above.get("sensitive") or ())})
    members = {"tags": tags, "properties": properties, "sensitive": sensitive}
    return {name: value for name, value in members.items() if value}


def _merge_rules(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for name in _RULE_LISTS:
        upper = above.get(name) or []
        names = {rule["name"] for rule in upper}
        rules = [rule for rule in below.get(name) or [] if rule["name"] not in names] + upper
        if rules:
            merged[name] = rules
    enabled_at = above.get("enableAt") or below.get("enableAt")
    return merged | ({"enableAt": enabled_at} if enabled_at else {})


def check_metadata(value: object) -> None:
    """Raise RegistryError for a value that is no metadata."""
    if value is None:
        return
    metadata = _object(value, "metadata")
    for path, tags in _object(metadata.get("tags") or {}, "metadata.tags").items():
        _texts(tags, f"metadata.tags of {path}")
    properties = _object(metadata.get("properties") or {}, "metadata.properties")
    _texts(list(properties.values()), "metadata.properties")
    _texts(metadata.get("sensitive") or [], "metadata.sensitive")


def check_rule_set(value: object) -> None:
    """Raise RegistryError for a value that is no set of rules."""
    if value is None:
        return
    rule_set = _object(value, "ruleSet")
    names: set[str] = set()
    for kind in _RULE_LISTS:
        rules = rule_set.get(kind) or []
        if not isinstance(rules, list):
            raise RegistryError.unprocessable(f"ruleSet.{kind} is no array")
        for rule in rules:
            _check_rule(rule, kind, names)


def _check_rule(rule: object, kind: str, names: set[str]) -> None:
    members = _object(rule, f"a rule of ruleSet.{kind}")
    name = members.get("name")
    if not isinstance(name, str) or not name:
        raise RegistryError.invalid_rules("Missing rule name")
    if len(name) > _NAME_MAX or not all(character.isalnum() or character in "_-" for character in name):
        raise RegistryError.invalid_rules(f"Rule name '{name[:_NAME_MAX]}' is too long, or has an illegal character")
    if name in names:
        raise RegistryError.invalid_rules(f"Found rule with duplicate name '{name}'")
    names.add(name)
    if not isinstance(members.get("type"), str):
        raise RegistryError.invalid_rules(f"Missing rule type of '{name}'")
    is_migration = members.get("mode") in _MIGRATION_MODES
    if is_migration != (kind == "migrationRules"):
        raise RegistryError.invalid_rules(f"Rule '{name}' of {kind} has the mode {members.get('mode')}")
    for part in ("tags", "params"):
        content = members.get(part)
        if content:
            _texts(list(content.values()) if isinstance(content, dict) else content, f"{part} of rule '{name}'")


def _object(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RegistryError.unprocessable(f"{name} is no object")
    return value


def _texts(value: object, name: str) -> None:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise RegistryError.unprocessable(f"{name} has a value that is no text")
