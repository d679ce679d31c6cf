"""Rules of topic names and ids."""

from __future__ import annotations

import re
from typing import Final

from pylogbroker.errors import ErrorCode, KafkaError

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
SHARE_STATE_TOPIC: Final = "__share_group_state"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})
NAME_LENGTH_MAX: Final = 249

_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9._-]")


def check_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION for an invalid name."""
    problem = name_problem(name)
    if problem:
        raise KafkaError(f"Topic name is invalid: {problem}", ErrorCode.INVALID_TOPIC_EXCEPTION)


def name_problem(name: str) -> str | None:
    if not name:
        return "it is empty"
    if name in (".", ".."):
        return f"{name!r} is a directory's name; choose another"
    if len(name) > NAME_LENGTH_MAX:
        return f"it has {len(name)} characters, at most {NAME_LENGTH_MAX} are allowed"
    if _ILLEGAL.search(name):
        return f"{name!r} has characters other than ASCII letters, digits, '.', '_' and '-'"
    return None


def collision_key(name: str) -> str:
    """Return equal texts for names that collide in metrics, where '.' and '_' are the same."""
    return name.replace(".", "_")
