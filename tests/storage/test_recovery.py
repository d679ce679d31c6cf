"""Recovery after a crash: torn tails, zeros and noise, and whatever else may be missing, empty, stale or damaged.

The oracle is simple: what lay before the damage is there, byte for byte, and nothing else is.
"""

from __future__ import annotations

import errno
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecords

from pylogbroker.storage import Log, LogConfig, Recovered
from tests.storage.support import (
    NOW,
    batch,
    bytes_on_disk,
    expired,
    fill,
    messages,
    offset_for_timestamp,
    open_log,
    read_all,
    records_in,
    stored,
)
from tests.support.examples import examples

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=300)


def a_log(path: Path, batches: int = 40) -> Log:
    """A log of several segments that was not closed."""
    log = open_log(path, CONFIG)
    for number in range(batches):
        sent = batch([b"%03d" % number, b"y" * 60], [NOW + number, NOW], producer=(7, 0, 2 * number))
        log.append(sent, NOW, leader_epoch=number // 10)
    return log


def last_file(path: Path) -> Path:
    return max(path.glob("*.kafka"))


def read_by_kafka_python(data: bytes) -> list[Any]:
    """The records of a segment's file, by another reader."""
    reader = MemoryRecords(data)
    found: list[Any] = []
    while (part := reader.next_batch()) is not None:
        assert part.validate_crc()
        found += part
    return found


def copy_of(log: Log, path: Path) -> Path:
    shutil.copytree(log.path, path)
    return path


def check_whole(log: Log, expected: bytes) -> None:
    """`expected` is in the log, and the log is in working order."""
    assert bytes_on_disk(log.path) == expected
    found = records_in(expected)
    assert log.log_end_offset == (found[-1][0] + 1 if found else 0)
    assert read_all(log, 0) == expected
    assert log.size == len(expected)
    next_sequence = log.log_end_offset
    appended = log.append(batch([b"next"], [NOW + 999], producer=(7, 0, next_sequence)), NOW, leader_epoch=9)
    assert appended.base_offset == next_sequence
    assert offset_for_timestamp(log, NOW + 999) == (next_sequence, NOW + 999, 9)


def test_a_sound_log_is_not_cut(tmp_path: Path) -> None:
    log, found = a_log(tmp_path / "events_0"), []
    whole = bytes_on_disk(log.path)
    again = open_log(log.path, CONFIG, found=found)
    assert [(each.cut, each.dropped, each.log_end_offset) for each in found] == [(None, 0, 80)]
    assert again.epochs.entries == ((0, 0), (1, 20), (2, 40), (3, 60))
    check_whole(again, whole)


def test_every_cut_of_the_last_entries(tmp_path: Path) -> None:
    log = a_log(tmp_path / "events_0", 7)
    [whole] = [path.read_bytes() for path in Path(log.path).glob("*.kafka")]
    size = len(whole) // 7
    for length in range(len(whole) - 2 * size, len(whole)):
        path = tmp_path / f"cut_{length}"
        shutil.copytree(log.path, path)
        last_file(path).write_bytes(whole[:length])
        found: list[Recovered] = []
        again = open_log(path, CONFIG, clean=length % 2 == 0, recovery_point=14, found=found)
        kept = length // size
        check_whole(again, whole[: kept * size])
        assert len(found) == 1
        cut = found[0].cut
        if length % size:
            assert cut is not None
            assert (cut.position, cut.removed) == (kept * size, length % size)
            assert f"cut {length % size} bytes" in str(found[0])
        else:
            assert cut is None


@settings(max_examples=examples(120), deadline=None)
@given(st.data())
def test_flipped_bytes_in_the_last_segment(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    tmp_path = tmp_path_factory.mktemp("flip")
    log = a_log(tmp_path / "events_0", 13)
    whole = bytes_on_disk(log.path)
    size = len(whole) // 13
    before = len(whole) - last_file(Path(log.path)).stat().st_size
    raw = bytearray(last_file(Path(log.path)).read_bytes())
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= data.draw(st.integers(1, 255))
    last_file(Path(log.path)).write_bytes(raw)
    again = open_log(log.path, CONFIG)
    number = (before + place) // size
    if (before + place) % size < 8 or 12 <= (before + place) % size < 16:
        # The offset and the leader epoch are not covered by the CRC: all that can be asked is order.
        offsets = [offset for offset, _ in stored(again)]
        assert offsets == sorted(offsets)
        assert bytes_on_disk(again.path)[: number * size] == whole[: number * size]
    else:
        check_whole(again, whole[: number * size])


@pytest.mark.parametrize(
    "block",
    [
        b"\0",
        b"\0" * 17,
        b"\0" * 61,
        b"\0" * 5000,
        b"\xff" * 100,
        random.Random(1).randbytes(3000),
        b"\0" * 8 + b"\x7f" * 500,
    ],
)
@pytest.mark.parametrize("clean", [True, False])
def test_blocks_of_nonsense_behind_the_last_entry(tmp_path: Path, block: bytes, clean: bool) -> None:
    log = a_log(tmp_path / "events_0")
    whole = bytes_on_disk(log.path)
    with last_file(Path(log.path)).open("ab") as file:
        file.write(block)
    found: list[Recovered] = []
    again = open_log(log.path, CONFIG, clean=clean, recovery_point=80, found=found)
    check_whole(again, whole)
    assert found[0].cut is not None
    assert found[0].cut.removed == len(block)


def test_an_entry_that_claims_more_than_there_is(tmp_path: Path) -> None:
    log = a_log(tmp_path / "events_0", 5)
    whole = bytes_on_disk(log.path)
    with last_file(Path(log.path)).open("ab") as file:
        file.write(struct.pack(">qi", 10, 0x7FFFFFF0) + batch([b"x"])[12:])
    check_whole(open_log(log.path, CONFIG), whole)


def test_entries_larger_than_a_block_of_recovery(tmp_path: Path) -> None:
    config = LogConfig(max_message_bytes=1 << 30)
    log = open_log(tmp_path / "events_0", config)
    for size in (100, 3 << 20, 5, 1 << 20, 100):
        log.append(batch([b"x" * size]), NOW)
    whole = bytes_on_disk(log.path)
    found: list[Recovered] = []
    again = open_log(log.path, config, found=found)
    assert (again.log_end_offset, found[0].cut) == (5, None)
    assert bytes_on_disk(log.path) == whole


def test_segments_behind_a_damaged_one_are_quarantined(tmp_path: Path) -> None:
    log = a_log(tmp_path / "events_0", 90)
    files = sorted(Path(log.path).glob("*.kafka"))
    assert len(files) > 4
    behind = {file.name: file.read_bytes() for path in files[3:] for file in path.parent.glob(f"{path.stem}.*")}
    good = [(record.offset, record.value) for path in files[3:] for record in read_by_kafka_python(path.read_bytes())]
    raw = bytearray(files[2].read_bytes())
    raw[len(raw) // 2] ^= 0x55
    whole = b"".join(path.read_bytes() for path in files[:2])
    files[2].write_bytes(raw)
    found: list[Recovered] = []
    again = open_log(log.path, CONFIG, found=found)
    assert found[0].dropped == len(files) - 3
    [stray_files] = tmp_path.glob("events_0.*-stray")
    assert f"dropped {len(files) - 3} segments after it, kept in {stray_files}; ends at" in str(found[0])
    assert {file.name: file.read_bytes() for file in stray_files.iterdir()} == behind
    read = [each for path in sorted(stray_files.glob("*.kafka")) for each in read_by_kafka_python(path.read_bytes())]
    assert [(record.offset, record.value) for record in read] == good
    assert [record.offset for record in read] == list(range(int(files[3].stem), 180))
    kept = bytes_on_disk(log.path)
    assert kept.startswith(whole)
    assert kept[len(whole) :] == bytes(raw[: len(kept) - len(whole)])
    check_whole(again, kept)


def test_empty_segments_behind_a_damaged_one_are_not_worth_keeping(tmp_path: Path) -> None:
    log = a_log(tmp_path / "events_0")
    log.roll(NOW)
    sealed = log.segments[-2]
    with open(sealed.path, "r+b") as file:
        file.truncate(sealed.size - 1)
    found: list[Recovered] = []
    open_log(log.path, CONFIG, found=found)
    assert "dropped 1 segment after it; ends at" in str(found[0])
    assert list(tmp_path.iterdir()) == [tmp_path / "events_0"]


def test_no_segment_is_removed_if_it_cannot_be_quarantined(tmp_path: Path) -> None:
    log = a_log(tmp_path / "events_0", 90)
    files = sorted(Path(log.path).glob("*.kafka"))
    with files[2].open("r+b") as file:
        file.write(b"\xff" * 100)
    full = OSError(errno.ENOSPC, "No space left on device")
    with patch("os.mkdir", side_effect=full), pytest.raises(OSError, match="No space left"):
        open_log(log.path, CONFIG)
    assert sorted(Path(log.path).glob("*.kafka")) == files
    found: list[Recovered] = []
    open_log(log.path, CONFIG, found=found)
    assert found[0].dropped == len(files) - 3
    [quarantined] = tmp_path.glob("*-stray")
    assert [file.name for file in sorted(quarantined.glob("*.kafka"))] == [file.name for file in files[3:]]


@pytest.mark.parametrize("lost", ["file", "data", "last entry"])
@pytest.mark.parametrize("number", [1, 3])
def test_a_hole_that_a_power_failure_left(tmp_path: Path, number: int, lost: str) -> None:
    """A sealed segment has lost all or some whole entries, the next one is intact."""
    log = a_log(tmp_path / "events_0", 90)
    files = sorted(Path(log.path).glob("*.kafka"))
    raw = files[number].read_bytes()
    kept = b"".join(path.read_bytes() for path in files[:number])
    if lost == "last entry":
        size = len(batch([b"000", b"y" * 60], [NOW, NOW], producer=(7, 0, 0)))
        kept += raw[:-size]
        files[number].write_bytes(raw[:-size])
    elif lost == "data":
        files[number].write_bytes(b"")
    else:
        files[number].unlink()
    found: list[Recovered] = []
    again = open_log(log.path, CONFIG, found=found)
    assert found[0].cut is not None
    assert found[0].dropped == len(files) - number - 1
    assert found[0].log_end_offset == again.log_end_offset
    assert "the next segment begins with offset" in str(found[0])
    check_whole(again, kept)


def test_segments_before_the_recovery_point_are_not_read(tmp_path: Path) -> None:
    log = a_log(tmp_path / "events_0")
    found: list[Recovered] = []
    open_log(log.path, CONFIG, recovery_point=log.segments[-2].base_offset + 1, found=found)
    assert found[0].segments == 2


@pytest.mark.parametrize("magic", [0, 1])
def test_older_formats(tmp_path: Path, magic: int) -> None:
    config = LogConfig(magic=magic)
    log = open_log(tmp_path / "events_0", config)
    log.append(messages([b"a", b"b", b"c"], magic), NOW)
    whole = bytes_on_disk(log.path)
    for length in range(len(whole)):
        path = copy_of(log, tmp_path / f"cut_{length}")
        last_file(path).write_bytes(whole[:length])
        again = open_log(path, config)
        assert bytes_on_disk(path) == whole[: length // (len(whole) // 3) * (len(whole) // 3)]
        again.append(messages([b"d"], magic), NOW)
        assert stored(again)[-1] == (length // (len(whole) // 3), b"d")


# Files other than the entries


def missing(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def zeroed(path: Path) -> None:
    path.write_bytes(b"\0" * path.stat().st_size)


def noisy(path: Path) -> None:
    path.write_bytes(random.Random(5).randbytes(path.stat().st_size))


def shortened(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def odd(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\x01\x02\x03")


def lengthened(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\x7f" * 240)


def shifted(path: Path) -> None:
    path.write_bytes(path.read_bytes()[12:])


DAMAGES = [missing, empty, zeroed, noisy, shortened, odd, lengthened, shifted]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("pattern", ["*.index", "*.timeindex", "*.snapshot", "leader-epoch-checkpoint"])
def test_damaged_derived_files_are_rebuilt(
    tmp_path: Path, pattern: str, damage: Callable[[Path], None], clean: bool
) -> None:
    log = a_log(tmp_path / "events_0")
    whole = bytes_on_disk(log.path)
    log.close()
    damaged = list(Path(log.path).glob(pattern))
    assert damaged
    for path in damaged:
        damage(path)
    again = open_log(log.path, CONFIG, clean=clean, recovery_point=80)
    for number in range(40):
        region = again.read(2 * number, 1, upto=80)
        assert region is not None
        assert records_in(region.read())[0] == (2 * number, b"%03d" % number)
        assert offset_for_timestamp(again, NOW + number) == (
            0 if number == 0 else 2 * number,
            NOW + number,
            number // 10,
        )
    assert read_all(again, 0, 1000) == whole
    assert [view.largest_timestamp for view in again.views()] == sorted(
        view.largest_timestamp for view in again.views()
    )
    assert expired(again, NOW + 1000) == []
    again.append(batch([b"next"], producer=(7, 0, 80)), NOW, leader_epoch=3)
    assert again.append(batch([b"039", b"y" * 60], [NOW + 39, NOW], producer=(7, 0, 78)), NOW, 3).duplicate
    assert again.end_offset_for_epoch(1) == (1, 40)


def test_a_stale_clean_marker(tmp_path: Path) -> None:
    """The marker and the checkpoint are from a clean stop; the log went on after it and was torn."""
    log = a_log(tmp_path / "events_0", 9)
    whole = bytes_on_disk(log.path)
    size = len(whole) // 9
    last_file(Path(log.path)).write_bytes(whole[: 8 * size + 50])
    again = open_log(log.path, CONFIG, clean=True, recovery_point=10)
    check_whole(again, whole[: 8 * size])


def test_left_overs_are_removed(tmp_path: Path) -> None:
    log = a_log(tmp_path / "events_0")
    log.close()
    names = [f"{5:020}.index", f"{5:020}.timeindex", f"{0:020}.kafka.deleted", "leader-epoch-checkpoint.tmp"]
    for name in (*names, f"{500:020}.snapshot"):
        (Path(log.path) / name).write_bytes(b"left over")
    (Path(log.path) / "notes.txt").write_text("somebody else's")
    whole = bytes_on_disk(log.path)
    again = open_log(log.path, CONFIG, clean=True, recovery_point=80)
    left = {path.name for path in Path(log.path).iterdir()}
    assert left.isdisjoint({*names, f"{500:020}.snapshot"})
    assert "notes.txt" in left
    check_whole(again, whole)


def test_snapshots_of_earlier_stops_do_not_pile_up(tmp_path: Path) -> None:
    log = a_log(tmp_path / "events_0")
    log.close()
    bases = {segment.base_offset for segment in log.segments}
    for stop in range(80, 90):
        again = open_log(log.path, CONFIG, clean=True, recovery_point=stop)
        again.append(batch([b"v"]), NOW, leader_epoch=3)
        again.close()
        bases |= {segment.base_offset for segment in again.segments}
    assert {int(path.stem) for path in Path(log.path).glob("*.snapshot")} <= bases | {89, 90}


def test_damage_before_the_recovery_point_does_not_prevent_opening(tmp_path: Path) -> None:
    """Without snapshots all entries' headers are read; what cannot be read is a reader's concern."""
    log = a_log(tmp_path / "events_0")
    log.close()
    for path in Path(log.path).glob("*.snapshot"):
        path.unlink()
    first = min(Path(log.path).glob("*.kafka"))
    first.write_bytes(b"\xff" * first.stat().st_size)
    again = open_log(log.path, CONFIG, clean=True, recovery_point=80)
    assert again.log_end_offset == 80
    assert again.append(batch([b"039", b"y" * 60], [NOW + 39, NOW], producer=(7, 0, 78)), NOW, 3).duplicate


def test_a_log_start_beyond_the_end(tmp_path: Path) -> None:
    """The entries were lost, but not the checkpoint that says where the log began: offsets never go back."""
    log = a_log(tmp_path / "events_0", 5)
    again = open_log(log.path, CONFIG, log_start=50)
    assert (again.log_start_offset, again.log_end_offset, again.size) == (50, 50, 0)
    fill(again, 1)
    assert [offset for offset, _ in stored(again)] == [50]


def test_high_watermark_and_recovery_point_stay_within_the_log(tmp_path: Path) -> None:
    log = a_log(tmp_path / "events_0", 5)
    again = open_log(log.path, CONFIG, recovery_point=99, high_watermark=99, log_start=2)
    assert (again.log_start_offset, again.recovery_point, again.high_watermark) == (2, 10, 10)
