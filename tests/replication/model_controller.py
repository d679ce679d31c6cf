"""Controller of one partition, as Kafka's in ZooKeeper mode: elections, in-sync replicas, reassignment.

`stored` and `registrations` are in the coordination tree: they outlive a controller. What a controller has seen of the
registrations is `known`. A new one knows no earlier registrations, so it does not notice a broker that came again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import attrs

from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import NO_LEADER, BrokerRegistration, PartitionState
from pylogbroker.replication import IsrChange


@attrs.frozen
class Push:
    """LeaderAndIsr and UpdateMetadata for one broker; or StopReplica, which deletes the replica."""

    controller_epoch: int
    broker_epoch: int
    state: PartitionState
    brokers: Mapping[int, BrokerRegistration]
    stop: bool = False


class ModelController:
    def __init__(self, state: PartitionState, brokers: int, unclean: bool) -> None:
        self.stored = state
        self.unclean = unclean
        self.registrations: dict[int, int] = {}
        self.next_broker_epoch = 1
        self.epoch = 1
        self.known: dict[int, int] = {}
        self.shutting_down: set[int] = set()
        self.target: tuple[int, ...] | None = None  # of a reassignment
        self.pushes: dict[int, deque[Push]] = {broker: deque() for broker in range(brokers)}

    # Coordination tree

    def register(self, broker: int) -> int:
        self.registrations[broker] = epoch = self.next_broker_epoch
        self.next_broker_epoch += 1
        return epoch

    def expire(self, broker: int) -> None:
        self.registrations.pop(broker, None)

    # Events

    def process_brokers(self) -> None:
        """Handle registrations that came, went, or were replaced."""
        current = dict(self.registrations)
        lost = self.lost(current)
        new = {broker for broker, epoch in current.items() if self.known.get(broker) != epoch}
        if not lost and not new:
            return
        self.known = {broker: epoch for broker, epoch in current.items() if broker not in lost and broker in self.known}
        self.shutting_down -= lost
        self.remove_dead()
        self.known = current
        self.push_all()
        if self.stored.leader == NO_LEADER:
            self.elect()

    def lost(self, current: Mapping[int, int]) -> set[int]:
        """Return the brokers that went, or went and came again."""
        return {broker for broker, epoch in self.known.items() if current.get(broker) != epoch}

    def remove_dead(self) -> None:
        state = self.stored
        if state.leader != NO_LEADER and state.leader not in self.known:
            self.elect()
        elif state.leader != NO_LEADER and any(member not in self.known for member in state.isr):
            self.store(isr=tuple(member for member in state.isr if member in self.known))

    def fail_over(self) -> None:
        """Let another controller take over."""
        self.epoch += 1
        self.known = dict(self.registrations)
        self.shutting_down.clear()
        self.remove_dead()
        self.push_all()
        if self.stored.leader == NO_LEADER:
            self.elect()

    def move_leadership(self, broker: int) -> None:
        """Elect a member of the ISR, as for the preferred leader or a reassignment that changes the order."""
        state = self.stored
        if state.leader not in (NO_LEADER, broker) and broker in state.isr and self.is_live(broker):
            self.store(leader=broker)

    def shut_down(self, broker: int) -> bool:
        """Take a broker out of leadership and ISR; return whether it may stop."""
        self.shutting_down.add(broker)
        state = self.stored
        if broker == state.leader:
            if not any(member in state.isr and self.is_live(member) for member in state.replicas):
                return False
            self.elect()
        elif broker in state.isr and len(state.isr) > 1:
            self.store(isr=tuple(member for member in state.isr if member != broker))
        return True

    def reassign(self, target: tuple[int, ...]) -> None:
        old = self.stored.replicas
        if self.target is None and target != old:
            self.target = target
            adding = tuple(each for each in target if each not in old)
            removing = tuple(each for each in old if each not in target)
            self.store(replicas=(*target, *removing), adding=adding, removing=removing)

    def finish_reassignment(self) -> None:
        state, target = self.stored, self.target
        if target is None or state.leader == NO_LEADER or not set(target) <= set(state.isr):
            return
        leader = state.leader if state.leader in target else next(filter(self.is_live, target), None)
        if leader is None:
            return
        self.target = None
        isr = tuple(member for member in state.isr if member in target)
        self.store(leader=leader, isr=isr, replicas=target, adding=(), removing=())
        for broker in state.replicas:
            if broker not in target and broker in self.known:
                self.push(broker, stop=True)

    def alter_partition(self, sender: int, sender_epoch: int, change: IsrChange) -> ErrorCode:
        """Store an ISR that a leader proposes; the answer has `stored` after a success."""
        state = self.stored
        if self.known.get(sender) != sender_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if change.leader_epoch < state.leader_epoch or state.leader != sender:
            return ErrorCode.FENCED_LEADER_EPOCH
        if change.isr == state.isr:
            return ErrorCode.NONE
        if change.partition_epoch != state.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        for member, epoch in zip(change.isr, change.broker_epochs, strict=True):
            if not self.is_live(member) or epoch not in (-1, self.known[member]):
                return ErrorCode.INELIGIBLE_REPLICA
        self.stored = attrs.evolve(state, isr=change.isr, partition_epoch=state.partition_epoch + 1)
        return ErrorCode.NONE

    # Rules

    def is_live(self, broker: int) -> bool:
        return broker in self.known and broker not in self.shutting_down

    def elect(self) -> None:
        state = self.stored
        live = tuple(filter(self.is_live, state.replicas))
        leader = next((broker for broker in live if broker in state.isr), None)
        if leader is not None:
            self.store(leader=leader, isr=tuple(filter(self.is_live, state.isr)))
        elif self.unclean and live:
            self.store(leader=live[0], isr=live[:1])
        elif state.leader != NO_LEADER:
            self.store(leader=NO_LEADER)

    def store(self, **changes: Any) -> None:
        """Write a state of a later leader epoch, and push it."""
        state = self.stored
        self.stored = attrs.evolve(
            state, leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1, **changes
        )
        self.push_all()

    def push_all(self) -> None:
        for broker in self.known:
            self.push(broker)

    def push(self, broker: int, stop: bool = False) -> None:
        brokers = {id_: BrokerRegistration(id_, epoch) for id_, epoch in self.known.items()}
        self.pushes[broker].append(Push(self.epoch, self.known[broker], self.stored, brokers, stop))
