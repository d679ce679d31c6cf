"""Settings of a topic: its own ones marked, each changed in its row, with what that would do before it is saved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Annotated, Final, TypedDict

import attrs

from pylogbroker.config import TOPIC, ConfigSource, Description, describe_topic, parse_overrides
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError
from pylogbroker.web.changes import restore_setting, set_setting
from pylogbroker.web.links import topic_link
from pylogbroker.web.page_routes import Preview, RejectedField
from pylogbroker.web.parameters import Name, Search
from pylogbroker.web.router.requests import TEXT_BYTES_MAX
from pylogbroker.web.topic_pages.consequences import consequences
from pylogbroker.web.topic_pages.head import TopicHead, TopicPage, topic_head
from pylogbroker.web.topic_pages.setting_values import (
    choices_of,
    field_text,
    hint_of,
    plain_value,
    raw_text,
    shown_value,
    unit_of,
)
from pylogbroker.web.topic_table import sees_settings
from pylogbroker.web.visitors import Visitor

_GROUPS: Final = (
    ("Keeping records", ("retention.", "cleanup.policy", "delete.policies", "segment.bytes", "segment.ms", "file.")),
    ("Compaction", ("min.cleanable.", "min.compaction.", "max.compaction.", "delete.retention.")),
    ("Writing", ("min.insync.", "max.message.", "compression.", "message.", "unclean.")),
    ("Files and replication", ("",)),
)
"""Heads, and how the names of their settings begin."""
_ARCHIVE: Final = ("Archive in a remote storage", ("local.", "remote."))
_SOURCES: Final = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: "this topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "this broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers",
    ConfigSource.STATIC_BROKER_CONFIG: "the broker's file",
    ConfigSource.DEFAULT_CONFIG: "built in",
}


@attrs.frozen
class TopicSetting:
    """`raw` is the value as the broker takes it, `value` and `default` as people read it."""

    name: str
    raw: str
    value: str
    default: str
    source: str
    is_own: bool
    meaning: Sequence[str]
    """Pieces of the description; every second one is code."""

    @property
    def raw_shown(self) -> str:
        return raw_text(self.raw)


class SettingGroup(TypedDict):
    title: str
    settings: Sequence[TopicSetting]


@attrs.frozen
class EditedSetting:
    """The row that is a field; `raw` is empty if what was typed is no value."""

    name: str
    typed: str
    raw: str
    choices: Sequence[str]
    hint: str
    consequences: Sequence[str]
    error: str

    @property
    def raw_shown(self) -> str:
        return f"{raw_text(self.raw)}{' ms' if unit_of(self.name) == 'time' else ''}"


@attrs.frozen
class SavedSetting:
    """A setting that was changed; `undo` is the address of the form with the value before, empty if that is not known.

    The address of this page says what the value was. Anybody can write such an address, so it fills in a form at most.
    """

    name: str
    value: str
    undo: str
    before: str


class SettingsPage(TopicPage):
    """`groups` is None for a visitor who may not see the settings."""

    groups: Sequence[SettingGroup] | None
    search: str
    changed: bool
    matches: int
    all_settings: int
    edited: EditedSetting | None
    saved: SavedSetting | None


Changed = Annotated[bool, "only the topic's own settings"]


async def topic_settings(
    visitor: Visitor,
    topic: Name,
    search: Search = "",
    changed: Changed = False,
    edit: Annotated[Name, "setting whose row is a field"] = "",
    value: Annotated[str, "text of the field"] = "",
    saved: Annotated[Name, "setting that was changed"] = "",
    was: Annotated[str, "its own value before"] = "",
    was_default: Annotated[bool, "it had no value of its own before"] = False,
) -> SettingsPage:
    """Return the settings, and for the one that is edited what its new value would do."""
    head = await topic_head(visitor, topic)
    page = _page(visitor, head, search, changed, edit)
    if page["groups"] is None:
        return page
    for name in filter(None, (edit, saved)):
        _require_known(name)
    if edit and head.rights.alter_settings:
        page["edited"] = await _edited(visitor, topic, edit, value)
    if saved:
        row = next(row for row in _settings(visitor, topic) if row.name == saved)
        before = shown_value(saved, was) if was else "the default"
        filters = {"search": search, "changed": "true" if changed else ""}
        undo = topic_link(topic, "settings", edit=saved, value=field_text(saved, was), **filters)
        page["saved"] = SavedSetting(saved, row.value, f"{undo}#{saved}" if was or was_default else "", before)
    return page


def _page(visitor: Visitor, head: TopicHead, search: str, changed: bool, edit: str) -> SettingsPage:
    rows = [*_settings(visitor, head.name)] if head.rights.see_settings else []
    word = search.lower()
    shown = [
        row
        for row in rows
        if row.name == edit
        or ((row.is_own or not changed) and (word in row.name or word in "".join(row.meaning).lower()))
    ]
    return {
        "head": head,
        "groups": [*_grouped(shown)] if head.rights.see_settings else None,
        "search": search,
        "changed": changed,
        "matches": len(shown),
        "all_settings": len(rows),
        "edited": None,
        "saved": None,
    }


def _settings(visitor: Visitor, topic: str) -> Iterator[TopicSetting]:
    services = visitor.services
    config = services.config
    inherited = {row.name: row.value for row in describe_topic(config, config.topic({}))}
    for row in describe_topic(config, config.topic(services.metadata.topic_settings(topic))):
        yield _setting(row, inherited[row.name])


def _setting(row: Description, default: str | None) -> TopicSetting:
    return TopicSetting(
        row.name,
        row.value or "",
        shown_value(row.name, row.value),
        shown_value(row.name, default),
        _SOURCES[row.source],
        row.source is ConfigSource.DYNAMIC_TOPIC_CONFIG,
        row.documentation.split("`"),
    )


def _grouped(rows: Sequence[TopicSetting]) -> Iterator[SettingGroup]:
    every = (*_GROUPS, _ARCHIVE)
    ordered = sorted(rows, key=lambda row: (_group(row.name), row.name))
    for number, members in groupby(ordered, key=lambda row: _group(row.name)):
        yield {"title": every[number][0], "settings": [*members]}


def _group(name: str) -> int:
    if name.startswith(_ARCHIVE[1]):
        return len(_GROUPS)
    return next(number for number, (_, beginnings) in enumerate(_GROUPS) if name.startswith(beginnings))


def _require_known(name: str) -> None:
    """Raise KafkaError for an unknown setting."""
    try:
        parse_overrides({} if name in TOPIC else {name: ""})
    except ConfigError as error:
        raise KafkaError(str(error), ErrorCode.RESOURCE_NOT_FOUND) from None


async def _edited(visitor: Visitor, topic: str, name: str, typed: str) -> EditedSetting:
    """Return the field of a setting, with its value now if nothing was typed."""
    settings = visitor.services.config.topic(visitor.services.metadata.topic_settings(topic))
    row = next(row for row in describe_topic(visitor.services.config, settings) if row.name == name)
    text = typed or field_text(name, row.value or "")
    raw, sentences, error = plain_value(name, text), list[str](), ""
    if typed:
        try:
            image = visitor.services.metadata.require_topic(topic)
            sentences = await consequences(visitor, image, name, raw)
        except ConfigError as failure:
            error = f"{_reason(name, str(failure))}."
    choices = choices_of(name)
    others = (text,) if choices and text not in choices else ()
    raw = "" if error else raw
    return EditedSetting(name, text, raw, (*choices, *others), hint_of(name), sentences, error)


def _reason(name: str, text: str) -> str:
    return text.removeprefix(f"{name}: ").rstrip(".")


async def change_setting(
    visitor: Visitor,
    topic: Name,
    edit: Annotated[Name, "the setting"],
    value: str = "",
    restore: Annotated[bool, "use the default"] = False,
    preview: Annotated[bool, "only say what the value would do"] = False,
    search: Search = "",
    changed: Changed = False,
) -> dict[str, str]:
    """Change a setting of a topic, or use its default again; raise Preview to say only what that would do."""
    _require_known(edit)
    if preview and not restore:
        raise Preview
    before = _own_value(visitor, topic, edit)
    try:
        if restore:
            await restore_setting(visitor, topic, edit)
        else:
            await set_setting(visitor, topic, edit, plain_value(edit, value))
    except KafkaError as failure:
        if failure.code is not ErrorCode.INVALID_CONFIG:
            raise
        raise RejectedField(KafkaError(_reason(edit, failure.detail), failure.code), "value") from None
    filters = {"search": search, "changed": "true" if changed else ""}
    return {"topic": topic, "saved": edit, **before, **filters}


def _own_value(visitor: Visitor, topic: str, name: str) -> dict[str, str]:
    """Return parameters that say what a setting is now; none for who may not see it, or if it is too long."""
    if not sees_settings(visitor, topic):
        return {}
    own = visitor.services.metadata.topic_settings(topic)
    if name not in own:
        return {"was_default": "true"}
    return {"was": own[name]} if len(own[name].encode()) <= TEXT_BYTES_MAX else {}
