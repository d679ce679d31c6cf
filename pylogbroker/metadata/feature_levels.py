"""Features of the cluster and their levels (KIP-584, KIP-1022): what may be changed to what.

Level 0 is a feature that is off. Errors and their texts are Kafka 4.4's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

import attrs

from pylogbroker.errors import ConfigError, ErrorCode, KafkaError
from pylogbroker.java.text import is_digits

METADATA_VERSION: Final = "metadata.version"
GROUP_VERSION: Final = "group.version"
TRANSACTION_VERSION: Final = "transaction.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"
_DIGITS_MAX: Final = 5  # levels have 16 bits


class ChangeKind(IntEnum):
    """Direction that a change allows, as clients send it."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@attrs.frozen
class LevelRange:
    first: int
    last: int


@attrs.frozen
class LevelChange:
    feature: str
    level: int
    upgrade_type: int = ChangeKind.UPGRADE


SUPPORTED_LEVELS: Final[Mapping[str, LevelRange]] = {
    METADATA_VERSION: LevelRange(7, 33),  # 3.3-IV3 to 4.4-IV2
    GROUP_VERSION: LevelRange(0, 1),  # 1: consumer groups of KIP-848
    TRANSACTION_VERSION: LevelRange(0, 2),  # 1: flexible records of states; 2: transactions v2
    SHARE_VERSION: LevelRange(0, 2),  # 1: share groups of KIP-932; 2: their dead letters
    STREAMS_VERSION: LevelRange(0, 1),  # 1: groups of Kafka Streams, KIP-1071
}
"""Levels that this broker supports; a new feature has a row here."""
KRAFT_LEVELS: Final[Mapping[str, LevelRange]] = {
    **SUPPORTED_LEVELS,
    "eligible.leader.replicas.version": LevelRange(0, 1),  # of the controllers alone
}
"""Levels that a member of a cluster of KRaft controllers supports."""


def initial_levels(given: Iterable[str] = ()) -> dict[str, int]:
    """Return the levels of a new cluster: the newest ones, except those given as "name=level".

    Raise ConfigError for a feature or a level that is not supported.
    """
    levels = {name: supported.last for name, supported in SUPPORTED_LEVELS.items()}
    named = set()
    for text in given:
        name, _, level = (part.strip() for part in text.partition("="))
        supported = SUPPORTED_LEVELS.get(name)
        if supported is None or not _is_level(level, supported):
            raise ConfigError(f"initial.features: {text!r} is not accepted; expected some of {_supported_texts()}")
        if name in named:
            raise ConfigError(f"initial.features: {name} has two levels; remove one of them")
        named.add(name)
        levels[name] = int(level)
    return {name: level for name, level in levels.items() if level}


def _is_level(text: str, supported: LevelRange) -> bool:
    return is_digits(text) and len(text) <= _DIGITS_MAX and supported.first <= int(text) <= supported.last


def _supported_texts() -> str:
    return ", ".join(f"{name}={levels.first} to {levels.last}" for name, levels in SUPPORTED_LEVELS.items())


def changed(levels: Mapping[str, int], changes: Iterable[LevelChange]) -> dict[str, int]:
    """Return the levels after all changes; raise KafkaError if one of them is not allowed."""
    after = dict(levels)
    for change in changes:
        problem = _problem(levels.get(change.feature, 0), change)
        if problem is not None:
            raise KafkaError(
                f"The update failed for all features since the following feature had an error: {problem}",
                ErrorCode.INVALID_UPDATE_VERSION,
            )
        after[change.feature] = change.level
    return {name: level for name, level in after.items() if level}


def _problem(before: int, change: LevelChange) -> str | None:
    name, level = change.feature, change.level
    start = f"Invalid update version {level} for feature {name}."
    if change.upgrade_type not in list(ChangeKind):
        return f"{start} The controller does not support the given upgrade type."
    if level < 0:
        return f"{start} A feature version cannot be less than 0."
    levels = SUPPORTED_LEVELS.get(name)
    if levels is None:
        return f"{start} This broker does not support this feature."
    if not levels.first <= level <= levels.last:
        return f"{start} This broker only supports versions {levels.first}-{levels.last}"
    if level >= before:
        return None
    if change.upgrade_type == ChangeKind.UPGRADE:
        return (
            f"{start} Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    if name == METADATA_VERSION:
        return f"Unsupported metadata.version downgrade from {before} to {level}."
    return None
