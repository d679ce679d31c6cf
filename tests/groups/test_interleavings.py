"""Consumers that join, leave, change, crash and come again, in any order and at any time.

Always: every request is answered once, all members of a generation saw the same one, and when nothing
disturbs them any more, the living consumers end up in one stable generation, without waiting for any dead one.
"""

from __future__ import annotations

from collections import defaultdict

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pylogbroker.errors import ErrorCode
from pylogbroker.groups import GroupSettings
from tests.groups.consumers import Consumer, Phase
from tests.groups.harness import Harness
from tests.support.examples import examples

SECOND = 1_000
SETTINGS = GroupSettings(initial_rebalance_delay_ms=3_000, max_size=6)
STEPS_MAX = 120
"""Seconds in which a group must come to rest: a session of 10, a rebalance of 30 and a wait for syncs of 30 seconds,
and some of each again when a second dead member is noticed."""


class Interleavings(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.harness = Harness(SETTINGS)
        self.consumers: list[Consumer] = []

    # -- what consumers do -----------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.living()) < 5)
    @rule(version=st.sampled_from([3, 9]))
    def start(self, version: int) -> None:
        self.consumers.append(Consumer(f"dynamic-{len(self.consumers)}", version))

    @precondition(lambda self: len(self.living()) < 5)
    @rule(version=st.sampled_from([5, 9]), instance=st.sampled_from(["one", "two"]))
    def start_static(self, version: int, instance: str) -> None:
        """Perhaps while another of that name lives, who is fenced then."""
        self.consumers.append(Consumer(f"{instance}-{len(self.consumers)}", version, instance))

    @precondition(lambda self: self.living())
    @rule(picks=st.lists(st.integers(0, 4), min_size=1, max_size=8))
    def step(self, picks: list[int]) -> None:
        for pick in picks:
            living = self.living()
            if living:
                living[pick % len(living)].step(self.harness)

    @precondition(lambda self: self.living())
    @rule(pick=st.integers(0, 4))
    def ask_again(self, pick: int) -> None:
        self.one(pick).ask_again(self.harness)

    @precondition(lambda self: self.living())
    @rule(pick=st.integers(0, 4), topic=st.sampled_from(["u", "v"]))
    def change(self, pick: int, topic: str) -> None:
        self.one(pick).change(self.harness, topic)

    @precondition(lambda self: self.living())
    @rule(pick=st.integers(0, 4))
    def leave(self, pick: int) -> None:
        self.one(pick).leave(self.harness)

    @precondition(lambda self: self.living())
    @rule(pick=st.integers(0, 4))
    def crash(self, pick: int) -> None:
        self.one(pick).crash()

    # -- what happens to them --------------------------------------------------------------------------------------

    @rule(milliseconds=st.sampled_from([1, 500, 2_999, 3_000, 9_000, 29_999, 31_000]))
    def time_passes(self, milliseconds: int) -> None:
        self.harness.advance(milliseconds)

    @rule()
    def everybody_lives_on_for_a_while(self) -> None:
        self.live(12)

    @rule()
    def the_store_hesitates(self) -> None:
        if self.harness.log_port.held is None:
            self.harness.log_port.hold()

    @rule()
    def the_store_goes_on(self) -> None:
        self.harness.log_port.release()

    @rule(error=st.sampled_from([ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS]))
    def the_store_fails_or_not(self, error: ErrorCode) -> None:
        self.harness.log_port.error = error

    @rule()
    def another_coordinator_takes_over(self) -> None:
        self.harness.log_port.release()
        self.harness.close()
        self.harness = self.harness.restarted()

    # -- what must hold --------------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_answered_twice(self) -> None:
        assert all(len(answer.all) <= 1 for consumer in self.consumers for answer in consumer.answers)

    @invariant()
    def a_group_that_moves_has_a_deadline(self) -> None:
        if self.harness.state() in ("PreparingRebalance", "CompletingRebalance", "Stable"):
            assert self.harness.runtime.next_deadline() is not None

    @invariant()
    def members_of_one_generation_agree(self) -> None:
        """On the protocol and on the assignment: each got what the one leader meant for it in that generation."""
        seen = defaultdict(set)
        for consumer in self.consumers:
            for joined, assignment in consumer.history:
                seen[joined.generation].add(joined.protocol_name)
                if assignment:
                    mine = consumer.instance_id or joined.member_id
                    assert assignment == f"{joined.generation}:{mine}".encode()
        assert all(len(protocols) == 1 for protocols in seen.values())

    def teardown(self) -> None:
        self.harness.log_port.error = ErrorCode.NONE
        self.harness.log_port.release()
        self.live(STEPS_MAX)
        self.all_living_are_members()
        self.harness.advance(400 * SECOND)
        assert all(len(answer.all) == 1 for consumer in self.consumers for answer in consumer.answers)
        assert self.harness.state() in ("Empty", "Dead")

    def all_living_are_members(self) -> None:
        living = self.living()
        described = self.harness.coordinator.describe("g")
        assert {consumer.phase for consumer in living} <= {Phase.MEMBER}
        assert {member.member_id for member in described.members} == {consumer.member_id for consumer in living}
        if living:
            assert described.state == "Stable"
            assert len({consumer.joined.generation for consumer in living if consumer.joined}) == 1
            assert all(consumer.assignment for consumer in living)
        else:
            assert described.state in ("Empty", "Dead")

    def live(self, seconds: int) -> None:
        for _ in range(seconds):
            for consumer in self.living():
                for _ in range(4):
                    consumer.step(self.harness)
            self.harness.advance(SECOND)

    def living(self) -> list[Consumer]:
        return [consumer for consumer in self.consumers if consumer.lives]

    def one(self, pick: int) -> Consumer:
        living = self.living()
        return living[pick % len(living)]


Interleavings.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
TestInterleavings = Interleavings.TestCase
