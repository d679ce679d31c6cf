"""Who subscribes to what, and the order that members are served in."""

from __future__ import annotations

from collections.abc import Mapping

from pylogbroker.interfaces import Subscription

Members = Mapping[str, Subscription]


def in_order(members: Members) -> list[str]:
    """The members' ids: first those with an instance id, sorted by that, which outlives a restart; then the others."""
    return sorted(members, key=lambda member: _place(member, members[member].instance_id))


def subscribers(partitions: Mapping[str, int], members: Members) -> dict[str, list[str]]:
    """Who subscribes to each topic that exists, in the members' order; both sorted."""
    found: dict[str, list[str]] = {}
    for member in in_order(members):
        for topic in set(members[member].topics):
            if topic in partitions:
                found.setdefault(topic, []).append(member)
    return {topic: found[topic] for topic in sorted(found)}


def _place(member: str, instance_id: str | None) -> tuple[bool, str, str]:
    return instance_id is None, instance_id or "", member
