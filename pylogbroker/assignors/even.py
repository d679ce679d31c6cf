"""Range and round robin.

Topics a and b of three partitions each, members C and D that subscribe to both:

    range          C: a0 a1 b0 b1    D: a2 b2         contiguous ranges of each topic; the first are longer by one
    round robin    C: a0 a2 b1       D: a1 b0 b2      one partition each in rotation, skipping non-subscribers
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from pylogbroker.assignors.members import Members, in_order, subscribers
from pylogbroker.interfaces import TopicPartition

Assignment = dict[str, list[TopicPartition]]


def assign_in_ranges(partitions: Mapping[str, int], members: Members) -> Assignment:
    assignment: Assignment = {member: [] for member in members}
    for topic, sharing in subscribers(partitions, members).items():
        share, more = divmod(partitions[topic], len(sharing))
        start = 0
        for place, member in enumerate(sharing):
            end = start + share + (place < more)
            assignment[member].extend((topic, number) for number in range(start, end))
            start = end
    return assignment


def assign_round_robin(partitions: Mapping[str, int], members: Members) -> Assignment:
    assignment: Assignment = {member: [] for member in members}
    rotation = deque(in_order(members))
    for topic, sharing in subscribers(partitions, members).items():
        some = set(sharing)
        for number in range(partitions[topic]):
            while rotation[0] not in some:
                rotation.rotate(-1)
            assignment[rotation[0]].append((topic, number))
            rotation.rotate(-1)
    return assignment
