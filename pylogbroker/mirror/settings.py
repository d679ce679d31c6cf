"""Settings of one mirror: a source, a target, and what is copied."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import attrs

from pylogbroker.client.settings import CLIENT, CONSUMER, PRODUCER
from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import IReplicationPolicy
from pylogbroker.mirror.sync_settings import SyncSettings
from pylogbroker.mirror.topics import EXCLUDED
from pylogbroker.plugins.replication_policies import SamePolicy

_ALIAS: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")


@attrs.frozen
class MirroredCluster:
    """A cluster of a mirror. Without an alias, its id is the alias; `settings` are those of a client."""

    bootstrap: str
    alias: str = ""
    settings: Mapping[str, str] = attrs.field(factory=dict, repr=False)

    def __attrs_post_init__(self) -> None:
        if self.alias and not _ALIAS.fullmatch(self.alias):
            raise ConfigError(f"alias: {self.alias!r} is not accepted; expected letters, digits, '.', '_' and '-'")

    def __str__(self) -> str:
        return f"{self.alias} ({self.bootstrap})" if self.alias else self.bootstrap

    def client_settings(self) -> dict[str, str]:
        return {name: value for name, value in self.settings.items() if name in CLIENT}

    def consumer_settings(self) -> dict[str, str]:
        return {name: value for name, value in self.settings.items() if name in CONSUMER}

    def producer_settings(self) -> dict[str, str]:
        return {name: value for name, value in self.settings.items() if name in PRODUCER}


@attrs.frozen
class MirrorSettings:
    """Times in seconds, sizes in bytes."""

    source: MirroredCluster
    target: MirroredCluster
    topics: tuple[str, ...] = (".*",)
    """Expressions of Java; whole names match."""

    topics_excluded: tuple[str, ...] = EXCLUDED
    policy: IReplicationPolicy = attrs.field(factory=SamePolicy)
    replication_factor: int = -1
    """Of topics that the mirror creates; -1: the target's default."""

    exactly_once: bool = True
    """Whether records and positions are written in one transaction."""

    restart_recreated: bool = False
    """Whether a topic that was deleted and created again is mirrored from its start; else it stops."""

    bytes_per_second_max: int = 0
    """0: no limit."""

    commit_interval: float = 0.1
    """Least time between two commits."""

    transaction_bytes_max: int = 33_554_432
    refresh_interval: float = 5.0
    """How often topics of both clusters are compared."""

    retry_stopped: float = 60.0
    """After how long a topic that stopped is tried again."""

    buffer_bytes: int = 67_108_864
    transaction_timeout: float = 60.0
    sync: SyncSettings | None = attrs.field(factory=SyncSettings)
    """Settings, groups and ACLs that are synchronized; None stands for records alone."""
