"""Faults at random while producers work: brokers are killed, stopped and paused, and come back.

run_faults(cluster, topic, chance, rounds=10)       # returns a line for each fault; raises nothing for violations
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from tests.cluster.cluster import Cluster
from tests.cluster.traffic import Traffic

PARTITIONS: Final = 3
SETTINGS: Final = {"min.insync.replicas": "2"}
_SECONDS_AWAY: Final = (0.0, 0.0, 4.0)  # longer than a session, or not
_SECONDS_PAUSED: Final = (1.0, 5.0)


class Fault(StrEnum):
    KILL = "kill"
    STOP = "stop"
    PAUSE = "pause"


FAULTS: Final = (Fault.KILL, Fault.KILL, Fault.STOP, Fault.PAUSE)


def run_faults(cluster: Cluster, topic: str, traffic: Traffic, chance: random.Random, rounds: int) -> Iterator[str]:
    """Yield what was done, fault by fault; after each, all replicas get in sync again."""
    for number in range(rounds):
        traffic.wait_for_acknowledgements(100)
        broker, fault = chance.choice(sorted(cluster.members)), chance.choice(FAULTS)
        began = time.monotonic()
        inflict(cluster, broker, fault, chance)
        cluster.wait_until_in_sync(topic)
        seconds = time.monotonic() - began
        yield f"{number}: {fault} {broker}, in sync after {seconds:.1f} s, {traffic.acknowledged} acknowledged"


def inflict(cluster: Cluster, broker: int, fault: Fault, chance: random.Random) -> None:
    """Let a broker be away for some seconds, or be paused."""
    if fault is Fault.PAUSE:
        cluster.pause(broker)
        time.sleep(chance.choice(_SECONDS_PAUSED))
        cluster.resume(broker)
        return
    if fault is Fault.KILL:
        cluster.kill(broker)
    else:
        assert cluster.stop(broker) == 0
    time.sleep(chance.choice(_SECONDS_AWAY))
    cluster.start(broker)
