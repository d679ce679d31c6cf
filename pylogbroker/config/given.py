"""Settings that a Python program gives, as the texts of a file.

    texts_of({"num.partitions": 3, "log_dirs": Path("data")})     {"num.partitions": "3", "log.dirs": "data"}
    broker_texts({"num.partitons": 3})                            ConfigError: did you mean num.partitions?

A name without a dot may have underscores in place of dots, as keyword arguments have. None selects the default.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from pylogbroker.config import table, unused_settings
from pylogbroker.config.parsing import closest, parse
from pylogbroker.config.value_kinds import render
from pylogbroker.errors import ConfigError


def texts_of(settings: object, argument: str = "settings") -> dict[str, str]:
    """Return texts by Kafka's names; raise ConfigError for a value that has none. `argument` names the mapping."""
    return {name: text for name, text in _texts_or_none(settings, argument).items() if text is not None}


def broker_texts(settings: object, argument: str = "settings", arguments: Iterable[str] = ()) -> dict[str, str]:
    """Return the texts of a broker's settings.

    Raise ConfigError for a name that no release of Kafka and no part of this broker knows, and for a value that its
    setting does not accept. `arguments` are names that may be meant, too.
    """
    texts = _texts_or_none(settings, argument)
    for name, text in texts.items():
        setting = table.broker_setting(name)
        if setting is None and unused_settings.reason_without_effect(name) is None:
            raise no_such_setting(name, arguments)
        if setting is not None and text is not None:
            parse(setting, text)
    return {name: text for name, text in texts.items() if text is not None}


def no_such_setting(name: str, arguments: Iterable[str] = ()) -> ConfigError:
    """Return the error for an unknown name, with the most similar setting or argument."""
    by_name = {argument.replace("_", "."): f"the argument {argument}" for argument in arguments}
    near = closest(name, [*by_name, *table.BROKER])
    return ConfigError(
        f"{name}: there is no such broker setting" + (f"; did you mean {by_name.get(near, near)}?" if near else "")
    )


def _texts_or_none(settings: object, argument: str) -> dict[str, str | None]:
    if settings is None:
        return {}
    if not isinstance(settings, Mapping):
        raise ConfigError(
            f"{argument}: {settings!r} is not accepted; expected a mapping such as {{'num.partitions': 3}}"
        )
    texts: dict[str, str | None] = {}
    for given, value in settings.items():
        if not isinstance(given, str):
            raise ConfigError(f"{argument}: {given!r} is not the name of a setting; expected a text")
        name = given if "." in given else given.replace("_", ".")
        if name in texts:
            raise ConfigError(f"{name} is given twice: in {argument}, with dots and with underscores")
        texts[name] = None if value is None else _text(name, value)
    return texts


def _text(name: str, value: Any) -> str:
    match value:
        case str():
            return value
        case bool() | int() | float():
            return render(value) or ""
        case os.PathLike():
            return str(os.fspath(value))
        case list() | tuple() | set() | frozenset():
            return ",".join(_text(name, part) for part in value)
    setting = table.broker_setting(name)
    shown = "this value" if setting is not None and setting.sensitive else repr(value)
    raise ConfigError(f"{name}: {shown} is not accepted; expected a text, a number, a boolean or a list of these")
