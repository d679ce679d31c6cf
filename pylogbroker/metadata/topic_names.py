"""What a topic is: its values, and the rules of its name.

Pure: no tree, no logs, no Twisted.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence

import attrs

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.zk_schema import id_text

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})
MAX_NAME_LENGTH = 249

_ILLEGAL = re.compile(r"[^a-zA-Z0-9._-]")

Assignment = Mapping[int, Sequence[int]]  # the brokers of each partition
ConfigChange = Callable[[Mapping[str, str]], Mapping[str, str]]  # of the settings that a thing has of its own


@attrs.frozen
class PartitionState:
    """Who leads a partition, and which brokers hold it; the first replica is the preferred leader."""

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader_epoch: int = 0


@attrs.frozen
class Topic:
    """One topic; a change makes a new one, so that whoever holds one sees it whole."""

    name: str
    id: uuid.UUID
    partitions: dict[int, PartitionState]
    overrides: dict[str, str] = attrs.field(factory=dict)

    @property
    def internal(self) -> bool:
        """Whether the broker keeps its own state in the topic."""
        return self.name in INTERNAL_TOPICS

    @property
    def replication_factor(self) -> int:
        """The number of replicas of partition 0, which is what Kafka tells clients."""
        return len(self.partitions[0].replicas)


def check_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION when no topic may have this name."""
    problem = name_problem(name)
    if problem:
        raise KafkaError(f"Topic name is invalid: {problem}", ErrorCode.INVALID_TOPIC_EXCEPTION)


def name_problem(name: str) -> str | None:
    """Return the reason why no topic may have this name; None if one may."""
    if not name:
        return "it is empty"
    if name in (".", ".."):
        return f"{name!r} is a directory's name; choose another"
    if len(name) > MAX_NAME_LENGTH:
        return f"it has {len(name)} characters, at most {MAX_NAME_LENGTH} are allowed"
    if _ILLEGAL.search(name):
        return f"{name!r} has characters other than ASCII letters, digits, '.', '_' and '-'"
    return None


def collision_key(name: str) -> str:
    """Equal for names that metrics cannot tell apart: '.' and '_' count as one character."""
    return name.replace(".", "_")


def new_topic_id() -> uuid.UUID:
    """A random topic id; never one whose text begins with '-', which commands would take for an option."""
    while True:
        candidate = uuid.uuid4()
        if not id_text(candidate).startswith("-"):
            return candidate


def new_partition(replicas: Sequence[int]) -> PartitionState:
    """Return the state of a new partition: the first replica leads, all are in sync."""
    return PartitionState(replicas[0], tuple(replicas), tuple(replicas))


def new_partitions(assignment: Assignment) -> dict[int, PartitionState]:
    """Return the states of new partitions; those with the same replicas share one."""
    by_replicas = {replicas: new_partition(replicas) for replicas in set(map(tuple, assignment.values()))}
    return {number: by_replicas[tuple(replicas)] for number, replicas in assignment.items()}
