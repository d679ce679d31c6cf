"""Settings that change while brokers run: `BrokerConfig` gets them from the metadata.

/config/brokers/<id>         {"version":1, "config":{"log.cleaner.threads":"2",...}}    this broker's
/config/brokers/<default>    defaults of all brokers; a broker's own settings take precedence
"""

from __future__ import annotations

from collections.abc import Mapping

from twisted.logger import Logger

from pylogbroker.config import BrokerConfig, ConfigSource, broker_setting, notes_without_effect
from pylogbroker.formatting import listed
from pylogbroker.metadata.delta import ConfigChanged, Delta
from pylogbroker.metadata.image import ClusterImage, ConfigResource, broker_resource

log = Logger()


class DynamicSettings:
    def __init__(self, config: BrokerConfig, broker_id: int) -> None:
        self._config = config
        self._layers: Mapping[ConfigResource, ConfigSource] = {
            broker_resource(None): ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
            broker_resource(broker_id): ConfigSource.DYNAMIC_BROKER_CONFIG,
        }

    def open(self, image: ClusterImage) -> None:
        for resource, layer in self._layers.items():
            if resource in image.configs:
                self._config.set_dynamic(layer, image.settings(resource))

    def on_delta(self, delta: Delta, before: ClusterImage, after: ClusterImage) -> None:
        for change in delta:
            if isinstance(change, ConfigChanged) and change.resource in self._layers:
                notes = notes_without_effect(change.settings, before.settings(change.resource), broker_setting)
                self._config.set_dynamic(self._layers[change.resource], change.settings)
                if notes:
                    log.warn("settings of the broker are kept and have no effect: {settings}", settings=listed(notes))
