"""Assignors: the assignment of partitions to the members of a consumer group."""

# ruff: noqa: N805  (the methods of an interface have no self)

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
from zope.interface import Attribute

from pylogbroker.interfaces.factories import INamed, IPluginFactory

TopicPartition = tuple[str, int]


@attrs.frozen
class Subscription:
    """Subscription that a member sends when it joins the group."""

    topics: Sequence[str]
    owned: Sequence[TopicPartition] = ()  # partitions now assigned to the member, if the protocol is cooperative
    user_data: bytes = b""  # result of its assignor's `subscription_user_data`
    generation: int = -1  # of the group, when `owned` was assigned; -1 if unknown
    instance_id: str | None = None  # `group.instance.id`, which survives a restart
    rack: str | None = None  # `client.rack`


class IAssignor(INamed):
    """Plugin with which the leader of a group divides partitions among the members.

    An assignor keeps no state between calls. All members of a group, in whatever language, use an assignor of the same
    name.
    """

    protocol: str = Attribute(
        '"eager": members revoke all partitions before each assignment; "cooperative": they keep what stays theirs.'
    )

    def subscription_user_data(topics: Sequence[str], owned: Sequence[TopicPartition], generation: int) -> bytes:
        """Return data about this member for the leader's assignor.

        `owned` was last assigned to this member, in `generation`. Called on the reactor thread; must not block.
        """

    def assign(
        partitions: Mapping[str, int], members: Mapping[str, Subscription]
    ) -> Mapping[str, Sequence[TopicPartition]]:
        """Return the partitions of each member, by member id.

        `partitions` has the number of partitions of each topic; unknown topics are absent. Each partition of a topic
        with subscribers goes to one of them. If the protocol is cooperative, a partition that another member still owns
        goes to nobody until that member has revoked it. Called on the reactor thread; must not block.
        """


class IAssignorFactory(IPluginFactory):
    """Plugin factory of assignors (`IAssignor`). The setting `partition.assignment.strategy` names several."""
