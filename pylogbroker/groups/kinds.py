"""Groups of all types."""

from __future__ import annotations

from typing import TypeAlias

from pylogbroker.groups.classic.group import Group as ClassicGroup
from pylogbroker.groups.consumer.group import ConsumerGroup
from pylogbroker.groups.share.group import ShareGroup

Group: TypeAlias = ClassicGroup | ConsumerGroup | ShareGroup

__all__ = ["ClassicGroup", "ConsumerGroup", "Group", "ShareGroup"]
