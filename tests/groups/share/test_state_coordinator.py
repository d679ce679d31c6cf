"""The share coordinator's states: fenced, stored in order, and the same after a restart."""

from __future__ import annotations

from random import Random
from uuid import UUID

import attrs
import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.groups.share.state_coordinator import ShareStateCoordinator, ShareStateSettings, StateWrite
from pylogbroker.groups.share.state_records import SharePartitionKey, decode_key
from pylogbroker.groups.share.state_shard import ReplayedStates, StateShard
from pylogbroker.groups.share.stored_state import StoredState
from pylogbroker.groups.share.values import RecordState, StateBatch
from pylogbroker.records import entries
from tests.coordinators.harness import Answer, RuntimeHarness
from tests.groups.harness import FakeLogPort

KEY = SharePartitionKey("group", UUID(int=7), 0)
SETTINGS = ShareStateSettings(partitions=3, updates_per_snapshot=4)
ACKNOWLEDGED, AVAILABLE, ARCHIVING = RecordState.ACKNOWLEDGED, RecordState.AVAILABLE, RecordState.ARCHIVING
ENDS = (ACKNOWLEDGED, RecordState.ARCHIVED)


class StateHarness(RuntimeHarness[ReplayedStates, StateShard]):
    def __init__(self, loaded: bool = True) -> None:
        self.log_port = FakeLogPort(lambda: self.now)
        self.pruned: dict[int, int] = {}
        self.coordinator = ShareStateCoordinator(SETTINGS, self.log_port, self)
        super().__init__(self.coordinator.runtime)
        if loaded:
            self.load_all()

    def end_offset(self, partition: int) -> int:
        return len(self.log_port.logs[partition])

    def delete_before(self, partition: int, offset: int) -> None:
        self.pruned[partition] = offset

    def restarted(self) -> StateHarness:
        other = StateHarness(loaded=False)
        for partition in range(SETTINGS.partitions):
            other.load(partition, entries(b"".join(self.log_port.batches[partition])))
        return other

    def initialize(self, epoch: int, start: int, key: SharePartitionKey = KEY) -> Answer[ErrorCode]:
        answer: Answer[ErrorCode] = Answer()
        self.coordinator.initialize(key, epoch, start, answer, self.now)
        return answer

    def write(
        self,
        *batches: StateBatch,
        start: int = -1,
        state_epoch: int = 1,
        leader_epoch: int = 0,
        key: SharePartitionKey = KEY,
    ) -> Answer[ErrorCode]:
        answer: Answer[ErrorCode] = Answer()
        self.coordinator.write(key, StateWrite(state_epoch, leader_epoch, start, -1, batches), answer, self.now)
        return answer

    def read(self, leader_epoch: int = 0, key: SharePartitionKey = KEY) -> StoredState | ErrorCode:
        answer: Answer[StoredState | ErrorCode] = Answer()
        self.coordinator.read(key, leader_epoch, answer, self.now)
        return answer.value

    def state(self, key: SharePartitionKey = KEY) -> StoredState:
        state = self.coordinator.summary(key)
        assert isinstance(state, StoredState)
        return state

    @property
    def kinds(self) -> list[int]:
        """Kinds of the records that were stored for KEY."""
        log = self.log_port.logs[self.coordinator.partition_for(KEY)]
        return [kind_and_key[0] for record in log if record.key and (kind_and_key := decode_key(record.key))]


@pytest.fixture
def harness() -> StateHarness:
    harness = StateHarness()
    assert harness.initialize(1, 10).value is ErrorCode.NONE
    return harness


def test_unknown_share_partition_has_no_start_offset() -> None:
    assert StateHarness().read() == StoredState()


def test_written_batches_are_read(harness: StateHarness) -> None:
    batch = StateBatch(10, 19, ACKNOWLEDGED, 1)
    assert harness.write(batch).value is ErrorCode.NONE
    assert harness.restarted().state().batches == (batch,)
    assert harness.state().start_offset == 10


def test_write_that_comes_late_moves_nothing_back(harness: StateHarness) -> None:
    """Requests on a lost connection may arrive after the leader has repeated them, and has written more."""
    late = StateBatch(12, 17, AVAILABLE, 1)
    harness.write(late)
    harness.write(
        StateBatch(14, 15, ACKNOWLEDGED, 2), StateBatch(16, 16, ARCHIVING, 2), StateBatch(17, 20, AVAILABLE, 2)
    )
    harness.write(late)
    expected = (
        StateBatch(12, 13, AVAILABLE, 1),
        StateBatch(14, 15, ACKNOWLEDGED, 2),
        StateBatch(16, 16, ARCHIVING, 2),
        StateBatch(17, 20, AVAILABLE, 2),
    )
    assert harness.state().batches == expected
    assert harness.restarted().state().batches == expected


def test_start_offset_drops_what_is_below(harness: StateHarness) -> None:
    harness.write(StateBatch(10, 19, ACKNOWLEDGED, 1), StateBatch(20, 29, AVAILABLE, 2))
    harness.write(start=25)
    assert harness.state().batches == (StateBatch(25, 29, AVAILABLE, 2),)
    harness.write(start=12)
    assert harness.state().start_offset == 25


def test_snapshot_follows_the_allowed_number_of_updates(harness: StateHarness) -> None:
    for offset in range(10, 16):
        harness.write(StateBatch(offset, offset, ACKNOWLEDGED, 1))
    assert harness.kinds == [0, 1, 1, 1, 1, 0, 1]
    assert harness.restarted().state() == harness.state()
    assert harness.state().batches == (StateBatch(10, 15, ACKNOWLEDGED, 1),)


def test_former_leader_is_fenced(harness: StateHarness) -> None:
    assert isinstance(harness.read(leader_epoch=5), StoredState)
    assert harness.write(start=11, leader_epoch=4).value is ErrorCode.FENCED_LEADER_EPOCH
    assert harness.read(leader_epoch=4) is ErrorCode.FENCED_LEADER_EPOCH
    assert harness.restarted().read(leader_epoch=4) is ErrorCode.FENCED_LEADER_EPOCH
    assert harness.write(start=11, leader_epoch=5).value is ErrorCode.NONE


def test_earlier_life_of_the_group_is_fenced(harness: StateHarness) -> None:
    harness.write(StateBatch(10, 19, ACKNOWLEDGED, 1))
    assert harness.initialize(2, 50).value is ErrorCode.NONE
    assert harness.state().batches == ()
    assert harness.state().start_offset == 50
    assert harness.write(start=11, state_epoch=1).value is ErrorCode.FENCED_STATE_EPOCH
    assert harness.initialize(1, 0).value is ErrorCode.FENCED_STATE_EPOCH
    assert harness.restarted().state() == harness.state()


def test_repeated_initialization_keeps_the_state(harness: StateHarness) -> None:
    harness.write(StateBatch(10, 19, ACKNOWLEDGED, 1))
    assert harness.initialize(1, 10).value is ErrorCode.NONE
    assert harness.state().batches == (StateBatch(10, 19, ACKNOWLEDGED, 1),)


def test_deletion_is_a_tombstone(harness: StateHarness) -> None:
    answer: Answer[ErrorCode] = Answer()
    harness.coordinator.delete(KEY, answer, harness.now)
    assert answer.value is ErrorCode.NONE
    assert harness.state() == StoredState()
    assert harness.restarted().state() == StoredState()


def test_writes_that_wait_are_stored_together(harness: StateHarness) -> None:
    harness.log_port.hold()
    answers = [harness.write(StateBatch(offset, offset, ACKNOWLEDGED, 1)) for offset in range(10, 14)]
    assert all(answer.waits for answer in answers)
    assert harness.state().batches == ()
    while harness.log_port.held:
        harness.log_port.held.pop(0)()
    assert [answer.value for answer in answers] == [ErrorCode.NONE] * 4
    assert harness.kinds == [0, 1, 1]
    assert harness.state().batches == (StateBatch(10, 13, ACKNOWLEDGED, 1),)


def test_failed_append_leaves_the_state(harness: StateHarness) -> None:
    with harness.log_port.failing_now(ErrorCode.NOT_ENOUGH_REPLICAS):
        answer = harness.write(StateBatch(10, 19, ACKNOWLEDGED, 1))
    assert answer.value is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert harness.state().batches == ()


def test_unload_answers_what_waits(harness: StateHarness) -> None:
    harness.log_port.hold()
    answers = [harness.write(start=11), harness.write(start=12)]
    harness.unload(harness.coordinator.partition_for(KEY))
    assert answers[1].value is ErrorCode.NOT_COORDINATOR
    harness.log_port.release()
    assert answers[0].value is ErrorCode.NOT_COORDINATOR
    assert harness.read() is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("key", [SharePartitionKey("", UUID(int=7), 0), SharePartitionKey("group", UUID(int=7), -1)])
def test_invalid_keys_are_rejected(key: SharePartitionKey) -> None:
    assert StateHarness().write(key=key).value is ErrorCode.INVALID_REQUEST


@attrs.define
class OffsetStates:
    """The state of each offset: the one of all writes that is furthest on."""

    start: int = 0
    states: dict[int, tuple[RecordState, int]] = attrs.field(factory=dict)

    def write(self, start: int, batches: list[StateBatch]) -> None:
        for batch in batches:
            for offset in range(batch.first, batch.last + 1):
                state, count = self.states.get(offset, (batch.state, batch.delivery_count))
                is_finished = state in ENDS
                if not is_finished and (state is not ARCHIVING or batch.state in (ARCHIVING, *ENDS)):
                    is_later = batch.state is not state or batch.delivery_count > count
                    self.states[offset] = (batch.state, batch.delivery_count) if is_later else (state, count)
                elif is_finished and batch.state in ENDS:
                    self.states[offset] = (batch.state, batch.delivery_count)
        self.start = max(self.start, start)
        self.states = {offset: state for offset, state in self.states.items() if offset >= self.start}


@pytest.mark.parametrize("seed", range(50))
def test_random_writes_are_read_as_they_were_written(seed: int) -> None:
    random = Random(seed)
    harness = StateHarness()
    harness.initialize(1, 0)
    model = OffsetStates()
    for _ in range(60):
        batches = []
        offset = model.start + random.randrange(10)
        for _ in range(random.randrange(4)):
            last = offset + random.randrange(6)
            state = random.choice([AVAILABLE, AVAILABLE, ARCHIVING, *ENDS])
            batches.append(StateBatch(offset, last, state, random.randrange(3)))
            offset = last + 1 + random.randrange(4)
        start = model.start + random.randrange(4) if random.random() < 0.3 else -1
        if random.random() < 0.2:
            with harness.log_port.failing_now(ErrorCode.NOT_ENOUGH_REPLICAS):
                assert harness.write(*batches, start=start).value is not ErrorCode.NONE
        else:
            assert harness.write(*batches, start=start).value is ErrorCode.NONE
            model.write(start, batches)
        if random.random() < 0.1:
            restarted = harness.restarted()
            restarted.log_port.logs, restarted.log_port.batches = harness.log_port.logs, harness.log_port.batches
            harness = restarted
        state = harness.state()
        stored = {
            offset: (batch.state, batch.delivery_count)
            for batch in state.batches
            for offset in range(batch.first, batch.last + 1)
        }
        assert stored == model.states
        assert state.start_offset == model.start
