"""Current leaders, named in errors so that clients need no Metadata request (KIP-951).

A replica here may know of its leader earlier than the image does: the controller orders first, and announces then.
"""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

import attrs

from pylogbroker.broker.metadata.local_node import BrokerAddress
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.services import HasMetadata, HasNode, HasPartitions
from pylogbroker.metadata.image import NO_LEADER


class _Services(HasMetadata, HasPartitions, HasNode, Protocol):
    """Services that this module uses."""


@attrs.frozen
class CurrentLeader:
    """`address` is None if the request's listener does not reach the leader."""

    id: int
    epoch: int
    address: BrokerAddress | None


def find_leader(services: _Services, context: RequestContext, topic: str | UUID, index: int) -> CurrentLeader | None:
    """Return the newest leader that this broker knows of; None if it knows none."""
    leader = _newest(services, topic, index)
    if leader is None or leader[0] == NO_LEADER:
        return None
    address = services.node.address_of(leader[0], services.metadata.image, context)
    return CurrentLeader(*leader, address)


def _newest(services: _Services, topic: str | UUID, index: int) -> tuple[int, int] | None:
    image = services.metadata.image
    name = image.topic_names.get(topic.int) if isinstance(topic, UUID) else topic
    if name is None:
        return None
    topic_image = image.topics.get(name)
    state = None if topic_image is None else topic_image.partitions.get(index)
    announced = None if state is None else (state.leader, state.leader_epoch)
    partition = services.partitions.hosted.get((name, index))
    ordered = None if partition is None else partition.ordered_leader
    if ordered is None or announced is None:
        return ordered or announced
    return announced if announced[1] > ordered[1] else ordered
