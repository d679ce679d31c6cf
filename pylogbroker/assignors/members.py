"""Members of a group and their order."""

from __future__ import annotations

from collections.abc import Mapping

from pylogbroker.interfaces import Subscription

Members = Mapping[str, Subscription]


def in_order(members: Members) -> list[str]:
    """Return member ids: static members by instance id, then the others."""
    return sorted(members, key=lambda member: _place(member, members[member].instance_id))


def subscribers(partitions: Mapping[str, int], members: Members) -> dict[str, list[str]]:
    """Return the subscribers of each existing topic in the members' order; topics are sorted."""
    by_topic: dict[str, list[str]] = {}
    for member in in_order(members):
        for topic in set(members[member].topics):
            if topic in partitions:
                by_topic.setdefault(topic, []).append(member)
    return {topic: by_topic[topic] for topic in sorted(by_topic)}


def _place(member: str, instance_id: str | None) -> tuple[bool, str, str]:
    return instance_id is None, instance_id or "", member
