"""Assignment of partitions to brokers; invalid ones raise KafkaError."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.image import TopicImage

Assignment = Mapping[int, Sequence[int]]
"""Brokers by partition, the preferred leader first."""


def by_hand(partitions: int, replication_factor: int, brokers: Sequence[int], assignment: Assignment) -> Assignment:
    """Return a requested assignment; the numbers of partitions and replicas must be -1."""
    for value, what in ((replication_factor, "replication factor"), (partitions, "number of partitions")):
        if value != -1:
            raise KafkaError(
                f"Replicas are assigned by hand, so the {what} must be -1, not {value}", ErrorCode.INVALID_REQUEST
            )
    check_assignment(assignment, brokers, 0)
    return assignment


def of_new_topic(partitions: int, replication_factor: int, brokers: Sequence[int]) -> Assignment:
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
    return spread(brokers, 0, partitions, replication_factor)


def of_more_partitions(
    topic: TopicImage, count: int, brokers: Sequence[int], assignments: Sequence[Sequence[int]] | None
) -> Assignment:
    """Assign the partitions that a topic lacks to `count`: as requested, or round robin."""
    present = len(topic.partitions)
    if count <= present:
        raise KafkaError(
            f"Topic {topic.name!r} has {present} partitions already; give a number above that, not {count}",
            ErrorCode.INVALID_PARTITIONS,
        )
    if assignments is None:
        return spread(brokers, present, count - present, topic.replication_factor)
    if len(assignments) != count - present:
        raise KafkaError(
            f"{len(assignments)} assignments were given for {count - present} new partitions",
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        )
    added = dict(enumerate(assignments, present))
    check_assignment(added, brokers, present, topic.replication_factor)
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
        return f"{list(replicas)} names {len(replicas)} brokers, the other partitions have {width} replicas"
    unknown = [broker for broker in replicas if broker not in brokers]
    if unknown:
        return f"broker {unknown[0]} is not registered; registered are {list(brokers)}"
    return None


def spread(brokers: Sequence[int], first: int, count: int, replication_factor: int) -> dict[int, tuple[int, ...]]:
    doubled = (*brokers, *brokers)
    rows = [doubled[start : start + replication_factor] for start in range(len(brokers))]
    return {partition: rows[partition % len(rows)] for partition in range(first, first + count)}
