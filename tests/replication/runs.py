"""Runs of the model: a seed gives the setup and all choices, so it repeats a run exactly."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Final

from pylogbroker.replication import PartitionReplica
from tests.replication import steps
from tests.replication.cluster import Cluster
from tests.replication.model_broker import ModelBroker
from tests.replication.model_controller import ModelController
from tests.replication.setup import Setup

RUN_STEPS: Final = 1_000
_SHOWN_STEPS: Final = 25
_NOTHING: Mapping[str, Any] = {}


def new_cluster(
    seed: int,
    fixed: Mapping[str, Any] = _NOTHING,
    replica_class: type[PartitionReplica] = PartitionReplica,
    controller_class: type[ModelController] = ModelController,
    broker_class: type[ModelBroker] = ModelBroker,
) -> Cluster:
    rng = random.Random(seed)
    return Cluster(rng, Setup.choose(rng, **fixed), replica_class, controller_class, broker_class)


def check(seed: int, count: int = RUN_STEPS) -> Cluster:
    """Run the model for a number of steps; a violation says how to repeat it."""
    cluster = new_cluster(seed)
    try:
        steps.run(cluster, count)
    except Exception as error:
        error.add_note(
            f"step {cluster.steps}; repeat: python -m tests.replication --seed {seed} --steps {count} --show"
        )
        raise
    return cluster


def show(seed: int, count: int) -> None:
    """Print the last steps before a violation; do not raise it."""
    cluster = new_cluster(seed)
    lines: list[str] = []
    try:
        steps.run(cluster, count, lambda step: lines.append(f"{cluster.steps} {step.__name__}\n{cluster.describe()}"))
    except AssertionError as error:
        lines.append(f"{cluster.steps} {error!r}\n{cluster.describe()}")
    print(cluster.setup, *lines[-_SHOWN_STEPS:], sep="\n")
