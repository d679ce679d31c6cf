"""Configuration of logs from their topic's settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from pylogbroker.config import TOPIC, BrokerConfig, TopicConfig
from pylogbroker.metadata.image import ClusterImage, topic_resource
from pylogbroker.metadata.topic_names import INTERNAL_TOPICS
from pylogbroker.storage import LogConfig

_CONFIGS_MAX: Final = 1000


def log_config(settings: TopicConfig, *, is_internal: bool = False) -> LogConfig:
    """Return the configuration of a topic's logs; internal topics are never archived."""
    values = {name: settings[name] for name in TOPIC}
    values["message.timestamp.before.max.ms"] = settings.timestamp_before_max_ms
    values["message.timestamp.after.max.ms"] = settings.timestamp_after_max_ms
    if is_internal:
        values["remote.storage.enable"] = False
    return _shared(LogConfig.from_settings(values, settings.magic, settings.byte_addressed))


@lru_cache(_CONFIGS_MAX)
def _shared(config: LogConfig) -> LogConfig:
    """Return the configuration that equals this one: to compare two of them takes some microseconds for each log."""
    return config


def opening_configs(config: BrokerConfig, image: ClusterImage) -> Callable[[str], LogConfig]:
    """Return the configuration with which to open a topic's logs.

    Topics of format 0.7 and archived ones have their own, others the default until `Partitions.open` configures them.
    Any thread may ask, for a topic that has a log here: those are few of a large cluster's.
    """
    default = log_config(config.topic({}))

    def config_of(name: str) -> LogConfig:
        settings = config.topic(image.settings(topic_resource(name)))
        is_archived = settings.remote_storage_enable and name not in INTERNAL_TOPICS
        return log_config(settings) if settings.byte_addressed or is_archived else default

    return config_of
