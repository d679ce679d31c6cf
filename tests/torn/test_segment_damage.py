"""The files of entries: cut at every byte of the last ones, every byte of them flipped, blocks of zeros and noise."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.budget import Budget
from tests.support.examples import examples
from tests.torn.undamaged import LogEntry, Original, check, in_last_file, log_directory, make, start

MAGICS = (0, 1, 2)


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, bool], Original]:
    """Original data directories, by format and whether the stop was clean."""
    return {
        (magic, clean): make(tmp_path_factory.mktemp("original") / "home", magic, clean=clean)
        for magic in MAGICS
        for clean in (False, True)
    }


def last_file(home: Path, original: Original) -> Path:
    return log_directory(home) / original.last_file


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("magic", MAGICS)
def test_cut_at_every_byte_of_the_last_entries(
    originals: dict[tuple[int, bool], Original], tmp_path: Path, magic: int, clean: bool, budget: Budget
) -> None:
    """A clean stop's marker makes no difference: the log is seen not to end where it says."""
    original = originals[magic, clean]
    entries = in_last_file(original, 3)
    data = (original.path / "events_0" / original.last_file).read_bytes()
    for length in budget.some(range(entries[0].position, len(data)), "cuts"):
        home = original.copy(tmp_path / "home")
        last_file(home, original).write_bytes(data[:length])
        [torn] = [each for each in entries if each.position <= length < each.position + each.size]
        removed = length - torn.position
        reason = f"cut {removed} bytes off {torn.file} at {torn.position} (" if removed else None
        check(home, original, original.entries.index(torn), reason=reason)


def unprotected(magic: int, place: int) -> bool:
    """True if no checksum covers a byte of an entry: its offset, and, from v2 on, its leader epoch."""
    return place < 8 or (magic == 2 and 12 <= place < 16)


@pytest.mark.parametrize("magic", MAGICS)
def test_every_byte_of_the_last_entries_flipped(
    originals: dict[tuple[int, bool], Original], tmp_path: Path, magic: int, budget: Budget
) -> None:
    original, chance = originals[magic, False], random.Random(magic)
    for entry in in_last_file(original, 3):
        for place in budget.some(range(entry.size), f"flips in {entry.position}"):
            if unprotected(magic, place):
                continue
            home = original.copy(tmp_path / "home")
            flip(last_file(home, original), entry.position + place, chance.randrange(1, 256))
            check(home, original, original.entries.index(entry), reason=f"off {entry.file} at {entry.position} (")


def flip(path: Path, place: int, mask: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= mask
    path.write_bytes(data)


@pytest.mark.parametrize("mask", [0x01, 0x10, 0x80])
@pytest.mark.parametrize("magic", MAGICS)
def test_every_byte_of_an_offset_flipped(
    originals: dict[tuple[int, bool], Original], tmp_path: Path, magic: int, mask: int, budget: Budget
) -> None:
    """No checksum covers it, but it must fit the offsets around, unless there are none behind."""
    original = originals[magic, False]
    for entry in (*in_last_file(original, 4)[:-1], last_of_a_segment(original)):
        for place in budget.all_or_some(range(8), f"offsets {magic} {mask} {entry.position}"):
            flipped = (entry.first if magic == 2 else entry.last) ^ (mask << 56 - 8 * place)
            if magic < 2 and entry.first <= flipped < entry.last:
                continue  # only a decoder sees the damage within a compressed set
            home = original.copy(tmp_path / "home")
            flip(log_directory(home) / entry.file, entry.position + place, mask)
            check(home, original, original.entries.index(entry), reason=f"off {entry.file} at {entry.position} (")


def last_of_a_segment(original: Original) -> LogEntry:
    """The last entry of the segment before the last, which is recovered, too."""
    return [entry for entry in original.entries if entry.file != original.last_file][-1]


BLOCKS = {
    "zeros": lambda size: b"\0" * size,
    "ones": lambda size: b"\xff" * size,
    "noise": lambda size: random.Random(size).randbytes(size),
}


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize("magic", MAGICS)
def test_a_block_behind_the_last_entry(
    originals: dict[tuple[int, bool], Original], tmp_path: Path, magic: int, kind: str, clean: bool, budget: Budget
) -> None:
    original = originals[magic, clean]
    for size in budget.some((*range(1, 70), 511, 512, 4096, 1 << 20, (1 << 20) + 1), f"blocks {magic} {kind} {clean}"):
        home = original.copy(tmp_path / "home")
        with last_file(home, original).open("ab") as file:
            file.write(BLOCKS[kind](size))
        check(home, original, len(original.entries), reason=f"cut {size} bytes off {original.last_file}")


@pytest.mark.parametrize("magic", MAGICS)
def test_an_earlier_entry_behind_the_last(
    originals: dict[tuple[int, bool], Original], tmp_path: Path, magic: int
) -> None:
    """A block that was written before, as file systems may leave it: all about it is sound, but for its offset."""
    original = originals[magic, False]
    for entry in original.entries[-4:]:
        home = original.copy(tmp_path / "home")
        with last_file(home, original).open("ab") as file:
            file.write(original.data[entry.begin : entry.end])
        check(home, original, len(original.entries), reason=f"cut {entry.size} bytes off {original.last_file}")


@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize("magic", MAGICS)
def test_a_block_over_some_entries(
    originals: dict[tuple[int, bool], Original], tmp_path: Path, magic: int, kind: str
) -> None:
    original, chance = originals[magic, False], random.Random(kind)
    entries = [entry for entry in original.entries if entry.file == original.last_file]
    for size in (20, 64, 512):
        for _ in range(examples(8)):
            home = original.copy(tmp_path / "home")
            path = last_file(home, original)
            data = path.read_bytes()
            place = chance.randrange(entries[0].position, len(data))
            damaged = (data[:place] + BLOCKS[kind](size))[: len(data)] + data[place + size :]
            path.write_bytes(damaged)
            first = next((i for i in range(len(data)) if damaged[i] != data[i]), None)
            if first is None:
                continue
            [hit] = [each for each in entries if each.position <= first < each.position + each.size]
            check(home, original, original.entries.index(hit), reason=f"off {hit.file} at {hit.position} (")


@pytest.mark.parametrize("magic", MAGICS)
def test_entries_before_the_recovery_point_are_not_read(
    originals: dict[tuple[int, bool], Original], tmp_path: Path, magic: int
) -> None:
    """Entries before the recovery point were on the disk before the crash. Only their readers meet their damage."""
    original = originals[magic, False]
    home = original.copy(tmp_path / "home")
    first = original.entries[0]
    flip(log_directory(home) / first.file, first.size - 1, 0x10)
    started = start(home, original.config)
    assert started.reported_lines(home) == []
    assert started.log.log_end_offset == original.entries[-1].last + 1
