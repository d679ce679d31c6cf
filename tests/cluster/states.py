"""States of a cluster's partitions and brokers, which a coordination tree keeps, or KRaft controllers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import attrs

NONE = -1  # no leader, no controller


@attrs.frozen
class StoredState:
    """State of a partition; the last three are only in a tree."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int = NONE
    version: int = NONE  # the partition epoch
    leader_recovery_state: int = 0


class States(Protocol):
    """Questions about a cluster's metadata, and the one change that tests make there: a move of replicas."""

    def brokers(self) -> Mapping[int, object]:
        """Return the registered brokers, by id."""

    def controller(self) -> int:
        """Return a broker that can change metadata; NONE while there is none."""

    def topics(self) -> list[str]:
        """Return the names of all topics."""

    def assignment(self, topic: str) -> dict[int, tuple[int, ...]]:
        """Return the replicas of each partition, in the order of preference; empty if there is no such topic."""

    def state(self, topic: str, partition: int) -> StoredState | None:
        """Return the state of a partition; None if there is none yet."""

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Let the controller move a partition."""

    def reassigned(self) -> bool:
        """Return whether a partition is being moved."""

    def close(self) -> None:
        """End connections."""
