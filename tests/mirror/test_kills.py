"""A few kills of a mirror and of both brokers; `python -m tests.mirror.killing` does more."""

from __future__ import annotations

from pathlib import Path

from tests.mirror.killing import KillRun


def test_kills_lose_and_double_nothing_and_groups_keep_their_place(tmp_path: Path) -> None:
    run = KillRun(tmp_path, seed=7)
    try:
        assert run.run(kills=5) > 0
    finally:
        run.close()
