"""Parts of a mirror that all its sessions share, once both clusters are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.producer.options import ProducerOptions
from pylogbroker.mirror.copier import CopyCounts, CopyListener, InThread
from pylogbroker.mirror.legacy07_source import Legacy07Source
from pylogbroker.mirror.lost_offsets import LostOffsets
from pylogbroker.mirror.positions import positions_topic
from pylogbroker.mirror.preparation import TargetPreparation
from pylogbroker.mirror.rate_limit import RateLimit
from pylogbroker.mirror.settings import MirrorSettings
from pylogbroker.mirror.stopped_topics import StoppedTopics
from pylogbroker.mirror.topics import TopicPlanner
from pylogbroker.rpc.retries import Pauses


@attrs.frozen(eq=False, repr=False)
class MirrorParts:
    """`source_alias` and `target_alias` name the clusters in topics, positions and groups.

    `source_id` and `target_id` are those that the clusters have; "" before Kafka 0.10.1.
    """

    reactor: Any
    settings: MirrorSettings
    source: Cluster | Legacy07Source
    target: Cluster
    source_alias: str
    target_alias: str
    source_id: str
    target_id: str
    planner: TopicPlanner
    preparation: TargetPreparation
    options: ProducerOptions
    """Of requests to the target."""
    pauses: Pauses
    limit: RateLimit
    counts: CopyCounts
    lost: LostOffsets
    stopped: StoppedTopics
    listeners: Sequence[CopyListener]
    in_thread: InThread

    def __str__(self) -> str:
        return f"{self.source_alias}->{self.target_alias}"

    @property
    def positions_topic(self) -> str:
        return positions_topic(self.source_alias)

    @property
    def name(self) -> str:
        """Name of the group whose members stand by for each other, and the transactional id."""
        return f"pylogbroker-mirror.{self.source_alias}.{self.target_alias}"
