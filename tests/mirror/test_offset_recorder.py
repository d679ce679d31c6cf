"""Offsets of copied records, recorded by mirrors that are killed between any two steps.

`Copy` has both logs, and what a mirror stores: positions with their headers, and the records of the offset syncs topic.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Sequence
from uuid import UUID

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred

from pylogbroker.mirror import offset_recorder
from pylogbroker.mirror.batches import MirroredBatch, new_batch
from pylogbroker.mirror.offset_recorder import OffsetRecorder
from pylogbroker.mirror.offset_translation import NOTHING_BEFORE, OffsetTranslation, Run, UnstoredRuns, unstored_runs_of
from pylogbroker.mirror.positions import Position
from pylogbroker.mirror.target import AcknowledgedBatch
from pylogbroker.mirror_records.formats import OffsetSync
from pylogbroker.records import Header

PLACE = ("orders", 0)
STEPS = ["copy", "lost-commit", "abort", "pass", "store", "acknowledge", "fail", "session", "kill"]


def batch_at(offset: int, count: int) -> MirroredBatch:
    batch = new_batch([None] * count, [b""] * count, 0)
    return attrs.evolve(batch, first_offset=offset, next_offset=offset + count)


@attrs.define
class Copy:
    random: random.Random
    recorder: OffsetRecorder = attrs.field(init=False)
    standby: OffsetRecorder = attrs.field(init=False)
    position: Position | None = None
    header: Header | None = None
    syncs: list[tuple[OffsetSync, Header]] = attrs.field(factory=list)
    unacknowledged: list[Deferred[bool]] = attrs.field(factory=list)
    pairs: list[tuple[int, int]] = attrs.field(factory=list)
    upstream: int = 0
    downstream: int = 0

    def __attrs_post_init__(self) -> None:
        self.standby = OffsetRecorder(OffsetTranslation(), self.write)
        self.kill()

    def kill(self) -> None:
        self.unacknowledged.clear()
        self.recorder = OffsetRecorder(OffsetTranslation(), self.write)
        self.first_session()

    def take_over(self) -> None:
        self.recorder.store()
        self.recorder, self.standby = self.standby, self.recorder
        self.first_session()

    def first_session(self) -> None:
        self.recorder.unload()
        self.session()
        if self.random.random() < 0.5:
            self.copy()  # while the syncs are read
        for sync, header in self.syncs:
            self.recorder.translation.load(sync, [header])
        self.recorder.loaded()

    def session(self) -> None:
        positions = {} if self.position is None else {PLACE: self.position}
        unstored = unstored_runs_of([self.header] if self.header else [])
        self.recorder.begin(positions, {} if unstored is None else {PLACE: unstored})

    def write(self, sync: OffsetSync, header: Header) -> Deferred[bool]:
        self.syncs.append((sync, header))
        self.unacknowledged.append(Deferred())
        return self.unacknowledged[-1]

    def batches(self) -> list[AcknowledgedBatch]:
        written = []
        for _ in range(self.random.randint(1, 3)):
            self.upstream += self.random.choice([0, 0, 2])
            count = self.random.randint(1, 4)
            written.append(AcknowledgedBatch(PLACE, self.downstream, batch_at(self.upstream, count), PLACE))
            self.pairs += [(self.upstream + number, self.downstream + number) for number in range(count)]
            self.upstream += count
            self.downstream += count
        self.upstream += self.random.choice([0, 2])
        self.downstream += 1
        return written

    def commit(self, written: Sequence[AcknowledgedBatch]) -> None:
        self.position = Position(self.upstream)
        self.header = self.recorder.headers(written, {PLACE: self.position})[PLACE]

    def copy(self) -> None:
        self.commit(self.batches())
        self.recorder.committed({PLACE: Position(self.upstream)})

    def step(self, name: str) -> None:
        match name:
            case "copy":
                self.copy()
            case "lost-commit":
                self.commit(self.batches())
                self.random.choice([self.session, self.kill])()
            case "abort":
                before = self.upstream, list(self.pairs)
                self.recorder.headers(self.batches(), {PLACE: Position(self.upstream)})
                self.upstream, self.pairs = before
                self.random.choice([self.session, self.kill])()
            case "pass":
                self.upstream += 1
                self.commit([])
                self.recorder.committed({PLACE: Position(self.upstream)})
            case "store":
                self.recorder.store()
            case "acknowledge" | "fail":
                if self.unacknowledged:
                    self.unacknowledged.pop(0).callback(name == "acknowledge")
            case "session":
                self.session()
            case "standby":
                self.take_over()
            case "kill":
                self.kill()

    def check(self) -> None:
        """Every offset is translated exactly, both ways: to the next record, or to what lies between two records."""
        translation = self.recorder.translation.of(PLACE)
        if not self.pairs:
            return
        upstreams, downstreams = zip(*self.pairs, strict=True)
        for starts, others, translate, end in [
            (upstreams, downstreams, translation.downstream, self.upstream),
            (downstreams, upstreams, translation.upstream, self.downstream),
        ]:
            for offset in range(end + 1):
                place = bisect_left(starts, offset)
                lowest = others[place - 1] + 1 if place else 0
                highest = others[place] if place < len(others) else float("inf")
                translated = translate(offset)
                assert translated is not None, f"{offset} is not translated"
                assert translated.is_exact, f"{offset} is not exact"
                assert lowest <= translated.offset <= highest, f"{offset} becomes {translated.offset}"


@given(st.integers(0, 2**32), st.lists(st.sampled_from(STEPS), max_size=40))
def test_kills_between_any_two_steps_leave_each_translation_exact(seed: int, steps: list[str]) -> None:
    copy = Copy(random.Random(seed))
    for step in steps:
        copy.step(step)
        copy.check()
    copy.kill()
    copy.check()


def test_runs_are_stored_once_unless_that_fails() -> None:
    copy = Copy(random.Random(1))
    copy.copy()
    copy.syncs.clear()
    copy.recorder.store()
    copy.recorder.store()
    assert len(copy.syncs) == 1
    copy.step("fail")
    copy.recorder.store()
    assert [sync for sync, _ in copy.syncs] == [copy.syncs[0][0]] * 2
    copy.step("acknowledge")
    copy.recorder.store()
    assert len(copy.syncs) == 2
    assert unstored_runs_of([copy.recorder.headers([], {PLACE: Position(copy.upstream)})[PLACE]]) == UnstoredRuns(
        copy.recorder._partitions[PLACE].last
    )


def test_headers_are_bounded(monkeypatch) -> None:
    monkeypatch.setattr(offset_recorder, "HEADER_RUNS_MAX", 5)
    monkeypatch.setattr(offset_recorder, "UNSTORED_RUNS_MAX", 8)
    copy = Copy(random.Random(1))
    for _ in range(20):
        copy.copy()
    unstored = unstored_runs_of([copy.header or ("", b"")])
    assert unstored is not None
    assert len(unstored.runs) == 5
    assert len(copy.recorder._partitions[PLACE].unstored) == 8
    copy.kill()
    translated = copy.recorder.translation.of(PLACE).downstream(copy.upstream)
    assert translated is not None
    assert translated.is_exact


def test_position_of_mirror_maker_begins_behind_records_that_nobody_knows() -> None:
    copy = Copy(random.Random(1))
    copy.recorder = OffsetRecorder(OffsetTranslation(), copy.write)
    copy.recorder.begin({PLACE: Position(100)}, {})
    copy.recorder.loaded()
    copy.upstream = 100
    copy.copy()
    assert copy.recorder.translation.of(PLACE).downstream(99) is None
    translated = copy.recorder.translation.of(PLACE).downstream(copy.upstream)
    assert translated is not None
    assert translated.is_exact


def test_nothing_is_added_to_positions_if_syncs_are_not_stored() -> None:
    recorder = OffsetRecorder(OffsetTranslation(), None)
    recorder.begin({}, {})
    recorder.loaded()
    assert recorder.headers([], {PLACE: Position(3)}) == {}
    recorder.committed({PLACE: Position(3)})
    recorder.store()


def test_recreated_topic_begins_with_no_runs() -> None:
    one, other = (Position(5, UUID(int=number)) for number in (1, 2))
    recorder = OffsetRecorder(OffsetTranslation(), lambda *_: Deferred())
    recorder.begin({PLACE: one}, {PLACE: UnstoredRuns(NOTHING_BEFORE, (Run(0, 0, 5, NOTHING_BEFORE, 5),))})
    recorder.loaded()
    header = recorder.headers(
        [AcknowledgedBatch(PLACE, 9, batch_at(0, 2), PLACE)], {PLACE: attrs.evolve(other, next_offset=2)}
    )
    assert unstored_runs_of([header[PLACE]]) == UnstoredRuns(NOTHING_BEFORE, (Run(0, 9, 2, NOTHING_BEFORE, 2),))
