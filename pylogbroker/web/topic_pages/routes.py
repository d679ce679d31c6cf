"""Routes of the pages of a topic and of their forms, and their old addresses."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pylogbroker.web.links import topic_link
from pylogbroker.web.page_routes import form, moved, page
from pylogbroker.web.parameters import milliseconds
from pylogbroker.web.router import BadRequest
from pylogbroker.web.topic_pages.creation import create_new_topic, new_topic
from pylogbroker.web.topic_pages.deletion import delete_topic_confirmed, topic_to_delete
from pylogbroker.web.topic_pages.groups import topic_groups
from pylogbroker.web.topic_pages.partitions import add_partitions, topic_partitions
from pylogbroker.web.topic_pages.settings import change_setting, topic_settings
from pylogbroker.web.topic_pages.writing import new_record, write_new_record
from pylogbroker.web.topic_records.query import RecordQuery


def _saved(done: Mapping[str, Any]) -> str:
    """Return the address of the settings that says what was saved, at the row of the setting."""
    rest = {name: value for name, value in done.items() if name != "topic"}
    return f"{topic_link(done['topic'], 'settings', **rest)}#{done['saved']}"


def _written(done: Mapping[str, Any]) -> str:
    return RecordQuery(done["topic"], at=f"{done['partition']}:{done['offset']}").link()


def _records(given: Mapping[str, str]) -> str:
    """Return the address of the records of a partition, oldest first from the offset or the time on."""
    partition, offset, time = given.get("partition", "0"), given.get("offset", ""), given.get("time", "")
    query = RecordQuery(given.get("topic", ""), partition=partition, text=given.get("search", ""))
    start = f"{partition}:{offset}" if offset else _time(time) if time else ""
    return query.link(order="oldest", start=start) if start else query.link()


def _time(text: str) -> str:
    """Return a time as the field of the form has it: digits would be an offset there."""
    try:
        return datetime.fromtimestamp(milliseconds(text) / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
    except (BadRequest, OverflowError, ValueError, OSError):
        return text


_PARTITIONS: Final = page("/topics/{topic}/partitions", topic_partitions, "topic-partitions", is_live=True)
_SETTINGS: Final = page("/topics/{topic}/settings", topic_settings, "topic-settings")
_DELETE: Final = page("/topics/{topic}/delete", topic_to_delete, "topic-delete")
_WRITE: Final = page("/topics/{topic}/records/new", new_record, "record-form")
_CREATE: Final = page("/create-topic", new_topic)

TOPIC_PAGES: Final = (
    _PARTITIONS,
    page("/topics/{topic}/groups", topic_groups, "topic-groups"),
    _SETTINGS,
    _DELETE,
    _WRITE,
    _CREATE,
    form(_PARTITIONS.path, add_partitions, _PARTITIONS, lambda done: topic_link(done["topic"], "partitions")),
    form(_SETTINGS.path, change_setting, _SETTINGS, _saved),
    form(_DELETE.path, delete_topic_confirmed, _DELETE, lambda done: "/topics"),
    form(_WRITE.path, write_new_record, _WRITE, _written),
    form(_CREATE.path, create_new_topic, _CREATE, lambda done: topic_link(done["name"])),
    moved("/topics/{topic}", lambda given: topic_link(given["topic"])),
    moved("/topic", lambda given: topic_link(given.get("name", ""))),
    moved("/topic-delete", lambda given: topic_link(given.get("name", ""), "delete")),
    moved("/records", _records),
)
