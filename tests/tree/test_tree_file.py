"""Sessions in a tree's file when it is opened again, by a server or by a broker that is alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylogbroker.interfaces import Create
from pylogbroker.tree.transactions import BeginSession, Session, Write
from pylogbroker.tree.tree_file import FILE_NAME, TreeFile, copy_tree

KNOWN = Session(7, bytes(16), 6000)  # to a server; the session of a single broker has no row
SINGLE_BROKER = 5


@pytest.mark.parametrize(("keeps_sessions", "kept", "nodes"), [(True, [KNOWN], ["/", "/known"]), (False, [], ["/"])])
def test_opening_ends_sessions_that_nobody_goes_on_with(
    tmp_path: Path, keeps_sessions: bool, kept: list[Session], nodes: list[str]
) -> None:
    file = TreeFile.open(str(tmp_path), 0, keeps_sessions=True)
    writes = [
        Write(BeginSession(KNOWN)),
        Write([Create("/known", ephemeral=True)], KNOWN.id),
        Write([Create("/stale", ephemeral=True)], SINGLE_BROKER),
    ]
    assert [result.error for result in file.write(writes, 0)] == [None] * 3
    file.close()  # as after a crash: with both sessions
    for _ in range(2):
        file = TreeFile.open(str(tmp_path), 0, keeps_sessions=keeps_sessions)
        assert (file.sessions, sorted(file.nodes)) == (kept, nodes)
        [changed] = file.write([Write([Create("/new", ephemeral=True)], 100)], 0)
        assert changed.number == file.last + 1
        file.close()


def modes(directory: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in directory.glob(f"{FILE_NAME}*")}


def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    """The keys of users are in the file, its WAL, and copies."""
    copied = tmp_path / "copy"
    copied.mkdir()
    file = TreeFile.open(str(tmp_path), 0, keeps_sessions=True)
    file.write([Write([Create("/a")])], 0)
    copy_tree(str(tmp_path), str(copied))
    names = [FILE_NAME, f"{FILE_NAME}-shm", f"{FILE_NAME}-wal"]
    assert modes(tmp_path) == dict.fromkeys(names, 0o600)
    assert modes(copied) == {FILE_NAME: 0o600}
    file.close()


def test_an_older_file_is_closed_to_everybody(tmp_path: Path) -> None:
    """The rights of a group stay: it may be one that makes backups. A crash leaves a WAL."""
    TreeFile.open(str(tmp_path), 0, keeps_sessions=True).close()
    path, wal = tmp_path / FILE_NAME, tmp_path / f"{FILE_NAME}-wal"
    wal.touch()
    path.chmod(0o664)
    wal.chmod(0o644)
    file = TreeFile.open(str(tmp_path), 0, keeps_sessions=True)
    assert path.stat().st_mode & 0o777 == 0o660
    assert not wal.stat().st_mode & 0o007
    file.close()
