"""Versions of each API that a broker offers: those of Kafka 4.4, or of 3.9 where no handler has more.

APIs of a feature are offered while the feature has a level that is high enough: `FEATURE_NEEDS`.

A broker among brokers of Kafka 3.9 offers the versions of 3.9 (`api.versions.release`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from pylogbroker.metadata.feature_levels import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION
from pylogbroker.wire import SUPPORTED, Versions
from pylogbroker.wire.api_table import LAST_IN_3_9

_SERVED_AS_IN_4_4: Final = frozenset(
    {
        "alter_partition_reassignments",
        "alter_share_group_offsets",
        "api_versions",
        "consumer_group_describe",
        "delete_groups",
        "delete_share_group_offsets",
        "delete_share_group_state",
        "describe_cluster",
        "describe_groups",
        "describe_log_dirs",
        "describe_share_group_offsets",
        "end_txn",
        "fetch",
        "get_telemetry_subscriptions",
        "initialize_share_group_state",
        "list_config_resources",
        "list_offsets",
        "list_transactions",
        "metadata",
        "offset_commit",
        "offset_fetch",
        "produce",
        "push_telemetry",
        "read_share_group_state",
        "read_share_group_state_summary",
        "share_acknowledge",
        "share_fetch",
        "share_group_describe",
        "share_group_heartbeat",
        "streams_group_describe",
        "streams_group_heartbeat",
        "txn_offset_commit",
        "update_features",
        "write_share_group_state",
        "write_txn_markers",
    }
)
"""Modules of APIs whose handlers know all declared versions."""


@attrs.frozen
class FeatureNeed:
    """Level of a feature below which an API is switched off."""

    feature: str
    level: int


_OF_CONSUMER_GROUPS: Final = ("ConsumerGroupDescribe", "ConsumerGroupHeartbeat")
_OF_SHARE_GROUPS: Final = (
    "AlterShareGroupOffsets",
    "DeleteShareGroupOffsets",
    "DescribeShareGroupOffsets",
    "ShareAcknowledge",
    "ShareFetch",
    "ShareGroupDescribe",
    "ShareGroupHeartbeat",
)
_OF_STREAMS_GROUPS: Final = ("StreamsGroupDescribe", "StreamsGroupHeartbeat")
FEATURE_NEEDS: Final[Mapping[str, FeatureNeed]] = {
    **dict.fromkeys(_OF_CONSUMER_GROUPS, FeatureNeed(GROUP_VERSION, 1)),
    **dict.fromkeys(_OF_SHARE_GROUPS, FeatureNeed(SHARE_VERSION, 1)),
    **dict.fromkeys(_OF_STREAMS_GROUPS, FeatureNeed(STREAMS_VERSION, 1)),
}
"""By the names of APIs."""


def offered_versions(api_key: int) -> Versions:
    declared = SUPPORTED.declared[api_key]
    if declared.module in _SERVED_AS_IN_4_4:
        return declared.versions
    return versions_in_3_9(api_key)


def versions_in_3_9(api_key: int) -> Versions:
    declared = SUPPORTED.declared[api_key]
    return attrs.evolve(declared.versions, last=LAST_IN_3_9.get(declared.module, declared.versions.last))
