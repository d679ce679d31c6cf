"""A member of a group of Kafka Streams: a thread of an instance."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pylogbroker.coordinators import Timer, cancel
from pylogbroker.groups.streams.states import STATIC_LEAVE_EPOCH, TaskState
from pylogbroker.groups.streams.tasks import NO_TASKS, Task, Tasks

Offsets = Mapping[Task, int]


@attrs.define(eq=False, repr=False)
class StreamsMember:
    """`StreamsGroup` alone changes `assigned`, `revoking` and `process_id`, because it knows who has a task.

    `since` has the epoch at which each active task was assigned.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = 0
    process_id: str = ""
    endpoint: tuple[str, int] | None = None
    client_tags: Mapping[str, str] = attrs.field(factory=dict)
    epoch: int = 0
    previous_epoch: int = 0
    state: TaskState = TaskState.STABLE
    assigned: Tasks = NO_TASKS
    revoking: Tasks = NO_TASKS
    since: Mapping[Task, int] = attrs.field(factory=dict)
    offsets: Offsets = attrs.field(factory=dict)  # of changelogs by task; not stored
    end_offsets: Offsets = attrs.field(factory=dict)
    session: Timer | None = None
    rebalance: Timer | None = None  # until it has revoked

    @property
    def has_left_for_a_moment(self) -> bool:
        """Return whether this static member's client is to come back within its session."""
        return self.epoch == STATIC_LEAVE_EPOCH

    @property
    def gives_place(self) -> bool:
        return self.has_left_for_a_moment

    def holds(self) -> Tasks:
        return self.assigned | self.revoking

    def stop_timers(self) -> None:
        for timer in (self.session, self.rebalance):
            cancel(timer)
