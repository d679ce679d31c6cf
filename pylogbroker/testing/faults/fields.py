"""Keys of the elements of messages: which topic, partition, group or transactional id a struct is about.

They follow from the schema. The same key has several names in Kafka's messages: a partition's number is `index`,
`partition`, `partition_index` or `partition_id`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final
from uuid import UUID

from pylogbroker.wire import NO_ID, Request
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.metadata import MetadataRequest
from pylogbroker.wire.schema import fields_of

TOPIC, TOPIC_ID, PARTITION, GROUP = "topic", "topic_id", "partition", "group"
TRANSACTION = "transactional_id"
ANY: Final = object()
"""Value of a key in a request for all elements."""

_ERROR_FIELDS: Final = ("error_code", "partition_error_code")

Keys = dict[str, Any]
TopicNames = Callable[[UUID], str | None]

_ROLES: Final = {
    "topic": TOPIC,
    "topic_name": TOPIC,
    "topic_id": TOPIC_ID,
    "index": PARTITION,
    "partition": PARTITION,
    "partition_index": PARTITION,
    "partition_id": PARTITION,
    "group_id": GROUP,
    "transactional_id": TRANSACTION,
    "v3_and_below_transactional_id": TRANSACTION,
    "user": "name",
    **{
        name: name
        for name in ("name", "key", "member_id", "group_instance_id", "resource_type", "resource_name", "feature")
    },
    **{name: name for name in ("entity", "producer_id")},
}
_ELEMENT_ROLES: Final = {
    "partitions": PARTITION,
    "partition_indexes": PARTITION,
    "topic_names": TOPIC,
    "groups": GROUP,
    "group_ids": GROUP,
    "groups_names": GROUP,
    "coordinator_keys": "key",
    "transactional_ids": TRANSACTION,
}
NOT_ASKED_FOR: Final = frozenset({"forgotten_topics_data", "configs", "protocols"})
_COORDINATOR_KEYS: Final = {0: GROUP, 1: TRANSACTION}


def struct_type(struct: Any) -> Any:
    return type(struct)


@cache
def roles_of(cls: Any) -> Mapping[str, str]:
    """Return the fields of a struct that are keys, by their roles."""
    roles = {}
    for field in fields_of(cls):
        role = _ROLES.get(field.name)
        if role == "name" and "Topic" in cls.__name__ and "Config" not in cls.__name__:
            role = TOPIC
        if role is not None and not (field.is_array and role != "entity"):
            roles[role] = field.name
    return roles


def element_role(field_name: str) -> str | None:
    """Return the role of the values of an array of numbers or strings."""
    return _ELEMENT_ROLES.get(field_name)


@cache
def error_field(cls: Any) -> str | None:
    return next((name for name in _ERROR_FIELDS if name in {field.name for field in fields_of(cls)}), None)


def keys_of(struct: Any, names: TopicNames) -> Keys:
    """Return the keys of a struct; a topic that is named by its id has its name, too."""
    keys = {role: getattr(struct, name) for role, name in roles_of(struct_type(struct)).items()}
    topic_id = keys.get(TOPIC_ID, NO_ID)
    if not keys.get(TOPIC) and topic_id != NO_ID:
        keys[TOPIC] = names(topic_id)
    return keys


def leaves(request: Request, version: int, names: TopicNames) -> Iterator[Keys]:
    """Yield the keys of each innermost element of a request."""
    base: Keys = {}
    if isinstance(request, FindCoordinatorRequest):
        role = _COORDINATOR_KEYS.get(request.key_type, "key")
        yield from ({role: key} for key in request.coordinator_keys or [request.key])
    elif isinstance(request, MetadataRequest) and version == 0 and not request.topics:
        yield {TOPIC: ANY}
    else:
        yield from _leaves(request, base, names)


def _leaves(struct: Any, base: Keys, names: TopicNames) -> Iterator[Keys]:
    own = base | keys_of(struct, names)
    is_inner = False
    for field in fields_of(struct_type(struct)):
        if not field.is_array or field.name in NOT_ASKED_FOR:
            continue
        role = element_role(field.name)
        values = getattr(struct, field.name)
        if isinstance(field.kind, type):
            roles = roles_of(field.kind)
            if values is None and TOPIC in roles:
                is_inner = True
                yield own | {TOPIC: ANY, PARTITION: ANY}
            for value in values or () if roles else ():
                is_inner = True
                yield from _leaves(value, own, names)
        elif role is not None:
            for value in values or ():
                is_inner = True
                yield own | {role: value}
    if not is_inner:
        yield own
