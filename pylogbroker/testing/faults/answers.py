"""Error answers, derived from the schema: an error is put where the response has a field for it.

| the error or the criteria are about | the error goes to                                                     |
|-------------------------------------|-----------------------------------------------------------------------|
| a partition                         | the innermost elements                                                |
| a topic                             | the elements for topics; the innermost, if those have no field for it |
| neither                             | the outermost field                                                   |

Numbers that say nothing beside an error are -1, as Kafka has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import attrs

from pylogbroker.errors import ErrorCode
from pylogbroker.testing.faults.criteria import Call, Criteria
from pylogbroker.testing.faults.fields import (
    NOT_ASKED_FOR,
    PARTITION,
    TOPIC,
    TOPIC_ID,
    Keys,
    TopicNames,
    element_role,
    error_field,
    keys_of,
    roles_of,
    struct_type,
)
from pylogbroker.wire.messages.metadata import MetadataResponse
from pylogbroker.wire.schema import Field, FieldType, fields_of

_OF_TOPICS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)
_OF_PARTITIONS = frozenset(
    {
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
    }
)
_KEPT = frozenset({"throttle_time_ms", "session_id", "batch_index"})
_NUMBERS = frozenset({FieldType.INT32, FieldType.INT64})

Select = Callable[[Keys], bool]


@attrs.frozen(eq=False, repr=False)
class ErrorAnswers:
    """Answers of one error to the elements of a request that `criteria` select."""

    call: Call
    criteria: Criteria
    code: ErrorCode

    @property
    def target(self) -> Any:
        """Struct of the response that gets the error; None: no field in this version."""
        response: Any = self.call.api.response
        levels = _levels(response, self.call.context.api_version)
        if not levels:
            return None
        elements = self.criteria.elements
        if PARTITION in elements or self.code in _OF_PARTITIONS:
            return levels[-1]
        if TOPIC in elements or self.code in _OF_TOPICS:
            return next((level for level in levels if TOPIC in roles_of(level)), levels[-1])
        return levels[0]

    @property
    def concerns_whole_request(self) -> bool:
        return self.target is self.call.api.response

    def mirrored(self) -> Any:
        """Return a response to the selected elements alone."""
        return self._mirror(self.call.api.response, self.call.whole_request, {}, self.target)

    def _mirror(self, cls: Any, source: Any, above: Keys, target: Any) -> Any:
        names, version = self.call.topic_names, self.call.context.api_version
        made, roles = cls(), roles_of(cls)
        keys = above | keys_of(source, names)
        for role, name in roles.items():
            value = keys.get(role)
            if value is not None and _field(cls, name).is_in(version):
                setattr(made, name, value)
        if cls is target:
            fail(made, self.code, version)
        for field in _arrays_to(cls, target, version):
            assert isinstance(field.kind, type)
            elements = []
            for element, element_keys in _sources(source, field.kind, version, names):
                if self.criteria.admits(keys | element_keys):
                    answer = self._mirror(field.kind, element, keys | element_keys, target)
                    if field.kind is target or _is_filled(answer, target, version):
                        elements.append(answer)
            setattr(made, field.name, elements)
        return made

    def overwrite(self, response: Any) -> int:
        """Put the error into the selected elements of a response; return their number."""
        return self._overwrite(response, {}, self.target)

    def _overwrite(self, struct: Any, above: Keys, target: Any) -> int:
        keys = above | keys_of(struct, self.call.topic_names)
        if not self.criteria.admits(keys):
            return 0
        if struct_type(struct) is target:
            fail(struct, self.code, self.call.context.api_version)
            return 1
        arrays = _arrays_to(struct_type(struct), target, self.call.context.api_version)
        return sum(
            self._overwrite(element, keys, target) for field in arrays for element in getattr(struct, field.name)
        )

    def rest(self) -> Any:
        """Return the request without the selected elements; None if nothing is left."""
        if not self.criteria.elements:
            return None
        return _without(self.call.request, {}, self.criteria, self.call.topic_names)


def fail(struct: Any, code: ErrorCode, version: int) -> None:
    """Set an error; clear what says nothing beside it."""
    roles = set(roles_of(struct_type(struct)).values())
    for field in fields_of(struct_type(struct)):
        if not field.is_in(version):
            continue
        if field.kind is FieldType.RECORDS:
            setattr(struct, field.name, b"")
        elif field.name == "error_message":
            setattr(struct, field.name, code.meaning)
        elif field.kind in _NUMBERS and field.default == 0 and field.name not in roles | _KEPT:
            setattr(struct, field.name, -1)
    setattr(struct, str(error_field(struct_type(struct))), int(code))


def merge(into: Any, other: Any, names: TopicNames) -> Any:
    """Add the elements of another response of the same API, those of the same topic together."""
    for field in fields_of(struct_type(into)):
        if not field.is_array or not isinstance(field.kind, type):
            continue
        elements, added = getattr(into, field.name), getattr(other, field.name)
        by_keys = {_identity(element, names): element for element in elements or ()}
        for addition in added or ():
            same = by_keys.get(_identity(addition, names))
            if same is None or not roles_of(field.kind):
                elements.append(addition)
            else:
                merge(same, addition, names)
    return into


def _identity(struct: Any, names: TopicNames) -> Any:
    keys = keys_of(struct, names)
    return tuple(str(keys.get(role)) for role in sorted(roles_of(struct_type(struct))) if role != TOPIC_ID)


@cache
def _levels(cls: Any, version: int) -> tuple[type, ...]:
    """Return the structs with an error, outermost first.

    Clients take an error of Metadata for one of a topic: what the response has itself is about the client's bootstrap.
    """
    levels = []
    if (name := error_field(cls)) is not None and cls is not MetadataResponse and _field(cls, name).is_in(version):
        levels.append(cls)
    for field in fields_of(cls):
        if field.is_array and isinstance(field.kind, type) and field.is_in(version):
            levels += _levels(field.kind, version)
    return tuple(levels)


@cache
def _arrays_to(cls: Any, target: Any, version: int) -> tuple[Field, ...]:
    """Return the arrays that contain the target."""
    if cls is target:
        return ()
    arrays = (field for field in fields_of(cls) if field.is_array and isinstance(field.kind, type))
    return tuple(field for field in arrays if field.is_in(version) and target in _levels(field.kind, version))


@cache
def _field(cls: Any, name: str) -> Field:
    return next(field for field in fields_of(cls) if field.name == name)


def _is_filled(answer: Any, target: Any, version: int) -> bool:
    return any(getattr(answer, field.name) for field in _arrays_to(struct_type(answer), target, version))


def _sources(source: Any, struct: Any, version: int, names: TopicNames) -> list[tuple[Any, Keys]]:
    """Return the elements of a request's struct that a struct of the response answers, with their keys."""
    sources = list(_direct_sources(source, struct, version, names))
    if sources:
        return sources
    arrays = (field for field in fields_of(struct_type(source)) if field.is_array and isinstance(field.kind, type))
    inner = (value for field in arrays if field.is_in(version) for value in getattr(source, field.name) or ())
    return [pair for value in inner for pair in _sources(value, struct, version, names)]


def _direct_sources(source: Any, struct: Any, version: int, names: TopicNames) -> Iterator[tuple[Any, Keys]]:
    roles = set(roles_of(struct))
    for field in fields_of(struct_type(source)):
        if not field.is_array or not field.is_in(version) or field.name in NOT_ASKED_FOR:
            continue
        values = getattr(source, field.name) or ()
        if isinstance(field.kind, type):
            if not roles or roles & set(roles_of(field.kind)):
                yield from ((value, keys_of(value, names)) for value in values)
        elif (role := element_role(field.name)) in roles and role is not None:
            yield from ((_NOTHING, {role: value}) for value in values)


@attrs.define
class _Nothing:
    """Source without fields: the element of an array of numbers or strings."""


_NOTHING = _Nothing()


def _without(struct: Any, above: Keys, criteria: Criteria, names: TopicNames) -> Any:
    keys = above | keys_of(struct, names)
    if criteria.selects(keys):
        return None
    if not criteria.admits(keys):
        return struct
    changes: dict[str, Any] = {}
    for field in fields_of(struct_type(struct)):
        values = getattr(struct, field.name)
        if not field.is_array or not values:
            continue
        role = element_role(field.name)
        if isinstance(field.kind, type):
            if roles_of(field.kind):
                left = [_without(value, keys, criteria, names) for value in values]
                changes[field.name] = [value for value in left if value is not None]
        elif role is not None:
            changes[field.name] = [value for value in values if not criteria.selects(keys | {role: value})]
    if changes and not any(changes.values()):
        return None
    return attrs.evolve(struct, **changes)
