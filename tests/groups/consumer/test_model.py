"""Random interleavings of clients, time, topics and the store, with the invariants of TLA+'s model of KIP-848.

The names are those of `consumer_group_protocol_kip_848_v2` in Vanlightly/kafka-tlaplus. Seeds replay a run:
`pytest --hypothesis-seed=7 tests/groups/consumer/test_model.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pylogbroker.errors import ErrorCode
from pylogbroker.groups.consumer.group import ConsumerGroup
from pylogbroker.groups.consumer.member import ConsumerMember
from pylogbroker.groups.consumer.states import ReconciliationState
from tests.groups.consumer.clients import Client
from tests.groups.consumer.harness import GROUP, ConsumerHarness
from tests.support.examples import examples

CLIENTS_MAX = 4
ROUNDS_MAX = 60
"""Heartbeats of all clients after which a group must be stable: dead members stay for a session of nine heartbeats."""
TOPICS = ("t", "u", "v")
PICKS = st.integers(0, CLIENTS_MAX - 1)

Step = Callable[[Client, ConsumerHarness], None]
STEPS: tuple[Step, ...] = (
    Client.beat,
    Client.beat,
    Client.beat,
    lambda client, harness: client.reconcile(),
    lambda client, harness: client.reconcile(),
    Client.beat_unanswered,
    lambda client, harness: client.lose_answer(),
)


class ConsumerGroupModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.harness = ConsumerHarness(assignment_interval_ms=1_000)
        self.clients: list[Client] = []
        self.epochs: dict[ConsumerMember, int] = {}

    # -- clients -------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.living()) < CLIENTS_MAX)
    @rule(topics=st.sets(st.sampled_from(TOPICS), min_size=1), is_static=st.booleans(), has_expression=st.booleans())
    def start(self, topics: set[str], is_static: bool, has_expression: bool) -> None:
        name = f"c{len(self.clients)}"
        expression = f"[{''.join(sorted(topics))}]" if has_expression else None
        instance_id = f"i{len(self.clients)}" if is_static else None
        self.clients.append(Client(name, frozenset() if has_expression else frozenset(topics), expression, instance_id))

    @initialize(clients=st.integers(0, 3), rounds=st.integers(0, 4))
    def begin(self, clients: int, rounds: int) -> None:
        for _ in range(clients):
            self.start({"t", "u"}, is_static=False, has_expression=False)
        for _ in range(rounds):
            self.round()

    @precondition(lambda self: self.living())
    @rule(steps=st.lists(st.tuples(PICKS, st.sampled_from(STEPS)), min_size=1, max_size=12))
    def go_on(self, steps: list[tuple[int, Step]]) -> None:
        """Let clients do what they do most."""
        for pick, step in steps if self.living() else ():
            step(self.one(pick), self.harness)
            self.no_partition_with_two_clients()

    @precondition(lambda self: self.living())
    @rule(steps=st.lists(st.tuples(PICKS, st.sampled_from(STEPS)), min_size=4, max_size=20))
    def rebalance(self, steps: list[tuple[int, Step]]) -> None:
        """Let a group come to rest; then a client joins or goes, and the others notice one by one."""
        for _ in range(3):
            self.round()
        if len(self.living()) < CLIENTS_MAX:
            self.start({"t", "u"}, is_static=False, has_expression=False)
            self.clients[-1].beat(self.harness)
        else:
            self.living()[0].crash()
        self.go_on(steps)

    @precondition(lambda self: self.living())
    @rule(pick=PICKS, topics=st.sets(st.sampled_from(TOPICS), min_size=1))
    def subscribe(self, pick: int, topics: set[str]) -> None:
        client = self.one(pick)
        if client.expression is None:
            client.topics, client.has_sent_subscription = frozenset(topics), False

    @precondition(lambda self: self.living())
    @rule(pick=PICKS)
    def leave(self, pick: int) -> None:
        self.one(pick).leave(self.harness)

    @precondition(lambda self: self.living())
    @rule(pick=PICKS)
    def come_back(self, pick: int) -> None:
        self.one(pick).come_back()

    @precondition(lambda self: self.living())
    @rule(pick=PICKS)
    def crash(self, pick: int) -> None:
        self.one(pick).crash()

    @rule(rounds=st.integers(1, 4))
    def everybody_goes_on(self, rounds: int) -> None:
        for _ in range(rounds):
            self.round()

    # -- what is around them -------------------------------------------------------------------------------------

    @rule(milliseconds=st.sampled_from([1, 999, 5_000, 15_000, 46_000]))
    def time_passes(self, milliseconds: int) -> None:
        self.harness.advance(milliseconds)

    @rule(name=st.sampled_from(TOPICS), partitions=st.integers(1, 4))
    def change_topic(self, name: str, partitions: int) -> None:
        topics = self.harness.topics
        if name not in topics.topics:
            topics.create(name, partitions)
        elif topics.topics[name].partitions < partitions:
            topics.extend(name, partitions)
        else:
            topics.delete(name)
        self.harness.topics_changed(name)

    @rule()
    def threads_hesitate(self) -> None:
        if self.harness.topics.held is None:
            self.harness.topics.hold()

    @rule()
    def threads_go_on(self) -> None:
        self.harness.topics.release()

    @rule()
    def store_hesitates(self) -> None:
        if self.harness.log_port.held is None:
            self.harness.log_port.hold()

    @rule(error=st.sampled_from([ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS]))
    def store_goes_on(self, error: ErrorCode) -> None:
        self.harness.log_port.error = error
        self.harness.log_port.release()

    @rule()
    def another_coordinator_takes_over(self) -> None:
        """Replay what is stored; changes without an answer may be lost."""
        self.harness.log_port.error = ErrorCode.NOT_ENOUGH_REPLICAS
        self.harness.log_port.release()
        self.harness.close()
        self.harness.topics.held = None
        self.harness = self.harness.restarted()
        self.epochs.clear()
        for client in self.living():
            client.receive()
            client.lose_answer()

    # -- invariants ----------------------------------------------------------------------------------------------

    @invariant()
    def types_ok(self) -> None:
        group = self.group()
        if group is None:
            return
        assert 0 <= group.target_epoch <= group.epoch
        for member_id, member in group.members.items():
            assert member.member_id == member_id
            assert member.epoch <= group.target_epoch
            assert not member.assigned.keys() & member.revoking.keys()
            assert bool(member.revoking) <= (member.state is ReconciliationState.UNREVOKED_PARTITIONS)
        assert set(group.target) <= set(group.members)

    @invariant()
    def target_assignments_are_legal(self) -> None:
        group = self.group()
        if group is not None:
            given = [partition for some in group.target.values() for partition in some]
            assert len(given) == len(set(given))

    @invariant()
    def no_partition_with_two_clients(self) -> None:
        """No two members use a partition; a client that was removed does not know yet that it is no member."""
        group = self.group()
        members = () if group is None else group.members
        used = [key for client in self.living() if client.member_id in members for key in client.owned]
        assert len(used) == len(set(used))

    @invariant()
    def partition_epochs_are_valid(self) -> None:
        group = self.group()
        if group is None:
            return
        held: dict[Any, str] = {}
        for member in group.members.values():
            for partition, epoch in {**member.assigned, **member.revoking}.items():
                assert held.setdefault(partition, member.member_id) == member.member_id
                assert group.holder(partition) == member.member_id
                assert 0 < epoch <= group.target_epoch
        assert group.holders_count == len(held)

    @invariant()
    def stable_group_is_stable(self) -> None:
        group = self.group()
        if group is not None and group.state.value == "Stable":
            for member_id, member in group.members.items():
                assert member.assigned.keys() == group.target_of(member_id)
                assert member.epoch == group.epoch == group.target_epoch

    @invariant()
    def member_epochs_are_monotonic(self) -> None:
        group = self.group()
        for member in () if group is None else group.members.values():
            before = self.epochs.get(member, 0)
            assert member.epoch >= before or member.epoch == -2 or before == -2
            self.epochs[member] = member.epoch

    def teardown(self) -> None:
        """All converges after the last perturbation."""
        self.harness.log_port.error = ErrorCode.NONE
        self.harness.log_port.release()
        self.harness.topics.release()
        for _ in range(ROUNDS_MAX):
            self.round()
        self.all_is_assigned()
        self.all_is_stored()

    def round(self) -> None:
        for client in self.living():
            client.come_back()
            client.beat(self.harness)
            client.reconcile()
        self.harness.advance(5_000)

    def all_is_assigned(self) -> None:
        group, living = self.group(), self.living()
        if group is None or not living:
            assert group is None or group.state.value == "Empty"
            return
        assert group.state.value == "Stable"
        assert set(group.members) == {client.member_id for client in living}
        assert all(client.owned == group.target_of(client.member_id) for client in living)
        subscribed = {name for client in living for name in TOPICS if self.reads(client, name)}
        existing = subscribed & set(self.harness.topics.topics)
        assert {key for client in living for key in client.owned} == self.harness.topics.partitions(*existing)

    def all_is_stored(self) -> None:
        if not self.living():
            self.harness.advance(self.harness.coordinator.settings.check_interval_ms)  # nobody else writes again
        before = self.group()
        self.harness.close()
        self.harness = self.harness.restarted()
        after = self.group()
        if before is None or after is None:
            assert before is after or (before is not None and not before.members)
            return
        assert (before.epoch, before.target_epoch, before.target) == (after.epoch, after.target_epoch, after.target)
        assert topics_of_expressions(before) == topics_of_expressions(after)
        for member_id, member in before.members.items():
            assert values_of(member) == values_of(after.members[member_id])

    @staticmethod
    def reads(client: Client, name: str) -> bool:
        return name in client.topics or name in (client.expression or "")

    def group(self) -> ConsumerGroup | None:
        shard = self.harness.runtime.shard_for(GROUP)
        group = shard.groups.get(GROUP)
        assert group is None or isinstance(group, ConsumerGroup)
        return group

    def living(self) -> list[Client]:
        return [client for client in self.clients if client.is_alive]

    def one(self, pick: int) -> Client:
        living = self.living()
        return living[pick % len(living)]


def topics_of_expressions(group: ConsumerGroup) -> dict[str, frozenset[str]]:
    return {expression: resolved.topics for expression, resolved in group.expressions.items()}


def values_of(member: ConsumerMember) -> tuple[Any, ...]:
    return (
        member.instance_id,
        member.topics,
        member.expression,
        member.rebalance_timeout_ms,
        member.epoch,
        member.previous_epoch,
        member.state,
        dict(member.assigned),
        dict(member.revoking),
    )


ConsumerGroupModel.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=50, deadline=None)
TestConsumerGroupModel = ConsumerGroupModel.TestCase
