"""Translation of offsets, compared with lists of all records of both logs."""

from __future__ import annotations

import random
from bisect import bisect_left

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.errors import CorruptRecords
from pylogbroker.mirror.offset_translation import (
    NOTHING_BEFORE,
    OffsetTranslation,
    PartitionTranslation,
    Run,
    TranslationFromStart,
    UnstoredRuns,
    runs_of,
    sync_of,
    unstored_runs_of,
)
from pylogbroker.mirror_records.formats import OffsetSync

PLACE = ("orders", 0)


@attrs.define
class MirroredLogs:
    """A source with markers and gaps, and its copy by transactions, some of which are aborted."""

    random: random.Random
    runs: PartitionTranslation
    pairs: list[tuple[int, int]] = attrs.field(factory=list)
    stored: list[tuple[OffsetSync, list[tuple[str, bytes | None]]]] = attrs.field(factory=list)
    unstored: list[Run] = attrs.field(factory=list)
    upstream: int = 0
    downstream: int = 0
    last: int = NOTHING_BEFORE

    def copy(self, *, is_stored: bool = True) -> None:
        """Copy some batches in one transaction."""
        if self.random.random() < 0.3:
            self.downstream += self.random.randint(1, 8)  # an aborted attempt
        for _ in range(self.random.randint(1, 3)):
            if self.random.random() < 0.5:
                self.upstream += self.random.randint(1, 5)  # markers, or records that compaction removed
            count = self.random.randint(1, 6)
            first = self.upstream, self.downstream
            self.pairs += [(self.upstream + number, self.downstream + number) for number in range(count)]
            self.upstream += count
            self.downstream += count
            copied_to = self.upstream + self.random.choice([0, 0, 2])
            run = Run(*first, count, self.last, copied_to)
            self.runs.add(run)
            self.upstream = self.last = copied_to
            if is_stored:
                self.unstored.append(run)
        self.downstream += 1  # the marker of the transaction
        if self.random.random() < 0.5:
            self.store()
        if self.random.random() < 0.3:
            self.upstream += 1
            self.runs.passed(self.upstream)

    def store(self) -> None:
        """Store the runs that follow each other together."""
        while self.unstored:
            count = 1
            while count < len(self.unstored) and self.unstored[count].after == self.unstored[count - 1].copied_to:
                count += 1
            sync, header = sync_of(*PLACE, self.unstored[:count])
            self.stored.append((sync, [("other", None), header]))
            del self.unstored[:count]

    def restart(self) -> PartitionTranslation:
        """Return the map of a mirror that has read what was stored, and resumes."""
        self.unstored.clear()
        maps = OffsetTranslation()
        for sync, headers in self.stored:
            maps.load(sync, headers)
        self.runs = maps.of(PLACE)
        self.runs.resume(self.upstream, self.last)
        return self.runs

    def check(self, runs: PartitionTranslation) -> list[bool]:
        """Return which translations were exact; all are right, and none skips a record."""
        exact = []
        upstreams, downstreams = zip(*self.pairs, strict=True)
        for starts, others, translate, end in [
            (upstreams, downstreams, runs.downstream, self.upstream),
            (downstreams, upstreams, runs.upstream, self.downstream),
        ]:
            for offset in range(end + 1):
                place = bisect_left(starts, offset)
                lowest = others[place - 1] + 1 if place else 0
                highest = others[place] if place < len(others) else float("inf")
                translated = translate(offset)
                if translated is None:
                    exact.append(False)
                    continue
                assert translated.offset <= highest, f"{offset} skips records"
                assert not translated.is_exact or translated.offset >= lowest, f"{offset} reads records again"
                exact.append(translated.is_exact)
        return exact


def mirrored(seed: int, runs_max: int = 4096) -> MirroredLogs:
    return MirroredLogs(random.Random(seed), PartitionTranslation(runs_max))


@given(st.integers(0, 2**32), st.integers(1, 12))
def test_each_offset_is_translated_exactly_both_ways(seed, transactions):
    logs = mirrored(seed)
    for _ in range(transactions):
        logs.copy()
    assert all(logs.check(logs.runs))


@given(st.integers(0, 2**32), st.lists(st.integers(0, 4), min_size=1, max_size=6))
def test_restarts_translate_as_exactly_if_all_runs_were_stored(seed, transactions):
    logs = mirrored(seed)
    for count in transactions:
        for _ in range(count + 1):
            logs.copy()
        logs.store()
        loaded = OffsetTranslation()
        for sync, headers in logs.stored:
            loaded.load(sync, headers)
        assert loaded.of(PLACE).runs == logs.runs.runs
        logs.restart()
        assert all(logs.check(logs.runs))


@given(st.integers(0, 2**32), st.integers(1, 6))
def test_runs_that_were_not_stored_never_make_a_group_skip_records(seed, lost):
    logs = mirrored(seed)
    logs.copy()
    for _ in range(lost):
        logs.copy(is_stored=False)
    logs.check(logs.restart())
    logs.copy()
    logs.copy()
    logs.check(logs.runs)
    logs.check(logs.restart())


@given(st.integers(0, 2**32))
def test_a_small_map_forgets_old_runs_but_skips_nothing(seed):
    logs = mirrored(seed, runs_max=16)
    for _ in range(60):
        logs.copy()
    assert len(logs.runs) <= 16
    exact = logs.check(logs.runs)
    assert sum(exact) < len(exact)
    newest = logs.pairs[-8:]
    assert [logs.runs.downstream(upstream).offset for upstream, _ in newest] == [pair[1] for pair in newest]


def test_offsets_beyond_the_copied_ones_wait_at_the_end_of_the_copy():
    runs = PartitionTranslation()
    runs.add(Run(0, 0, 10, NOTHING_BEFORE, 10))
    assert attrs.astuple(runs.downstream(10)) == (10, True)
    assert attrs.astuple(runs.downstream(15)) == (10, False)


def test_an_empty_map_translates_nothing():
    assert PartitionTranslation().downstream(0) is None
    assert PartitionTranslation().upstream(0) is None


def test_offsets_before_a_first_run_are_known_if_nothing_was_copied_before():
    runs = PartitionTranslation()
    runs.add(Run(100, 0, 10, NOTHING_BEFORE, 110))
    assert attrs.astuple(runs.downstream(7)) == (0, True)
    resumed = PartitionTranslation()
    resumed.add(Run(100, 0, 10, 100, 110))
    assert resumed.downstream(7) is None
    from_start = TranslationFromStart(resumed, 3)
    assert attrs.astuple(from_start.downstream(7)) == (3, False)
    assert attrs.astuple(from_start.downstream(101)) == (1, True)
    assert attrs.astuple(TranslationFromStart(runs, 3).downstream(7)) == (0, True)


def test_records_that_are_copied_again_count_as_their_second_copy():
    runs = PartitionTranslation()
    runs.add(Run(0, 0, 10, NOTHING_BEFORE, 10))
    runs.add(Run(5, 11, 7, 10, 12))
    assert runs.runs == [(0, 0, 5, True), (5, 11, 7, False)]


def test_runs_that_are_added_again_follow_each_other_as_before():
    added = [Run(0, 0, 3, NOTHING_BEFORE, 4), Run(6, 4, 2, 4, 8), Run(8, 6, 2, 8, 11), Run(12, 9, 1, 11, 13)]
    runs = PartitionTranslation()
    for run in (*added, *added[1:], *added[2:]):
        runs.add(run)
    assert runs.runs == [(0, 0, 3, True), (6, 4, 4, True), (12, 9, 1, True)]


def test_a_topic_that_was_recreated_has_the_offsets_of_its_new_copy():
    runs = PartitionTranslation()
    runs.add(Run(40, 40, 10, 30, 50))
    runs.add(Run(0, 51, 3, NOTHING_BEFORE, 3))
    assert runs.runs == [(0, 51, 3, True)]


def test_a_copy_that_was_recreated_has_none_of_the_earlier_runs():
    runs = PartitionTranslation()
    runs.add(Run(0, 0, 50, NOTHING_BEFORE, 50))
    runs.add(Run(50, 0, 3, 50, 53))
    assert runs.runs == [(50, 0, 3, False)]


def test_syncs_of_mirror_maker_are_single_records():
    maps = OffsetTranslation()
    for offsets in [(0, 0), (101, 103), (101, 103), (149, 151)]:
        maps.load(OffsetSync("orders", 0, *offsets), [])
    runs = maps.of(PLACE)
    assert runs.runs == [(0, 0, 1, False), (101, 103, 1, False), (149, 151, 1, False)]
    assert attrs.astuple(runs.downstream(120)) == (104, False)
    assert attrs.astuple(runs.downstream(150)) == (152, True)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"-",
        b"- 6",
        b"- 6 5:5",
        b"- 6 5:5:0",
        b"- 6 4:5:1",
        b"- 6 5:4:1",
        b"- 5 5:5:1",
        b"x 6 5:5:1",
        b"- x 5:5:1",
        b"- 6  5:5:1",
        b"- 6 -1:5:7",
        b"- 6 2:2:3 4:4:2",
        b"- 6 2:2:1 3:2:3",
        b"- 9999999999999999999 5:5:1",
        b"- 6 2:2:2:2 5:5:1",
        b"- 6 5:5:1:0:0",
        b"- 6 5:5:1:1",
        b"\xff 6 5:5:1",
    ],
)
def test_a_header_that_does_not_fit_is_corrupt(text):
    with pytest.raises(CorruptRecords):
        runs_of(OffsetSync("orders", 0, 5, 5), [("pylogbroker-runs", text)])


@pytest.mark.parametrize(
    "runs", [[Run(5, 9, 3, 4, 8), Run(9, 13, 2, 8, 15)], [Run(5, 9, 3, -1, 11), Run(11, 12, 1, 11, 12)]]
)
def test_runs_survive_their_sync_and_their_position(runs):
    sync, header = sync_of(*PLACE, runs)
    assert sync == OffsetSync(*PLACE, runs[-1].upstream_end - 1, runs[-1].downstream_end - 1)
    assert runs_of(sync, [header]) == runs
    unstored = UnstoredRuns(runs[0].after, tuple(runs))
    assert unstored_runs_of([("other", b""), unstored.header()]) == unstored


def test_a_position_without_runs_says_where_the_last_one_ended():
    for after in (-1, 0, 77):
        assert unstored_runs_of([UnstoredRuns(after).header()]) == UnstoredRuns(after)
    assert unstored_runs_of([]) is None
    with pytest.raises(CorruptRecords):
        unstored_runs_of([("pylogbroker-runs", b"x")])


def test_all_maps_together_hold_a_limited_number_of_runs():
    maps = OffsetTranslation()
    limits = [maps.of(("orders", number)).runs_max for number in range(1000)]
    assert limits[0] == 4096
    assert sum(runs.runs_max for runs in maps.by_partition.values()) <= 1_000_000
