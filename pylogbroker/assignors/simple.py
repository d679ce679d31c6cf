"""Simple assignment of share groups (KIP-932), whose members may share a partition.

Every partition with subscribers has a member, and every member has a partition if any of its topics has one:

1. Partitions go to one member each, balanced, as by `uniform`.
2. A member that is left without one shares a partition: the one that it had before, if no other is shared by fewer
   members, else one of these.

    two partitions    A B C D E
    result            0 1 0 1 0

A member keeps what it has as far as the balance allows.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from math import floor

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
    """Give each member in `without` one partition: its former one if that is one of the least shared, else another."""
    holders = Counter(partition for some in assignment.values() for partition in some)
    shares_below = _even_shares(partitions, members)
    rest = []
    for name in without:
        former = _former(members[name], holders, shares_below)
        if former is None:
            rest.append(name)
        else:
            assignment[name] = [former]
            holders[former] += 1
    heaps: dict[frozenset[str], list[tuple[int, TopicPartition]]] = {}
    for name in rest:
        topics = frozenset(members[name].topics)
        heap = heaps.get(topics)
        if heap is None:
            heap = heaps[topics] = [(holders[key], key) for key in _partitions_of(topics, partitions)]
            heapq.heapify(heap)
        while heap and heap[0][0] != holders[heap[0][1]]:  # another member has taken it meanwhile
            heapq.heapreplace(heap, (holders[heap[0][1]], heap[0][1]))
        if heap:
            fewest, least_shared = heap[0]
            former = _former(members[name], holders, dict.fromkeys(topics, fewest + 1))
            partition = former or least_shared
            assignment[name] = [partition]
            holders[partition] += 1


def _former(
    member: Subscription, holders: Mapping[TopicPartition, int], shares_below: Mapping[str, int]
) -> TopicPartition | None:
    """Return a partition that a member had before and that fewer members share than its topic's limit."""
    return next(
        (key for key in member.owned if key[0] in member.topics and 0 < holders[key] < shares_below.get(key[0], 0)),
        None,
    )


def _partitions_of(topics: frozenset[str], partitions: Mapping[str, int]) -> list[TopicPartition]:
    return [(topic, number) for topic in sorted(topics) for number in range(partitions.get(topic, 0))]


def _even_shares(partitions: Mapping[str, int], members: Members) -> dict[str, int]:
    """Return how many members share a partition of each topic if all are used evenly, rounded down."""
    subscriptions = Counter(frozenset(member.topics) for member in members.values())
    loads: dict[str, Fraction] = {}
    for topics, count in subscriptions.items():
        available = sum(partitions.get(topic, 0) for topic in topics)
        for topic in topics:
            if partitions.get(topic, 0):
                loads[topic] = loads.get(topic, Fraction()) + Fraction(count, available)
    return {topic: floor(load) for topic, load in loads.items()}
