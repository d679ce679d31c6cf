"""Setup of one run of the model."""

from __future__ import annotations

import random
from typing import Any, Final

import attrs

LAG_TIME_MAX_MS: Final = 1_000
FETCH_BACKOFF_MS: Final = 100
CONTROLLER: Final = -1
"""Id of the controller as an end of a link."""


@attrs.frozen
class Setup:
    brokers: int
    replicas: int
    min_insync_replicas: int
    flushes: bool = False
    truncates_on_fetch: bool = True
    carries_broker_epochs: bool = True
    unclean: bool = False
    faults: float = 1.0
    """Weight of faults."""
    message_delay: int = 1
    push_delay: int = 1

    @classmethod
    def choose(cls, rng: random.Random, **fixed: Any) -> Setup:
        brokers = rng.randint(3, 5)
        replicas = rng.randint(2 if brokers == 3 else 3, brokers)
        chosen = cls(
            brokers,
            replicas,
            rng.randint(1, replicas),
            rng.random() < 0.3,
            rng.random() < 0.6,
            rng.random() < 0.5,
            rng.random() < 0.1,
            rng.choice((0.05, 0.2, 0.5, 1.0)),
            rng.choice((1, 1, 5)),
            rng.choice((1, 1, 10)),
        )
        return attrs.evolve(chosen, **fixed)
