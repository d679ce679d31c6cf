"""Groups of both protocols."""

from __future__ import annotations

from typing import TypeAlias

from pylogbroker.groups.classic.group import Group as ClassicGroup
from pylogbroker.groups.consumer.group import ConsumerGroup

Group: TypeAlias = ClassicGroup | ConsumerGroup

__all__ = ["ClassicGroup", "ConsumerGroup", "Group"]
