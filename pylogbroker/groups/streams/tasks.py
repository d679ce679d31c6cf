"""Tasks, by subtopology and partition, in their three roles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

Task = tuple[str, int]
"""Id of the subtopology, and number of the partition."""
TaskSet = frozenset[Task]

NO_TASK: Final[TaskSet] = frozenset()


@attrs.frozen
class Tasks:
    """Tasks of a member.

    active     processes records; one member has it
    standby    copies the state, so that another process can take over
    warmup     copies the state before the active task moves to the process
    """

    active: TaskSet = NO_TASK
    standby: TaskSet = NO_TASK
    warmup: TaskSet = NO_TASK

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)

    def __len__(self) -> int:
        return len(self.active) + len(self.standby) + len(self.warmup)

    def __iter__(self) -> Iterator[Task]:
        yield from self.active
        yield from self.passive

    def __and__(self, other: Tasks) -> Tasks:
        return Tasks(self.active & other.active, self.standby & other.standby, self.warmup & other.warmup)

    def __or__(self, other: Tasks) -> Tasks:
        return Tasks(self.active | other.active, self.standby | other.standby, self.warmup | other.warmup)

    def __sub__(self, other: Tasks) -> Tasks:
        return Tasks(self.active - other.active, self.standby - other.standby, self.warmup - other.warmup)

    @property
    def passive(self) -> Iterator[Task]:
        yield from self.standby
        yield from self.warmup


NO_TASKS: Final = Tasks()


def by_subtopology(tasks: Iterable[Task]) -> dict[str, list[int]]:
    """Return the sorted partition numbers of each subtopology."""
    numbers: dict[str, list[int]] = {}
    for subtopology, number in sorted(tasks):
        numbers.setdefault(subtopology, []).append(number)
    return numbers
