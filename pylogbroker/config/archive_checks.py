"""Checks of the settings of archived topics, as Kafka makes them."""

from __future__ import annotations

from typing import Final

from pylogbroker.config.archive_settings import ENABLED
from pylogbroker.config.topic_config import TopicConfig
from pylogbroker.errors import ConfigError

_TOPIC: Final = "remote.storage.enable"
_COPY_DISABLE: Final = "remote.log.copy.disable"
_DELETE_ON_DISABLE: Final = "remote.log.delete.on.disable"
_AS_RETENTION: Final = -2
_UNLIMITED: Final = -1


def check_archive(config: TopicConfig, before: TopicConfig | None, is_offered: bool, has_topic_ids: bool) -> None:
    """Raise ConfigError for settings that an archived topic must not have, and for an end that would lose records."""
    if not config.remote_storage_enable:
        if before is not None and before.remote_storage_enable and not config.remote_log_delete_on_disable:
            raise ConfigError(
                f"{_TOPIC}: false is not accepted; records would be lost. To keep the archive and copy no more, set "
                f"{_COPY_DISABLE}=true. To delete the archive, also set {_DELETE_ON_DISABLE}=true"
            )
        return
    if before is None or not before.remote_storage_enable:
        if not is_offered:
            raise ConfigError(f"{_TOPIC}: true is not accepted; expected false, unless the broker has {ENABLED}=true")
        if not has_topic_ids:
            raise ConfigError(
                f"{_TOPIC}: true is not accepted; topics have the ids that name their objects from "
                "inter.broker.protocol.version=2.8 on"
            )
        if config.byte_addressed or config.magic < 2:
            raise ConfigError(f"{_TOPIC}: true is not accepted; message.format.version must be 0.11.0 or newer")
    if config.compacts:
        raise ConfigError(f"{_TOPIC}: true is not accepted; a compacted topic cannot be archived")
    for local, total in (("local.retention.ms", "retention.ms"), ("local.retention.bytes", "retention.bytes")):
        _check_local(config, local, total)
    local_part = config.local()
    _check_lag("remote.copy.lag.ms", config.remote_copy_lag_ms, "local.retention.ms", local_part.retention_ms)
    _check_lag(
        "remote.copy.lag.bytes", config.remote_copy_lag_bytes, "local.retention.bytes", local_part.retention_bytes
    )


def _check_local(config: TopicConfig, local_name: str, name: str) -> None:
    local, total = config.integer(local_name), config.integer(name)
    if local == _AS_RETENTION:
        return
    if config.remote_log_copy_disable and local != total:
        raise ConfigError(
            f"{local_name}: {local} is not accepted; expected -2 or {name}, {total}, since {_COPY_DISABLE} is true"
        )
    if total != _UNLIMITED and not 0 <= local <= total:
        raise ConfigError(f"{local_name}: {local} is not accepted; expected at most {name}, {total}")


def _check_lag(name: str, lag: int, local_name: str, local: int) -> None:
    """Raise ConfigError for a lag that would keep segments which local retention would delete."""
    if 0 <= local < lag:
        raise ConfigError(f"{name}: {lag} is not accepted; expected at most {local_name}, {local}")
