"""Bugs planted into whole brokers: some seed finds each, and finds it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pylogbroker.broker.membership.cluster_role import ClusterRole
from pylogbroker.replication import PartitionReplica
from tests.replication.invariants import Violation
from tests.replication.mutants import TruncatesToHighWatermark
from tests.simulation import runs

SEEDS = range(1, 13)
SETUP: Mapping[str, Any] = {"fault_seconds": 1.0, "flushes": False, "late_answers": 0.0}


def first_violation(faults: tuple[str, ...]) -> tuple[int, str]:
    """Return the seed and the text of the first violation."""
    for seed in SEEDS:
        try:
            runs.run_many([seed], {**SETUP, "faults": faults})
        except Violation as violation:
            return seed, str(violation).partition("\n")[0]
    raise AssertionError("no seed finds the bug")


def check_found_again(faults: tuple[str, ...], kinds: str) -> None:
    seed, text = first_violation(faults)
    assert text[0] in kinds
    with pytest.raises(Violation) as caught:
        runs.run_many([seed], {**SETUP, "faults": faults})
    assert str(caught.value).startswith(text)


def test_a_follower_that_truncates_to_its_high_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant KIP-101."""
    monkeypatch.setattr(PartitionReplica, "follower_class", TruncatesToHighWatermark)
    check_found_again(("kill", "isolate", "pause"), "1237")


def test_a_broker_that_registers_after_a_crash_while_it_is_in_isrs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClusterRole, "_suspect_partitions", lambda role: [])
    check_found_again(("lose_power",), "12")
