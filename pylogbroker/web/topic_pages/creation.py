"""The form that creates a topic: what was typed stays, and each error stands at its field."""

from __future__ import annotations

from typing import Annotated, Final, TypedDict, Unpack

import attrs

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.web.changes import NewTopicRow, create_topic
from pylogbroker.web.formats import duration_text
from pylogbroker.web.page_routes import RejectedField
from pylogbroker.web.parameters import INT32_MAX
from pylogbroker.web.router import BadRequest
from pylogbroker.web.router.values import whole_number
from pylogbroker.web.topic_pages.setting_values import plain_value
from pylogbroker.web.visitors import Visitor

_REPLICAS_MAX: Final = 2**15 - 1
_FIELDS: Final = {
    ErrorCode.TOPIC_ALREADY_EXISTS: "name",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "name",
    ErrorCode.INVALID_PARTITIONS: "partitions",
    ErrorCode.INVALID_REPLICATION_FACTOR: "replication_factor",
    ErrorCode.INVALID_CONFIG: "settings",
}


class TopicFields(TypedDict, total=False):
    """Fields of the form as they are typed."""

    name: str
    partitions: str
    replication_factor: str
    retention: Annotated[str, "retention.ms, with a unit"]
    policy: Annotated[str, "cleanup.policy"]
    settings: Annotated[str, "one in a line, name=value"]


@attrs.frozen
class TopicForm:
    name: str = ""
    partitions: str = ""
    replication_factor: str = ""
    retention: str = ""
    policy: str = ""
    settings: str = ""


class CreatePage(TypedDict):
    """Values of the form, and the broker's defaults.

    The defaults are empty for a visitor who may not see the settings of the broker.
    """

    fields: TopicForm
    partitions: str
    replication_factor: str
    kept: str
    policy: str


async def new_topic(visitor: Visitor, **fields: Unpack[TopicFields]) -> CreatePage:
    """Return the form, with the broker's defaults for a new topic."""
    page: CreatePage = {
        "fields": TopicForm(**fields),
        "partitions": "",
        "replication_factor": "",
        "kept": "",
        "policy": "",
    }
    if visitor.sees_broker_settings:
        config = visitor.services.config
        defaults = config.topic({})
        page["partitions"] = str(config.num_partitions)
        page["replication_factor"] = str(config.default_replication_factor)
        page["kept"] = "no limit" if defaults.retention_ms < 0 else duration_text(defaults.retention_ms)
        page["policy"] = ",".join(defaults.cleanup_policy)
    return page


async def create_new_topic(visitor: Visitor, **fields: Unpack[TopicFields]) -> NewTopicRow:
    """Create a topic; raise BadRequest or RejectedField for what is not understood or not accepted."""
    form = TopicForm(**fields)
    if not form.name.strip():
        raise BadRequest("Write the name of the topic.", "name")
    partitions = _number("partitions", form.partitions, INT32_MAX)
    replicas = _number("replication_factor", form.replication_factor, _REPLICAS_MAX)
    settings = _settings(form)
    try:
        return await create_topic(visitor, form.name.strip(), partitions, replicas, settings)
    except KafkaError as failure:
        field = _FIELDS.get(failure.code, "")
        if field == "settings" and form.retention and failure.detail.startswith("retention.ms"):
            field = "retention"
        raise RejectedField(failure, field) from None


def _number(field: str, text: str, greatest: int) -> int | None:
    if not text.strip():
        return None
    number = whole_number(text)
    if number is None or not 0 < number <= greatest:
        raise BadRequest(f"Write a number from 1 to {greatest:,}, or nothing for the broker's default.", field)
    return number


def _settings(form: TopicForm) -> dict[str, str]:
    settings: dict[str, str] = {}
    if form.retention.strip():
        settings["retention.ms"] = plain_value("retention.ms", form.retention)
    if form.policy.strip():
        settings["cleanup.policy"] = form.policy.strip()
    for number, line in enumerate(form.settings.split("\n"), 1):
        name, equals, value = (part.strip() for part in line.partition("="))
        if line.strip():
            if not equals:
                raise BadRequest(f"Line {number} has no equals sign. Write name=value.", "settings")
            if name in settings:
                raise BadRequest(f"Line {number}: {name} is given twice.", "settings")
            settings[name] = plain_value(name, value)
    return settings
