"""Random interleavings of members of Kafka Streams, time, topics, settings and the store, and what must hold.

    always        a task is used as active by one client at most, and once in a process; a client's epoch does not go
                  back
    in the end    every task has an owner and its copies; clients know their tasks; the group is stored as it is

Planted bugs must be found. Seeds replay a run: `pytest --hypothesis-seed=7 tests/groups/streams/test_model.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pylogbroker.errors import ErrorCode
from pylogbroker.groups.streams import reconciliation
from pylogbroker.groups.streams.group import StreamsGroup
from pylogbroker.groups.streams.requests import StreamsHeartbeatResult
from pylogbroker.groups.streams.states import StreamsGroupState
from pylogbroker.groups.streams.tasks import NO_TASKS, Tasks
from tests.coordinators.harness import Answer
from tests.groups.streams.harness import GROUP, REBALANCE, WORD_COUNT, StreamsHarness, topology
from tests.support.examples import examples

CLIENTS_MAX = 5
ROUNDS_MAX = 40
PROCESSES = ("p1", "p2", "p3")
PICKS = st.integers(0, CLIENTS_MAX - 1)
INTERNAL = ("g-by-word-repartition", "g-counts-changelog")
FENCED = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)


@attrs.define(eq=False)
class Client:
    """A thread of Kafka Streams as it should be: it uses its tasks until it says that it has revoked them."""

    name: str
    process: str
    epoch: int = 0
    tasks: Tasks = NO_TASKS
    in_use: Tasks = NO_TASKS
    answer: Answer[StreamsHeartbeatResult] | None = None
    is_alive: bool = True
    sends_all: bool = True

    def beat(self, harness: StreamsHarness, *, answered: bool = True) -> None:
        """Send a heartbeat unless an earlier one waits for its answer."""
        self.receive()
        if self.answer is not None or not self.is_alive:
            return
        self.in_use = self.tasks
        fields: dict[str, Any] = {"owned": self.tasks}
        if self.sends_all or self.epoch == 0:
            fields |= {"rebalance_timeout_ms": REBALANCE, "process_id": self.process, "client_tags": {}}
        if self.epoch == 0:
            fields["topology"] = topology(WORD_COUNT)
        self.sends_all = not answered
        answer = harness.send(self.name, self.epoch, **fields)
        if answered:
            self.answer = answer
            self.receive()

    def receive(self) -> None:
        if self.answer is None or self.answer.waits:
            return
        result, self.answer = self.answer.value, None
        if result.error in FENCED:
            self.epoch, self.tasks, self.in_use = 0, NO_TASKS, NO_TASKS
        elif result.error:
            self.sends_all = True
        else:
            assert result.epoch >= self.epoch, "a client's epoch goes back"
            self.epoch = result.epoch
            if result.assignment is not None:
                self.tasks = result.assignment
                self.in_use = self.in_use | self.tasks

    def lose_answer(self) -> None:
        self.answer, self.sends_all = None, True


class StreamsGroupModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.harness = StreamsHarness()
        self.harness.change_settings(assignment_interval_ms=1_000)
        for name in INTERNAL:
            self.harness.streams.create(name, 4)
        self.clients: list[Client] = []

    # -- clients -------------------------------------------------------------------------------------------------

    @initialize(clients=st.integers(0, 3), standbys=st.integers(0, 1), delay=st.sampled_from((0, 3_000)))
    def begin(self, clients: int, standbys: int, delay: int) -> None:
        self.harness.change_settings(standbys=standbys, initial_rebalance_delay_ms=delay)
        for number in range(clients):
            self.start(PROCESSES[number])

    @precondition(lambda self: len(self.living()) < CLIENTS_MAX)
    @rule(process=st.sampled_from(PROCESSES))
    def start(self, process: str) -> None:
        self.clients.append(Client(f"c{len(self.clients)}", process))
        self.clients[-1].beat(self.harness)

    @precondition(lambda self: self.living())
    @rule(pick=PICKS)
    def beat(self, pick: int) -> None:
        self.one(pick).beat(self.harness)

    @precondition(lambda self: self.living())
    @rule()
    def all_beat(self) -> None:
        for client in self.living():
            client.beat(self.harness)

    @precondition(lambda self: self.living())
    @rule(pick=PICKS)
    def beat_unanswered(self, pick: int) -> None:
        self.one(pick).beat(self.harness, answered=False)

    @precondition(lambda self: self.living())
    @rule(pick=PICKS)
    def lose_answer(self, pick: int) -> None:
        self.one(pick).lose_answer()

    @precondition(lambda self: self.living())
    @rule(pick=PICKS)
    def leave(self, pick: int) -> None:
        client = self.one(pick)
        client.is_alive = False
        self.harness.send(client.name, -1)

    @precondition(lambda self: self.living())
    @rule(pick=PICKS)
    def crash(self, pick: int) -> None:
        self.one(pick).is_alive = False

    # -- the broker and its surroundings -------------------------------------------------------------------------

    @rule(milliseconds=st.sampled_from((100, 1_000, 20_000)))
    def wait(self, milliseconds: int) -> None:
        self.harness.advance(milliseconds)

    @rule(partitions=st.integers(1, 6))
    def recreate_topics(self, partitions: int) -> None:
        for name in ("words", *INTERNAL):
            self.harness.streams.create(name, partitions)
        self.harness.topics_changed("words", *INTERNAL)

    @rule(name=st.sampled_from(("words", *INTERNAL)))
    def delete_topic(self, name: str) -> None:
        self.harness.streams.topics.pop(name, None)
        self.harness.topics_changed(name)

    @rule(standbys=st.integers(0, 2))
    def change_standbys(self, standbys: int) -> None:
        self.harness.change_settings(standbys=standbys)

    @rule()
    def hold_or_release_assignments(self) -> None:
        if self.harness.streams.held is None:
            self.harness.streams.held = []
        else:
            self.harness.streams.release()

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

    @precondition(lambda self: self.harness.log_port.held is None)
    @rule()
    def restart(self) -> None:
        self.harness.close()
        self.harness.streams.held = None
        self.harness = self.harness.restarted()

    # -- what must hold ------------------------------------------------------------------------------------------

    @invariant()
    def tasks_have_one_owner_and_are_once_in_a_process(self) -> None:
        group = self.group()
        members = {} if group is None else group.members
        using = [client for client in self.living() if client.name in members and client.epoch]
        owners = Counter(task for client in using for task in client.in_use.active)
        assert not [task for task, number in owners.items() if number > 1], "a task has two owners"
        places = Counter((client.process, task) for client in using for task in {*client.in_use})
        assert not [place for place, number in places.items() if number > 1], "a process has a task twice"

    @invariant()
    def epochs_are_in_order(self) -> None:
        group = self.group()
        if group is not None:
            assert group.target_epoch <= group.epoch
            assert all(member.epoch <= max(1, group.target_epoch) for member in group.members.values())

    def teardown(self) -> None:
        streams = self.harness.streams
        self.harness.log_port.release()
        if streams.held is not None:
            streams.release()
        self.recreate_topics(4)
        for _ in range(ROUNDS_MAX):
            self.all_beat()
            self.tasks_have_one_owner_and_are_once_in_a_process()
            self.harness.advance(5_000)
        self.all_is_assigned()
        self.all_is_stored()

    def all_is_assigned(self) -> None:
        group, living = self.group(), self.living()
        if group is None or not living:
            assert group is None or not group.members
            return
        assert set(group.members) == {client.name for client in living}
        assert group.state is StreamsGroupState.STABLE
        for client in living:
            assert client.tasks == group.members[client.name].assigned == group.target_of(client.name)
            assert client.epoch == group.target_epoch == group.epoch
        active = Counter(task for client in living for task in client.tasks.active)
        assert active == Counter((name, number) for name in "01" for number in range(4)), "a task is lost"
        copies = min(self.harness.streams.settings.standbys, len({client.process for client in living}) - 1)
        standby = Counter(task for client in living for task in client.tasks.standby)
        assert standby == Counter({("1", number): copies for number in range(4) if copies}), "a copy is lost"

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
        for member_id, member in before.members.items():
            other = after.members[member_id]
            assert (member.epoch, member.assigned, member.since) == (other.epoch, other.assigned, other.since)

    def group(self) -> StreamsGroup | None:
        group = self.harness.runtime.shard_for(GROUP).groups.get(GROUP)
        assert group is None or isinstance(group, StreamsGroup)
        return group

    def living(self) -> list[Client]:
        return [client for client in self.clients if client.is_alive]

    def one(self, pick: int) -> Client:
        living = self.living()
        return living[pick % len(living)]


StreamsGroupModel.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
TestStreamsGroupModel = StreamsGroupModel.TestCase


def always_true(*arguments: object) -> bool:
    return True


def forget_one(original: Callable[..., None]) -> Callable[..., None]:
    """Return a `set_target` that loses a task."""

    def set_target(group: StreamsGroup, epoch: int, target: dict[str, Tasks], now_ms: int) -> None:
        lost = Tasks(frozenset([("1", 3)]))
        original(group, epoch, {name: tasks - lost for name, tasks in target.items()}, now_ms)

    return set_target


BUGS: dict[str, tuple[object, str, object]] = {
    "tasks are given before they are revoked": (StreamsGroup, "_is_free", always_true),
    "copies beside a task do not count": (StreamsGroup, "_is_free_to_copy", always_true),
    "revocation is not awaited": (reconciliation, "_still_owns", lambda owned, revoked: False),
    "a task is lost": (StreamsGroup, "set_target", forget_one(StreamsGroup.set_target)),
    "epochs go back": (StreamsGroup, "bump", lambda group, now_ms: setattr(group, "epoch", max(2, group.epoch - 1))),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, broken = BUGS[bug]
    monkeypatch.setattr(owner, name, broken)
    search = settings(
        max_examples=400,
        stateful_step_count=40,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(StreamsGroupModel, settings=search)
