"""Shards: loading, serving and unloading them as leaders change, and what each answers meanwhile."""

from __future__ import annotations

import attrs
import pytest

from pylogbroker.coordinators import CoordinatorContext, CoordinatorRuntime, PartitionReplay
from pylogbroker.errors import CorruptRecords, ErrorCode
from pylogbroker.long_loops import give_way
from pylogbroker.records import Record, build, end_marker, entries
from tests.coordinators.harness import RuntimeHarness

KEY = "x"
NOT_HERE, LOADING, NONE = ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE


class Values:
    """Values of records, in order; markers as a pair. A record without value is corrupt."""

    def __init__(self) -> None:
        self.values: list[object] = []

    def apply(self, record: Record, producer_id: int | None) -> None:
        if record.value is None:
            raise CorruptRecords("it has no value")
        self.values.append(record.value if producer_id is None else (producer_id, record.value))

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        self.values.append((producer_id, committed))


@attrs.define
class Handler:
    """Notes the transitions; a shard is the list of its values."""

    sweep_interval_ms: int = 1_000
    history: list[tuple[object, ...]] = attrs.field(factory=list)

    def new_state(self) -> Values:
        return Values()

    async def make_shard(self, replay: PartitionReplay[Values], now_ms: int) -> list[object]:
        await give_way()
        return replay.state.values

    async def on_active(self, shard: list[object], state: Values, now_ms: int) -> None:
        self.history.append(("active", *shard))
        await give_way()

    def on_unload(self, shard: list[object], now_ms: int) -> None:
        self.history.append(("unload", *shard))

    async def sweep(self, shard: list[object], now_ms: int) -> None:
        self.history.append(("sweep", now_ms))
        await give_way()


class Harness(RuntimeHarness[Values, list[object]]):
    def __init__(self, partitions: int = 1) -> None:
        self.handler = Handler()

        class NoLog:
            def append(self, *_: object) -> None:
                raise AssertionError("nothing is appended")

        super().__init__(CoordinatorRuntime(partitions, CoordinatorContext(NoLog()), self.handler))

    @property
    def error(self) -> ErrorCode:
        found = self.runtime.find(KEY)
        return found if isinstance(found, ErrorCode) else NONE

    def begin(self, epoch: int) -> PartitionReplay[Values] | None:
        return self.runtime.load(0, epoch, self.now)


def log(*values: bytes) -> bytes:
    return build([Record(0, 0, b"", value) for value in values])


class TestTransitions:
    def test_a_shard_is_loaded_then_served_then_unloaded(self) -> None:
        harness = Harness()
        assert harness.error is NOT_HERE
        replay = harness.begin_load(0)
        assert (harness.error, harness.runtime.loading()) == (LOADING, [replay.state])
        replay.replay(entries(log(b"a", b"b")))
        harness.activate(replay)
        assert (harness.error, harness.runtime.loading()) == (NONE, [])
        assert harness.runtime.find(KEY) == harness.runtime.shard_for(KEY) == harness.runtime.shard(0) == [b"a", b"b"]
        harness.unload(0)
        assert (harness.error, harness.runtime.shard(0)) == (NOT_HERE, None)
        assert harness.handler.history == [("active", b"a", b"b"), ("unload", b"a", b"b")]

    def test_a_load_of_the_same_or_an_older_epoch_changes_nothing(self) -> None:
        harness = Harness()
        replay = harness.begin_load(0, epoch=5)
        assert [harness.begin(epoch) for epoch in (4, 5)] == [None, None]
        harness.activate(replay)
        assert [harness.begin(epoch) for epoch in (4, 5)] == [None, None]
        assert harness.error is NONE

    def test_a_newer_epoch_supersedes_a_load(self) -> None:
        harness = Harness()
        old, new = harness.begin_load(0, epoch=5), harness.begin_load(0, epoch=6)
        assert [harness.runtime.is_loading(replay) for replay in (old, new)] == [False, True]
        harness.activate(old)
        harness.runtime.abort(old)
        assert harness.error is LOADING
        harness.activate(new)
        assert harness.error is NONE

    def test_a_newer_epoch_supersedes_a_load_whose_shard_is_being_made(self) -> None:
        harness = Harness()
        steps = harness.runtime.activate(harness.begin_load(0, epoch=5), harness.now).__await__()
        next(steps)
        assert harness.error is LOADING
        new = harness.begin_load(0, epoch=6)
        assert list(steps) == []
        assert (harness.error, harness.handler.history) == (LOADING, [])
        harness.activate(new)
        assert harness.error is NONE

    def test_a_newer_epoch_loads_an_active_shard_again(self) -> None:
        harness = Harness()
        harness.load(0, entries(log(b"old")), epoch=5)
        replay = harness.begin_load(0, epoch=6)
        assert harness.error is LOADING
        replay.replay(entries(log(b"old", b"new")))
        harness.activate(replay)
        assert harness.handler.history == [("active", b"old"), ("unload", b"old"), ("active", b"old", b"new")]

    @pytest.mark.parametrize(("epoch", "error"), [(4, NONE), (5, NONE), (6, NOT_HERE), (None, NOT_HERE)])
    def test_an_active_shard_is_unloaded_by_a_newer_epoch(self, epoch: int | None, error: ErrorCode) -> None:
        harness = Harness()
        harness.load(0, epoch=5)
        harness.runtime.unload(0, harness.now, epoch)
        assert harness.error is error

    @pytest.mark.parametrize(("epoch", "error"), [(4, LOADING), (5, LOADING), (6, NOT_HERE), (None, NOT_HERE)])
    def test_a_loading_shard_is_unloaded_by_a_later_epoch(self, epoch: int | None, error: ErrorCode) -> None:
        harness = Harness()
        replay = harness.begin_load(0, epoch=5)
        harness.runtime.unload(0, harness.now, epoch)
        harness.activate(replay)
        assert harness.error is (NONE if error is LOADING else error)

    def test_a_shard_without_readable_log_is_not_served(self) -> None:
        harness = Harness()
        harness.runtime.abort(harness.begin_load(0))
        assert harness.error is NOT_HERE
        assert harness.begin(0) is not None

    def test_close_unloads_all(self) -> None:
        harness = Harness(partitions=3)
        harness.load(0)
        harness.load(1)
        harness.begin_load(2)
        harness.close()
        assert (list(harness.runtime.shards()), harness.runtime.loading()) == ([], [])
        assert harness.runtime.next_deadline() is None


class TestSweeps:
    def test_each_partition_has_another_time_in_the_interval(self) -> None:
        harness = Harness(partitions=4)
        harness.now = 0
        harness.load_all()
        harness.handler.history.clear()
        harness.advance(2_000)
        assert harness.handler.history == [("sweep", time) for time in range(250, 2_001, 250)]

    def test_sweeps_end_with_the_shard(self) -> None:
        harness = Harness()
        harness.load(0)
        harness.advance(1_500)
        harness.unload(0)
        assert harness.runtime.next_deadline() is None


class TestReplays:
    def test_records_and_markers_come_in_order(self) -> None:
        transactional = build(
            [Record(0, 0, b"", b"b")], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
        )
        replay = Harness().begin_load(0)
        for part in (log(b"a"), transactional, end_marker(True, 0, 7, 0, 0), log(b"c")):
            replay.replay(entries(part))
        assert replay.state.values == [b"a", (7, b"b"), (7, True), b"c"]
        assert replay.problems == []

    def test_corrupt_records_are_skipped_and_reported(self) -> None:
        damaged = bytearray(log(b"damaged"))
        damaged[-1] ^= 1
        whole = build([Record(0, 0, b"", b"a"), Record(1, 0, b"", None), Record(2, 0, b"", b"b")])
        replay = Harness().begin_load(0)
        replay.replay(entries(whole + bytes(damaged)))
        assert replay.state.values == [b"a", b"b"]
        assert [problem.split(":")[0] for problem in replay.problems] == ["offset 1", "entry at offset 0"]
