"""Changes of partition states that no election makes. Source: Kafka's PartitionStateMachine and ReplicaStateMachine.

| event                      | leader                  | ISR                     | leader epoch |
|----------------------------|-------------------------|-------------------------|--------------|
| partition created          | first live replica      | live replicas           | 0            |
| replica offline            | -1 if it was the leader | without it, never empty | +1           |
| reassignment               | unchanged               | unchanged               | +1           |
| AlterPartition of a leader | unchanged               | as the leader asked     | unchanged    |

The controller adds 1 to the leader epoch with each change of its own, so that all replicas act on it. The partition
epoch, which is the node's version, grows with every write.
"""

from __future__ import annotations

from collections.abc import Collection

import attrs

from pylogbroker.metadata.image import NO_LEADER, PartitionState


def first_state(assigned: PartitionState, live: Collection[int]) -> PartitionState | None:
    """Return the state of a new partition; None while none of its replicas lives."""
    isr = tuple(broker for broker in assigned.replicas if broker in live)
    if not isr:
        return None
    return attrs.evolve(assigned, leader=isr[0], isr=isr, leader_epoch=0, partition_epoch=0)


def without_replica(state: PartitionState, broker: int) -> PartitionState | None:
    """Return the state after a replica went offline; None if nothing changes."""
    if broker not in state.isr:
        return None
    isr = tuple(member for member in state.isr if member != broker) or state.isr
    leader = NO_LEADER if state.leader == broker else state.leader
    if isr == state.isr and leader == state.leader:
        return None
    return attrs.evolve(state, leader=leader, isr=isr, leader_epoch=state.leader_epoch + 1)


def with_next_epoch(state: PartitionState) -> PartitionState:
    """Return the state with a larger leader epoch: replicas act on an otherwise equal state again."""
    return attrs.evolve(state, leader_epoch=state.leader_epoch + 1)
