"""Groups and their members as the admin client describes them, of all types but share groups."""

from __future__ import annotations

import attrs

from pylogbroker.interfaces import TopicPartition


@attrs.frozen
class MemberDescription:
    """`assignment` is empty while the group rebalances, and for members that are no consumers.

    In groups of KIP-848, `epoch` is what the member has reached, `target` are the partitions that it is to have, and
    `topics` and `expression` its subscription. `is_classic`: it uses the classic protocol.

    Members of Kafka Streams have active `tasks`, whose partitions are the assignment, `standby_tasks`, and a `process`.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    epoch: int | None = None
    target: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    expression: str = ""
    is_classic: bool = True
    process: str = ""
    tasks: tuple[str, ...] = ()
    standby_tasks: tuple[str, ...] = ()


@attrs.frozen
class GroupDescription:
    """State `Dead` means that there is no such group; its type is empty.

    Groups of type `consumer` are those of KIP-848, and `streams` those of KIP-1071. Their `protocol` is the
    coordinator's assignor. They have an `epoch`, and `target_epoch`, that of their target assignment.
    """

    group: str
    state: str
    type: str
    protocol_type: str
    protocol: str
    members: tuple[MemberDescription, ...]
    epoch: int | None = None
    target_epoch: int | None = None
