"""Check whether a JSON Schema allows all values that an older one allows, by the rules of Confluent's registry.

Compared are: type, enum, const, bounds of strings, numbers, arrays and objects, pattern, multipleOf, uniqueItems,
properties, required, additionalProperties, items, additionalItems, dependencies, allOf, anyOf, oneOf, not, if.
Patterns that find properties are those of Java.
A property that is added to an open object is a problem, as in Confluent's registry: older values may have any value
there. Ignored are: format, and changes of patternProperties themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from pylogbroker.java.pattern import Pattern, TooManySteps
from pylogbroker.java.pattern_syntax import PatternError
from pylogbroker.registry.errors import RegistryError

_COMPARISONS_MAX: Final = 500_000
"""Pairs of schemas that are compared at most: alternatives and `$ref` may repeat them without end."""
_SHOWN_MAX: Final = 60
_SUMS: Final = ("anyOf", "oneOf")
_CONDITION: Final = ("if", "then", "else")
_ANNOTATIONS: Final = frozenset(
    (
        *("$schema", "$id", "id", "$comment", "title", "description", "default", "examples", "definitions", "$defs"),
        *("format", "readOnly", "writeOnly", "deprecated", "$anchor"),
    )
)
_UPPER: Final = ("maxLength", "maximum", "exclusiveMaximum", "maxItems", "maxProperties")
_LOWER: Final = ("minLength", "minimum", "exclusiveMinimum", "minItems", "minProperties")
_COUNTS: Final = ("minLength", "minItems", "minProperties")
_KINDS: Final = {
    "object": {"properties", "required", "additionalProperties", "patternProperties", "maxProperties", "minProperties"},
    "array": {"items", "additionalItems", "prefixItems", "maxItems", "minItems", "uniqueItems"},
    "string": {"maxLength", "minLength", "pattern"},
    "number": {"maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "multipleOf"},
}


@attrs.frozen(eq=False, repr=False)
class SchemaNode:
    """A schema, and what finds the ones that it refers to."""

    schema: Any
    resolver: Any

    def at(self, schema: Any) -> SchemaNode:
        return SchemaNode(schema, self.resolver)

    def resolved(self) -> SchemaNode:
        node, seen = self, 0
        while isinstance(node.schema, dict) and "$ref" in node.schema and seen < 100:  # a chain may lead to itself
            target = node.resolver.lookup(node.schema["$ref"])
            node, seen = SchemaNode(target.contents, target.resolver), seen + 1
        return node


@attrs.define(eq=False, repr=False)
class JsonComparison:
    """One comparison; what it finds below a pair of schemas that contain themselves holds for the pair."""

    _running: set[tuple[int, int]] = attrs.field(factory=set, init=False)
    _left: int = attrs.field(default=_COMPARISONS_MAX, init=False)
    _patterns: dict[str, Pattern] = attrs.field(factory=dict, init=False)

    def problems(self, old: SchemaNode, new: SchemaNode, path: str) -> Iterator[str]:
        """Yield what an older schema allows and a new one does not; raise RegistryError if that takes too long."""
        self._left -= 1
        if self._left < 0:
            raise RegistryError.invalid_schema(
                "it takes too many steps to be compared: use fewer alternatives and references within each other"
            )
        old, new = old.resolved(), new.resolved()
        pair = (id(old.schema), id(new.schema))
        if pair in self._running or old.schema is False or _is_open(new.schema):
            return
        if new.schema is False:
            yield f"TYPE_CHANGED at {path}: no value is allowed any more"
            return
        self._running.add(pair)
        try:
            yield from self._all_parts(old, new, path)
        finally:
            self._running.discard(pair)

    def _all_parts(self, old: SchemaNode, new: SchemaNode, path: str) -> Iterator[str]:
        old_parts, new_parts = _parts(old), _parts(new)
        if len(old_parts) == len(new_parts) == 1 and not (_is_sum(new_parts[0]) or _is_sum(old_parts[0])):
            yield from self._simple(old_parts[0], new_parts[0], path)  # the reasons are those of this comparison
            return
        for new_part in new_parts:
            if not any(self._allows(part, new_part, path) for part in old_parts):
                yield f"COMBINED_TYPE_SUBSCHEMAS_CHANGED at {path}: the older schema allows more"

    def _allows(self, old: SchemaNode, new: SchemaNode, path: str) -> bool:
        return not any(True for _ in self._part_problems(old, new, path))

    def _is_allowed(self, old: SchemaNode, new: SchemaNode, path: str) -> bool:
        return not any(True for _ in self.problems(old, new, path))

    def _part_problems(self, old: SchemaNode, new: SchemaNode, path: str) -> Iterator[str]:
        if _is_sum(old):
            for branch in _branches(old):
                yield from self.problems(branch, new, path)
            if "oneOf" in new.schema and "anyOf" in old.schema:
                yield f"COMBINED_TYPE_CHANGED at {path}: anyOf has become oneOf"
        elif _is_sum(new):
            if not any(self._is_allowed(old, branch, path) for branch in _branches(new)):
                yield f"SUM_TYPE_NARROWED at {path}: no schema of {next(iter(new.schema))} allows the older values"
        else:
            yield from self._simple(old, new, path)

    def _simple(self, old: SchemaNode, new: SchemaNode, path: str) -> Iterator[str]:
        """Compare schemas of one type at most, without allOf, anyOf and oneOf."""
        before, after = _kind(old.schema), _kind(new.schema)
        if after is not None and before != after and (before, after) != ("integer", "number"):
            is_narrower = (before, after) == ("number", "integer")
            yield f"{'TYPE_NARROWED' if is_narrower else 'TYPE_CHANGED'} at {path}: from {before} to {after}"
            return
        yield from _bounds(old.schema, new.schema, path)
        yield from self._objects(old, new, path)
        yield from self._arrays(old, new, path)
        if "not" in new.schema:
            if "not" not in old.schema:
                yield f"NOT_ADDED at {path}"
            else:
                for problem in self.problems(new.at(new.schema["not"]), old.at(old.schema["not"]), f"{path}not/"):
                    yield f"NOT_TYPE_EXTENDED: {problem}"

    def _objects(self, old: SchemaNode, new: SchemaNode, path: str) -> Iterator[str]:
        before, after = _properties(old.schema), _properties(new.schema)
        required = set(new.schema.get("required", ()))
        for name, schema in after.items():
            where = f"{path}properties/{name}/"
            if name in before:
                yield from self.problems(old.at(before[name]), new.at(schema), where)
                if name in required - set(old.schema.get("required", ())) and not _has_default(schema):
                    yield f"REQUIRED_ATTRIBUTE_ADDED at {path}required/{name}"
                continue
            if name in required and not _has_default(schema):
                yield f"REQUIRED_PROPERTY_ADDED at {where}: older values do not have it"
            covering = self._covering(old.schema, name)
            if covering is True and not _is_open(schema):
                yield f"PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL at {where}: older values may have another type there"
            elif isinstance(covering, dict):
                yield from self.problems(old.at(covering), new.at(schema), where)
        for name in before.keys() - after.keys():
            yield from self.problems(
                old.at(before[name]), new.at(self._covering(new.schema, name)), f"{path}properties/{name}/"
            )
        yield from self._rest(old, new, "additionalProperties", path)

    def _covering(self, schema: Mapping[str, Any], name: str) -> Any:
        """Return the schema for a property that is not named: by its pattern, or additionalProperties."""
        for pattern, subschema in schema.get("patternProperties", {}).items():
            if self._is_in(name, pattern):
                return subschema
        return schema.get("additionalProperties", True)

    def _is_in(self, name: str, pattern: str) -> bool:
        """Return whether a pattern is found in a name; raise RegistryError."""
        try:
            compiled = self._patterns.get(pattern) or self._patterns.setdefault(pattern, Pattern.compile(pattern))
            return next(compiled.find_all(name), None) is not None
        except PatternError as error:
            reason = str(error)
        except TooManySteps:
            reason = "it takes too many steps to match"
        raise RegistryError.invalid_schema(f"the pattern {pattern[:_SHOWN_MAX]!r} cannot be compared: {reason}")

    def _arrays(self, old: SchemaNode, new: SchemaNode, path: str) -> Iterator[str]:
        before, after = _tuple(old.schema), _tuple(new.schema)
        rests = [_array_rest(node.schema) for node in (old, new)]
        for index in range(max(len(before), len(after))):
            older = before[index] if index < len(before) else rests[0]
            newer = after[index] if index < len(after) else rests[1]
            yield from self.problems(old.at(older), new.at(newer), f"{path}items/{index}/")
        yield from self.problems(old.at(rests[0]), new.at(rests[1]), f"{path}items/")

    def _rest(self, old: SchemaNode, new: SchemaNode, name: str, path: str) -> Iterator[str]:
        older, newer = old.schema.get(name, True), new.schema.get(name, True)
        yield from self.problems(old.at(older), new.at(newer), f"{path}{name}/")


def _bounds(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[str]:
    for names, is_wider in ((_UPPER, lambda a, b: b >= a), (_LOWER, lambda a, b: b <= a)):
        for name in names:
            is_void = new.get(name, False) is False or (name in _COUNTS and new[name] == 0)
            if is_void or new[name] == old.get(name):
                continue
            if name not in old or isinstance(new[name], bool) or isinstance(old[name], bool):
                yield f"{_upper(name)}_ADDED at {path}{name}"
            elif not is_wider(old[name], new[name]):
                yield f"{_upper(name)}_{'DECREASED' if names is _UPPER else 'INCREASED'} at {path}{name}"
    factor = new.get("multipleOf")
    if factor is not None and ("multipleOf" not in old or old["multipleOf"] % factor):
        yield f"MULTIPLE_OF_CHANGED at {path}multipleOf"
    if new.get("pattern", old.get("pattern")) != old.get("pattern"):
        yield f"PATTERN_CHANGED at {path}pattern"
    if new.get("uniqueItems") and not old.get("uniqueItems"):
        yield f"UNIQUE_ITEMS_ADDED at {path}uniqueItems"
    allowed, earlier = _enumerated(new), _enumerated(old)
    if allowed is not None and (earlier is None or any(value not in allowed for value in earlier)):
        yield f"ENUM_ARRAY_NARROWED at {path}enum: older values are no longer allowed"
    for name in ("dependencies", "dependentRequired", "dependentSchemas"):
        for key, value in new.get(name, {}).items():
            if old.get(name, {}).get(key) != value:
                yield f"DEPENDENCY_CHANGED at {path}{name}/{key}"
    if any(name in new and new[name] != old.get(name) for name in _CONDITION):
        yield f"CONDITION_CHANGED at {path}if"


def _parts(node: SchemaNode) -> list[SchemaNode]:
    """Return schemas that all hold: those of allOf, each anyOf and oneOf, several types, and what is left."""
    schema = node.schema
    if _is_open(schema):
        return [node.at({})]
    rest = {name: value for name, value in schema.items() if name not in ("allOf", *_SUMS)}
    parts = [part for branch in schema.get("allOf", ()) for part in _parts(node.at(branch).resolved())]
    parts += [node.at({name: schema[name]}) for name in _SUMS if name in schema]
    types = rest.get("type")
    if isinstance(types, list):
        rest = {"anyOf": [{**rest, "type": kind} for kind in types]}
    if not _is_open(rest):
        parts.append(node.at(rest))
    return parts


def _is_open(schema: Any) -> bool:
    return schema is True or (isinstance(schema, dict) and not schema.keys() - _ANNOTATIONS)


def _is_sum(node: SchemaNode) -> bool:
    return any(name in node.schema for name in _SUMS)


def _branches(node: SchemaNode) -> list[SchemaNode]:
    [name] = [keyword for keyword in _SUMS if keyword in node.schema]
    return [node.at(branch) for branch in node.schema[name]]


def _kind(schema: Mapping[str, Any]) -> str | None:
    """Return the type; where it is not given, that of the keywords."""
    declared = schema.get("type")
    return declared or next((kind for kind, words in _KINDS.items() if schema.keys() & words), None)


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties: Mapping[str, Any] = schema.get("properties", {})
    return properties


def _has_default(schema: Any) -> bool:
    return isinstance(schema, dict) and "default" in schema


def _tuple(schema: Mapping[str, Any]) -> list[Any]:
    prefix = schema.get("prefixItems", schema.get("items"))
    return prefix if isinstance(prefix, list) else []


def _array_rest(schema: Mapping[str, Any]) -> Any:
    """Return the schema of the items without one of their own."""
    items = schema.get("items", True)
    return schema.get("additionalItems", True) if isinstance(items, list) else items


def _enumerated(schema: Mapping[str, Any]) -> list[Any] | None:
    values: list[Any] | None = [schema["const"]] if "const" in schema else schema.get("enum")
    return values


def _upper(name: str) -> str:
    return re.sub(r"([A-Z])", r"_\1", name).upper()
