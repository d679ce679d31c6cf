"""Changes to a resource's settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum

import attrs

from pylogbroker.config.setting import Setting
from pylogbroker.config.value_kinds import ConfigType, Value, render
from pylogbroker.errors import ConfigError
from pylogbroker.java.text import split_list, trim


class ConfigOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@attrs.frozen
class SettingChange:
    name: str
    operation: ConfigOperation
    value: str | None = None


def apply(
    current: Mapping[str, str],
    changes: Iterable[SettingChange],
    settings: Mapping[str, Setting],
    inherited: Mapping[str, Value] | None = None,
) -> dict[str, str | None]:
    """Return the changed settings, not validated; raise ConfigError if APPEND or SUBTRACT meets no list.

    A list missing in `current` is taken from `inherited`.
    """
    result: dict[str, str | None] = dict(current)
    for change in changes:
        if change.operation is ConfigOperation.SET:
            result[change.name] = change.value
        elif change.operation is ConfigOperation.DELETE:
            result.pop(change.name, None)
        else:
            before = _items(change.name, result, settings, inherited or {})
            result[change.name] = ",".join(_combine(before, change))
    return result


def _items(
    name: str,
    current: Mapping[str, str | None],
    settings: Mapping[str, Setting],
    inherited: Mapping[str, Value],
) -> list[str]:
    setting = settings.get(name)
    if setting is None or setting.kind.type is not ConfigType.LIST:
        raise ConfigError(f"{name}: not a list, so nothing can be appended to it or subtracted from it")
    text = current[name] if name in current else render(inherited.get(name, setting.default))
    return _split(text)


def _combine(before: list[str], change: SettingChange) -> list[str]:
    named = dict.fromkeys(_split(change.value))
    if change.operation is ConfigOperation.SUBTRACT:
        return [item for item in before if item not in named]
    present = set(before)
    return before + [item for item in named if item not in present]


def _split(text: str | None) -> list[str]:
    return [item for item in split_list(trim(text or "")) if item]
