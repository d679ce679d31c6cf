"""Reference of all settings: text for terminals, JSON for programs, Markdown for `docs/`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from textwrap import fill

from pylogbroker.config.parsing import closest
from pylogbroker.config.setting import Scope, Setting
from pylogbroker.config.table import SETTINGS
from pylogbroker.config.value_kinds import render
from pylogbroker.errors import ConfigError

_TITLES: Mapping[str, Callable[[Setting], bool]] = {
    "Broker settings": lambda setting: setting.scope is Scope.BROKER and not setting.no_effect,
    "Topic settings": lambda setting: setting.scope is Scope.TOPIC and not setting.no_effect,
    "Settings without effect": lambda setting: bool(setting.no_effect),
}
_TABLE_HEAD = ("| setting | type | default | changed by | meaning |", "|---|---|---|---|---|")
_WIDTH = 100


def select(names: Iterable[str]) -> list[Setting]:
    """Return rows that match names or patterns (`log.retention.*`), or all; raise ConfigError for an unknown name."""
    patterns = list(names)
    if not patterns:
        return list(SETTINGS)
    for pattern in patterns:
        if not any(fnmatchcase(setting.name, pattern) for setting in SETTINGS):
            meant = closest(pattern, (setting.name for setting in SETTINGS))
            hint = f"; did you mean {meant}?" if meant else ""
            raise ConfigError(f"there is no setting {pattern!r}{hint}")
    return [setting for setting in SETTINGS if any(fnmatchcase(setting.name, pattern) for pattern in patterns)]


def as_text(settings: Sequence[Setting]) -> str:
    return "\n".join(_paragraph(setting) for setting in settings)


def as_json(settings: Sequence[Setting]) -> str:
    return json.dumps([facts(setting) for setting in settings], indent=2) + "\n"


def as_markdown(settings: Sequence[Setting]) -> str:
    lines = [
        "# Settings",
        "",
        "Settings have Kafka's names, units and defaults. This page is generated from the broker's own table:",
        "`twistd pylogbroker --describe-config --format markdown`.",
        "",
        "*Changed by* says how a value changes: `restart`, by the file or the command line; `admin`, by Kafka's tools",
        "and admin clients while the broker runs. A topic's setting that is not set takes its broker setting's value.",
        "Settings that Kafka 3.9 or 4.x defines and that this broker does not use are accepted, kept and shown.",
    ]
    for title, belongs in _TITLES.items():
        rows = sorted(filter(belongs, settings), key=lambda setting: setting.name)
        if rows:
            lines += [
                "",
                f"## {title}",
                "",
                "| setting | type | default | changed by | meaning |",
                "|---|---|---|---|---|",
            ]
            lines += [_table_row(setting) for setting in rows]
    return "\n".join(lines) + "\n"


FORMATS: Mapping[str, Callable[[Sequence[Setting]], str]] = {
    "text": as_text,
    "json": as_json,
    "markdown": as_markdown,
}


def facts(setting: Setting) -> dict[str, object]:
    """Return a row's facts; `default` is text as in a properties file, or None."""
    return {
        "name": setting.name,
        "scope": setting.scope.value,
        "type": setting.kind.type.name.lower(),
        "default": render(setting.default),
        "accepts": setting.kind.expected,
        "importance": setting.importance.value,
        "dynamic": setting.dynamic,
        "documentation": setting.doc,
        "has_effect": not setting.no_effect,
        "synonyms": [synonym.name for synonym in setting.synonyms],
    }


def _paragraph(setting: Setting) -> str:
    default = render(setting.default)
    summary = (
        f"{setting.scope.value} setting, {setting.kind.type.name.lower()}, "
        f"default {'none' if default is None else default or 'empty'}, {setting.importance.value} importance, "
        f"{'dynamic' if setting.dynamic else 'read-only'}; accepts {setting.kind.expected}"
    )
    indent = "    "
    lines = [fill(text, _WIDTH, initial_indent=indent, subsequent_indent=indent) for text in (summary, setting.doc)]
    return "\n".join((setting.name, *lines, ""))


def _table_row(setting: Setting) -> str:
    default = render(setting.default)
    cells = (
        f"`{setting.name}`",
        setting.kind.type.name.lower(),
        "" if default is None else f"`{default}`" if default else "empty",
        "admin" if setting.dynamic else "restart",
        setting.doc if setting.no_effect else f"{setting.doc} Accepts {setting.kind.expected}.",
    )
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
