"""The exchange of segments: what readers, indexes and producers see of it, and every moment that may be its last."""

from __future__ import annotations

import errno
import os
import shutil
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import attrs
import pytest

from pylogbroker.errors import CorruptRecords, StorageFailure
from pylogbroker.storage import Log, LogConfig, LogManager, Origin, Pools, load_logs
from pylogbroker.storage.checkpoints import DamagedFile
from pylogbroker.storage.compaction.jobs import Cleaned
from pylogbroker.storage.compaction.selection import Cleanable, examine
from pylogbroker.storage.log.segment_swap import Replacement, SwapAborted, remove_cleaned
from tests.storage.compaction.support import (
    COMPACT,
    Found,
    cleaned,
    compact,
    keyed,
    latest,
    put,
    put_rounds,
    read_from,
    swap,
)
from tests.storage.support import NOW, expired, offset_for_timestamp, open_log
from tests.support.budget import Budget

MERGING = attrs.evolve(COMPACT, segment_bytes=1000)
"""With this for the cleaner's jobs, segments of 400 bytes become fewer."""


@pytest.fixture
def log(tmp_path: Path) -> Log:
    found = open_log(tmp_path / "events_0", COMPACT)
    put_rounds(found, 8)
    return found


def names_in(path: str, ending: str = "") -> list[str]:
    return sorted(name for name in os.listdir(path) if name.endswith(ending))


# The log afterwards


def test_the_last_record_of_each_key_is_left_where_it_was(log: Log) -> None:
    before, segments = read_from(log, 0), len(log.segments)
    compact(log, segment_bytes=1000)
    after = read_from(log, 0)
    assert latest(after) == latest(before)
    assert set(after) < set(before)
    assert (len(log.segments) < segments, log.log_start_offset, log.log_end_offset) == (True, 0, 40)
    for offset in range(41):
        assert read_from(log, offset) == [found for found in after if found[0] >= offset]


def test_repeated_compaction_stays_bounded(log: Log) -> None:
    for _ in range(4):
        before = read_from(log, 0)
        compact(log, segment_bytes=1000)
        after = read_from(log, 0)
        assert latest(after) == latest(before)
        assert len(after) <= 2 * 5 + 2  # the clean part, and the active segment
        put_rounds(log, 6)


def test_readers_on_the_old_segments_finish(log: Log) -> None:
    region = log.read(0, 1 << 20, upto=40)
    assert region is not None
    before = region.read()
    for files in compact(log):
        files.unlink()
    assert region.read() == before
    assert not names_in(log.path, ".deleted")


def test_a_reader_continues_after_the_compaction(log: Log) -> None:
    """The reader's next place was remembered, in a segment that is gone."""
    first = log.read(0, 200, upto=40)
    assert first is not None
    compact(log, segment_bytes=1000)
    assert read_from(log, first.next_offset) == [each for each in read_from(log, 0) if each[0] >= first.next_offset]


def test_only_few_descriptors(tmp_path: Path) -> None:
    log = open_log(tmp_path / "events_0", COMPACT, pools=Pools.of(1))
    put_rounds(log, 8)
    compact(log)
    assert latest(read_from(log, 0)) == {b"k%d" % key: (35 + key, b"v7 of %d" % key) for key in range(5)}


def test_sizes_times_and_epochs(log: Log) -> None:
    put_rounds(log, 2, leader_epoch=3)
    compact(log, segment_bytes=1000)
    assert log.size == sum(file.stat().st_size for file in Path(log.path).glob("*.kafka"))
    assert [log.end_offset_for_epoch(epoch) for epoch in (0, 3)] == [(0, 40), (3, 50)]
    records = read_from(log, 0)
    for timestamp in range(NOW, NOW + 50):  # a record's is NOW and its offset
        found = offset_for_timestamp(log, timestamp)
        assert found is not None
        assert found.offset == min(offset for offset, _, _ in records if NOW + offset >= timestamp)
    assert max(segment.largest()[0] for segment in log.segments) == NOW + 49


def test_snapshots_of_segments_that_are_gone_go(log: Log) -> None:
    put(log, (b"k", b"v"), producer=(7, 0, 0))
    put_rounds(log, 4)
    log.roll(NOW)
    snapshots = names_in(log.path, ".snapshot")
    compact(log, segment_bytes=1000)
    kept = [f"{segment.base_offset:020d}.snapshot" for segment in log.segments]
    assert names_in(log.path, ".snapshot") == [name for name in kept if name in snapshots]
    assert len(kept) < len(snapshots)
    again = open_log(log.path, COMPACT)
    [state] = again.producers
    assert (state.producer_id, state.batches[-1].last_sequence) == (7, 0)


def test_compaction_leaves_no_temporary_files(log: Log) -> None:
    for files in compact(log):
        files.unlink()
    assert not {".cleaned", ".deleted"} & {Path(name).suffix for name in os.listdir(log.path)}
    assert "cleaned-segments" not in os.listdir(log.path)


@pytest.mark.parametrize("is_killed", [False, True])
def test_an_index_of_aborted_transactions_goes_with_its_segment(log: Log, is_killed: bool) -> None:
    Path(log.path, f"{0:020d}.txnindex").write_bytes(struct.pack(">hqqqq", 0, 5, 0, 3, 4))
    before, found = read_from(log, 0), examine(log, NOW)
    assert found is not None
    outcome = clean_by_hand(log, found)
    if is_killed:  # when it was promised
        log.begin_swap(outcome.replacements).commit()
        log = open_log(log.path, COMPACT, clean=True, recovery_point=40)
    else:
        swap(log, outcome)
    assert not names_in(log.path, ".txnindex")
    assert log.aborted_transactions(0, log.log_end_offset) == []
    assert latest(read_from(log, 0)) == latest(before)


def clean_by_hand(log: Log, found: Cleanable) -> Cleaned:
    """The first segment, copied as it is, with no other files than an index."""
    name = f"{log.path}/{0:020d}"
    for suffix in (".kafka", ".index"):
        shutil.copy(name + suffix, name + suffix + ".cleaned")
    return Cleaned((Replacement((0,), 0, found.segments[0].size),), found.segments[1].base_offset)


# Starting


@pytest.mark.parametrize("recovery_point", [0, 7, 40])
def test_a_start_without_a_clean_stop_finds_nothing_wrong(log: Log, recovery_point: int) -> None:
    compact(log, segment_bytes=1000)
    before, reported = read_from(log, 0), []
    again = open_log(log.path, COMPACT, recovery_point=recovery_point, found=reported)
    assert read_from(again, 0) == before
    assert [each.cut for each in reported] == [None]


def test_a_clean_start_finds_nothing_wrong(log: Log) -> None:
    compact(log)
    before, reported = read_from(log, 0), []
    log.close()
    again = open_log(log.path, COMPACT, clean=True, recovery_point=40, found=reported)
    assert (read_from(again, 0), reported) == (before, [])


def test_a_cleaning_without_an_exchange_leaves_nothing(log: Log) -> None:
    before = read_from(log, 0)
    assert cleaned(log).replacements
    again = open_log(log.path, COMPACT)
    assert read_from(again, 0) == before
    assert not names_in(again.path, ".cleaned")


def test_leftover_cleaned_files_are_removed(log: Log) -> None:
    cleaned(log)
    assert names_in(log.path, ".cleaned")
    remove_cleaned(log.path)
    assert not names_in(log.path, ".cleaned")
    assert len(read_from(log, 0)) == 40


# Killed


class Killed(BaseException):
    """The process is no more."""


CALLS = ("rename", "replace", "unlink", "fsync", "open", "pwritev", "ftruncate", "stat", "listdir", "scandir")


@contextmanager
def killed_at(number: int) -> Iterator[list[int]]:
    """Raise Killed in place of the `number`-th of the calls that the file system is asked; counts them."""
    count = [0]

    def wrapped(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if count[0] >= number:
                raise Killed  # and whatever is still done on the way out is not done either
            count[0] += 1
            return real(*arguments, **options)

        return call

    patches = [patch.object(os, name, wrapped(getattr(os, name))) for name in CALLS]
    for each in patches:
        each.start()
    try:
        yield count
    finally:
        for each in patches:
            each.stop()


def steps_of(work: Callable[[], object]) -> int:
    """Return the number of calls that some work makes."""
    with killed_at(1 << 30) as count:
        work()
    return count[0]


def kill(step: int, work: Callable[[], object]) -> None:
    """Have some work done up to a step."""
    with killed_at(step), suppress(Killed):
        work()


@attrs.frozen
class PreparedRecords:
    """A directory whose log was cleaned, what the log holds, and what it will hold."""

    path: Path
    outcome: Cleaned
    before: list[Found]
    after: list[Found]

    def copy(self, number: int) -> Path:
        return Path(shutil.copytree(self.path, self.path.parent / f"copy{number}" / "events_0"))


@pytest.fixture
def prepared(tmp_path: Path) -> PreparedRecords:
    """Records with replacements of two segments and of one, and a segment that stays."""
    log = open_log(tmp_path / "events_0", attrs.evolve(COMPACT, segment_bytes=450))
    for small in (True, True, False, False):
        put_rounds(log, 1)
        log.roll(NOW)
        if small:
            put(log, (b"k0", b"once more"))
            log.roll(NOW)
    put_rounds(log, 1)
    outcome = cleaned(log, segment_bytes=500)
    assert [len(each.replaced) for each in outcome.replacements] == [2, 2, 1]
    assert len(log.segments) == 7
    before = read_from(log, 0)
    path = Path(shutil.copytree(log.path, tmp_path / "prepared" / "events_0"))
    swap(log, outcome)
    return PreparedRecords(path, outcome, before, read_from(log, 0))


def opened(path: Path) -> Log:
    """The log in a directory, where it can't be reopened without losing the `.cleaned` files."""
    quarantined = path.parent / "aside"
    quarantined.mkdir()
    for file in path.glob("*.cleaned"):
        file.rename(quarantined / file.name)
    log = open_log(path, COMPACT, clean=True, recovery_point=27)
    for file in quarantined.iterdir():
        file.rename(path / file.name)
    quarantined.rmdir()
    return log


def assert_sound(path: Path, prepared: PreparedRecords, why: object) -> bool:
    """The log in a directory is as it was or as it was to be, whatever the start; says whether it is the new one."""
    reported: list[Any] = []
    log = open_log(path, COMPACT, found=reported)
    found = read_from(log, 0)
    assert found in (prepared.before, prepared.after), why
    assert [each.cut for each in reported] == [None], why
    bases = {f"{segment.base_offset:020d}" for segment in log.segments}
    assert {name[:20] for name in names_in(str(path)) if name[:20].isdecimal()} <= bases, why
    assert not [name for name in os.listdir(path) if name.endswith((".cleaned", ".deleted", "-segments"))], why
    log.close()
    return found == prepared.after


def test_killed_at_every_step(prepared: PreparedRecords, budget: Budget) -> None:
    first = opened(prepared.copy(-1))
    steps = steps_of(lambda: swap(first, prepared.outcome))
    assert steps > 40
    became = []
    for step in budget.all_or_some(range(steps + 1), "steps of the exchange"):
        path = prepared.copy(step)
        log = opened(path)
        kill(step, partial(swap, log, prepared.outcome))
        became.append(assert_sound(path, prepared, step))
    assert became == sorted(became)  # at one of the steps it is decided, and for good
    assert (became[0], became[-1]) == (False, True)


def test_killed_at_every_step_of_the_start_that_swaps(prepared: PreparedRecords, budget: Budget) -> None:
    """At some moments of the exchange, and there at every step of the start."""
    first = opened(prepared.copy(-1))
    steps = steps_of(lambda: swap(first, prepared.outcome))
    tried = 0
    for step in range(steps // 4, steps, steps // 4):
        path = prepared.copy(step)
        kill(step, partial(swap, opened(path), prepared.outcome))
        if not (path / "cleaned-segments").exists():
            continue
        fresh = Path(shutil.copytree(path, path.parent / "fresh"))
        starts = range(0, steps_of(partial(open_log, fresh, COMPACT)), 2)
        assert len(starts) > 10
        for start in budget.all_or_some(starts, f"steps of the start after {step}"):
            again = Path(shutil.copytree(path, path.parent / f"again{start}" / "events_0"))
            kill(start, partial(open_log, again, COMPACT))
            assert assert_sound(again, prepared, (step, start))
            tried += 1
    assert tried > 5


# A machine that loses its power


@attrs.frozen
class Renamed:
    """A name that was changed, or taken away; the content is the file's."""

    old: str
    new: str | None
    content: bytes

    def happen(self, directory: Path) -> None:
        """Repeat the change on another directory."""
        if (directory / self.old).exists():
            if self.new is None:
                (directory / self.old).unlink()
            else:
                (directory / self.old).replace(directory / self.new)


@contextmanager
def recorded(path: Path) -> Iterator[list[list[Renamed]]]:
    """Record the changes of names in a directory, in a list for each interval between two syncs of it."""
    stretches: list[list[Renamed]] = [[]]
    renames = {name: getattr(os, name) for name in ("rename", "replace")}
    unlink, fsync = os.unlink, os.fsync

    def renaming(real: Callable[..., None]) -> Callable[..., None]:
        def call(old: str, new: str) -> None:
            if Path(old).exists():
                stretches[-1].append(Renamed(Path(old).name, Path(new).name, Path(old).read_bytes()))
            real(old, new)

        return call

    def unlinking(old: str) -> None:
        if Path(old).exists():
            stretches[-1].append(Renamed(Path(old).name, None, b""))
        unlink(old)

    def syncing(fd: int) -> None:
        fsync(fd)
        if os.path.samefile(f"/proc/self/fd/{fd}", path):
            stretches.append([])

    calls = {name: renaming(real) for name, real in renames.items()} | {"unlink": unlinking, "fsync": syncing}
    with ExitStack() as stack:
        for name, call in calls.items():
            stack.enter_context(patch.object(os, name, call))
        yield stretches


def test_any_subset_of_unsynced_renames_can_be_recovered(prepared: PreparedRecords) -> None:
    """A file system keeps changes between two syncs of the directory in any order, or not at all."""
    whole = prepared.copy(-1)
    log = opened(whole)
    with recorded(whole) as stretches:
        swap(log, prepared.outcome)
    assert max(map(len, stretches)) > 20
    durable = prepared.copy(-2)
    for each in [each for with_last_offset in stretches for each in with_last_offset]:
        if each.old.endswith((".tmp", ".txnindex.cleaned")):  # made on the way; a file's content is synced before
            (durable / each.old).write_bytes(each.content)
    number, became = 0, set()
    for with_last_offset in stretches:
        everything = frozenset(range(len(with_last_offset)))
        kept = [frozenset(), everything, *({n} for n in everything), *(everything - {n} for n in everything)]
        for choice in kept:
            number += 1
            path = Path(shutil.copytree(durable, prepared.path.parent / f"lost{number}" / "events_0"))
            for n in sorted(choice):
                with_last_offset[n].happen(path)
            became.add(assert_sound(path, prepared, (with_last_offset, choice)))
            shutil.rmtree(path)
        for each in with_last_offset:
            each.happen(durable)
    assert became == {False, True}


# What comes between


def test_a_truncation_before_the_commit_record_aborts_the_swap(log: Log) -> None:
    outcome = cleaned(log)
    found = log.begin_swap(outcome.replacements)
    log.truncate_to(20)
    before = read_from(log, 0)
    with pytest.raises(SwapAborted):
        found.commit()
    found.abort_and_remove()
    log.end_swap()
    assert (read_from(log, 0), log.log_end_offset) == (before, 20)
    assert read_from(open_log(log.path, COMPACT), 0) == before


@pytest.mark.parametrize("cut", [lambda log: log.truncate_to(20), lambda log: log.restart_at(50, NOW)])
def test_a_truncation_after_the_commit_record_aborts_the_swap(log: Log, cut: Callable[[Log], object]) -> None:
    outcome = cleaned(log)
    found = log.begin_swap(outcome.replacements)
    found.commit()
    cut(log)
    before = read_from(log, log.log_start_offset)
    with pytest.raises(SwapAborted):
        log.swap(NOW)
    again = open_log(shutil.copytree(log.path, log.path + "-killed"), COMPACT)
    assert read_from(again, again.log_start_offset) == before
    found.abort_and_remove()
    log.end_swap()
    assert read_from(log, log.log_start_offset) == before


def test_no_commit_record_is_written_for_a_deleted_log(log: Log) -> None:
    found = log.begin_swap(cleaned(log).replacements)
    log.take_offline("deleted")
    with pytest.raises(SwapAborted):
        found.commit()
    assert "cleaned-segments" not in os.listdir(log.path)


def test_a_committed_swap_is_completed_at_the_next_start(log: Log) -> None:
    records = read_from(log, 0)
    log.begin_swap(cleaned(log).replacements).commit()
    log.take_offline("the disk failed")
    with pytest.raises(StorageFailure):
        log.swap(NOW)
    after = read_from(open_log(log.path, COMPACT), 0)
    assert (latest(after), len(after) < len(records)) == (latest(records), True)


def test_a_truncation_lowers_the_cleaner_checkpoint(log: Log) -> None:
    compact(log)
    assert log.first_dirty_offset > 20
    log.truncate_to(20)
    assert log.first_dirty_offset <= 20


def test_no_segment_is_dropped_meanwhile(log: Log) -> None:
    outcome = cleaned(log)
    found = log.begin_swap(outcome.replacements)
    log.delete_records_before(20)
    assert expired(log, NOW) == []
    found.commit()
    log.swap(NOW)
    found.complete()
    log.end_swap()
    assert expired(log, NOW)
    assert log.segments[0].base_offset <= 20
    assert read_from(log, 20) == [each for each in read_from(log, 20) if each[0] >= 20]


def test_segments_that_were_dropped_before_are_left_out(log: Log) -> None:
    outcome = cleaned(log, segment_bytes=1000)
    last = log.segments[1].base_offset
    log.delete_records_before(last)
    gone = expired(log, NOW)
    assert gone
    before = read_from(log, last)
    found = log.begin_swap(outcome.replacements)
    assert not found.is_complete  # of the first replacement some segments are left, which hold what it would not
    assert [each for each, _ in found.replacements] == list(outcome.replacements[1:])
    found.commit()
    log.swap(NOW)
    found.complete()
    log.end_swap()
    assert latest(read_from(log, last)) == latest(before)
    assert read_from(open_log(log.path, COMPACT, log_start=last), last) == read_from(log, last)


def test_all_segments_of_a_replacement_were_dropped(log: Log) -> None:
    outcome = cleaned(log)
    log.delete_records_before(log.segments[2].base_offset)
    expired(log, NOW)
    assert log.begin_swap(outcome.replacements).is_complete


@pytest.mark.parametrize("call", ["rename", "stat"])
def test_a_disk_failure_during_the_swap_takes_the_log_offline(log: Log, call: str) -> None:
    before, outcome = read_from(log, 0), cleaned(log)
    found = log.begin_swap(outcome.replacements)
    found.commit()
    real, count = getattr(os, call), [0]

    def failing(*arguments: Any, **options: Any) -> Any:
        count[0] += 1
        if count[0] == 8:
            raise OSError(errno.EIO, "it burns")
        return real(*arguments, **options)

    with patch.object(os, call, failing), pytest.raises(StorageFailure):
        log.swap(NOW)
    assert "it burns" in log.offline_reason
    after = read_from(open_log(log.path, COMPACT), 0)
    assert latest(after) == latest(before)
    assert len(after) < len(before)


def test_cleaned_segments_are_checked_before_the_swap(log: Log) -> None:
    """A file that does not reach to the next segment would have the next recovery cut the log there."""
    outcome = cleaned(log)
    name = f"{log.path}/{outcome.replacements[0].base_offset:020d}"
    data = Path(name + ".kafka.cleaned").read_bytes()
    for wrong in (b"", data[:-1], keyed((b"k", b"v"))):
        Path(name + ".kafka.cleaned").write_bytes(wrong)
        with pytest.raises(CorruptRecords):
            log.begin_swap(outcome.replacements).commit()
        assert not os.path.exists(f"{log.path}/cleaned-segments")


# What must not be believed


@pytest.fixture
def promised(log: Log) -> Log:
    """A log of which an exchange was promised, and nothing else."""
    log.begin_swap(cleaned(log, segment_bytes=1000).replacements).commit()
    return log


@pytest.mark.parametrize("text", [b"", b"0\n", b"0\n1\n", b"0\n1\n0\n", b"0\n1\n0 a\n", b"\0" * 30, b"1\n0\n"])
def test_an_unreadable_commit_record(promised: Log, text: bytes) -> None:
    Path(promised.path, "cleaned-segments").write_bytes(text)
    before = {name: Path(promised.path, name).read_bytes() for name in os.listdir(promised.path)}
    with pytest.raises(DamagedFile):
        open_log(promised.path, COMPACT)
    assert {name: Path(promised.path, name).read_bytes() for name in os.listdir(promised.path)} == before


def test_a_commit_record_without_its_new_segments(promised: Log) -> None:
    """No old segment is removed for one that is not there."""
    remove_cleaned(promised.path)
    before = names_in(promised.path, ".kafka")
    with pytest.raises(DamagedFile):
        open_log(promised.path, COMPACT)
    assert names_in(promised.path, ".kafka") == before


@pytest.mark.parametrize("damage", [b"\xff" * 200, b"\0" * 200])
def test_a_commit_record_with_a_damaged_new_segment(promised: Log, damage: bytes) -> None:
    """The log is offline, the broker is not; what was replaced may be all there is."""
    file = Path(promised.path, f"{0:020d}.kafka.cleaned")
    file.write_bytes(file.read_bytes()[: -len(damage)] + damage)
    replaced = names_in(promised.path, ".kafka")[1:]
    with pytest.raises(DamagedFile):
        open_log(promised.path, COMPACT)
    assert set(names_in(promised.path, ".kafka")) > set(replaced)


def test_a_commit_record_with_a_lost_new_index(promised: Log) -> None:
    records = read_from(promised, 0)
    for suffix in (".index", ".index.cleaned"):
        Path(promised.path, f"{0:020d}{suffix}").unlink()
    assert latest(read_from(open_log(promised.path, COMPACT), 0)) == latest(records)


def test_the_other_logs_are_served(tmp_path: Path) -> None:
    reported: list[Any] = []
    with_logs(tmp_path, lambda manager: [manager.create(name, 0, LogConfig(), NOW) for name in ("good", "bad")])
    (tmp_path / "bad_0" / "cleaned-segments").write_bytes(b"?")

    def look(manager: LogManager) -> None:
        assert set(manager.logs) == {("good", 0)}
        assert "bad_0/cleaned-segments" in manager.offline["bad", 0]

    with_logs(tmp_path, look, reported)
    assert reported == []


def with_logs(path: Path, work: Callable[[LogManager], object], reported: list[Any] | None = None) -> None:
    """Do something with all logs of a directory."""
    manager = LogManager([str(path)])
    manager.directories.lock()
    load_logs(manager, lambda topic: COMPACT, NOW, (reported if reported is not None else []).append)
    work(manager)
    manager.close()


# The checkpoint


def test_cleaner_checkpoints_are_kept(tmp_path: Path) -> None:
    def work(manager: LogManager) -> None:
        for name in ("done", "not"):
            log = manager.create(name, 0, COMPACT, NOW)
            put_rounds(log, 8)
        compact(manager.logs["done", 0])
        assert manager.checkpoints.save_cleaned() == []

    with_logs(tmp_path, work)
    version, count, line = (tmp_path / "cleaner-offset-checkpoint").read_text().splitlines()
    topic, partition, offset = line.split()
    assert (version, count, topic, partition) == ("0", "1", "done", "0")

    def look(manager: LogManager) -> None:
        assert manager.logs["done", 0].first_dirty_offset == int(offset) > 0
        assert manager.logs["not", 0].first_dirty_offset == 0
        manager.delete("done", 0)
        assert manager.create("done", 0, COMPACT, NOW).first_dirty_offset == 0
        assert "done" not in (tmp_path / "cleaner-offset-checkpoint").read_text()

    with_logs(tmp_path, look)


@pytest.mark.parametrize(("said", "first_dirty"), [(15, 15), (99, 40), (0, 0)])
def test_a_checkpoint_beyond_the_log_end_is_lowered(log: Log, said: int, first_dirty: int) -> None:
    """Records may be lost in a crash, and their offsets given to others."""
    again = open_log(log.path, COMPACT, cleaner_checkpoint=said)
    assert again.first_dirty_offset == first_dirty


def test_a_log_that_begins_later_than_it_was_compacted_to(log: Log) -> None:
    log.cleaner_checkpoint = 5
    log.delete_records_before(12)
    assert log.first_dirty_offset == 12


def test_a_follower_whose_leader_has_compacted(tmp_path: Path) -> None:
    log = open_log(tmp_path / "events_0", COMPACT)
    for number in range(30):
        offset = log.log_end_offset + 3
        records = keyed((b"k%d" % (number % 5), b"v%d" % number))
        log.append(offset.to_bytes(8) + records[8:], NOW, origin=Origin.REPLICATION)
    log.high_watermark = log.log_end_offset
    before, size = read_from(log, 0), log.size
    compact(log)
    assert log.size < size
    assert latest(read_from(log, 0)) == latest(before)
