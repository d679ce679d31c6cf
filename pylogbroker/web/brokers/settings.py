"""Settings of a broker with source, default and meaning, and the form that changes a dynamic one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypedDict

from pylogbroker.config import ConfigSource
from pylogbroker.config.units import is_size, unit_ms, without_unit
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.rpc.errors import raise_for
from pylogbroker.web.brokers.table import BrokerPage, broker_page
from pylogbroker.web.formats import duration_text, size_text
from pylogbroker.web.parameters import Index, Name, Search
from pylogbroker.web.router import BadRequest
from pylogbroker.web.router.values import whole_number
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from pylogbroker.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pylogbroker.wire.resource_types import ResourceType

_SET, _RESTORE = 0, 1
_SOURCES: Final[Mapping[int, str]] = {
    ConfigSource.DYNAMIC_BROKER_CONFIG: "this broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers",
    ConfigSource.STATIC_BROKER_CONFIG: "file",
    ConfigSource.DEFAULT_CONFIG: "built in",
}
_WRONG: Final = (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST)
Scope = Literal["this broker", "all brokers"]


class BrokerSetting(TypedDict):
    """`shown` is the value with a unit if it has one; both are None for a value that is hidden."""

    name: str
    value: str | None
    shown: str | None
    default: str | None
    source: str
    is_own: bool
    is_dynamic: bool
    is_hidden: bool
    documentation: str


class BrokerSettings(BrokerPage):
    search: str
    changed: bool
    edit: str
    all_settings: int
    own_settings: int
    settings: list[BrokerSetting]


class ChangedBrokerSetting(TypedDict):
    broker: int
    setting: str


async def broker_settings(
    visitor: Visitor, broker: Index, search: Search = "", changed: bool = False, edit: Name = ""
) -> BrokerSettings:
    """Return the settings of a broker that a text is in, by name; `edit` is the one whose form is shown."""
    page = await broker_page(visitor, broker)
    resource = DescribeConfigsResource(ResourceType.BROKER, str(broker), None)
    request = DescribeConfigsRequest([resource], True, True)
    result = await visitor.ask_one(request, "results", broker, resource_name=str(broker))
    raise_for(result.error_code, result.error_message)
    rows = [_setting(config) for config in result.configs]
    shown = [row for row in rows if _is_shown(row, search, changed) or row["name"] == edit]
    return {
        **page,
        "search": search,
        "changed": changed,
        "edit": edit,
        "all_settings": len(rows),
        "own_settings": sum(row["is_own"] for row in rows),
        "settings": shown,
    }


def _is_shown(row: BrokerSetting, search: str, changed: bool) -> bool:
    is_found = search in row["name"] or search.lower() in row["documentation"].lower()
    return is_found and (row["is_own"] or not changed)


def _setting(config: DescribeConfigsResourceResult) -> BrokerSetting:
    is_own = config.config_source != ConfigSource.DEFAULT_CONFIG
    default = None if is_own else _with_unit(config.name, config.value)
    for synonym in config.synonyms:
        if synonym.source == ConfigSource.DEFAULT_CONFIG:  # of another unit, perhaps: hours in place of milliseconds
            default = _with_unit(synonym.name, synonym.value)
            break
    return {
        "name": config.name,
        "value": config.value,
        "shown": _with_unit(config.name, config.value),
        "default": default,
        "source": _SOURCES.get(config.config_source, "not known"),
        "is_own": is_own,
        "is_dynamic": not config.read_only,
        "is_hidden": config.is_sensitive,
        "documentation": config.documentation or "",
    }


def _with_unit(name: str, value: str | None) -> str | None:
    """Return a time or a size with its unit; any other value as it is."""
    number, unit = whole_number(value or ""), unit_ms(name)
    if value is None or number is None:
        return value
    if unit is not None:
        return duration_text(number * unit) if 0 < number < 2**62 else value
    return size_text(number) if is_size(name) and 1024 <= number < 2**62 else value


async def alter_broker_setting(
    visitor: Visitor,
    broker: Index,
    edit: Annotated[Name, "the setting"],
    value: str = "",
    scope: Scope = "this broker",
    restore: bool = False,
) -> ChangedBrokerSetting:
    """Set a dynamic setting of one broker or of all, or restore what holds without it."""
    if broker not in (visitor.services.node.id, *visitor.services.metadata.image.brokers):
        raise KafkaError(f"there is no broker {broker} now", ErrorCode.RESOURCE_NOT_FOUND)
    change = AlterableConfig(edit, _SET, without_unit(edit, value).strip())
    if restore:
        change = AlterableConfig(edit, _RESTORE, None)
    name = str(broker) if scope == "this broker" else ""
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(ResourceType.BROKER, name, [change])])
    result = await visitor.ask_one(request, "responses", broker, resource_name=name)
    try:
        raise_for(result.error_code, result.error_message)
    except KafkaError as error:
        if error.code in _WRONG:
            raise BadRequest(str(error), "value") from None
        raise
    return {"broker": broker, "setting": edit}
