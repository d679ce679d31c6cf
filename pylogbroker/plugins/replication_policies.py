"""The built-in replication policies.

name        topic `orders` of the cluster `east`, in the target
same        orders
prefix      east.orders
prefix:_    east_orders

`prefix` names topics as DefaultReplicationPolicy of MirrorMaker 2 does, `same` as IdentityReplicationPolicy.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from pylogbroker.interfaces import IReplicationPolicy, IReplicationPolicyFactory


@implementer(IReplicationPolicy)
@attrs.frozen
class PrefixPolicy:
    """Puts the alias of the source before the name."""

    separator: str = "."

    def target_topic(self, source: str, topic: str) -> str:
        return f"{source}{self.separator}{topic}"

    def origin(self, topic: str) -> str | None:
        source, separator, rest = topic.partition(self.separator)
        return source if separator and source and rest else None

    def upstream_topic(self, topic: str) -> str | None:
        source, _, rest = topic.partition(self.separator)
        return rest if source and rest else None


@implementer(IReplicationPolicy)
@attrs.frozen
class SamePolicy:
    """Keeps the name."""

    def target_topic(self, source: str, topic: str) -> str:
        return topic

    def origin(self, topic: str) -> str | None:
        return None

    def upstream_topic(self, topic: str) -> str | None:
        return topic


@implementer(IPlugin, IReplicationPolicyFactory)
@attrs.frozen
class PrefixPolicyFactory:
    name: str = "prefix"

    def make(self, argument: str, settings: Mapping[str, object]) -> PrefixPolicy:
        return PrefixPolicy(argument or ".")


@implementer(IPlugin, IReplicationPolicyFactory)
@attrs.frozen
class SamePolicyFactory:
    name: str = "same"

    def make(self, argument: str, settings: Mapping[str, object]) -> SamePolicy:
        if argument:
            raise ValueError(f"same takes no argument, and got {argument!r}")
        return SamePolicy()


prefix = PrefixPolicyFactory()
same = SamePolicyFactory()
