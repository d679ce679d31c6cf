"""Static members: an instance id is that of one member at a time (KIP-345)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pylogbroker.errors import ErrorCode, KafkaError


class HasStaticMembers(Protocol):
    """`static` has member ids by instance id."""

    @property
    def group_id(self) -> str: ...
    @property
    def static(self) -> Mapping[str, str]: ...


def check_static(group: HasStaticMembers, member_id: str, instance_id: str) -> None:
    """Raise KafkaError unless an instance id is that of this member."""
    current_id = group.static.get(instance_id)
    if current_id is None:
        raise KafkaError(
            f"group {group.group_id!r} has no member with the instance id {instance_id!r}", ErrorCode.UNKNOWN_MEMBER_ID
        )
    if current_id != member_id:
        raise KafkaError(
            f"member {current_id!r} has taken over the instance id {instance_id!r}", ErrorCode.FENCED_INSTANCE_ID
        )
