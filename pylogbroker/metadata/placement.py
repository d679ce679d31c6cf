"""Assignment of partitions to brokers; invalid ones raise KafkaError.

Preferred leaders go round the brokers. The other replicas of a partition are on the brokers behind its leader, after a
gap that grows with each round. So the partitions of a broker that fails get leaders on all others. If all brokers have
racks, the racks alternate, and none gets a second replica of a partition before each has one (KIP-36).

Source: Kafka's class AdminUtils. Unlike there, racks do not count if some brokers have none.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.formatting import counted
from pylogbroker.metadata.image import TopicImage

Assignment = Mapping[int, Sequence[int]]
"""Brokers by partition, the preferred leader first."""
Racks = Mapping[int, str | None]
"""Racks of the brokers, by id."""
RandomBelow = Callable[[int], int]
"""Returns a number from 0 on, below its argument."""


def by_hand(partitions: int, replication_factor: int, brokers: Sequence[int], assignment: Assignment) -> Assignment:
    """Return a requested assignment; the numbers of partitions and replicas must be -1."""
    for value, what in ((replication_factor, "replication factor"), (partitions, "number of partitions")):
        if value != -1:
            raise KafkaError(
                f"Replicas are assigned by hand, so the {what} must be -1, not {value}", ErrorCode.INVALID_REQUEST
            )
    check_assignment(assignment, brokers, 0)
    return assignment


def of_new_topic(partitions: int, replication_factor: int, brokers: Racks, random_below: RandomBelow) -> Assignment:
    if partitions <= 0:
        raise KafkaError(
            f"A topic cannot have {partitions} partitions; give 1 or more, or -1 for num.partitions",
            ErrorCode.INVALID_PARTITIONS,
        )
    if not 0 < replication_factor <= len(brokers):
        raise KafkaError(
            f"The replication factor cannot be {replication_factor}: {len(brokers)} broker(s) are registered; "
            "give a factor from 1 up to that, or -1 for default.replication.factor",
            ErrorCode.INVALID_REPLICATION_FACTOR,
        )
    start, shift = random_below(len(brokers)), random_below(len(brokers))
    return spread(brokers, 0, partitions, replication_factor, start, shift)


def of_more_partitions(
    topic: TopicImage, count: int, brokers: Racks, assignments: Sequence[Sequence[int]] | None
) -> Assignment:
    """Assign the partitions that a topic lacks to `count`: as requested, or as if partition 0 were the start."""
    present = len(topic.partitions)
    if count <= present:
        raise KafkaError(
            f"Topic {topic.name!r} has {counted(present, 'partition')} already; give a number above that, not {count}",
            ErrorCode.INVALID_PARTITIONS,
        )
    if assignments is None:
        width = topic.replication_factor
        if width > len(brokers):
            raise KafkaError(
                f"Topic {topic.name!r} has {counted(width, 'replica')} of each partition, but {len(brokers)} broker(s) "
                "are registered; start more, or assign the new partitions by hand",
                ErrorCode.INVALID_REPLICATION_FACTOR,
            )
        first = topic.partitions[0].replicas[0]
        start = next((at for at, broker in enumerate(sorted(brokers)) if broker >= first), 0)
        return spread(brokers, present, count - present, width, start, start)
    if len(assignments) != count - present:
        raise KafkaError(
            f"expected assignments of {counted(count - present, 'new partition')}, not of {len(assignments)}",
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        )
    added = dict(enumerate(assignments, present))
    check_assignment(added, tuple(brokers), present, topic.replication_factor)
    return added


def check_assignment(assignment: Assignment, brokers: Sequence[int], first: int, width: int | None = None) -> None:
    """Raise INVALID_REPLICA_ASSIGNMENT unless partitions from `first` on each have known, different brokers.

    Each must have `width` replicas, by default as many as the first one.
    """
    problem = _assignment_problem(assignment, brokers, first, width)
    if problem:
        raise KafkaError(problem, ErrorCode.INVALID_REPLICA_ASSIGNMENT)


def _assignment_problem(assignment: Assignment, brokers: Sequence[int], first: int, width: int | None) -> str | None:
    if sorted(assignment) != list(range(first, first + len(assignment))):
        return f"Partitions must be numbered consecutively from {first}, not {sorted(assignment)}"
    valid: set[tuple[int, ...]] = set()
    for partition in range(first, first + len(assignment)):
        replicas = assignment[partition]
        width = len(replicas) if width is None else width
        key = tuple(replicas)
        if key not in valid:
            problem = _replicas_problem(replicas, brokers, width)
            if problem:
                return f"Partition {partition}: {problem}"
            valid.add(key)
    return None


def _replicas_problem(replicas: Sequence[int], brokers: Sequence[int], width: int) -> str | None:
    if not replicas:
        return "the list of brokers is empty"
    if len(set(replicas)) != len(replicas):
        return f"a broker is named twice in {list(replicas)}"
    if len(replicas) != width:
        names = counted(len(replicas), "broker")
        return f"{list(replicas)} names {names}, the other partitions have {counted(width, 'replica')}"
    unknown = [broker for broker in replicas if broker not in brokers]
    if unknown:
        return f"broker {unknown[0]} is not registered; registered are {list(brokers)}"
    return None


def spread(
    racks: Racks, first: int, count: int, replication_factor: int, start: int = 0, shift: int = 0
) -> dict[int, tuple[int, ...]]:
    """Assign `count` partitions from `first` on; there must be enough brokers.

    `start` is the place of partition 0's leader among the brokers, `shift` the gap in the first round.
    """
    brokers = sorted(racks)
    distinct = {rack for rack in racks.values() if rack is not None}
    are_racks_known = None not in racks.values()
    if are_racks_known:
        brokers = _alternating(racks)
    number = len(brokers)

    def replicas_of(partition: int) -> tuple[int, ...]:
        place = (partition + start) % number
        gap = shift + _rounds(first, partition, number)
        if are_racks_known:
            gap *= len(distinct)
        behind = (brokers[_behind(place, gap + step, number)] for step in itertools.count())
        if are_racks_known:
            return _of_racks(brokers[place], behind, replication_factor, racks, len(distinct))
        return brokers[place], *itertools.islice(behind, replication_factor - 1)

    period = number * max(number - 1, 1)  # then places and gaps come again
    pattern = [replicas_of(partition) for partition in range(first, first + min(count, period))]
    return dict(zip(range(first, first + count), itertools.cycle(pattern), strict=False))


def _rounds(first: int, partition: int, brokers: int) -> int:
    """Return how many rounds began from `first` to `partition`; that of partition 0 is not counted."""
    return partition // brokers - max(first - 1, 0) // brokers


def _behind(place: int, step: int, brokers: int) -> int:
    return (place + 1 + step % (brokers - 1)) % brokers


def _of_racks(
    leader: int, candidates: Iterator[int], replication_factor: int, racks: Racks, rack_count: int
) -> tuple[int, ...]:
    """Choose replicas among endlessly repeated brokers: first one for each rack, then any."""
    chosen, used = [leader], {racks[leader]}
    while len(chosen) < replication_factor:
        broker = next(candidates)
        if broker not in chosen and (racks[broker] not in used or len(used) == rack_count):
            chosen.append(broker)
            used.add(racks[broker])
    return tuple(chosen)


def _alternating(racks: Racks) -> list[int]:
    """Return the brokers, one of each rack in turn."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker] or "", []).append(broker)
    columns = itertools.zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    return [broker for column in columns for broker in column if broker is not None]
