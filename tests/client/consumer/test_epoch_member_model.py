"""Random interleavings of members, each a client's state machine, with the broker's state machines as coordinator.

Answers are lost, revocations take long, names of topics come late, and coordinators move. Nobody uses a partition that
another member uses, and all is assigned in the end. Seeds replay a run:
`pytest --hypothesis-seed=7 tests/client/consumer/test_epoch_member_model.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pylogbroker.client.consumer.actions import (
    Actions,
    Assign,
    FindCoordinator,
    LookUpTopics,
    MemberSubscription,
    ReportFailure,
    Revoke,
    SendEpochHeartbeat,
)
from pylogbroker.client.consumer.epoch_member import EpochHeartbeatAnswer, EpochMember, EpochMemberState
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.consumer.group import ConsumerGroup
from pylogbroker.groups.consumer.requests import HeartbeatResult
from pylogbroker.interfaces import TopicPartition
from tests.coordinators.harness import Answer
from tests.groups.consumer.harness import GROUP, REBALANCE, ConsumerHarness
from tests.support.examples import examples

MEMBERS_MAX = 4
ROUNDS_MAX = 60
TOPICS = ("t", "u", "v")
PICKS = st.integers(0, MEMBERS_MAX - 1)
VISITS = st.lists(st.tuples(PICKS, st.booleans()), min_size=8, max_size=24)


@attrs.define(eq=False)
class Client:
    """A program with a member: it does what the state machine orders, when the test lets it."""

    machine: EpochMember
    harness: ConsumerHarness
    instance_id: str | None
    used: dict[TopicPartition, UUID] = attrs.field(factory=dict)  # with the topic's id
    answer: Answer[HeartbeatResult] | None = None
    finding: bool = False
    revoke: Revoke | None = None
    look_up: LookUpTopics | None = None
    is_alive: bool = True

    def do(self, actions: Actions) -> None:
        for action in actions:
            match action:
                case Assign():
                    assert not self.used.keys() & action.partitions
                    ids = {(self.machine._names.get(key[0]), key[1]): key[0] for key in self.machine.owned}
                    self.used |= {key: ids[key] for key in action.partitions}
                case Revoke():
                    assert self.revoke is None
                    self.revoke = action
                case FindCoordinator():
                    self.finding = True
                case LookUpTopics():
                    self.look_up = action
                case ReportFailure():
                    raise action.error
                case SendEpochHeartbeat():
                    self._send(action)
        self.is_alive = self.is_alive and self.machine.state is not EpochMemberState.GONE

    def _send(self, beat: SendEpochHeartbeat) -> None:
        fields: dict[str, object] = {"instance_id": self.instance_id}
        if beat.is_full:
            fields["rebalance_timeout_ms"] = REBALANCE
        if beat.subscription is not None:
            fields["topics"] = beat.subscription.names
            fields["expression"] = beat.subscription.expression or ""
        if beat.owned is not None:
            fields["owned"] = beat.owned
        answer = self.harness.beat(beat.member_id, beat.epoch, **fields)
        if beat.epoch < 0:
            self.machine.left()
        else:
            assert self.answer is None, "two heartbeats at a time"
            self.answer = answer

    def go_on(self) -> None:
        """Receive what has come, and send what is due."""
        if self.finding:
            self.finding = False
            self.do(self.machine.coordinator_found(self.harness.now))
        self.receive()
        self.do(self.machine.tick(self.harness.now))
        self.receive()

    def receive(self) -> None:
        if self.answer is None or self.answer.waits:
            return
        result, self.answer = self.answer.value, None
        if result.error:
            self.do(self.machine.request_rejected(result.error, self.harness.now))
            return
        assignment = None if result.assignment is None else frozenset(result.assignment)
        answer = EpochHeartbeatAnswer(result.epoch, result.interval_ms, assignment, result.member_id)
        self.do(self.machine.heartbeat_answered(answer, {}, self.harness.now))

    def lose_answer(self) -> None:
        if self.answer is not None:
            self.answer = None
            self.do(self.machine.disconnected(self.harness.now))

    def finish_revocation(self) -> None:
        if self.revoke is not None:
            self.used = {key: topic for key, topic in self.used.items() if key not in self.revoke.partitions}
            self.revoke = None
            self.do(self.machine.revoked(self.harness.now))

    def name_topics(self) -> None:
        if self.look_up is not None:
            names = {shape.topic_id: name for name, shape in self.harness.topics.topics.items()}
            known = {topic_id: names[topic_id] for topic_id in self.look_up.topic_ids if topic_id in names}
            self.look_up = None
            self.do(self.machine.topics_named(known, self.harness.now))

    def reject_commit(self) -> None:
        self.do(self.machine.commit_rejected(ErrorCode.STALE_MEMBER_EPOCH, self.harness.now))

    def leave(self) -> None:
        self.do(self.machine.leave(self.harness.now))

    def crash(self) -> None:
        self.is_alive, self.answer, self.used = False, None, {}


STEPS: tuple[Callable[[Client], None], ...] = (
    Client.go_on,
    Client.go_on,
    Client.go_on,
    lambda client: client.harness.advance(5_000),
    Client.finish_revocation,
    Client.name_topics,
    Client.name_topics,
    Client.lose_answer,
    Client.reject_commit,
)


class EpochMemberModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.harness = ConsumerHarness(assignment_interval_ms=1_000)
        self.clients: list[Client] = []

    @precondition(lambda self: len(self.living()) < MEMBERS_MAX)
    @rule(topics=st.sets(st.sampled_from(TOPICS), min_size=1), is_static=st.booleans(), has_expression=st.booleans())
    def start(self, topics: set[str], is_static: bool, has_expression: bool) -> None:
        name = f"c{len(self.clients)}"
        expression = f"[{''.join(sorted(topics))}]"
        subscription = MemberSubscription(expression=expression) if has_expression else None
        subscription = subscription or MemberSubscription(frozenset(topics))
        machine = EpochMember(name, subscription, 100, 1000, 60_000, static=is_static)
        self.clients.append(Client(machine, self.harness, f"i-{name}" if is_static else None))
        self.clients[-1].do(machine.start(self.harness.now))

    @initialize(members=st.integers(0, 3), visits=VISITS)
    def begin(self, members: int, visits: list[tuple[int, bool]]) -> None:
        for _ in range(members):
            self.start({"t", "u"}, is_static=False, has_expression=False)
        if members:
            self.rebalance(visits)

    @precondition(lambda self: self.living())
    @rule(steps=st.lists(st.tuples(PICKS, st.sampled_from(STEPS)), min_size=1, max_size=20))
    def go_on(self, steps: list[tuple[int, Callable[[Client], None]]]) -> None:
        for pick, step in steps:
            if self.living():
                step(self.one(pick))
                self.no_partition_with_two_clients()

    @precondition(lambda self: self.living())
    @rule(visits=VISITS)
    def rebalance(self, visits: list[tuple[int, bool]]) -> None:
        """Let a group come to rest; then a member joins or dies, and the others notice, some with long revocations."""
        for _ in range(3):
            self.round()
        if len(self.living()) < MEMBERS_MAX:
            self.start({"t", "u"}, is_static=False, has_expression=False)
        else:
            self.living()[0].crash()
        for pick, revokes in visits:
            if self.living():
                client = self.one(pick)
                client.go_on()
                client.name_topics()
                self.no_partition_with_two_clients()
                if revokes:
                    client.finish_revocation()
                self.harness.advance(2_000)

    @precondition(lambda self: self.living())
    @rule(pick=PICKS, topics=st.sets(st.sampled_from(TOPICS), min_size=1))
    def subscribe(self, pick: int, topics: set[str]) -> None:
        client = self.one(pick)
        client.do(client.machine.subscribe(MemberSubscription(frozenset(topics)), self.harness.now))

    @precondition(lambda self: self.living())
    @rule(pick=PICKS)
    def leave(self, pick: int) -> None:
        self.one(pick).leave()

    @precondition(lambda self: self.living())
    @rule(pick=PICKS)
    def crash(self, pick: int) -> None:
        self.one(pick).crash()

    @rule(rounds=st.integers(1, 4))
    def everybody_goes_on(self, rounds: int) -> None:
        for _ in range(rounds):
            self.round()

    @rule(milliseconds=st.sampled_from([1, 100, 999, 5_000, 15_000, 46_000]))
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
    def another_coordinator_takes_over(self) -> None:
        """Replay what is stored."""
        self.harness.close()
        self.harness = self.harness.restarted()
        for client in self.living():
            client.harness = self.harness
            client.receive()
            client.lose_answer()

    @invariant()
    def no_partition_with_two_clients(self) -> None:
        """A client that was removed does not know yet that it is no member.

        A topic that was created again is another one.
        """
        group = self.group()
        members = () if group is None else group.members
        used = [key for client in self.living() if client.machine.member_id in members for key in client.used.items()]
        assert len(used) == len(set(used))

    def teardown(self) -> None:
        """All converges after the last perturbation."""
        for _ in range(ROUNDS_MAX):
            self.round()
        group, living = self.group(), self.living()
        if group is None or not living:
            assert group is None or group.state.value == "Empty"
            return
        assert group.state.value == "Stable"
        assert set(group.members) == {client.machine.member_id for client in living}
        assert {client.machine.state for client in living} == {EpochMemberState.STABLE}
        used = [key for client in living for key in client.used]
        existing = {name: shape.partitions for name, shape in self.harness.topics.topics.items()}
        subscribed = {name for client in living for name in existing if self.reads(client, name)}
        assert sorted(used) == sorted((name, number) for name in subscribed for number in range(existing[name]))

    @staticmethod
    def reads(client: Client, name: str) -> bool:
        subscription = client.machine.subscription
        return name in subscription.names or name in (subscription.expression or "")

    def round(self) -> None:
        for client in self.living():
            client.go_on()
            client.finish_revocation()
            client.name_topics()
            client.go_on()
        self.harness.advance(5_000)

    def group(self) -> ConsumerGroup | None:
        group = self.harness.runtime.shard_for(GROUP).groups.get(GROUP)
        assert group is None or isinstance(group, ConsumerGroup)
        return group

    def living(self) -> list[Client]:
        return [client for client in self.clients if client.is_alive]

    def one(self, pick: int) -> Client:
        living = self.living()
        return living[pick % len(living)]


EpochMemberModel.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=50, deadline=None)
TestEpochMemberModel = EpochMemberModel.TestCase
