"""Sessions in a tree's file when it is opened again, by a server or by a broker that is alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylogbroker.coordination.transactions import BeginSession, Session, Write
from pylogbroker.coordination.tree_file import TreeFile
from pylogbroker.interfaces import Create

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
