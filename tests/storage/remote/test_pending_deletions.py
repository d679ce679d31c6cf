"""File of deleted partitions: it is in a directory that works, and damaged lines are left out."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from pylogbroker.storage.remote.pending_deletions import FILE, PendingDeletions

SOME = [(UUID(int=7), 0), (UUID(int=1 << 100), 12)]


def test_partitions_come_back_until_there_are_none(tmp_path: Path) -> None:
    pending = PendingDeletions(lambda: [str(tmp_path)])
    assert list(pending.read()) == []
    pending.write(SOME)
    assert list(pending.read()) == SOME
    pending.write([])
    assert list(tmp_path.iterdir()) == []


def test_the_first_directory_that_works_has_them(tmp_path: Path) -> None:
    directories = [tmp_path / name for name in ("gone", "a", "b")]
    for path in directories[1:]:
        path.mkdir()
    pending = PendingDeletions(lambda: map(str, directories))
    (directories[2] / FILE).write_text("of an earlier time")
    pending.write(SOME)
    assert [(path / FILE).exists() for path in directories] == [False, True, False]
    assert list(pending.read()) == SOME


def test_damaged_lines_are_left_out(tmp_path: Path) -> None:
    pending = PendingDeletions(lambda: [str(tmp_path)])
    pending.write(SOME)
    data = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(b"\xff\x00\n" + data[:-3] + b"\n\n../../etc 0\n" + data)
    assert list(pending.read()) == [SOME[0], *SOME]
