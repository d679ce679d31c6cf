"""Assignors: which member of a consumer group reads which partitions."""

# ruff: noqa: N805  (the methods of an interface have no self)

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
from zope.interface import Attribute

from pylogbroker.interfaces.factories import INamed, IPluginFactory

TopicPartition = tuple[str, int]


@attrs.frozen
class Subscription:
    """What a member of a group says of itself."""

    topics: Sequence[str]
    owned: Sequence[TopicPartition] = ()  # what it reads now, if the protocol is cooperative
    user_data: bytes = b""  # what its assignor's `subscription_user_data` said
    generation: int = -1  # of the group, when it was given what it owns; -1 is not known
    instance_id: str | None = None  # `group.instance.id`: the same after a restart
    rack: str | None = None  # `client.rack`


class IAssignor(INamed):
    """Divides the partitions of topics among the members of a group: one of them, the leader, is asked.

    It keeps nothing between two calls. All members of a group have one of the same name, in whatever language they are
    written.
    """

    protocol: str = Attribute(
        '"eager": members give back all they have before each assignment; "cooperative": they keep what stays theirs.'
    )

    def subscription_user_data(topics: Sequence[str], owned: Sequence[TopicPartition], generation: int) -> bytes:
        """What the leader's assignor is to know of this member: `owned` is what it was given last, in `generation`.

        Called on the reactor's thread; must not block.
        """

    def assign(
        partitions: Mapping[str, int], members: Mapping[str, Subscription]
    ) -> Mapping[str, Sequence[TopicPartition]]:
        """What each member reads, by its id. `partitions` are how many each topic has; those unknown are left out.

        Called on the reactor's thread. Each partition of a topic that anybody subscribes to goes to one member that
        subscribes to it. If the protocol is cooperative, one that another member still owns goes to nobody, until it
        has been given back.
        """


class IAssignorFactory(IPluginFactory):
    """Makes assignors (`IAssignor`): a plugin. Settings name several: `partition.assignment.strategy`."""
