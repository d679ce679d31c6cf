"""Routes of the pages of a topic and of their forms, and their old addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pylogbroker.web.links import topic_link
from pylogbroker.web.page_routes import AgainRoute, moved, page
from pylogbroker.web.parameters import milliseconds
from pylogbroker.web.router import BadRequest
from pylogbroker.web.router.routes import HTML
from pylogbroker.web.topic_pages.creation import create_new_topic, new_topic
from pylogbroker.web.topic_pages.deletion import delete_topic_confirmed, topic_to_delete
from pylogbroker.web.topic_pages.groups import topic_groups
from pylogbroker.web.topic_pages.partitions import add_partitions, topic_partitions
from pylogbroker.web.topic_pages.settings import change_setting, topic_settings
from pylogbroker.web.topic_pages.writing import new_record, write_new_record
from pylogbroker.web.topic_records.query import RecordQuery


def _form(
    path: str, change: Callable[..., Any], template: str, after: Callable[[Mapping[str, Any]], str]
) -> AgainRoute:
    return AgainRoute("POST", path, change, media=HTML, template=template, after=after)


def _saved(done: Mapping[str, Any]) -> str:
    """Return the address of the settings that says what was saved, at the row of the setting."""
    rest = {name: value for name, value in done.items() if name != "topic"}
    return f"{topic_link(done['topic'], 'settings', **rest)}#{done['saved']}"


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


TOPIC_PAGES: Final = (
    page("/topics/{topic}/partitions", topic_partitions, "topic-partitions"),
    page("/topics/{topic}/groups", topic_groups, "topic-groups"),
    page("/topics/{topic}/settings", topic_settings, "topic-settings"),
    page("/topics/{topic}/delete", topic_to_delete, "topic-delete"),
    page("/topics/{topic}/records/new", new_record, "record-form"),
    page("/create-topic", new_topic),
    _form(
        "/topics/{topic}/partitions",
        add_partitions,
        "topic-partitions",
        lambda done: topic_link(done["topic"], "partitions"),
    ),
    _form("/topics/{topic}/settings", change_setting, "topic-settings", _saved),
    _form("/topics/{topic}/delete", delete_topic_confirmed, "topic-delete", lambda done: "/topics"),
    _form(
        "/topics/{topic}/records/new",
        write_new_record,
        "record-form",
        lambda done: RecordQuery(done["topic"], at=f"{done['partition']}:{done['offset']}").link(),
    ),
    _form("/create-topic", create_new_topic, "create-topic", lambda done: topic_link(done["name"])),
    moved("/topics/{topic}", lambda given: topic_link(given["topic"])),
    moved("/topic", lambda given: topic_link(given.get("name", ""))),
    moved("/topic-delete", lambda given: topic_link(given.get("name", ""), "delete")),
    moved("/records", _records),
)
