"""Changes of the ISR that leaders ask for by AlterPartition. Source: KafkaController.doAlterPartition, KIP-497.

Checks, in this order:

| condition                                      | answer                                    |
|------------------------------------------------|-------------------------------------------|
| broker epoch unknown or not the registered one | STALE_BROKER_EPOCH, for the whole request |
| partition unknown                              | UNKNOWN_TOPIC_OR_PARTITION                |
| either epoch ahead of the controller's         | NOT_CONTROLLER: another one is newer      |
| leader epoch behind                            | FENCED_LEADER_EPOCH                       |
| equal to the present state                     | success: the request was repeated         |
| partition epoch behind                         | INVALID_UPDATE_VERSION                    |
| sender does not lead, or ISR without it        | INVALID_REQUEST                           |
| ISR with brokers that are no replicas          | INVALID_REQUEST                           |
| RECOVERING again, or with more than the leader | INVALID_REQUEST                           |
| members not live, or shutting down             | INELIGIBLE_REPLICA                        |
| new member in another life than its fetches    | INELIGIBLE_REPLICA                        |
| the partition's node is gone: topic deleted    | UNKNOWN_TOPIC_OR_PARTITION                |

Kafka trusts the sender. This project checks the sender, the replicas, and the broker epochs of new members: a broker
that restarted since its last fetch may have lost records. Kafka compares these epochs in KRaft mode only (KIP-903). The
epochs of members that stay are not compared, because the controller removes members that have restarted.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import CoordinationError, NoNode
from pylogbroker.metadata.image import BrokerRegistration, LeaderRecovery, PartitionState


@attrs.frozen
class WantedIsr:
    """ISR that the leader requests, and the epochs of the state that it knows.

    `broker_epochs` has epochs of members in their fetches; -1 is unknown.
    """

    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    recovery: LeaderRecovery = LeaderRecovery.RECOVERED
    broker_epochs: Mapping[int, int] = attrs.field(factory=dict)


def check_sender(brokers: Mapping[int, BrokerRegistration], broker_id: int, broker_epoch: int) -> None:
    """Raise STALE_BROKER_EPOCH unless the broker is registered with this epoch."""
    broker = brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch:
        raise KafkaError(
            f"Broker {broker_id} is not registered with the epoch {broker_epoch}", ErrorCode.STALE_BROKER_EPOCH
        )


def altered(state: PartitionState, change: WantedIsr, sender: int, live: Mapping[int, int]) -> PartitionState:
    """Return the changed state, or `state` itself for a repeated request; raise KafkaError.

    `live` has the epochs of brokers that can be in sync.
    """
    code = _stale(state, change)
    if code is not None:
        raise KafkaError("The request has other epochs than the controller", code)
    target = attrs.evolve(state, isr=change.isr, recovery=change.recovery)
    if target == state and sender == state.leader:
        return state
    if change.partition_epoch < state.partition_epoch:
        raise KafkaError("The partition has changed since", ErrorCode.INVALID_UPDATE_VERSION)
    problem = _problem(state, change, sender)
    if problem:
        raise KafkaError(problem, ErrorCode.INVALID_REQUEST)
    ineligible = [broker for broker in change.isr if broker not in live]
    if ineligible:
        raise KafkaError(f"Brokers {ineligible} are not live, or shut down", ErrorCode.INELIGIBLE_REPLICA)
    epochs = change.broker_epochs
    restarted = [
        replica
        for replica in change.isr
        if replica not in state.isr and epochs.get(replica, -1) not in (-1, live[replica])
    ]
    if restarted:
        raise KafkaError(f"Brokers {restarted} have restarted since they fetched", ErrorCode.INELIGIBLE_REPLICA)
    return target


def code_of_failed_write(error: CoordinationError) -> ErrorCode:
    """Return the answer to a change that could not be written."""
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if isinstance(error, NoNode) else ErrorCode.UNKNOWN_SERVER_ERROR


def _stale(state: PartitionState, change: WantedIsr) -> ErrorCode | None:
    if change.partition_epoch > state.partition_epoch or change.leader_epoch > state.leader_epoch:
        return ErrorCode.NOT_CONTROLLER
    if change.leader_epoch < state.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return None


def _problem(state: PartitionState, change: WantedIsr, sender: int) -> str | None:
    if sender != state.leader or sender not in change.isr:
        return f"Broker {sender} does not lead the partition, or is not in its ISR {list(change.isr)}"
    if len(set(change.isr)) != len(change.isr) or not set(change.isr) <= set(state.replicas):
        return f"The ISR {list(change.isr)} is no subset of the replicas {list(state.replicas)}"
    if change.recovery is LeaderRecovery.RECOVERING:
        if state.recovery is LeaderRecovery.RECOVERED:
            return "The leader has recovered already"
        if len(change.isr) > 1:
            return "A leader that recovers has no others in its ISR"
    return None
