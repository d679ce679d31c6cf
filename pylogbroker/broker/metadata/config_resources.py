"""Resources with settings that clients may describe and change.

resource type   name                its own settings are kept in
TOPIC           a topic's           /config/topics/<topic>
BROKER          this broker's id    /config/brokers/<id>
BROKER          empty               /config/brokers/<default>
BROKER_LOGGER   this broker's id    nowhere: no loggers can be changed at run time
GROUP           a group's id        /config/groups/<group>
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

import attrs
from twisted.internet.defer import ensureDeferred

from pylogbroker.broker.security.access import Access
from pylogbroker.broker.security.tls_listeners import TlsListeners
from pylogbroker.broker.services import Controller, HasConfig, HasController, HasMetadata, HasNode, HasTls, Metadata
from pylogbroker.config import (
    BROKER,
    TOPIC,
    BrokerConfig,
    ConfigSource,
    ConfigType,
    Description,
    Setting,
    TopicConfig,
    Value,
    describe_broker,
    describe_topic,
)
from pylogbroker.config.group_config import GROUP, describe_group, group_defaults
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError
from pylogbroker.metadata.image import (
    DEFAULT_BROKER,
    ConfigChange,
    ConfigResource,
    broker_resource,
    client_metrics_resource,
    group_resource,
    topic_resource,
)
from pylogbroker.metadata.topic_names import check_name
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.resource_types import ResourceType


class _Services(HasConfig, HasMetadata, HasController, HasNode, HasTls, Protocol):
    """Services that this module uses."""


_OTHER_TYPES: Final = {0: "UNKNOWN", 16: "CLIENT_METRICS"}
"""Types of Kafka whose resources have no settings here; the last one has some in clusters of KRaft controllers."""


class Resource(Protocol):
    @property
    def settings(self) -> Mapping[str, Setting]:
        """Settings that the resource may have."""

    def inherited(self) -> Mapping[str, Value]:
        """Return the values of settings that the resource does not set."""

    def describe(self) -> list[Description]:
        """Return its settings, sorted by name."""

    async def check(self, change: ConfigChange) -> None:
        """Raise KafkaError for an invalid change."""

    async def alter(self, change: ConfigChange) -> None:
        """Store the change and put it in force."""


@attrs.frozen
class TopicResource:
    _config: BrokerConfig
    _metadata: Metadata
    _controller: Controller
    _name: str
    settings: Mapping[str, Setting] = TOPIC

    def inherited(self) -> Mapping[str, Value]:
        defaults = self._config.topic({})
        return {name: defaults[name] for name in TOPIC}

    def in_force(self) -> TopicConfig:
        self._metadata.require_topic(self._name)
        return self._config.topic(self._metadata.topic_settings(self._name))

    def describe(self) -> list[Description]:
        return describe_topic(self._config, self.in_force())

    async def check(self, change: ConfigChange) -> None:
        await self._controller.plan_config(topic_resource(self._name), change)

    async def alter(self, change: ConfigChange) -> None:
        await self._controller.alter_config(topic_resource(self._name), change)


@attrs.frozen
class BrokerResource:
    _config: BrokerConfig
    _controller: Controller
    _tls: TlsListeners
    _resource: ConfigResource
    settings: Mapping[str, Setting] = BROKER

    def inherited(self) -> Mapping[str, Value]:
        return {name: self._config[name] for name in BROKER}

    def describe(self) -> list[Description]:
        """Return all settings of this broker; for all brokers together, those that are set."""
        entries = describe_broker(self._config)
        if self._resource.name != DEFAULT_BROKER:
            return entries
        explicit = self._config.explicit(ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
        return [_of_all_brokers(entry) for entry in entries if entry.name in explicit]

    async def check(self, change: ConfigChange) -> None:
        planned = await self._controller.plan_config(self._resource, change)
        try:
            await self._tls.check(planned)
        except ConfigError as error:
            raise KafkaError(str(error), ErrorCode.INVALID_REQUEST) from None

    async def alter(self, change: ConfigChange) -> None:
        """Check and store, one change at a time: two that fit alone may not fit together."""
        await self._tls.changes.run(lambda: ensureDeferred(self._alter(change)))

    async def _alter(self, change: ConfigChange) -> None:
        await self.check(change)
        await self._controller.alter_config(self._resource, change)


@attrs.frozen
class GroupResource:
    """A consumer group, which need not exist."""

    _config: BrokerConfig
    _metadata: Metadata
    _controller: Controller
    _group_id: str
    settings: Mapping[str, Setting] = GROUP

    def inherited(self) -> Mapping[str, Value]:
        return group_defaults(self._config)

    def describe(self) -> list[Description]:
        return describe_group(self._config, self._metadata.image.settings(group_resource(self._group_id)))

    async def check(self, change: ConfigChange) -> None:
        await self._controller.plan_config(group_resource(self._group_id), change)

    async def alter(self, change: ConfigChange) -> None:
        await self._controller.alter_config(group_resource(self._group_id), change)


@attrs.frozen
class LoggerResource:
    """This broker's loggers: none can be changed."""

    settings: Mapping[str, Setting] = attrs.field(factory=dict)

    def inherited(self) -> Mapping[str, Value]:
        return {}

    def describe(self) -> list[Description]:
        return []

    async def check(self, change: ConfigChange) -> None:
        for name in change({}):
            raise KafkaError(
                f"There is no logger {name!r}: levels of logging are set when the broker starts",
                ErrorCode.INVALID_CONFIG,
            )

    async def alter(self, change: ConfigChange) -> None:
        await self.check(change)


@attrs.frozen
class ClientMetricsResource:
    """A subscription to metrics of clients, which the controllers keep, and change by themselves."""

    _metadata: Metadata
    _subscription: str
    settings: Mapping[str, Setting] = attrs.field(factory=dict)

    def inherited(self) -> Mapping[str, Value]:
        return {}

    def describe(self) -> list[Description]:
        stored = self._metadata.image.settings(client_metrics_resource(self._subscription))
        source = ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG
        return [
            Description(name, value, ConfigType.STRING, source, False, False, "", ())
            for name, value in sorted(stored.items())
        ]

    async def check(self, change: ConfigChange) -> None:
        raise KafkaError("The controllers change subscriptions to metrics of clients", ErrorCode.INVALID_REQUEST)

    async def alter(self, change: ConfigChange) -> None:
        await self.check(change)


def is_allowed(access: Access, operation: AclOperation, kind: int, name: str) -> bool:
    """Return whether an operation on a resource's settings is allowed; kinds without settings are not checked."""
    if kind == ResourceType.TOPIC:
        return access.allows_on_topic(operation, name)
    if kind == ResourceType.GROUP:
        return access.allows_on_group(operation, name)
    return kind not in tuple(ResourceType) or access.allows_on_cluster(operation)


def config_error(kind: int) -> ErrorCode:
    """Return the error for settings of a resource that may not be read or changed."""
    if kind == ResourceType.GROUP:
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    is_topic = kind == ResourceType.TOPIC
    return ErrorCode.TOPIC_AUTHORIZATION_FAILED if is_topic else ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def find_resource(services: _Services, kind: int, name: str) -> Resource:
    """Return the resource, or raise INVALID_REQUEST; topics need not exist."""
    if kind == ResourceType.TOPIC:
        check_name(name)
        return TopicResource(services.config, services.metadata, services.controller, name)
    if kind == ResourceType.BROKER:
        if name:
            _check_broker_id(services.node.id, name)
        resource = broker_resource(services.node.id if name else None)
        return BrokerResource(services.config, services.controller, services.tls, resource)
    if kind == ResourceType.BROKER_LOGGER:
        _check_broker_id(services.node.id, name)
        return LoggerResource()
    if kind == ResourceType.GROUP:
        return _group_resource(services, name)
    if kind == ResourceType.CLIENT_METRICS and services.config.in_kraft:
        if not name:
            raise KafkaError("A subscription to metrics of clients needs a name", ErrorCode.INVALID_REQUEST)
        return ClientMetricsResource(services.metadata, name)
    raise KafkaError(
        f"Resources of type {_OTHER_TYPES.get(kind, kind)} have no settings here; those of type "
        f"{', '.join(resource_type.name for resource_type in ResourceType if resource_type not in _OTHER_TYPES)} have",
        ErrorCode.INVALID_REQUEST,
    )


def _group_resource(services: _Services, name: str) -> GroupResource:
    """Return the resource of a group; raise INVALID_REQUEST if there can be none of that name."""
    if not services.config.offers_kafka_4:
        raise KafkaError(
            "Groups have no settings here: api.versions.release offers no groups of Kafka 4", ErrorCode.INVALID_REQUEST
        )
    if not name or "/" in name:
        raise KafkaError(f"The group id {name!r} is not accepted; expected one without '/'", ErrorCode.INVALID_REQUEST)
    return GroupResource(services.config, services.metadata, services.controller, name)


def _check_broker_id(node_id: int, name: str) -> None:
    """Raise INVALID_REQUEST unless `name` is the id of this broker."""
    if name != str(node_id):
        raise KafkaError(f"This is broker {node_id}; ask broker {name!r} itself", ErrorCode.INVALID_REQUEST)


def _of_all_brokers(entry: Description) -> Description:
    synonyms = tuple(s for s in entry.synonyms if s.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    value = next((s.value for s in synonyms if s.name == entry.name), entry.value)
    return attrs.evolve(entry, value=value, source=ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, synonyms=synonyms)
