"""Logs at the end of a start that failed: which of them count as closed cleanly."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylogbroker.storage import LogManager, load_logs
from pylogbroker.tap.lifecycle import _LoadedLogs
from tests.broker.nodes import Threads
from tests.broker.trees import now


@pytest.mark.parametrize("is_crash_known", [False, True])
def test_a_crash_that_no_other_broker_knows_of_is_not_forgotten(tmp_path: Path, is_crash_known: bool) -> None:
    first = LogManager([str(tmp_path)])
    first.directories.lock()
    load_logs(first, {}, 0, print)
    first.directories.unlock()  # as the end of the process does
    logs = LogManager([str(tmp_path)])
    logs.directories.lock()
    loaded = _LoadedLogs(logs, Threads(), is_crash_known)
    now(loaded.load({}, 0, {}))
    now(loaded.close())
    assert (tmp_path / ".kafka_cleanshutdown").exists() is is_crash_known
