"""Elections of partition leaders. Source: Kafka's PartitionStateMachine.

| election            | candidates, the first one wins               | ISR afterwards                        |
|---------------------|----------------------------------------------|---------------------------------------|
| offline             | replicas that live and are in the ISR        | its live members                      |
| unclean             | replicas that live                           | the leader alone, which is RECOVERING |
| reassignment        | target replicas that live and are in the ISR | unchanged                             |
| preferred           | the first replica, if live and in the ISR    | unchanged                             |
| controlled shutdown | replicas that live and are in the ISR        | without brokers that shut down        |

A broker that shuts down does not count as live. Each election adds 1 to the leader epoch. Functions return None without
a candidate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import attrs

from pylogbroker.metadata.image import LeaderRecovery, PartitionState


def offline(state: PartitionState, live: Collection[int]) -> PartitionState | None:
    leader = _first(state.replicas, live, state.isr)
    if leader is None:
        return None
    return _led(state, leader, tuple(broker for broker in state.isr if broker in live))


def unclean(state: PartitionState, live: Collection[int], *, marks_recovery: bool = True) -> PartitionState | None:
    """Elect a replica that may lack records. `marks_recovery` is False in clusters below release 3.2."""
    clean = offline(state, live)
    leader = _first(state.replicas, live)
    if clean or leader is None:
        return clean
    recovery = LeaderRecovery.RECOVERING if marks_recovery else state.recovery
    return attrs.evolve(_led(state, leader, (leader,)), recovery=recovery)


def reassignment(state: PartitionState, live: Collection[int]) -> PartitionState | None:
    leader = _first(state.target, live, state.isr)
    return None if leader is None else _led(state, leader, state.isr)


def preferred(state: PartitionState, live: Collection[int]) -> PartitionState | None:
    leader = _first(state.replicas[:1], live, state.isr)
    return None if leader is None else _led(state, leader, state.isr)


def controlled_shutdown(
    state: PartitionState, live: Collection[int], shutting_down: Collection[int]
) -> PartitionState | None:
    leader = _first(state.replicas, live, state.isr)
    if leader is None:
        return None
    return _led(state, leader, tuple(broker for broker in state.isr if broker not in shutting_down))


def _first(replicas: Iterable[int], *conditions: Collection[int]) -> int | None:
    return next((broker for broker in replicas if all(broker in condition for condition in conditions)), None)


def _led(state: PartitionState, leader: int, isr: tuple[int, ...]) -> PartitionState:
    return attrs.evolve(state, leader=leader, isr=isr, leader_epoch=state.leader_epoch + 1)
