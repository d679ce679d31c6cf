"""A few kills of a mirror and of both brokers; `python -m tests.mirror.killing` does more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mirror.kill_sides import OLD, KilledSide, apache_side, legacy07_side, own_side
from tests.mirror.killing import KillRun
from tests.peers import available as java_available


def run_with_kills(directory: Path, seed: int, kills: int, source: KilledSide, target: KilledSide) -> KillRun:
    run = KillRun(directory, seed, source, target)
    try:
        assert run.run(kills) > 0
    finally:
        run.close()
    return run


def test_kills_lose_and_double_nothing_and_groups_keep_their_place(tmp_path: Path) -> None:
    run = run_with_kills(tmp_path, 7, 5, own_side(tmp_path / "source"), own_side(tmp_path / "target"))
    assert run.offsets_compared > 0


def test_kills_lose_and_double_no_message_of_kafka_07(tmp_path: Path) -> None:
    run = run_with_kills(tmp_path, 9, 3, legacy07_side(tmp_path / "source"), own_side(tmp_path / "target"))
    assert min(run.kills.values()) > 0


@pytest.mark.parametrize(("source", "target"), [(OLD, "kafka-4.4"), ("kafka-4.4", OLD)])
def test_kills_beside_apache_kafka_lose_and_double_nothing(source: str, target: str, tmp_path: Path) -> None:
    if not java_available():
        pytest.skip("Java and Maven are not installed")
    sides = apache_side(source, tmp_path / "source"), apache_side(target, tmp_path / "target")
    run = run_with_kills(tmp_path, 11, 4, *sides)
    assert run.offsets_compared > 0
