"""Brokers and controllers of clusters on Apache Kafka's controllers fail while clients work: nothing is lost.

The long run is `python -m tests.crash --cluster --engine kraft`.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.cluster.network import Network
from tests.kraft.run import RELEASES, Layout, kraft_run
from tests.support.budget import Budget

pytestmark = [pytest.mark.kafka, pytest.mark.process]
USUAL = (3, 20.0)  # kills, seconds until nothing fails any more
THOROUGH = (60, 900.0)


@pytest.mark.parametrize("apaches", [0, 2], ids=["own brokers", "beside two of Apache's"])
@pytest.mark.parametrize("release", RELEASES)
def test_three_brokers_and_three_controllers(tmp_path: Path, budget: Budget, release: str, apaches: int) -> None:
    kills, seconds = budget.of(USUAL, THOROUGH)
    with closing(Network()) as network:
        seed = budget.seed_of(f"faults {release} {apaches}")
        run = kraft_run(tmp_path, Layout(release, apaches), kills, seed, network=network)
        outcome = run.go(kills, seconds, fewest=1)
    print(outcome)
    assert outcome.violations == []
    assert outcome.number("kills") >= 1
