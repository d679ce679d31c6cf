"""Assignors: the assignment of partitions to members of a consumer group."""

# ruff: noqa: N805  (the methods of an interface have no self)

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zope.interface import Attribute

from pylogbroker.interfaces.factories import INamed, IPluginFactory
from pylogbroker.interfaces.subscriptions import Subscription, TopicPartition


class IAssignor(INamed):
    """Plugin by which a group's leader divides partitions among the members.

    An assignor keeps no state between calls. All members, in whatever language, use an assignor of the same name.
    Methods are called on the reactor thread and must not block.
    """

    protocol: str = Attribute(
        '"eager": members revoke all partitions before each assignment; "cooperative": they keep what stays theirs.'
    )

    def subscription_user_data(topics: Sequence[str], owned: Sequence[TopicPartition], generation: int) -> bytes:
        """Return this member's data for the leader's assignor; `owned` was last assigned to it, in `generation`."""

    def assign(
        partitions: Mapping[str, int], members: Mapping[str, Subscription]
    ) -> Mapping[str, Sequence[TopicPartition]]:
        """Return the partitions of each member, by member id.

        `partitions` has the number of partitions of each existing topic. Each partition goes to one subscriber of its
        topic. If the protocol is cooperative, no member gets a partition before its owner has revoked it.
        """


class IAssignorFactory(IPluginFactory):
    """Plugin factory of assignors. The setting `partition.assignment.strategy` names several."""
