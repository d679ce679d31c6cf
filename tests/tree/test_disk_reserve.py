"""Disk space that is reserved for the tree.  What it does on a full disk, `tests/disks` tries out."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from pylogbroker.interfaces import Create, NoRoom
from pylogbroker.tree.embedded import EmbeddedTree
from pylogbroker.tree.tree_file import FILE_NAME
from tests.tree.conftest import now

RESERVE = "coordination.reserve"
WAL = f"{FILE_NAME}-wal"
RESERVED_BYTES_MIN = 900_000


def allocated(path: Path) -> int:
    return os.stat(path).st_blocks * 512


def test_a_reserve_is_held_with_the_tree_open_or_closed(tmp_path: Path) -> None:
    for _ in range(3):
        tree = EmbeddedTree.open(str(tmp_path))
        assert allocated(tmp_path / WAL) > RESERVED_BYTES_MIN
        assert not (tmp_path / RESERVE).exists()
        now(tree.close())
        assert not (tmp_path / WAL).exists()
        assert allocated(tmp_path / RESERVE) > RESERVED_BYTES_MIN


def test_many_changes_take_no_more(tmp_path: Path) -> None:
    tree = EmbeddedTree.open(str(tmp_path))
    size = (tmp_path / WAL).stat().st_size
    for number in range(500):
        now(tree.commit([Create(f"/{number}", bytes(3000))]))
        assert (tmp_path / WAL).stat().st_size == size
    now(tree.close())


def test_the_zeros_behind_a_wal_do_no_harm(tmp_path: Path) -> None:
    tree = EmbeddedTree.open(str(tmp_path / "tree"))
    for number in range(50):
        now(tree.commit([Create(f"/{number:02}", b"x")]))
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in (FILE_NAME, WAL):  # as a crash would leave it
        (copy / name).write_bytes((tmp_path / "tree" / name).read_bytes())
    now(tree.close())
    again = EmbeddedTree.open(str(copy))
    assert now(again.children("/")) == [f"{number:02}" for number in range(50)]
    now(again.close())
    with sqlite3.connect(copy / FILE_NAME) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_full_disk_is_distinguished_and_passes(tmp_path: Path) -> None:
    tree = EmbeddedTree.open(str(tmp_path))
    tree._database._file._connection.execute("PRAGMA max_page_count = 1")  # SQLite takes that for as many as there are
    with pytest.raises(NoRoom, match=r"/a .*full"):
        now(tree.commit([Create("/a", bytes(1 << 20))]))
    assert now(tree.children("/")) == []
    now(tree.commit([Create("/b", b"small")]))  # in a page that was kept free
    tree._database._file._connection.execute("PRAGMA max_page_count = 1000000")
    now(tree.commit([Create("/a", bytes(1 << 20))]))
    assert now(tree.children("/")) == ["a", "b"]
    now(tree.close())
