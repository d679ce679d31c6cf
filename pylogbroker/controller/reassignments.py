"""Reassignments of partitions. Source: KIP-455, KafkaController.onPartitionReassignment.

| phase    | topic node                      | state                               | requests             |
|----------|---------------------------------|-------------------------------------|----------------------|
| begin    | union of both; adding, removing | epoch +1                            | LeaderAndIsr to all  |
| wait     |                                 | leaders add replicas to the ISR     |                      |
| complete |                                 | leader in the target or epoch +1;   | LeaderAndIsr;        |
|          |                                 | each removed replica leaves the ISR | StopReplica (delete) |
| end      | target only                     |                                     | UpdateMetadata       |

A reassignment that adds nothing completes at once. A cancellation is a reassignment to the former replicas. Another
target replaces a running reassignment; added replicas that it does not need are removed at once.

A new controller repeats an interrupted phase: each one only needs what the nodes have.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import attrs

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.image import PartitionState


def planned(
    state: PartitionState, target: Sequence[int] | None, brokers: Collection[int], keeps_factor: bool = False
) -> PartitionState:
    """Return the partition with the assignment of a reassignment; raise KafkaError.

    Without a target, cancel the running reassignment. With `keeps_factor`, reject another number of replicas.
    """
    if target is None:
        if not state.is_reassigned:
            raise KafkaError("The partition is not being reassigned", ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        target = state.origin
    else:
        _check(target, brokers)
        if keeps_factor and len(target) != len(state.origin):
            raise KafkaError(
                f"The replication factor is changed from {len(state.origin)} to {len(target)}",
                ErrorCode.INVALID_REPLICATION_FACTOR,
            )
    after = reassigned(state, target)
    if state.is_stored and not set(state.isr) & set(after.replicas):
        raise KafkaError(
            f"All in-sync replicas {list(state.isr)} would be removed, and with them records that no other replica has",
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        )
    return after


def reassigned(state: PartitionState, target: Sequence[int]) -> PartitionState:
    origin = state.origin
    replicas = tuple(dict.fromkeys((*target, *origin)))
    return attrs.evolve(
        state,
        replicas=replicas,
        adding=tuple(broker for broker in replicas if broker not in origin),
        removing=tuple(broker for broker in replicas if broker not in target),
    )


def is_complete(state: PartitionState, live: Collection[int]) -> bool:
    """Return whether the target is in sync and can lead."""
    return set(state.target) <= set(state.isr) and any(broker in live for broker in state.target)


def completed(state: PartitionState) -> PartitionState:
    return attrs.evolve(state, replicas=state.target, adding=(), removing=())


def _check(target: Sequence[int], brokers: Collection[int]) -> None:
    problem = None
    if not target:
        problem = "The list of replicas is empty"
    elif len(set(target)) != len(target):
        problem = f"A broker is named twice in {list(target)}"
    elif not set(target) <= set(brokers):
        problem = f"Not all of the brokers {list(target)} are live; live are {sorted(brokers)}"
    if problem:
        raise KafkaError(problem, ErrorCode.INVALID_REPLICA_ASSIGNMENT)
