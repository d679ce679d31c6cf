"""Configuration of logs from their topic's settings."""

from __future__ import annotations

from pylogbroker.config import TOPIC, TopicConfig
from pylogbroker.storage import LogConfig


def log_config(settings: TopicConfig) -> LogConfig:
    values = {name: settings[name] for name in TOPIC}
    values["message.timestamp.before.max.ms"] = settings.timestamp_before_max_ms
    values["message.timestamp.after.max.ms"] = settings.timestamp_after_max_ms
    return LogConfig.from_settings(values, settings.magic, settings.byte_addressed)
