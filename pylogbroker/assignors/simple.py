"""Simple assignment of share groups (KIP-932), whose members may share a partition.

Every partition with subscribers has a member, and every member has a partition if any of its topics has one:

1. Partitions go to one member each, balanced, as by `uniform`.
2. A member that is left without one shares a partition: the one that it had before, if that is not shared by more
   members than the others, else the one that the fewest members have.

    two partitions    A B C D E
    result            0 1 0 1 0

A member keeps what it has as far as the balance allows.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from math import ceil

from pylogbroker.assignors.members import Members, in_order
from pylogbroker.assignors.uniform import assign_uniformly
from pylogbroker.interfaces import Subscription, TopicPartition

Assignment = dict[str, list[TopicPartition]]


def assign_simply(partitions: Mapping[str, int], members: Members) -> Assignment:
    if not members:
        return {}
    exclusive = {name: _with_owned(members[name], owned) for name, owned in _without_shared(members).items()}
    assignment = {name: list(some) for name, some in assign_uniformly(partitions, exclusive).items()}
    without = [name for name in in_order(members) if not assignment.get(name)]
    if without:
        _share(partitions, members, assignment, without)
    return assignment


def _without_shared(members: Members) -> dict[str, list[TopicPartition]]:
    """Return what members had, each partition for the first that had it."""
    taken: set[TopicPartition] = set()
    owned: dict[str, list[TopicPartition]] = {}
    for name in in_order(members):
        owned[name] = [partition for partition in members[name].owned if partition not in taken]
        taken.update(owned[name])
    return owned


def _with_owned(member: Subscription, owned: list[TopicPartition]) -> Subscription:
    return Subscription(member.topics, owned, b"", member.generation, member.instance_id, member.rack)


def _share(partitions: Mapping[str, int], members: Members, assignment: Assignment, without: list[str]) -> None:
    """Give each member in `without` one partition."""
    holders = Counter(partition for some in assignment.values() for partition in some)
    shares_max = _shares_max(partitions, members)
    moving = []
    for name in without:
        topics = set(members[name].topics)
        kept = next(
            (
                partition
                for partition in members[name].owned
                if partition[0] in topics and holders[partition] and holders[partition] < shares_max[partition[0]]
            ),
            None,
        )
        if kept is None:
            moving.append(name)
        else:
            assignment[name] = [kept]
            holders[kept] += 1
    by_topics: dict[frozenset[str], list[tuple[int, TopicPartition]]] = {}
    for name in moving:
        subscribed = frozenset(members[name].topics)
        heap = by_topics.get(subscribed)
        if heap is None:
            heap = by_topics[subscribed] = [
                (holders[topic, number], (topic, number))
                for topic in sorted(subscribed)
                for number in range(partitions.get(topic, 0))
            ]
            heapq.heapify(heap)
        while heap and heap[0][0] != holders[heap[0][1]]:  # members with other topics share it, too
            heapq.heapreplace(heap, (holders[heap[0][1]], heap[0][1]))
        if heap:
            partition = heap[0][1]
            assignment[name] = [partition]
            holders[partition] += 1


def _shares_max(partitions: Mapping[str, int], members: Members) -> dict[str, int]:
    """Return how many members share a partition of each topic if all are used evenly, rounded up."""
    subscriptions = Counter(frozenset(member.topics) for member in members.values())
    loads: dict[str, Fraction] = {}
    for topics, count in subscriptions.items():
        available = sum(partitions.get(topic, 0) for topic in topics)
        for topic in topics:
            if available and partitions.get(topic, 0):
                loads[topic] = loads.get(topic, Fraction()) + Fraction(count, available)
    return {topic: max(1, ceil(load)) for topic, load in loads.items()}
