"""Brokers' settings that were changed while brokers ran: kept in the coordination tree, in force in `BrokerConfig`.

    /config/brokers/<id>         {"version":1, "config":{"log.cleaner.threads":"2",...}}    this broker's
    /config/brokers/<default>    the same for all brokers; a broker's own come before

A change is checked, written to the tree and put in force, in this order and one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs
from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from pylogbroker.broker.coordination_errors import kafka_error
from pylogbroker.config import BrokerConfig, ConfigSource, broker_setting, notes_without_effect
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError
from pylogbroker.interfaces import CoordinationError, Create, ITree, SetData
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.topic_names import ConfigChange
from pylogbroker.storage.formatting import listed

log = Logger()

LayerObserver = Callable[[ConfigSource, Mapping[str, str], Mapping[str, str]], object]


@attrs.define
class DynamicSettings:
    """The two layers of changed settings that matter to this broker."""

    _tree: ITree
    _config: BrokerConfig
    _node_id: int
    _observers: list[LayerObserver] = attrs.field(factory=list, init=False)
    _lock: DeferredLock = attrs.field(factory=DeferredLock, init=False)

    async def open(self) -> None:
        """Put in force what the tree has."""
        for layer in (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, ConfigSource.DYNAMIC_BROKER_CONFIG):
            [node] = await self._tree.get_many([self._path(layer)])
            if node is not None:
                self._config.set_dynamic(layer, zk_schema.decode_config(node.data))

    def plan(self, layer: ConfigSource, change: ConfigChange) -> dict[str, str]:
        """The layer's settings as they would be; INVALID_REQUEST if they cannot be put in force."""
        try:
            return self._config.check_dynamic(layer, change(self._config.explicit(layer)))
        except ConfigError as error:
            raise KafkaError(str(error), ErrorCode.INVALID_REQUEST) from error

    async def alter(self, layer: ConfigSource, change: ConfigChange) -> None:
        """Change the layer's settings."""
        await self._lock.acquire()
        try:
            settings = self.plan(layer, change)
            await self._write(self._path(layer), zk_schema.encode_config(settings))
            before = self._config.explicit(layer)
            notes = notes_without_effect(settings, before, broker_setting)
            self._config.set_dynamic(layer, settings)
            if notes:
                log.warn("settings of the broker are kept and have no effect: {settings}", settings=listed(notes))
            for observer in self._observers:
                observer(layer, before, settings)
        except CoordinationError as error:
            raise kafka_error(error) from error
        finally:
            self._lock.release()

    def observe(self, observer: LayerObserver) -> None:
        """Call `observer` with the layer, its texts before and after, whenever it was altered."""
        self._observers.append(observer)

    async def _write(self, path: str, data: bytes) -> None:
        known = await self._tree.exists(path)
        await self._tree.commit([SetData(path, data) if known else Create(path, data)])

    def _path(self, layer: ConfigSource) -> str:
        return zk_paths.broker_config(self._node_id if layer is ConfigSource.DYNAMIC_BROKER_CONFIG else None)
