"""Model of a cluster with one partition: brokers, controller, network and clients under faults.

One step is one random choice of the seed. Messages are delivered in any order, lost or repeated. Brokers crash, with or
without the records that are not on the disk; sessions expire; links are cut. Controllers act and are replaced, replicas
are reassigned, clients produce.

The invariants are checked after each step. At the end the faults stop, and the cluster must come to rest with all
replicas in sync.

Limits of the model:

- A request to the controller is not delayed beyond its repetition: it is lost, processed, or processed without answer.
  Its answer, or the loss, comes once.
- Without broker epochs in fetches (before Fetch 15), messages of a broker's former life are lost with its connections.
- Without `flush.messages`, a broker loses records only while a member of the ISR remains that has them all. No change
  of the ISR that is on its way puts that member out.
- No broker loses records and comes again while the controller changes: a controller of ZooKeeper mode does not notice.
- A truncation is on the disk at once. There are no transactions.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import PartitionState
from pylogbroker.replication import FollowerState, IsrChange, LeaderReplica, PartitionReplica, ReplicationSettings
from tests.replication.invariants import Invariants, Violation
from tests.replication.model_broker import Answer, ModelBroker, Question
from tests.replication.model_controller import ModelController
from tests.replication.model_log import Record
from tests.replication.setup import CONTROLLER, FETCH_BACKOFF_MS, LAG_TIME_MAX_MS, Setup

HEAL_ROUNDS_MAX: Final = 300
LATE_SHARE: Final = 0.05


@attrs.frozen(eq=False)
class AlterRequest:
    broker: ModelBroker
    life: int
    broker_epoch: int
    role: LeaderReplica
    change: IsrChange


@attrs.frozen(eq=False)
class AlterAnswer:
    request: AlterRequest
    error: ErrorCode
    state: PartitionState


@attrs.frozen(eq=False)
class PendingProduce:
    """Records with acks=all that wait for the high watermark."""

    broker: ModelBroker
    role: LeaderReplica
    first_offset: int
    records: list[Record]


Message = Question | Answer | AlterRequest | AlterAnswer


class Cluster:
    def __init__(
        self,
        rng: random.Random,
        setup: Setup,
        replica_class: type[PartitionReplica] = PartitionReplica,
        controller_class: type[ModelController] = ModelController,
        broker_class: type[ModelBroker] = ModelBroker,
    ) -> None:
        self.rng = rng
        self.setup = setup
        self.steps = 0
        self.now_ms = 0
        self.carries_broker_epochs = setup.carries_broker_epochs
        replicas = tuple(rng.sample(range(setup.brokers), setup.replicas))
        # begins before the first election, with all replicas in the ISR
        state = PartitionState(-1, replicas, replicas, 0, 0)
        self.controller = controller_class(state, setup.brokers, setup.unclean)
        settings = ReplicationSettings(
            setup.min_insync_replicas, LAG_TIME_MAX_MS, FETCH_BACKOFF_MS, setup.truncates_on_fetch
        )
        self.brokers = [
            broker_class(broker, self, settings, setup.flushes, replica_class) for broker in range(setup.brokers)
        ]
        self.messages: list[Message] = []
        self.late: list[Question] = []
        """Repetitions of requests that arrive much later."""
        self.pending: list[PendingProduce] = []
        self.lossy: set[int] = set()
        """Brokers that lost records, until the controller has put them out of the ISR."""
        self.cut_links: list[tuple[int, int]] = []
        """Pairs of brokers that do not reach each other; CONTROLLER is one of the ends."""
        self.next_value = 0
        self.invariants = Invariants(self)
        for broker in self.brokers:
            broker.start(self.controller.register(broker.id))
        self.controller.process_brokers()

    def check(self) -> None:
        self._complete_produces()
        self._forget_lossy()
        self.invariants.check()

    # Surroundings of brokers

    def records_per_fetch(self) -> int:
        return self.rng.randint(1, 4)

    def send(self, question: Question) -> None:
        self.messages.append(question)
        if self.rng.random() < LATE_SHARE:
            self.late.append(question)

    def alter_isr(self, broker: ModelBroker, role: LeaderReplica, change: IsrChange) -> None:
        self.messages.append(AlterRequest(broker, broker.life, broker.epoch, role, change))

    def visible(self, broker: ModelBroker) -> None:
        self.invariants.high_watermark_advanced(broker)

    # Details

    def heal(self) -> None:
        """End all faults, and let the cluster come to rest."""
        self.cut_links.clear()
        self.late.clear()
        for _ in range(HEAL_ROUNDS_MAX):
            self.now_ms += 100
            for broker in self.brokers:
                if not broker.runs:
                    broker.start(self.controller.register(broker.id))
                elif broker.id not in self.controller.registrations:
                    broker.epoch = self.controller.register(broker.id)
            self.controller.shutting_down.clear()
            self.controller.process_brokers()
            self.controller.finish_reassignment()
            for broker in self.brokers:
                while queue := self.controller.pushes[broker.id]:
                    broker.take(queue.popleft())
                broker.sync()
                broker.poll()
            for broker in self.brokers:
                broker.tick()
            messages, self.messages = self.messages, []
            for message in messages:
                self.deliver(message)
            self.check()
            if self._is_at_rest():
                if self.controller.stored.leader == self.controller.stored.replicas[0]:
                    return
                self.controller.move_leadership(self.controller.stored.replicas[0])
        raise Violation("the cluster does not come to rest without faults")

    def _is_at_rest(self) -> bool:
        state = self.controller.stored
        if self.controller.target is not None or self.pending or set(state.isr) != set(state.replicas):
            return False
        leader = self.brokers[state.leader]
        if leader.leader is None or leader.leader.leader_epoch != state.leader_epoch:
            return False
        log = leader.log
        if leader.leader.low_watermark != log.log_start_offset:
            return False
        return all(
            replica is not None
            and replica.partition_epoch == state.partition_epoch
            and replica.high_watermark == log.log_end_offset
            and broker.log.records[start:] == log.records[start:]
            for broker in map(self.brokers.__getitem__, state.replicas)
            for replica in (broker.replica,)
            for start in (max(log.log_start_offset, broker.log.log_start_offset),)
        )

    def deliver(self, message: Message) -> None:
        if isinstance(message, Question):
            if self.is_linked(message.sender, message.leader):
                self.messages.append(self.brokers[message.leader].answer(message))
            else:
                self.messages.append(Answer(message, ErrorCode.NETWORK_EXCEPTION))
        elif isinstance(message, Answer):
            self.brokers[message.question.sender].receive(message)
        elif isinstance(message, AlterRequest):
            if self.is_linked(message.broker.id, CONTROLLER) and self.rng.random() < 0.5:
                self.messages.append(self.alter_partition(message))
            else:  # the controller has other work
                self.messages.append(message)
        else:
            self._answer_alter(message)

    def is_linked(self, one: int, other: int) -> bool:
        return not self.cut_links or (min(one, other), max(one, other)) not in self.cut_links

    def alter_partition(self, request: AlterRequest) -> AlterAnswer:
        error = self.controller.alter_partition(request.broker.id, request.broker_epoch, request.change)
        if error is ErrorCode.NONE:
            self.controller.push_all()  # UpdateMetadata
        return AlterAnswer(request, error, self.controller.stored)

    def _answer_alter(self, answer: AlterAnswer) -> None:
        request = answer.request
        broker, role = request.broker, request.role
        if broker.life != request.life or broker.leader is not role:
            return
        if answer.error is ErrorCode.NONE:
            broker.perform(role.isr_altered(answer.state.isr, answer.state.partition_epoch, self.now_ms))
        else:
            broker.perform(role.isr_change_failed(request.change, answer.error, self.now_ms))

    def stop(self, broker: ModelBroker, log_end_offset: int) -> None:
        broker.stop(log_end_offset)
        if not self.setup.carries_broker_epochs:
            self.messages = [each for each in self.messages if not _is_of_former_life(each, broker)]
            self.late = [each for each in self.late if not _is_of_former_life(each, broker)]

    def survives_without(self, broker: ModelBroker) -> bool:
        """Return whether another member of the ISR has all records, and the controller knows that it lives.

        A requested change must not put it out: the controller may store the change after the crash.
        """
        if self.setup.unclean or self.setup.flushes:
            return True
        known, registered = self.controller.known, self.controller.registrations
        for member in self.controller.stored.isr:
            other = self.brokers[member]
            is_known = known.get(member) == registered.get(member) == other.epoch
            stays = all(member in isr for isr in self._proposed_isrs())
            if other is not broker and other.runs and member not in self.lossy and is_known and stays:
                return True
        return False

    def may_lose_records(self, broker: ModelBroker) -> bool:
        if self.setup.unclean or self.setup.flushes:
            return True
        if not self.setup.carries_broker_epochs and any(broker.id in isr for isr in self._proposed_isrs()):
            return False
        return self.survives_without(broker)

    def _proposed_isrs(self) -> Iterator[Sequence[int]]:
        for broker in self.brokers:
            if broker.leader is not None and broker.leader.isr.pending is not None:
                yield broker.leader.isr.pending.isr
        for message in self.messages:
            if isinstance(message, AlterRequest):
                yield message.change.isr

    def _forget_lossy(self) -> None:
        controller = self.controller
        for broker in tuple(self.lossy):
            epoch = self.brokers[broker].epoch
            if (
                self.brokers[broker].runs
                and controller.known.get(broker) == controller.registrations.get(broker) == epoch
            ):
                self.lossy.remove(broker)

    def _complete_produces(self) -> None:
        waiting = []
        for produce in self.pending:
            if produce.broker.leader is not produce.role:
                continue  # the client gets an error: the outcome is unknown
            code = produce.role.completion(produce.first_offset + len(produce.records))
            if code is None:
                waiting.append(produce)
            elif code is ErrorCode.NONE:
                self.invariants.acknowledged(produce.first_offset, produce.records)
        self.pending = waiting

    def take_message(self) -> Message:
        messages = self.messages
        index = int(self.rng.random() * len(messages))
        messages[index], messages[-1] = messages[-1], messages[index]
        return messages.pop()

    def any_running(self) -> ModelBroker | None:
        running = [broker for broker in self.brokers if broker.runs]
        return running[int(self.rng.random() * len(running))] if running else None

    def any_joining(self) -> ModelBroker | None:
        for message in self.messages:
            if isinstance(message, AlterRequest):
                joining = self.brokers[message.change.isr[-1]]
                return joining if joining.runs and joining.id not in self.controller.stored.isr else None
        return None

    def describe(self) -> str:
        lines = [f"  stored {self.controller.stored} target {self.controller.target} known {self.controller.known}"]
        for broker in self.brokers:
            role, log = broker.leader or broker.follower, broker.log
            text = f"  {broker.id}: {'runs' if broker.runs else 'down'} epoch {broker.epoch} log {log.log_start_offset}"
            text += f"..{log.on_disk}..{log.log_end_offset} {log.epochs.entries}"
            if isinstance(role, LeaderReplica):
                text += f" leads {role.leader_epoch} hw {role.high_watermark} leso {role.epoch_start_offset}"
                text += f" isr {role.isr.committed} pending {role.isr.pending}"
            elif role is not None:
                text += f" follows {role.leader_epoch} hw {role.high_watermark} {FollowerState(role.state).name}"
            lines.append(text)
        return "\n".join(lines)


def _is_of_former_life(message: Message, broker: ModelBroker) -> bool:
    return isinstance(message, Question) and message.sender == broker.id and message.sender_life != broker.life
