"""Uniform assignment: counts differ by one at most, and what fits in a member's share stays with it.

1. A member keeps the partitions that it owned, up to its quota: the total divided by the members. The first members
   that owned more keep one more, as far as the division has a rest.
2. The others go one by one to the members below their quota.

    five partitions    A owned 0 1 2 3 4    B owned nothing    C joins
    quotas             2                    2                  1
    result             0 1                  2 4                3

Members with different subscriptions are balanced by `sticky`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from pylogbroker.assignors.members import Members, in_order
from pylogbroker.assignors.sticky import Claim, assign_sticky
from pylogbroker.interfaces import TopicPartition

Assignment = dict[str, list[TopicPartition]]


def assign_uniformly(partitions: Mapping[str, int], members: Members) -> Assignment:
    subscriptions = {frozenset(member.topics) for member in members.values()}
    if len(subscriptions) == 1:
        return _assign_equal(partitions, members, subscriptions.pop())
    claims = {name: Claim(member.owned, member.generation) for name, member in members.items()}
    return assign_sticky(partitions, members, claims)


def _assign_equal(partitions: Mapping[str, int], members: Members, topics: frozenset[str]) -> Assignment:
    free = dict.fromkeys((topic, number) for topic in sorted(topics) for number in range(partitions.get(topic, 0)))
    share, rest = divmod(len(free), len(members))
    assignment: Assignment = {}
    for name in in_order(members):
        kept = [partition for partition in members[name].owned if partition in free]
        has_more = rest > 0 and len(kept) > share
        rest -= has_more
        assignment[name] = kept = kept[: share + has_more]
        for partition in kept:
            del free[partition]
    below = deque(name for name, kept in assignment.items() if len(kept) < share)
    for partition in free:
        if not below:
            below.extend(_with_rest(assignment, share))
        name = below.popleft()
        assignment[name].append(partition)
        if len(assignment[name]) < share:
            below.append(name)
    for some in assignment.values():
        some.sort()
    return assignment


def _with_rest(assignment: Assignment, share: int) -> list[str]:
    """Return the members that may get one more: all have their share."""
    return [name for name, some in assignment.items() if len(some) == share]
