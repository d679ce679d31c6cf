"""Settings of what follows the records of a mirror: groups, settings of topics, ACLs, heartbeats."""

from __future__ import annotations

import attrs

from pylogbroker.mirror.group_sync import EXCLUDED_GROUPS
from pylogbroker.mirror.settings_sync import EXCLUDED as EXCLUDED_SETTINGS


@attrs.frozen
class SyncSettings:
    """Intervals in seconds; 0: never."""

    offset_syncs: bool = True
    """Whether offsets of records in both clusters are written to the offset syncs topic."""

    offset_syncs_at_source: bool = True
    """Whether that topic is in the source, as with MirrorMaker 2, or in the target."""

    checkpoints_interval: float = 5.0
    """How often offsets of groups are translated."""

    group_offsets: bool = True
    """Whether translated offsets are committed in the target, for groups without members there."""

    group_offsets_back: bool = True
    """Whether offsets of groups that moved to the target are committed in the source, to let them move back."""

    groups: tuple[str, ...] = (".*",)
    groups_excluded: tuple[str, ...] = EXCLUDED_GROUPS
    topic_settings_interval: float = 60.0
    settings_excluded: tuple[str, ...] = EXCLUDED_SETTINGS
    topic_acls_interval: float = 0.0
    heartbeats_interval: float = 1.0
    replication_factor: int = -1
    """Of the topics for syncs, checkpoints and heartbeats; -1: the cluster's default."""
