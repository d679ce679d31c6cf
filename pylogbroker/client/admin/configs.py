"""Settings of topics and brokers: describe, and change single ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final, Self

import attrs

from pylogbroker.client import arguments
from pylogbroker.client.admin.routing import NodeRoute, Router, deferred, outcome
from pylogbroker.config.changes import SettingChange
from pylogbroker.errors import KafkaError
from pylogbroker.java.text import is_digits
from pylogbroker.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from pylogbroker.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


class ConfigResourceType(IntEnum):
    """Kinds of what has settings. Numbers are those of Kafka's protocol."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    GROUP = 32


_OF_BROKERS: Final = (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)
_EXAMPLE: Final = "ConfigResource.topic('orders')"
_CHANGE_EXAMPLE: Final = "SettingChange('retention.ms', ConfigOperation.SET, '1000')"
_SOURCES = {
    1: "topic",
    2: "broker",
    3: "cluster",
    4: "static",
    5: "default",
    6: "logger",
    7: "client-metrics",
    8: "group",
}
_TYPES = {
    1: "boolean",
    2: "string",
    3: "int",
    4: "short",
    5: "long",
    6: "double",
    7: "list",
    8: "class",
    9: "password",
}


@attrs.frozen
class ConfigResource:
    """Topic, broker or group with settings; a broker without a name stands for the defaults of all brokers."""

    type: ConfigResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> Self:
        return cls(ConfigResourceType.TOPIC, name)

    @classmethod
    def broker(cls, broker_id: int | None) -> Self:
        return cls(ConfigResourceType.BROKER, "" if broker_id is None else str(broker_id))

    @classmethod
    def group(cls, group_id: str) -> Self:
        return cls(ConfigResourceType.GROUP, group_id)

    def __str__(self) -> str:
        return f"{self.type.name.lower().replace('_', ' ')} {self.name or 'defaults'}"


@attrs.frozen
class ConfigSynonym:
    """Setting that gives the value if those before it are missing."""

    name: str
    value: str | None
    source: str


@attrs.frozen
class ConfigEntry:
    """Setting with its effective value: None if it is sensitive or has none."""

    name: str
    value: str | None
    source: str
    type: str
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        return self.source == "default"


Configs = dict[str, ConfigEntry]


@attrs.frozen(eq=False, repr=False)
class ConfigAdmin:
    _router: Router

    @deferred
    async def describe(
        self,
        resources: Iterable[ConfigResource],
        names: Sequence[str] | None = None,
        *,
        synonyms: bool = False,
        documentation: bool = False,
    ) -> dict[ConfigResource, Configs]:
        """Return settings by resource and name; by default all of them."""

        keys = None if names is None else arguments.names("names", names)

        def make(batch: Sequence[ConfigResource]) -> DescribeConfigsRequest:
            rows = [DescribeConfigsResource(resource.type, resource.name, keys) for resource in batch]
            return DescribeConfigsRequest(rows, synonyms, documentation)

        def read(response: DescribeConfigsResponse) -> Iterator[tuple[ConfigResource, Configs | KafkaError]]:
            for result in response.results:
                resource = ConfigResource(ConfigResourceType(result.resource_type), result.resource_name)
                entries = {entry.name: _entry(entry) for entry in result.configs}
                yield resource, outcome(resource, result.error_code, result.error_message, entries)

        given = arguments.instances("resources", resources, ConfigResource, _EXAMPLE)
        return await self._router.ask(self._route(), given, make, read)

    @deferred
    async def alter(
        self, changes: Mapping[ConfigResource, Sequence[SettingChange]], *, validate_only: bool = False
    ) -> None:
        """Change single settings; the others stay."""
        settings = {
            resource: arguments.instances("changes", listed, SettingChange, _CHANGE_EXAMPLE)
            for resource, listed in arguments.by_key("changes", changes, f"{{{_EXAMPLE}: [{_CHANGE_EXAMPLE}]}}").items()
        }

        def make(batch: Sequence[ConfigResource]) -> IncrementalAlterConfigsRequest:
            rows = [
                AlterConfigsResource(
                    resource.type,
                    resource.name,
                    [_alterable(change) for change in settings[resource]],
                )
                for resource in batch
            ]
            return IncrementalAlterConfigsRequest(rows, validate_only)

        def read(response: IncrementalAlterConfigsResponse) -> Iterator[tuple[ConfigResource, KafkaError | None]]:
            for result in response.responses:
                resource = ConfigResource(ConfigResourceType(result.resource_type), result.resource_name)
                yield resource, outcome(resource, result.error_code, result.error_message, None)

        given = arguments.instances("changes", settings, ConfigResource, _EXAMPLE)
        await self._router.ask(self._route(), given, make, read)

    def _route(self) -> NodeRoute[ConfigResource]:
        """Ask each broker for its own settings, and the controller for all others."""
        controller = self._router.controller()

        async def node_of(resource: ConfigResource) -> int:
            if resource.type not in _OF_BROKERS or not is_digits(resource.name):
                return await controller.node_of(resource)
            return await self._router.node(int(resource.name)).node_of(resource)

        return NodeRoute(node_of, controller.moved)


def _alterable(change: SettingChange) -> AlterableConfig:
    [(name, text)] = arguments.setting_texts("changes", {change.name: change.value}).items()
    return AlterableConfig(name, change.operation, text)


def _entry(given: DescribeConfigsResourceResult) -> ConfigEntry:
    synonyms = [ConfigSynonym(synonym.name, synonym.value, _source(synonym.source)) for synonym in given.synonyms]
    return ConfigEntry(
        given.name,
        given.value,
        _source(given.config_source),
        _TYPES.get(given.config_type, "unknown"),
        given.read_only,
        given.is_sensitive,
        tuple(synonyms),
        given.documentation or None,
    )


def _source(number: int) -> str:
    return _SOURCES.get(number, "unknown")
