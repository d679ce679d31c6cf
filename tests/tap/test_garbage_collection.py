"""The collector of a process that is only a broker: which objects it examines, and when."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from types import FrameType

import attrs
import pytest
from twisted.internet.task import Clock

from pylogbroker.tap.full_collections import (
    BLOCKS_CHANGED_MIN,
    BLOCKS_FREED_MIN,
    CHECK_SECONDS,
    IDLE_CPU_MAX,
    MEMORY_GROWTH_MAX,
    QUIET_CHECKS_MIN,
    FullCollections,
)
from pylogbroker.tap.garbage_collection import (
    FROZEN_OBJECTS,
    FrozenObjects,
    collector_disabled,
    without_garbage_collection,
)

YOUNG, OLDEST = 0, 2
BUSY_SECONDS = CHECK_SECONDS * IDLE_CPU_MAX * 1.1
IDLE_SECONDS = CHECK_SECONDS * IDLE_CPU_MAX * 0.9


class Node:
    def __init__(self) -> None:
        self.itself = self


def dropped_node() -> weakref.ref[Node]:
    """Leave a reference cycle; return a weak reference to it."""
    return weakref.ref(Node())


@pytest.fixture
def frozen() -> Iterator[FrozenObjects]:
    """The collector as a broker's process sets it up, for the time of a test."""
    was_enabled, thresholds = gc.isenabled(), gc.get_threshold()
    with without_garbage_collection():
        pass
    gc.disable()
    FROZEN_OBJECTS.may_hold_garbage = False
    yield FROZEN_OBJECTS
    gc.callbacks.remove(FROZEN_OBJECTS._follow)
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    (gc.enable if was_enabled else gc.disable)()


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_collector_of_a_program_is_as_before(is_enabled: bool) -> None:
    was_enabled, frozen_count = gc.isenabled(), gc.get_freeze_count()
    (gc.enable if is_enabled else gc.disable)()
    try:
        with collector_disabled():
            assert not gc.isenabled()
        assert gc.isenabled() is is_enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()
    assert gc.get_freeze_count() == frozen_count


def test_garbage_of_a_few_objects_is_collected(frozen: FrozenObjects) -> None:
    node = dropped_node()
    gc.collect(YOUNG)
    assert node() is None


def test_survivors_wait_for_a_full_collection(frozen: FrozenObjects) -> None:
    node = Node()
    gc.collect(YOUNG)
    assert frozen.may_hold_garbage
    dropped = weakref.ref(node)
    del node
    gc.collect(YOUNG)
    gc.collect(OLDEST)
    assert dropped() is not None
    frozen.collect()
    assert dropped() is None
    assert not frozen.may_hold_garbage


def test_too_many_new_objects_are_not_examined(frozen: FrozenObjects) -> None:
    """The threshold alone does not limit them: where new objects replace old ones, no collection is due."""
    many: list[list[int]] = [[] for _ in range(30_000)]
    node = dropped_node()
    gc.collect(YOUNG)
    assert node() is not None
    assert len(gc.get_objects(generation=YOUNG)) < len(many)
    frozen.collect()
    assert node() is None


def test_automatic_collections_examine_young_objects_alone(frozen: FrozenObjects) -> None:
    sizes: list[tuple[int, int]] = []

    def follow(phase: str, info: Mapping[str, int]) -> None:
        if phase == "start":
            generation = info["generation"]
            sizes.append((generation, sum(len(gc.get_objects(generation=each)) for each in range(generation + 1))))

    gc.callbacks.append(follow)
    try:
        gc.enable()
        kept: list[list[int]] = [[] for _ in range(150_000)]
        gc.disable()
    finally:
        gc.callbacks.remove(follow)
    assert len(kept) // 20_000 < len(sizes)
    assert {generation for generation, _ in sizes} <= {0, 1}  # 1: Python 3.14.0 to 3.14.4
    assert max(size for _, size in sizes) < 5_000, "requests wait for them, 0.1 ms for 1,000"


def test_a_tuple_that_another_thread_builds_during_a_collection(frozen: FrozenObjects) -> None:
    """The other thread continues after each C function that the collection calls."""
    is_begun, may_end = threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        yield 1
        is_begun.set()
        may_end.wait(10)
        yield 2

    def continue_there(frame: FrameType, event: str, argument: object) -> None:
        if event == "c_return":
            may_end.set()
            wait([built], 10)

    with ThreadPoolExecutor(1) as threads:
        built = threads.submit(lambda: tuple(items()))
        is_begun.wait(10)
        sys.setprofile(continue_there)
        gc.collect(YOUNG)
        sys.setprofile(None)
        may_end.set()
        assert built.result(60) == (1, 2)


@attrs.define
class CountedCollections:
    """Counts full collections."""

    may_hold_garbage: bool = True
    freezes: int = 0
    collections: int = 0
    meanwhile: Callable[[], None] = lambda: None

    def collect(self) -> None:
        self.meanwhile()
        self.collections += 1
        self.may_hold_garbage = False


class TestFullCollections:
    """The moments of full collections."""

    def setup_method(self) -> None:
        self.clock = Clock()
        self.collector = CountedCollections()
        self.cpu_seconds = 3.0
        self.memory = 100_000_000
        self.blocks = 1_000_000
        self.returned: list[int] = []
        self.collections = FullCollections(
            self.clock,
            self.collector,
            lambda: self.cpu_seconds,
            lambda: self.memory,
            lambda: self.blocks,
            lambda: self.returned.append(self.blocks),
        )
        self.collections.start()

    def check_after(self, cpu_seconds: float) -> int:
        """Let the time until the next check pass; return the number of full collections until now."""
        self.cpu_seconds += cpu_seconds
        self.clock.advance(CHECK_SECONDS)
        return self.collector.collections

    @pytest.mark.parametrize("change", [-BLOCKS_CHANGED_MIN, BLOCKS_CHANGED_MIN])
    def test_an_idle_broker_collects_after_much_was_allocated_or_freed(self, change: int) -> None:
        self.blocks += change - change // BLOCKS_CHANGED_MIN
        self.collector.freezes += 1
        assert self.check_after(IDLE_SECONDS) == 0
        self.blocks += change // BLOCKS_CHANGED_MIN
        self.collector.freezes += 1
        assert self.check_after(IDLE_SECONDS) == 1
        self.collector.may_hold_garbage = True
        self.collector.freezes += 1
        assert self.check_after(IDLE_SECONDS) == 1, "it counts from the last collection"

    def test_little_garbage_waits_until_the_broker_is_quiet(self) -> None:
        """Viewers of an idle broker freeze temporary objects all the time."""
        for _ in range(100):
            self.collector.freezes += 1
            assert self.check_after(IDLE_SECONDS) == 0
        assert [self.check_after(IDLE_SECONDS) for _ in range(QUIET_CHECKS_MIN)] == [0] * (QUIET_CHECKS_MIN - 1) + [1]

    def test_a_busy_broker_waits_until_it_is_idle(self) -> None:
        self.blocks += BLOCKS_CHANGED_MIN
        assert [self.check_after(BUSY_SECONDS) for _ in range(20)] == [0] * 20
        assert self.check_after(IDLE_SECONDS) == 1

    def test_without_new_frozen_objects_nothing_is_collected(self) -> None:
        self.collector.may_hold_garbage = False
        self.memory += MEMORY_GROWTH_MAX
        assert self.check_after(IDLE_SECONDS) == 0
        assert self.check_after(BUSY_SECONDS) == 0

    def test_the_cost_of_a_collection_does_not_count(self) -> None:
        def compute() -> None:
            self.cpu_seconds += 1

        self.collector.meanwhile = compute
        self.blocks += BLOCKS_CHANGED_MIN
        assert self.check_after(IDLE_SECONDS) == 1
        self.collector.may_hold_garbage = True
        self.blocks += BLOCKS_CHANGED_MIN
        assert self.check_after(IDLE_SECONDS) == 2

    def test_a_busy_broker_that_has_grown_collects(self) -> None:
        self.memory += MEMORY_GROWTH_MAX - 1
        assert self.check_after(BUSY_SECONDS) == 0
        self.memory += 1
        assert self.check_after(BUSY_SECONDS) == 1

    def test_growth_counts_since_the_last_collection(self) -> None:
        self.memory += MEMORY_GROWTH_MAX
        assert self.check_after(BUSY_SECONDS) == 1
        self.collector.may_hold_garbage = True
        self.memory += MEMORY_GROWTH_MAX - 1
        assert self.check_after(BUSY_SECONDS) == 1
        self.memory += 1
        assert self.check_after(BUSY_SECONDS) == 2

    def test_an_idle_broker_returns_memory_that_was_freed_before_or_by_the_collection(self) -> None:
        def free() -> None:
            self.blocks -= 1

        self.collector.may_hold_garbage = False
        self.check_after(IDLE_SECONDS)
        self.blocks -= BLOCKS_FREED_MIN - 1
        self.check_after(IDLE_SECONDS)
        assert self.returned == []
        self.collector.may_hold_garbage, self.collector.meanwhile = True, free
        self.check_after(BUSY_SECONDS)
        assert self.returned == []
        self.check_after(IDLE_SECONDS)
        self.check_after(IDLE_SECONDS)
        assert self.returned == [1_000_000 - BLOCKS_FREED_MIN]
        self.blocks += BLOCKS_FREED_MIN
        self.check_after(BUSY_SECONDS)
        self.blocks -= BLOCKS_FREED_MIN
        self.check_after(IDLE_SECONDS)
        assert len(self.returned) == 2

    def test_stop_leaves_no_timers(self) -> None:
        self.collections.stop()
        self.collections.stop()
        assert self.clock.getDelayedCalls() == []
