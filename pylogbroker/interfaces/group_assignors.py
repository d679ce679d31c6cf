"""Group assignors: the assignment of partitions to members by the broker, in consumer groups of KIP-848."""

# ruff: noqa: N805  (the methods of an interface have no self)

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pylogbroker.interfaces.factories import INamed
from pylogbroker.interfaces.subscriptions import Subscription, TopicPartition


class IGroupAssignor(INamed):
    """Plugin by which the broker divides partitions among the members of a consumer group (KIP-848).

    Define an instance, which also provides `twisted.plugin.IPlugin`, in a plugin module (see `pylogbroker.plugins`),
    and name it in the broker's setting `group.consumer.assignors`. Members choose it by `group.remote.assignor`. Unlike
    `IAssignor`, it runs in the broker, and its members may be written in any language.

    An assignor keeps no state between calls: all groups share it, and calls may come from several threads.
    """

    def assign(
        partitions: Mapping[str, int],
        members: Mapping[str, Subscription],
        racks: Mapping[str, Sequence[frozenset[str]]],
    ) -> Mapping[str, Collection[TopicPartition]]:
        """Return the partitions that each member is to have, by member id.

        `partitions` has the number of partitions of each existing topic. A member's `topics` are those among them to
        which it subscribes. `owned` is its former target, in whose epoch, `generation`, it may still be moving. Keep
        what need not move: each partition that moves is not read for some heartbeats.

        `racks` has the racks of the replicas of each partition, by topic; it is empty if no broker has a rack. The rack
        of a member is its `rack`. Like those of Apache Kafka, the built-in assignors use neither.

        Each partition may go to one subscriber of its topic, or to nobody. If the answer breaks that rule, or the call
        fails, the group keeps its former target, and the broker logs why.
        """
