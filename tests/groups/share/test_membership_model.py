"""Random interleavings of share consumers, time, topics, states and the store, and what must hold after each step.

    always        members have partitions of their topics alone, which have a state; a client's epoch does not go back
    in the end    every partition that has subscribers has a member, every member a partition; clients know what they
                  have; the group is in the log as it is in memory

Seeds replay a run: `pytest --hypothesis-seed=7 tests/groups/share/test_membership_model.py`.
"""

from __future__ import annotations

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pylogbroker.errors import ErrorCode
from pylogbroker.groups.consumer.partitions import TopicIdPartition
from pylogbroker.groups.share import states
from pylogbroker.groups.share.group import ShareGroup
from pylogbroker.groups.share.requests import ShareHeartbeatResult
from tests.coordinators.harness import Answer
from tests.groups.share.harness import GROUP, ShareHarness
from tests.support.examples import examples

CLIENTS_MAX = 5
ROUNDS_MAX = 40
"""Heartbeats of all clients after which a group must be assigned: a session has nine heartbeats."""
TOPICS = ("t", "u", "v")
PICKS = st.integers(0, CLIENTS_MAX - 1)
SUBSCRIPTIONS = st.sets(st.sampled_from(TOPICS), min_size=1)
FENCED = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)


@attrs.define(eq=False)
class Client:
    """A share consumer as it should be: it uses what the last answer that it got has assigned."""

    name: str
    topics: frozenset[str]
    epoch: int = 0
    assignment: frozenset[TopicIdPartition] = frozenset()
    answer: Answer[ShareHeartbeatResult] | None = None
    is_alive: bool = True
    sends_topics: bool = True

    def beat(self, harness: ShareHarness) -> None:
        """Send a heartbeat unless an earlier one waits for its answer."""
        self.receive()
        if self.answer is None and self.is_alive:
            topics = self.topics if self.sends_topics or self.epoch == 0 else None
            self.sends_topics = False
            self.answer = harness.beat(self.name, self.epoch, topics)
            self.receive()

    def receive(self) -> None:
        if self.answer is None or self.answer.waits:
            return
        result, self.answer = self.answer.value, None
        if result.error in FENCED:
            self.epoch, self.assignment = 0, frozenset()
        elif result.error:
            self.sends_topics = True
        else:
            assert result.epoch >= self.epoch, "a client's epoch goes back"
            self.epoch = result.epoch
            if result.assignment is not None:
                self.assignment = frozenset(result.assignment)

    def lose_answer(self) -> None:
        self.answer, self.sends_topics = None, True

    def beat_unanswered(self, harness: ShareHarness) -> None:
        """Send a heartbeat whose answer is lost."""
        self.receive()
        if self.answer is None and self.is_alive:
            harness.beat(self.name, self.epoch, self.topics)
            self.sends_topics = True


class ShareGroupModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.harness = ShareHarness(assignment_interval_ms=1_000)
        self.clients: list[Client] = []

    # -- clients -------------------------------------------------------------------------------------------------

    @initialize(clients=st.integers(0, 3))
    def begin(self, clients: int) -> None:
        for _ in range(clients):
            self.start(set(TOPICS[:1]))

    @precondition(lambda self: len(self.living()) < CLIENTS_MAX)
    @rule(topics=SUBSCRIPTIONS)
    def start(self, topics: set[str]) -> None:
        self.clients.append(Client(f"c{len(self.clients)}", frozenset(topics)))
        self.clients[-1].beat(self.harness)

    @precondition(lambda self: self.living())
    @rule(pick=PICKS)
    def beat(self, pick: int) -> None:
        self.one(pick).beat(self.harness)

    @precondition(lambda self: self.living())
    @rule(pick=PICKS)
    def beat_unanswered(self, pick: int) -> None:
        self.one(pick).beat_unanswered(self.harness)

    @precondition(lambda self: self.living())
    @rule(pick=PICKS)
    def lose_answer(self, pick: int) -> None:
        self.one(pick).lose_answer()

    @precondition(lambda self: self.living())
    @rule(pick=PICKS, topics=SUBSCRIPTIONS)
    def subscribe(self, pick: int, topics: set[str]) -> None:
        client = self.one(pick)
        client.topics, client.sends_topics = frozenset(topics), True

    @precondition(lambda self: self.living())
    @rule(pick=PICKS)
    def leave(self, pick: int) -> None:
        client = self.one(pick)
        client.is_alive = False
        self.harness.beat(client.name, -1)

    @precondition(lambda self: self.living())
    @rule(pick=PICKS)
    def crash(self, pick: int) -> None:
        self.one(pick).is_alive = False

    # -- the broker and its surroundings -------------------------------------------------------------------------

    @rule(milliseconds=st.sampled_from((100, 1_000, 20_000)))
    def wait(self, milliseconds: int) -> None:
        self.harness.advance(milliseconds)

    @rule(name=st.sampled_from(TOPICS), partitions=st.integers(1, 4))
    def create_or_extend(self, name: str, partitions: int) -> None:
        former = self.harness.share.topics.get(name)
        if former is None:
            self.harness.share.create(name, partitions)
        else:
            self.harness.share.extend(name, max(partitions, former.partitions))
        self.harness.topics_changed(name)

    @precondition(lambda self: self.harness.share.topics)
    @rule(name=st.sampled_from(TOPICS))
    def delete_topic(self, name: str) -> None:
        if name in self.harness.share.topics:
            topic_id = self.harness.share.id(name)
            del self.harness.share.topics[name]
            self.harness.topics_changed(name, deleted=[topic_id])

    @rule(data=st.data())
    def let_states_fail(self, data: st.DataObject) -> None:
        partitions = sorted(self.harness.share.partitions(*self.harness.share.topics))
        chosen = data.draw(st.sets(st.sampled_from(partitions), max_size=3)) if partitions else set()
        self.harness.share.errors = dict.fromkeys(chosen, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    @rule()
    def hold_or_release_calls(self) -> None:
        if self.harness.share.held is None:
            self.harness.share.hold()
        else:
            self.harness.share.release()

    @rule()
    def release_one_call(self) -> None:
        self.harness.share.release_one()

    @rule()
    def hold_or_release_appends(self) -> None:
        if self.harness.log_port.held is None:
            self.harness.log_port.hold()
        else:
            self.harness.log_port.release()

    @precondition(lambda self: self.harness.log_port.held is None)
    @rule(pick=PICKS)
    def fail_appends(self, pick: int) -> None:
        with self.harness.log_port.failing_now(ErrorCode.NOT_ENOUGH_REPLICAS):
            for client in self.living()[: pick + 1]:
                client.beat(self.harness)

    @rule(number=st.integers(0, 3), start=st.integers(0, 9))
    def set_start(self, number: int, start: int) -> None:
        if "t" in self.harness.share.topics and number < self.harness.share.topics["t"].partitions:
            self.harness.set_starts({(self.harness.share.id("t"), number): start})

    @rule(name=st.sampled_from(TOPICS))
    def delete_starts(self, name: str) -> None:
        if name in self.harness.share.topics:
            self.harness.delete_starts(self.harness.share.id(name))

    @rule()
    def delete_group(self) -> None:
        self.harness.delete_group()

    @precondition(lambda self: self.harness.log_port.held is None)
    @rule()
    def restart(self) -> None:
        self.harness.close()
        if self.harness.share.held is not None:
            self.harness.share.held.clear()
        self.harness = self.harness.restarted()

    # -- what must hold ------------------------------------------------------------------------------------------

    @invariant()
    def members_have_partitions_with_states_of_their_topics(self) -> None:
        group = self.group()
        if group is None:
            return
        for member in group.members.values():
            for partition in group.target_of(member.member_id):
                topic_id, _ = partition
                if topic_id in group.states.names and topic_id not in group.states.deleting:
                    assert group.states.is_initialized(partition)
            assert member.epoch <= group.target_epoch <= group.epoch

    def teardown(self) -> None:
        share = self.harness.share
        share.errors = {}
        self.harness.log_port.release()
        if share.held is not None:
            share.release()
        for _ in range(ROUNDS_MAX):
            for client in self.living():
                client.beat(self.harness)
            self.harness.advance(5_000)
        self.all_is_assigned()
        self.all_is_stored()

    def all_is_assigned(self) -> None:
        group, living = self.group(), self.living()
        if group is None or not living:
            assert group is None or not group.members
            return
        assert set(group.members) == {client.name for client in living}
        existing = set(self.harness.share.topics)
        for client in living:
            assert client.assignment == group.members[client.name].assigned == group.target_of(client.name)
            assert client.epoch == group.target_epoch == group.epoch
            assert bool(client.assignment) == bool(client.topics & existing)
            assert client.assignment <= self.harness.share.partitions(*(client.topics & existing))
        subscribed = set().union(*(client.topics for client in living)) & existing
        assert set().union(*(client.assignment for client in living)) == self.harness.share.partitions(*subscribed)
        states = self.harness.share.states.get(GROUP, {})
        assert set(group.states.all_initialized()) <= states.keys()
        assert not group.states.initializing

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
        assert attrs.asdict(before.states) == attrs.asdict(after.states)
        for member_id, member in before.members.items():
            other = after.members[member_id]
            assert (member.topics, member.epoch, member.assigned) == (other.topics, other.epoch, other.assigned)

    def group(self) -> ShareGroup | None:
        group = self.harness.runtime.shard_for(GROUP).groups.get(GROUP)
        assert group is None or isinstance(group, ShareGroup)
        return group

    def living(self) -> list[Client]:
        return [client for client in self.clients if client.is_alive]

    def one(self, pick: int) -> Client:
        living = self.living()
        return living[pick % len(living)]


class ShareGroupInStepsModel(ShareGroupModel):
    """A group whose states are made in many steps."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(states, "INITIALIZED_AT_ONCE_MAX", 2)

    def teardown(self) -> None:
        self.patch.undo()
        super().teardown()


ShareGroupModel.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
TestShareGroupModel = ShareGroupModel.TestCase
ShareGroupInStepsModel.TestCase.settings = ShareGroupModel.TestCase.settings
TestShareGroupInStepsModel = ShareGroupInStepsModel.TestCase
