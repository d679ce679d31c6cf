"""A few kills of a mirror and of both brokers; `python -m tests.mirror.killing` does more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mirror.kill_sides import LEGACY07, OLD, OWN
from tests.mirror.killing import KillRun
from tests.peers import available as java_available


def run_with_kills(directory: Path, seed: int, kills: int, source: str = OWN, target: str = OWN) -> KillRun:
    run = KillRun(directory, seed, source, target)
    try:
        assert run.run(kills) > 0
    finally:
        run.close()
    return run


def test_kills_lose_and_double_nothing_and_groups_keep_their_place(tmp_path: Path) -> None:
    run = run_with_kills(tmp_path, seed=7, kills=5)
    assert run.offsets_compared > 0


def test_kills_lose_and_double_no_message_of_kafka_07(tmp_path: Path) -> None:
    run = run_with_kills(tmp_path, seed=9, kills=3, source=LEGACY07)
    assert min(run.kills.values()) > 0


@pytest.mark.kafka
@pytest.mark.parametrize(("source", "target"), [(OLD, "kafka-4.4"), ("kafka-4.4", OLD)])
def test_kills_beside_apache_kafka_lose_and_double_nothing(source: str, target: str, tmp_path: Path) -> None:
    if not java_available():
        pytest.skip("Java and Maven are not installed")
    run = run_with_kills(tmp_path, seed=11, kills=4, source=source, target=target)
    assert run.offsets_compared > 0
