"""Settings of topics as the coordination tree has them, checked.

Other releases, and Apache Kafka's brokers in the same cluster, may have stored what this release rejects. That must
prevent neither a start nor a leadership: the broker's own value takes the place of a rejected setting.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from twisted.logger import Logger

from pylogbroker.broker.runtime.slices import Slices
from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ConfigError
from pylogbroker.metadata.image import ClusterImage, ConfigResource, ConfigResourceType

log = Logger()


@attrs.define(eq=False, repr=False)
class StoredSettings:
    """Reports each rejected setting once, until the topic's settings are accepted again."""

    _config: BrokerConfig
    _reported: dict[str, list[str]] = attrs.field(factory=dict, init=False)
    """By topic, the errors of its settings."""

    async def accepted_image(self, image: ClusterImage, slices: Slices) -> ClusterImage:
        """Return the image with accepted settings only."""
        accepted: dict[ConfigResource, Mapping[str, str] | None] = {}
        async for resource, settings in slices.over(image.configs.items()):
            if settings:
                accepted[resource] = self.accepted(resource, settings)
        return attrs.evolve(image, configs=image.configs.changed(accepted))

    def accepted(self, resource: ConfigResource, settings: Mapping[str, str]) -> Mapping[str, str]:
        """Return the accepted ones of a topic's settings; those of brokers are checked where they take effect."""
        if resource.type is not ConfigResourceType.TOPICS:
            return settings
        try:
            self._config.topic(settings)
        except ConfigError:
            return self._without_rejected(resource.name, settings)
        self._reported.pop(resource.name, None)
        return settings

    def _without_rejected(self, topic: str, settings: Mapping[str, str]) -> dict[str, str]:
        accepted: dict[str, str] = {}
        errors: list[str] = []
        for name, text in settings.items():
            try:
                self._config.topic({**accepted, name: text})
            except ConfigError as error:
                errors.append(str(error))
            else:
                accepted[name] = text
        for message in errors:
            if message not in self._reported.get(topic, ()):
                log.warn("topic {topic} does without a setting: {error}", topic=topic, error=message)
        self._reported[topic] = errors
        return accepted
