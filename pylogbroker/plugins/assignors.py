"""The built-in assignors, named as in Kafka's clients.

name                  protocol       result
range                 eager          a contiguous range of each topic's partitions for each subscriber
roundrobin            eager          partitions one by one, in rotation
sticky                eager          balanced, with as few moves as possible
cooperative-sticky    cooperative    like sticky; members keep reading partitions that do not move
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from pylogbroker.assignors import (
    Claim,
    assign_in_ranges,
    assign_round_robin,
    assign_sticky,
    decode_generation,
    decode_user_data,
    encode_generation,
    encode_user_data,
    hold_back,
)
from pylogbroker.interfaces import IAssignor, Subscription, TopicPartition

Assignment = Mapping[str, Sequence[TopicPartition]]
Members = Mapping[str, Subscription]


@implementer(IPlugin, IAssignor)
@attrs.frozen
class Even:
    name: str
    _assign: Callable[[Mapping[str, int], Members], Assignment]
    protocol: str = "eager"

    def subscription_user_data(self, topics: Sequence[str], owned: Sequence[TopicPartition], generation: int) -> bytes:
        return b""

    def assign(self, partitions: Mapping[str, int], members: Members) -> Assignment:
        return self._assign(partitions, members)


@implementer(IPlugin, IAssignor)
@attrs.frozen
class Sticky:
    """Sticky assignor whose members, having revoked their partitions, send them as user data."""

    name: str = "sticky"
    protocol: str = "eager"

    def subscription_user_data(self, topics: Sequence[str], owned: Sequence[TopicPartition], generation: int) -> bytes:
        return encode_user_data(owned, generation)

    def assign(self, partitions: Mapping[str, int], members: Members) -> Assignment:
        said = {member: decode_user_data(subscription.user_data) for member, subscription in members.items()}
        return assign_sticky(partitions, members, {member: claim for member, claim in said.items() if claim})


@implementer(IPlugin, IAssignor)
@attrs.frozen
class CooperativeSticky:
    """Sticky assignor whose members keep their partitions; each is revoked before it moves."""

    name: str = "cooperative-sticky"
    protocol: str = "cooperative"

    def subscription_user_data(self, topics: Sequence[str], owned: Sequence[TopicPartition], generation: int) -> bytes:
        return encode_generation(generation)

    def assign(self, partitions: Mapping[str, int], members: Members) -> Assignment:
        claims = {
            member: Claim(subscription.owned, _generation(subscription)) for member, subscription in members.items()
        }
        return hold_back(assign_sticky(partitions, members, claims), claims)


def _generation(member: Subscription) -> int:
    return decode_generation(member.user_data) if member.generation == -1 else member.generation


range_ = Even("range", assign_in_ranges)
round_robin = Even("roundrobin", assign_round_robin)
sticky = Sticky()
cooperative_sticky = CooperativeSticky()
