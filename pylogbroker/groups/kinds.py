"""Groups of all types."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from pylogbroker.groups.classic.group import Group as ClassicGroup
from pylogbroker.groups.consumer.group import ConsumerGroup
from pylogbroker.groups.requests import GroupType
from pylogbroker.groups.share.group import ShareGroup

if TYPE_CHECKING:
    from pylogbroker.groups.streams.group import StreamsGroup

    Group: TypeAlias = ClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup
else:
    Group = ClassicGroup | ConsumerGroup | ShareGroup  # that of Kafka Streams is imported on first use

__all__ = ["ClassicGroup", "ConsumerGroup", "Group", "ShareGroup", "is_streams"]


def is_streams(group: Group | None) -> TypeGuard[StreamsGroup]:
    """Return whether a group is one of Kafka Streams, whose class is imported on first use."""
    return group is not None and group.type is GroupType.STREAMS
